"""Questions that a scripted teacher writes about passages, and how it is asked to check them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.errors import RequestRefused
from ragc.programs.question_writer.checks import Known, WrittenQuestion
from ragc.programs.question_writer.file import row_of
from ragc.programs.question_writer.writer import QuestionWriter, bound, topics
from ragc.programs.runtime import Runtime
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import ScriptedTarget

SENTENCE = "The plant in northtown{0} is a company that Ada{0} Quill founded after a long war."
ROWS = [
    {"id": f"d{n}.md", "title": f"Plant {n}", "source": f"d{n}.md", "text": SENTENCE.format(n)}
    for n in range(12)
]


class Teacher:
    """Asks who founded a plant; answers it with the passage, and without one as `alone` says."""

    def __init__(self, alone: str = "somebody", answer: str = "") -> None:
        self.alone, self.answer = alone, answer

    def __call__(self, request: ChatRequest) -> str | Reply:
        shown = request.messages[-1].content
        number = "".join(re.findall(r"northtown(\d+)", shown)[:1])
        properties = list((request.schema or {})["properties"])
        if properties == ["question"]:
            return json.dumps({"question": f"What income does Plant {number} have from its boats?"})
        if "question" in properties:
            question = f"Which person created the plant of northtown{number}?"
            quote = SENTENCE.format(number)
            return json.dumps({"quote": quote, "answer": f"Ada{number} Quill", "question": question})
        if "Quill founded" not in shown:
            return json.dumps({"answer": self.alone.format(number)})
        if "boats" in shown:
            return json.dumps({"answer": "unknown"})
        return json.dumps({"answer": self.answer or f"Ada{number} Quill"})


def write(
    teacher: Any, kinds: Sequence[str] = ("single", "unanswerable"), **more: Any
) -> tuple[list[WrittenQuestion], ScriptedTarget]:
    target = ScriptedTarget(teacher, **more)
    writer = QuestionWriter(Runtime({"teacher": target}), lambda: ROWS)
    known: list[Known] = []
    written = event_loop.run(writer.write(topics(lambda: ROWS, 12, kinds), known))
    assert len(target.requests) <= bound(12, kinds)["calls"]
    return written, target


@pytest.mark.parametrize("capabilities", [("schema", "logprobs"), ("schema",)])
def test_writer_writes_whatever_the_teacher_tells_of_log_probabilities(capabilities: tuple[Any, ...]) -> None:
    written, target = write(Teacher(), capabilities=capabilities)
    assert [question.failed for question in written] == [""] * 12
    assert not any(request.logprobs for request in target.requests)
    single = next(row_of(question, "t") for question in written if question.kind == "single")
    name = single["gold_ids"][0]
    assert (single["document"], single["answers"]) == (name, [f"Ada{name[1:-3]} Quill"])
    assert single["checks"][-3:] == ["answerable", "needs_passage", "no_duplicate"]
    assert 0 < single["overlap"] <= 0.85
    unanswerable = next(row_of(question, "t") for question in written if question.kind == "unanswerable")
    assert (unanswerable["answers"][0], unanswerable["gold_ids"]) == ("unknown", [])
    assert "unanswered" in unanswerable["checks"]
    assert len(unanswerable["passages"]) == 1


def test_writer_rejects_what_the_model_knows_cannot_find_or_finds_in_the_corpus() -> None:
    assert {q.failed for q in write(Teacher(alone="Ada{} Quill"), ["single"])[0]} == {"needs_passage"}
    assert {q.failed for q in write(Teacher(answer="not stated"), ["single"])[0]} == {"answerable"}

    def finds(request: ChatRequest) -> str | Reply:
        return str(Teacher()(request)).replace('"unknown"', '"9 crowns"')

    assert {q.failed for q in write(finds, ["unanswerable"])[0]} == {"unanswered"}


def test_writer_rejects_a_question_alone_whose_reply_is_unreadable_or_refused() -> None:
    def reply(request: ChatRequest) -> str | Reply:
        shown = " ".join(message.content for message in request.messages)
        if "northtown4 " in shown:
            raise RequestRefused("filtered", kind="filtered")
        return "no such thing" if "northtown3 " in shown else Teacher()(request)

    failures = sorted(question.failed for question in write(reply, ["single"])[0])
    assert failures == [""] * 10 + ["unreadable"] * 2


def test_writer_shows_the_nearest_other_passage_for_kinds_that_need_two() -> None:
    shown: list[str] = []

    def reply(request: ChatRequest) -> str:
        shown.append(request.messages[-1].content)
        return json.dumps({"quote": "no", "answer": "no", "question": "Is this one question?"})

    for kind in ("two_passage", "comparison"):
        assert {question.failed for question in write(reply, [kind])[0]} == {"self_contained"}
    assert all(text.count("northtown") == 2 for text in shown)


def test_writer_writes_the_same_again() -> None:
    assert write(Teacher())[0] == write(Teacher())[0]
