"""langchain: what LangChain loads is what it would dump, and gives the messages that are sent."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ragc.exports.derive import derive_export
from ragc.programs import method
from ragc.prompts.model import Input, NotExpressible
from tests.exports.common import build_program
from tests.exports.drawn import consumer, export_alone, file_of
from tests.exports.formats.readers import QUIET, langchain_template
from tests.exports.formats.readers import langchain as rendered
from tests.prompts.test_render import typed

consumer("langchain_core.prompts")
pytestmark = QUIET


@pytest.mark.parametrize("id", ["vanilla", "no_retrieval"])
def test_it_is_what_langchain_writes_itself(id: str) -> None:
    from langchain_core.load import dumps

    program = build_program(method(id), icl_n=1)
    call = dict(program.named_predictors())["answer"]
    call.demos = [{"question": "q {", "passages": [], "answer": "a }"}]
    out = derive_export(program)
    file = file_of("langchain", out, out.prompt("answer"))
    assert json.loads(dumps(langchain_template(file))) == json.loads(file)


def test_only_prompts_with_lists_need_leave_to_load() -> None:
    from langchain_core.load import loads

    with_lists, without = (derive_export(build_program(method(id))) for id in ("vanilla", "no_retrieval"))
    file = file_of("langchain", without, without.prompt("answer"))
    assert loads(file.decode()).format_messages(question="{q}")[-1].content == "Question: {q}"
    file = file_of("langchain", with_lists, with_lists.prompt("answer"))
    with pytest.raises(ValueError, match="Jinja2 templates are not allowed during deserialization"):
        loads(file.decode())


def test_a_missing_input_is_an_error_of_langchain() -> None:
    out = derive_export(build_program(method("vanilla")))
    with pytest.raises(KeyError, match="missing variables"):
        rendered(file_of("langchain", out, out.prompt("answer")), {"question": "q"})


def test_it_holds_what_a_caller_needs() -> None:
    out = replace(derive_export(build_program(method("vanilla"))), note="Demonstrations: of nobody.")
    (prompt,) = out
    metadata = langchain_template(file_of("langchain", out, prompt)).metadata
    assert metadata["program"] == out.fingerprint
    assert metadata["note"] == out.note
    assert metadata["parameters"] == prompt.parameters()
    assert metadata["input_schema"] == prompt.input_schema
    assert metadata["output_schema"] == prompt.output_schema


def test_an_input_that_langchain_cannot_be_given_is_refused() -> None:
    _, prompt = typed("minimal")
    odd = replace(prompt, inputs=(*prompt.inputs, Input("self")))
    with pytest.raises(NotExpressible, match="LangChain has a use of its own for 'self'"):
        file_of("langchain", export_alone(odd), odd)
