"""python: the generated file reads a reply in the form that was asked for, and guesses nothing."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any, Literal

import dspy
import pydantic
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.programs import METHODS, method
from ragc.programs.calls.layouts import JSON_LAYOUTS, adapter
from ragc.programs.calls.outputs import output_model, reply_schema
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS
from tests.examples import examples
from tests.exports.common import build_program
from tests.exports.formats.baml_runs import replies
from tests.exports.formats.python.test_format import load_module, slow, typed


def write_reply(call: RagPredict, outputs: Any) -> str:
    """The reply with these outputs, as the layout of `call` wants it."""
    if call.layout in JSON_LAYOUTS:
        return json.dumps(outputs)
    fitting = output_model(call.signature).model_validate(outputs)
    values = {name: getattr(fitting, name) for name in outputs}
    return str(adapter(call.layout).format_assistant_message_content(call.signature, values))


def without_blanks(values: Any) -> str:
    """`values` as JSON without white space, which adapters put around values."""
    return re.sub(r"\s|\\[nrtf]|\\u00(?:0b|1[c-f]|85|a0)|\\u202[89]", "", json.dumps(values, sort_keys=True))


@cache
def generated(id: str, layout: str) -> tuple[ModuleType, list[tuple[str, RagPredict]]]:
    """The generated file of a method, and its calls by name."""
    program = build_program(method(id), layout=layout)
    return load_module(derive_export(program)), program.named_predictors()


@pytest.mark.parametrize("layout", LAYOUTS)
@slow(examples(100))
@given(data=st.data())
def test_parse_returns_what_a_reply_writes(layout: str, data: Any) -> None:
    module, calls = generated(data.draw(st.sampled_from(METHODS)).id, layout)
    name, call = data.draw(st.sampled_from(calls))
    outputs = data.draw(replies(reply_schema(call.signature)))
    assume(layout != "chat" or "[[ ##" not in json.dumps(outputs))
    reply = write_reply(call, outputs)
    if layout in JSON_LAYOUTS:
        assert module.parse(name, reply) == outputs
        return
    with suppress(module.ReplyError):  # a text that holds tags
        assert without_blanks(module.parse(name, reply)) == without_blanks(outputs)


class Colour(Enum):
    RED, BLUE = "red", "blue"


class Thing(pydantic.BaseModel):
    """A thing."""

    name: str = pydantic.Field(max_length=5)
    size: float
    sure: bool


class Rich(dspy.Signature):
    """Describe it."""

    question: str = dspy.InputField()
    colour: Colour = dspy.OutputField()
    count: int = dspy.OutputField(ge=0, le=9)
    rank: Literal[1, 2] = dspy.OutputField()
    note: str | None = dspy.OutputField()
    things: list[Thing] = dspy.OutputField(max_length=2)
    chances: dict[str, float] = dspy.OutputField()


GOOD: dict[str, Any] = {
    "colour": "red", "count": 3, "rank": 2, "note": None, "chances": {"a": 0.5},
    "things": [{"name": "cup", "size": 1.5, "sure": True}, {"name": "<b>", "size": 2, "sure": False}],
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parse_reads_outputs_of_every_type_in_every_layout(layout: str) -> None:
    call, out = typed(Rich, layout)
    values = GOOD | ({"note": "x & y", "chances": {}} if layout == "xml" else {})
    reply = write_reply(call, values).replace("<chances></chances>", "<chances>{}</chances>")
    assert load_module(out).parse("typed", reply) == values


BAD: list[tuple[dict[str, Any], str]] = [
    ({"colour": "green"}, 'colour must be one of "red", "blue"'),
    ({"count": 10}, "count must have the maximum 9"),
    ({"count": True}, "count must be of the type integer"),
    ({"count": "3"}, "count must be of the type integer"),
    ({"rank": 2.0}, "rank must be one of 1, 2"),
    ({"note": 5}, "note must be of the type"),
    ({"note": "\ud800"}, "note must be of the type"),
    ({"things": [GOOD["things"][0]] * 3}, "things must have the maxItems 2"),
    ({"things": [{"name": "cup", "size": 1.5}]}, r"things\[0\] lacks sure"),
    ({"things": [{**GOOD["things"][0], "more": 1}]}, r"things\[0\] has other fields than name, size, sure"),
    ({"things": [{**GOOD["things"][0], "name": "too long"}]}, r"things\[0\]\.name must have the maxLength 5"),
    ({"chances": {"a": float("nan")}}, r"chances\.a must be of the type number"),
]


@pytest.mark.parametrize(("change", "problem"), BAD)
def test_parse_says_what_does_not_fit(change: dict[str, Any], problem: str) -> None:
    call, out = typed(Rich)
    module = load_module(out)
    with pytest.raises(module.ReplyError, match=problem):
        module.parse("typed", write_reply(call, GOOD | change))


UNREADABLE = {
    "minimal": ("", "Paris", "null", '["Paris"]', '{"answer": "a", "answer": "b"}', 'So: {"answer": "a"}',
                '{"answer": "a", "more": 1}', '{"answer": "Par', '{"result": "a"}', "[" * 100_000),
    "chat": ("", "Paris", '{"answer": "a"}', "[[ ## answer ## ]] a\n[[ ## answer ## ]] b"),
    "xml": ("", "Paris", "<answer>Par", "<answer>a</answer><answer>b</answer>"),
}  # fmt: skip
USUAL = {
    "minimal": (' \n{"answer": "a & b"}\n',),
    "chat": ("I see.\n\n[[ ## answer ## ]]\na & b\n\n[[ ## completed ## ]]\n", "[[ ## answer ## ]] a & b"),
    "xml": ("I see.\n<answer>\na & b\n</answer>", "<answer>a &amp; b</answer>"),
}


@pytest.mark.parametrize("layout", USUAL)
def test_parse_reads_the_usual_forms_and_guesses_nothing(layout: str) -> None:
    module, _ = generated("vanilla", layout)
    for reply in USUAL[layout]:
        assert module.parse("answer", reply) == {"answer": "a & b"}
    for reply in UNREADABLE[layout]:
        with pytest.raises(module.ReplyError):
            module.parse("answer", reply)


def test_parse_cuts_prose_and_other_fields_off_json_that_no_schema_enforces() -> None:
    _, program = typed(dspy.Signature("question -> answer: str, chances: dict[str, int]"))
    module = load_module(replace(program, prompts=(replace(program.prompts[0], enforced=False),)))
    reply = 'Sure:\n```json\n{"reasoning": "so", "answer": "a", "chances": {"x": 1}}\n```'
    assert module.parse("typed", reply) == {"answer": "a", "chances": {"x": 1}}
    with pytest.raises(module.ReplyError):
        module.parse("typed", reply, again=True)
