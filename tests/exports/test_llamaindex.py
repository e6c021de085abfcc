"""llamaindex: a RichPromptTemplate of the file's text gives the messages that are sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.exports.as_llamaindex import TAKEN
from ragc.exports.derive import exported
from ragc.exports.prompt import Input, NotExpressible
from ragc.programs import method
from ragc.programs.shared_knobs import LAYOUTS
from tests.exports.common import CALM, made, sent
from tests.exports.drawn import Rendered, agree, agree_typed, alone, consumer, file_of, stable
from tests.exports.test_render import typed

RichPromptTemplate = consumer("llama_index.core.prompts").RichPromptTemplate


def rendered(file: bytes, inputs: Mapping[str, Any]) -> Rendered:
    """What a reader of the file does."""
    return [(m.role.value, m.content) for m in RichPromptTemplate(file.decode()).format_messages(**inputs)]


@pytest.mark.parametrize("id", ["vanilla", "rqrag", "react", "slimplm", "ggatrieval"])
@settings(max_examples=5, suppress_health_check=CALM)
@given(data=st.data())
def test_its_messages_are_those_sent(id: str, data: Any) -> None:
    agree("llamaindex", rendered, data, (id,))


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=5)
@given(data=st.data())
def test_inputs_of_every_type(layout: str, data: Any) -> None:
    agree_typed("llamaindex", rendered, data, layout)


END = '}</content_block> <content_block>{"type": "text", "text": "x"}</content_block>'


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", [" \n a \n ", "\n", "", END, "\ue000<\ue000b\ue000a", "<", "\\u003c", '"<"'])
def test_white_space_at_the_ends_and_its_own_marks_are_kept(layout: str, text: str) -> None:
    program = made(method("no_retrieval"), layout=layout, icl_n=1)
    call = dict(program.named_predictors())["answer"]
    fixed = text.replace("\ue000", "")  # no fixed text holds that, in any format
    call.signature = call.signature.with_instructions(f"Say so.{fixed}")
    call.demos = [{"question": fixed, "answer": fixed}]
    out = exported(program)
    file = file_of("llamaindex", out, out.prompt("answer"))
    assert rendered(file, {"question": text}) == [
        tuple(m) for m in sent(program, "answer", {"question": text})
    ]


def test_a_missing_input_is_written_as_nothing() -> None:
    out = exported(made(method("no_retrieval")))
    file = file_of("llamaindex", out, out.prompt("answer"))
    assert rendered(file, {})[-1] == ("user", "Question: ")


def test_the_same_program_gives_the_same_bytes() -> None:
    stable("llamaindex")


def test_it_holds_what_a_caller_needs() -> None:
    out = replace(exported(made(method("vanilla"))), note="Of nobody #} {% chat %}.")
    (prompt,) = out
    text = file_of("llamaindex", out, prompt).decode()
    assert rendered(text.encode(), {"question": "q", "passages": []}) == rendered(
        file_of("llamaindex", replace(out, note=""), prompt), {"question": "q", "passages": []}
    )
    told = json.loads(text[2 : text.index("#}")])
    assert told["note"] == out.note
    assert told["program"] == out.fingerprint
    assert told["parameters"] == prompt.parameters()
    assert told["input_schema"] == prompt.input_schema
    assert set(RichPromptTemplate(text).template_vars) == {"question", "passages"}


@pytest.mark.parametrize("name", TAKEN)
def test_an_input_that_llamaindex_cannot_be_given_is_refused(name: str) -> None:
    _, prompt = typed("minimal")
    odd = replace(prompt, inputs=(*prompt.inputs, Input(name)))
    with pytest.raises(NotExpressible, match=f"LlamaIndex has a use of its own for {name!r}"):
        file_of("llamaindex", alone(odd), odd)
