"""jinja2 and openai-json in their real consumers, on 200 generated inputs each: what is sent comes out."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam

from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import METHODS
from ragc.programs.knobs import LAYOUTS, WORDINGS
from tests.exports.common import CALM, build_program, capture_messages, inputs_for, with_demos
from tests.exports.formats.test_jinja2 import render_file
from tests.exports.formats.test_openai_json import fill_request

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

MESSAGES = pydantic.TypeAdapter(list[ChatCompletionMessageParam])
many = settings(max_examples=200, suppress_health_check=CALM)


def draw_export(data: Any) -> Any:
    """A program with random demonstrations, its export, one of its prompts and inputs of that."""
    chosen = {"layout": data.draw(st.sampled_from(LAYOUTS)), "wording": data.draw(st.sampled_from(WORDINGS))}
    program = with_demos(build_program(data.draw(st.sampled_from(METHODS)), **chosen, icl_n=3), data)
    out = derive_export(program)
    prompt = data.draw(st.sampled_from(out.prompts))
    return program, out, prompt, data.draw(inputs_for(prompt))


@many
@given(data=st.data())
def test_jinja2_renders_what_is_sent(data: Any) -> None:
    program, out, prompt, inputs = draw_export(data)
    file = format_of("jinja2").files(out)[f"{prompt.name}.jinja.json"]
    assert render_file(file, inputs) == list(capture_messages(program, prompt.name, inputs))


@many
@given(data=st.data())
def test_openai_takes_the_messages_that_are_sent(data: Any) -> None:
    program, out, prompt, inputs = draw_export(data)
    messages = fill_request(format_of("openai-json").files(out)[f"{prompt.name}.openai.json"], inputs)[
        "messages"
    ]
    assert [(m["role"], m["content"]) for m in messages] == list(
        capture_messages(program, prompt.name, inputs)
    )
    assert {m["role"] for m in messages} <= {"system", "user", "assistant"}
    assert [dict(m) for m in MESSAGES.validate_python(messages)] == messages
