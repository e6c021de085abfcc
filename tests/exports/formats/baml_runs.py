"""BAML as a consumer: an export in its runtime, and what BAML is known to do to a message."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import pydantic
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ragc.exports.formats.baml import BLANKS, SPLIT, SPLITS, functions_of, inputs_of
from ragc.prompts.model import CompiledPrompt, ExportedProgram
from ragc.targets.base import Message
from tests.exports.common import texts

ENV = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "none"}


class Reply(pydantic.BaseModel):
    """A class of BAML's with whatever fields it has."""

    model_config = pydantic.ConfigDict(extra="allow")


class Baml:
    """The functions of an export of `program` in BAML's own runtime; raises where BAML refuses its files."""

    def __init__(self, program: ExportedProgram, files: Mapping[str, bytes]) -> None:
        from baml_py import BamlRuntime

        sources = {f"/{name}": data.decode() for name, data in files.items()}
        self.runtime = BamlRuntime.from_files("/baml_src", sources, {})
        self.functions = functions_of(program)
        self.classes = ModuleType("classes")
        for name in re.findall(r"^class (\w+)", "\n".join(sources.values()), re.MULTILINE):
            setattr(self.classes, name, type(name, (Reply,), {}))

    def body(self, prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The body of the request that the function of `prompt` makes."""
        called = inputs_of(prompt)
        request = self.runtime.build_request_sync(
            self.functions[prompt.name],
            {called[name]: value for name, value in inputs.items()},
            self.runtime.create_context_manager(),
            None,
            None,
            ENV,
            False,
        )
        body: dict[str, Any] = json.loads(request.body.text())
        return body

    def parsed(self, prompt: CompiledPrompt, reply: str) -> Any:
        """What the function of `prompt` makes of a reply, as JSON values."""
        output = self.runtime.parse_llm_response(
            self.functions[prompt.name],
            reply,
            self.classes,
            self.classes,
            self.classes,
            False,
            self.runtime.create_context_manager(),
            None,
            None,
            ENV,
        )
        return output.model_dump() if isinstance(output, pydantic.BaseModel) else output


def read_messages(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Role and content of the messages of a request."""
    return [(m["role"], m["content"]) for m in body["messages"]]


def limited(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """`messages` as BAML sends them: what the export says of it, and nothing else."""
    return [(m.role, m.content.replace(SPLITS, SPLIT).strip(BLANKS)) for m in messages]


def replies(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit a reply's schema."""
    return _values(schema, schema.get("$defs") or {})


def _values(node: Mapping[str, Any], defs: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "$ref" in node:
        return _values(defs[node["$ref"].rpartition("/")[2]], defs)
    if kinds := node.get("anyOf") or node.get("oneOf"):
        return st.one_of([_values(kind, defs) for kind in kinds])
    if "enum" in node or "const" in node:
        return st.sampled_from(node.get("enum") or [node["const"]])
    match node["type"]:
        case "string":
            return texts().map(lambda text: text[: node.get("maxLength")])
        case "integer":
            return st.integers(node.get("minimum", -(10**9)), node.get("maximum", 10**9))
        case "boolean":
            return st.booleans()
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "array":
            return st.lists(_values(node["items"], defs), max_size=node.get("maxItems", 4))
        case "object":
            return st.fixed_dictionaries({k: _values(v, defs) for k, v in node["properties"].items()})
        case kind:
            raise AssertionError(f"no strategy for {kind}")


def draw_values(
    strategy: st.SearchStrategy[Any], n: int, make: Callable[[Any], Any] = lambda drawn: drawn
) -> list[Any]:
    """What `make` makes of each of up to `n` values of `strategy`, all different as JSON."""
    by_json: dict[str, Any] = {}

    quiet: Any = list(HealthCheck)

    @settings(
        max_examples=n, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=quiet
    )
    @given(strategy)
    def draw(value: Any) -> None:
        by_json[json.dumps(value, default=lambda _: len(by_json))] = make(value)

    draw()
    return list(by_json.values())[:n]
