"""langchain: what LangChain loads is what it would dump, and gives the messages that are sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.derive import exported
from ragc.exports.prompt import Input, NotExpressible
from ragc.programs import method
from ragc.programs.shared_knobs import LAYOUTS
from tests.exports.common import CALM, made
from tests.exports.drawn import Rendered, agree, agree_typed, alone, consumer, file_of, stable
from tests.exports.test_render import typed

consumer("langchain_core.prompts")
QUIET = [
    pytest.mark.filterwarnings("ignore:The function `loads` is in beta"),
    pytest.mark.filterwarnings("ignore:The default value of `allowed_objects` will change"),
]
"""What LangChain warns of when it loads anything."""

pytestmark = QUIET
ROLES = {"system": "system", "human": "user", "ai": "assistant"}


def loaded(file: bytes, **leave: Any) -> Any:
    """The template as LangChain loads it, with the leave to use Jinja2 where the file asks for it."""
    from langchain_core.load import loads

    about = json.loads(file)["kwargs"]["metadata"]["about"]
    options: dict[str, Any] = {"init_validator": None} if "init_validator=None" in about else {}
    return loads(file.decode(), allowed_objects="core", **options | leave)


def rendered(file: bytes, inputs: Mapping[str, Any]) -> Rendered:
    """What a reader of the file does."""
    return [(ROLES[m.type], m.content) for m in loaded(file).invoke(dict(inputs)).to_messages()]


@pytest.mark.parametrize("id", ["vanilla", "rqrag", "react", "slimplm", "ggatrieval"])
@settings(max_examples=5, suppress_health_check=CALM)
@given(data=st.data())
def test_its_messages_are_those_sent(id: str, data: Any) -> None:
    agree("langchain", rendered, data, (id,))


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=5)
@given(data=st.data())
def test_inputs_of_every_type(layout: str, data: Any) -> None:
    agree_typed("langchain", rendered, data, layout)


@pytest.mark.parametrize("id", ["vanilla", "no_retrieval"])
def test_it_is_what_langchain_writes_itself(id: str) -> None:
    from langchain_core.load import dumps

    program = made(method(id), icl_n=1)
    call = dict(program.named_predictors())["answer"]
    call.demos = [{"question": "q {", "passages": [], "answer": "a }"}]
    out = exported(program)
    file = file_of("langchain", out, out.prompt("answer"))
    assert json.loads(dumps(loaded(file))) == json.loads(file)


def test_only_prompts_with_lists_need_leave_to_load() -> None:
    from langchain_core.load import loads

    with_lists, without = (exported(made(method(id))) for id in ("vanilla", "no_retrieval"))
    file = file_of("langchain", without, without.prompt("answer"))
    assert loads(file.decode()).format_messages(question="{q}")[-1].content == "Question: {q}"
    file = file_of("langchain", with_lists, with_lists.prompt("answer"))
    with pytest.raises(ValueError, match="Jinja2 templates are not allowed during deserialization"):
        loads(file.decode())


def test_a_missing_input_is_an_error_of_langchain() -> None:
    out = exported(made(method("vanilla")))
    with pytest.raises(KeyError, match="missing variables"):
        rendered(file_of("langchain", out, out.prompt("answer")), {"question": "q"})


def test_the_same_program_gives_the_same_bytes() -> None:
    stable("langchain")


def test_it_holds_what_a_caller_needs() -> None:
    out = replace(exported(made(method("vanilla"))), note="Demonstrations: of nobody.")
    (prompt,) = out
    metadata = loaded(file_of("langchain", out, prompt)).metadata
    assert metadata["program"] == out.fingerprint
    assert metadata["note"] == out.note
    assert metadata["parameters"] == prompt.parameters()
    assert metadata["input_schema"] == prompt.input_schema
    assert metadata["output_schema"] == prompt.output_schema


def test_an_input_that_langchain_cannot_be_given_is_refused() -> None:
    _, prompt = typed("minimal")
    odd = replace(prompt, inputs=(*prompt.inputs, Input("self")))
    with pytest.raises(NotExpressible, match="LangChain has a use of its own for 'self'"):
        file_of("langchain", alone(odd), odd)
