"""Replies for tests of readers: good ones in every layout, broken ones, and what our readers find in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pydantic
from dspy.adapters.utils import serialize_for_json
from hypothesis import strategies as st

from ragc.programs.calls.layouts import JSON_LAYOUTS, adapter
from ragc.programs.calls.predict import RagPredict
from ragc.programs.calls.schemas import output_model, reply_schema
from ragc.targets.base import Reply
from tests.exports.common import texts

UNREAD = "unread"
PROSE = (
    "Sure. ",
    "Answer:\n",
    "```json\n",
    "```\n",
    "\n```",
    " Done.",
    '"',
    "{",
    "[1] ",
    "# x\n",
    ", ",
    "It's ",
)


def value_like(schema: Mapping[str, Any], named: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit a JSON schema of ours."""
    if "$ref" in schema:
        return value_like(named[schema["$ref"].rpartition("/")[2]], named)
    if "anyOf" in schema:
        return st.one_of([value_like(part, named) for part in schema["anyOf"]])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    match schema["type"]:
        case "object":
            return st.fixed_dictionaries({k: value_like(v, named) for k, v in schema["properties"].items()})
        case "array":
            return st.lists(value_like(schema["items"], named), max_size=min(3, schema.get("maxItems", 3)))
        case "string":
            return texts().map(lambda text: text[: schema.get("maxLength")])
        case "boolean":
            return st.booleans()
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case _:
            return st.integers(schema.get("minimum", -(10**9)), schema.get("maximum", 10**9))


def outputs_of(call: RagPredict) -> st.SearchStrategy[dict[str, Any]]:
    """Outputs of a call as JSON values."""
    schema = reply_schema(call.signature)
    strategy: st.SearchStrategy[dict[str, Any]] = value_like(
        {"type": "object", "properties": schema["properties"]}, schema.get("$defs", {})
    )
    return strategy


def write_reply(call: RagPredict, outputs: Mapping[str, Any]) -> str:
    """The reply with these outputs, as the layout of `call` wants it."""
    if call.layout in JSON_LAYOUTS:
        return json.dumps(outputs)
    typed = output_model(call.signature).model_validate(outputs)
    values = {name: getattr(typed, name) for name in outputs}
    text: str = adapter(call.layout).format_assistant_message_content(call.signature, values)
    return text


@st.composite
def damage(draw: st.DrawFn, good: str) -> str:
    """`good` cut, with prose around it, with bare line breaks, or with a character changed."""
    at = draw(st.integers(0, len(good)))
    mark = draw(st.sampled_from('"{}[],:\\<>x \n'))
    damaged_text = draw(
        st.sampled_from(
            (
                good[:at],
                good[:at] + good[at + 1 :],
                good[:at] + mark + good[at:],
                good.replace("\\n", "\n").replace("\\t", "\t"),
                good.replace("\\n", "\n")[:at],
                good.replace('"', "'"),
                good.replace("true", "True").replace("false", '"no"'),
                "",
            )
        )
    )
    around = st.just("") | st.sampled_from(PROSE) | texts()
    return f"{draw(around)}{damaged_text}{draw(around)}"


def read_as_program(call: RagPredict, text: str, *, truncated: bool = False, again: bool = False) -> Any:
    """The outputs that our own reader finds in a reply, as JSON values; UNREAD where it finds none."""
    reply = Reply(text, finish="length" if truncated else "stop")
    reading, _ = call.parse_reply(reply, again=again)
    if reading is None:
        return UNREAD
    return {name: serialize_for_json(reading.outputs[name]) for name in call.signature.output_fields}


def validated(call: RagPredict, outputs: Any) -> Any:
    """`outputs` as validators of their fields make them, such as nothing of a word for it.

    No schema tells of validators, so that a file that needs no ragc leaves such texts as they are written.
    """
    try:
        fitting = output_model(call.signature).model_validate(outputs)
    except pydantic.ValidationError:
        return outputs
    return {name: serialize_for_json(value) for name, value in dict(fitting).items()}
