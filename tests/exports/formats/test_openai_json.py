"""openai-json: with its slots filled it is the request that is sent, and OpenAI's client takes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam

from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import method
from ragc.programs.knobs import LAYOUTS, WORDINGS
from ragc.targets.openai_wire import request_body
from tests.examples import examples
from tests.exports.common import CALM, build_program, capture_messages, inputs_for, with_demos

MESSAGES = pydantic.TypeAdapter(list[ChatCompletionMessageParam])


def write_value(value: Any, slot: Mapping[str, Any]) -> str:
    """A value in the style of its slot, as the file tells it."""
    if slot["style"] == "lines":
        return "\n".join(f"[{i}] {item}" for i, item in enumerate(value, 1)) or "none"
    if slot["style"] == "json":
        return json.dumps(value, ensure_ascii=False)
    return slot["words"][not value] if isinstance(value, bool) else str(value)


def fill_request(file: bytes, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The request for `inputs`: every slot replaced, in one pass."""
    document = json.loads(file)
    slots = document["slots"]
    marks = re.compile("|".join(map(re.escape, slots)))
    for message in document["request"]["messages"]:
        message["content"] = marks.sub(
            lambda match: write_value(inputs[slots[match[0]]["input"]], slots[match[0]]), message["content"]
        )
    request: dict[str, Any] = document["request"]
    return request


@pytest.mark.parametrize("id", ["vanilla", "prefrag", "ragx", "ggatrieval", "rqrag", "slimplm"])
@settings(max_examples=examples(5), suppress_health_check=CALM)
@given(data=st.data())
def test_its_messages_are_those_sent(id: str, data: Any) -> None:
    program = with_demos(
        build_program(
            method(id),
            layout=data.draw(st.sampled_from(LAYOUTS)),
            wording=data.draw(st.sampled_from(WORDINGS)),
            icl_n=2,
        ),
        data,
    )
    out = derive_export(program)
    files = format_of("openai-json").files(out)
    for prompt in out:
        inputs = data.draw(inputs_for(prompt))
        request = fill_request(files[f"{prompt.name}.openai.json"], inputs)
        expected = capture_messages(program, prompt.name, inputs)
        assert [(m["role"], m["content"]) for m in request["messages"]] == list(expected)


def test_all_of_the_request_is_what_is_sent_and_openai_takes_it() -> None:
    program = build_program(method("vanilla"), temperature=0.7)
    file = format_of("openai-json").files(derive_export(program))["answer.openai.json"]
    inputs = {"question": "What is it?", "passages": ["one", "two"]}
    request = fill_request(file, inputs)
    call = dict(program.named_predictors())["answer"]
    assert request == request_body(call.request(**inputs), "model")
    assert MESSAGES.validate_python(request["messages"])
    assert {m["role"] for m in request["messages"]} <= {"system", "user", "assistant"}


def test_a_fixed_text_that_holds_a_slot_is_not_filled() -> None:
    program = build_program(method("vanilla"), icl_n=1)
    call = dict(program.named_predictors())["answer"]
    call.demos = [{"question": "{{question}} {{question_2}}", "passages": ["{{passages}}"], "answer": "a"}]
    file = format_of("openai-json").files(derive_export(program))["answer.openai.json"]
    assert list(json.loads(file)["slots"]) == ["{{question_3}}", "{{passages_2}}"]
    inputs = {"question": "{{passages_2}}", "passages": ["{{question_3}}"]}
    contents = [m["content"] for m in fill_request(file, inputs)["messages"]]
    assert contents == [m.content for m in capture_messages(program, "answer", inputs)]
