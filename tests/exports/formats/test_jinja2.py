"""jinja2: the file alone, in a plain environment of jinja2, gives the messages that are sent."""

from __future__ import annotations

import json
from typing import Any

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import method
from tests.examples import examples
from tests.exports.common import CALM, build_program, capture_messages, draw_program, inputs_for


def render_file(file: bytes, inputs: dict[str, Any]) -> list[tuple[str, str]]:
    """What a reader of the file does."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    messages = json.loads(file)["messages"]
    return [(m["role"], environment.from_string(m["content"]).render(inputs)) for m in messages]


@pytest.mark.parametrize("id", ["vanilla", "prefrag", "ragx", "ggatrieval", "rqrag", "slimplm"])
@settings(max_examples=examples(5), suppress_health_check=CALM)
@given(data=st.data())
def test_its_messages_are_those_sent(id: str, data: Any) -> None:
    program = draw_program(method(id), data)
    out = derive_export(program)
    files = format_of("jinja2").files(out)
    for prompt in out:
        inputs = data.draw(inputs_for(prompt))
        assert render_file(files[f"{prompt.name}.jinja.json"], inputs) == list(
            capture_messages(program, prompt.name, inputs)
        )


def test_a_missing_input_is_an_error_of_jinja() -> None:
    files = format_of("jinja2").files(derive_export(build_program(method("vanilla"))))
    with pytest.raises(jinja2.UndefinedError):
        render_file(files["answer.jinja.json"], {"question": "q"})


def test_it_holds_what_a_caller_needs() -> None:
    out = derive_export(build_program(method("vanilla")))
    (file,) = (json.loads(data) for data in format_of("jinja2").files(out).values())
    (prompt,) = out
    assert file["input_schema"] == prompt.input_schema
    assert file["output_schema"] == prompt.output_schema
    assert file["parameters"]["max_tokens"] == prompt.sampling.max_tokens
    assert file["reply"]["style"] == "json"
