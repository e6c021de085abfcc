"""python: the generated file reads what a reply writes and the program reads; or it asks again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import cache, partial
from types import ModuleType
from typing import Any, Literal

import dspy
import pydantic
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.programs import METHODS, method
from ragc.programs.calls.layouts import JSON_LAYOUTS
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS
from tests.examples import examples
from tests.exports.common import build_program
from tests.exports.formats.python.replies import (
    UNREAD,
    damage,
    outputs_of,
    read_as_program,
    validated,
    write_reply,
)
from tests.exports.formats.python.test_format import load_module, slow, typed


def without_blanks(values: Any) -> str:
    """`values` as JSON without white space, which adapters put around values."""
    return re.sub(r"\s|\\[nrtf]|\\u00(?:0b|1[c-f]|85|a0)|\\u202[89]", "", json.dumps(values, sort_keys=True))


@cache
def generated(id: str, layout: str) -> tuple[ModuleType, list[tuple[str, RagPredict]]]:
    """The generated file of a method, and its calls by name."""
    program = build_program(method(id), layout=layout)
    return load_module(derive_export(program)), program.named_predictors()


def drawn(layout: str, data: Any) -> tuple[RagPredict, Callable[[str], Any], type[Exception]]:
    """A call of a method, what reads its replies in the generated file, and the error of that."""
    module, calls = generated(data.draw(st.sampled_from(METHODS)).id, layout)
    name, call = data.draw(st.sampled_from(calls))
    return call, partial(module.parse, name), module.ReplyError


@pytest.mark.parametrize("layout", LAYOUTS)
@slow(examples(100))
@given(data=st.data())
def test_parse_returns_what_a_reply_writes(layout: str, data: Any) -> None:
    call, parse, error = drawn(layout, data)
    outputs = data.draw(outputs_of(call))
    assume(layout != "chat" or "[[ ##" not in json.dumps(outputs))
    reply = write_reply(call, outputs)
    if layout in JSON_LAYOUTS:
        assert parse(reply) == outputs
        return
    with suppress(error):  # a text that holds tags
        assert without_blanks(parse(reply)) == without_blanks(outputs)


@slow(examples(400))
@given(data=st.data())
def test_parse_reads_no_damaged_reply_otherwise_than_the_program(data: Any) -> None:
    call, parse, error = drawn("minimal", data)
    text = data.draw(damage(write_reply(call, data.draw(outputs_of(call)))))
    with suppress(error):
        outputs = parse(text)
        assert read_as_program(call, text) in (UNREAD, validated(call, outputs))


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
    module = load_module(out)
    values = GOOD | ({"note": "x & y", "chances": {}} if layout == "xml" else {})
    reply = write_reply(call, values).replace("<chances></chances>", "<chances>{}</chances>")
    assert module.parse("typed", reply) == values


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


@pytest.mark.parametrize(
    ("layout", "reply"), [(k, reply) for k, some in UNREADABLE.items() for reply in some]
)
def test_parse_guesses_nothing(layout: str, reply: str) -> None:
    module = load_module(derive_export(build_program(method("vanilla"), layout=layout)))
    with pytest.raises(module.ReplyError):
        module.parse("answer", reply)


@pytest.mark.parametrize(
    ("layout", "reply"),
    [
        ("minimal", ' \n{"answer": "a & b"}\n'),
        ("chat", "I see.\n\n[[ ## answer ## ]]\na & b\n\n[[ ## completed ## ]]\n"),
        ("chat", "[[ ## answer ## ]] a & b"),
        ("xml", "I see.\n<answer>\na & b\n</answer>"),
        ("xml", "<answer>a &amp; b</answer>"),
    ],
)
def test_parse_reads_the_usual_forms(layout: str, reply: str) -> None:
    module = load_module(derive_export(build_program(method("vanilla"), layout=layout)))
    assert module.parse("answer", reply) == {"answer": "a & b"}


def test_parse_cuts_prose_and_other_fields_off_json_that_no_schema_enforces() -> None:
    signature = dspy.Signature("question -> answer: str, chances: dict[str, int]")
    program = typed(signature)[1]
    prompts = tuple(replace(prompt, enforced=False) for prompt in program.prompts)
    module = load_module(replace(program, prompts=prompts))
    reply = 'Sure:\n```json\n{"reasoning": "so", "answer": "a", "chances": {"x": 1}}\n```'
    assert module.parse("typed", reply) == {"answer": "a", "chances": {"x": 1}}
    with pytest.raises(module.ReplyError):
        module.parse("typed", reply, again=True)
