"""Texts that UTF-8 cannot hold, and control characters, through every door: made harmless, or one sentence.

Half of a surrogate pair comes from Python's own strings, from JSON escapes and from arguments that are not
UTF-8. In memory it becomes U+FFFD; a file of rows that holds one is refused with its line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import pytest

import ragc
from ragc.programs import METHODS, Method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.store.calls import CallStore
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget
from tests.security.command_line import prepared
from tests.security.command_line import ragc as ragc_in
from tests.support.loopback import Loopback

HALF = "lone \ud800 half \udfff, a pair \ud83d\ude00"
WHOLE = "lone \ufffd half \ufffd, a pair \U0001f600"


def is_whole(value: Any) -> bool:
    """Whether UTF-8 can hold every text in `value`."""
    json.dumps(value, ensure_ascii=False, default=repr).encode()
    return True


def local(*texts: str, **options: Any) -> Any:
    """A source of passages with `texts` in their ids, titles and texts."""
    passages = [
        {"id": f"{n} {text}", "title": text, "text": f"Iterators end: {text}"} for n, text in enumerate(texts)
    ]
    return ragc.source("bm25", corpus=passages, store=False, **options)


def built(target: ScriptedTarget, source: Any, name: str = "vanilla", **knobs: Any) -> RagProgram:
    return ragc.program(name, main=target, local=source, store=False, **knobs)


def with_demos(program: RagProgram) -> RagProgram:
    program.predictors()[0].demos = [dspy.Example(question=HALF, passages=[HALF], answer=HALF)]
    return program


def hits_of(query: str) -> list[Any]:
    return [HALF, {"text": HALF, "title": HALF, "id": HALF}]


PLAIN = ListSource([Passage("p", HALF, HALF)])
BESIDE: dict[str, Any] = {"id": HALF, "query_time": HALF, "domain": HALF, "sub_questions": [HALF]}
DOORS: dict[str, Callable[[ScriptedTarget], Any]] = {
    "a passage": lambda target: built(target, local(HALF))(question="How do iterators end?"),
    "a result of a function": lambda target: built(target, ragc.source(hits_of))(question="How?"),
    "a source of one's own": lambda target: built(target, PLAIN)(question="How?"),
    "a question": lambda target: built(target, local("them"))(question=HALF),
    "what stands beside it": lambda target: built(target, local("them"))(question="How?", **BESIDE),
    "a demonstration": lambda target: with_demos(built(target, local("them")))(question="How?"),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS.values(), ids=list(DOORS))
def test_half_a_pair_is_replaced_whatever_it_stands_in(door: Callable[[ScriptedTarget], Any]) -> None:
    target = ScriptedTarget(lambda request: json.dumps({"answer": HALF}))
    prediction = door(target)
    sent = [message.content for request in target.requests for message in request.messages]
    assert is_whole(sent)
    assert prediction.answer == WHOLE
    passages = prediction.get("passages") or ()
    assert is_whole([[p.id, p.title, p.text] for p in passages])


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_every_program_takes_half_a_pair_in_question_passages_and_replies(entry: Method) -> None:
    passages = [
        Passage(f"p{i} {HALF}", f"Title {HALF}", f"The colour of thing {i} is red. {HALF}") for i in range(8)
    ]
    names = {"local", "web", *entry.sources}
    target = ScriptedTarget(SchemaReplies(text=HALF))
    roles: Any = dict.fromkeys(("main", "proxy", "judge", "teacher"), target)
    ground = Runtime(roles, dict.fromkeys(names, ListSource(passages)), store=CallStore(None))
    prediction = entry.build(ground, {})(question=f"What colour is thing 3? {HALF}", sub_questions=[HALF])
    assert is_whole([message.content for request in target.requests for message in request.messages])
    assert is_whole([prediction.answer, [event.to_json() for event in prediction.trace]])


def test_an_argument_that_is_no_utf_8_is_a_question(tmp_path: Path, server: Loopback) -> None:
    folder = prepared(tmp_path, server)
    answer = ragc_in(
        folder, "ask", "recipe.toml", b"What colour is thing number3? \xed\xa0\x80 caf\xe9", "--json"
    )
    assert answer.status == 0, answer.err
    assert "caf\ufffd" in json.loads(answer.out)["question"]
