"""The calls whose text a server streams are made once a question and write the program's answer."""

from __future__ import annotations

import pytest

from ragc.programs import METHODS, Method
from ragc.programs.trace import Call
from ragc.testing import SchemaReplies
from tests.exports.common import build_program


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_writers_are_called_once_and_write_the_answer(entry: Method) -> None:
    for last in (False, True):
        program = build_program(entry, SchemaReplies(last=last, logprob=-3.0))
        prediction = program(question="What is the colour of thing 3?")
        calls = [e for e in prediction.trace if isinstance(e, Call) and e.name in (entry.writers or ())]
        assert len(calls) <= 1
        assert all(str(call.outputs["answer"]) in prediction.answer for call in calls), entry.id
