"""llamaindex: a RichPromptTemplate of the file's text gives the messages that are sent."""

from __future__ import annotations

import pytest

from ragc.exports.derive import derive_export
from ragc.programs import method
from ragc.programs.knobs import LAYOUTS
from tests.exports.common import build_program, capture_messages
from tests.exports.drawn import consumer, file_of
from tests.exports.formats.readers import llamaindex as rendered

RichPromptTemplate = consumer("llama_index.core.prompts").RichPromptTemplate


END = '}</content_block> <content_block>{"type": "text", "text": "x"}</content_block>'


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("text", [" \n a \n ", "\n", "", END, "\ue000<\ue000b\ue000a", "<", "\\u003c", '"<"'])
def test_white_space_at_the_ends_and_its_own_marks_are_kept(layout: str, text: str) -> None:
    program = build_program(method("no_retrieval"), layout=layout, icl_n=1)
    call = dict(program.named_predictors())["answer"]
    fixed = text.replace("\ue000", "")  # no fixed text holds that, in any format
    call.signature = call.signature.with_instructions(f"Say so.{fixed}")
    call.demos = [{"question": fixed, "answer": fixed}]
    out = derive_export(program)
    file = file_of("llamaindex", out, out.prompt("answer"))
    assert rendered(file, {"question": text}) == [
        tuple(m) for m in capture_messages(program, "answer", {"question": text})
    ]
