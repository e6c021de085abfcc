"""Questions that a scripted teacher writes about passages, and how it is asked to check them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.programs.question_writer.base import MIN_CONFIRMED, CheckedQuestion
from ragc.programs.question_writer.checks import KnownQuestions
from ragc.programs.question_writer.choose import candidates
from ragc.programs.question_writer.details import NO_KIND, ORGANISATION, PERSON
from ragc.programs.question_writer.file import row_of
from ragc.programs.question_writer.writer import QuestionWriter, bound
from ragc.programs.runtime import Runtime
from ragc.targets.base import ChatRequest, Reply, TokenLogprob
from ragc.testing import ScriptedTarget

ROWS = [
    {"id": f"d{n}.md", "title": f"Plant {n}", "source": f"d{n}.md",
     "text": f"The plant in northtown{n} is a company that Ada{n} Quill founded after a long war."}
    for n in range(12)
]  # fmt: skip


OPEN = "Which income, staff or street address has Plant {} for its boats?"


class Teacher:
    """Asks who founded a plant; answers it with the passage, and without one as `alone` says."""

    kind = ORGANISATION

    def __init__(self, alone: str = "somebody", shown_answer: str = "", right: str = "yes") -> None:
        self.alone, self.shown_answer, self.right = alone, shown_answer, right

    def __call__(self, request: ChatRequest) -> str | Reply:
        shown = request.messages[-1].content
        properties: Mapping[str, Any] = (request.schema or {})["properties"]
        number = "".join(re.findall(r"northtown(\d+)", shown)[:1])
        if "kind" in properties:
            return json.dumps({"kind": self.kind})
        if "missing" in properties:
            detail = properties["missing"]["enum"][0]
            return json.dumps({"missing": detail, "question": OPEN.format(number)})
        if list(properties) == ["answer", "question"]:
            assert f"Ada{number} Quill" == properties["answer"]["const"]
            question = f"Which person created the plant of northtown{number}?"
            return json.dumps({"answer": f"Ada{number} Quill", "question": question})
        if "right" in properties:
            return json.dumps({"right": self.right})
        if "Quill founded" not in shown:
            return json.dumps({"answer": self.alone})
        if "boats" in shown:
            return json.dumps({"answer": "unknown"})
        return json.dumps({"answer": self.shown_answer or f"Ada{number} Quill"})


def write(
    teacher: Any, kinds: tuple[str, ...] = ("single", "unanswerable"), rows: list[dict[str, str]] = ROWS
) -> list[CheckedQuestion]:
    target = ScriptedTarget(teacher)
    writer = QuestionWriter(Runtime({"teacher": target}))
    chosen = candidates(lambda: rows, 12, kinds)
    written = event_loop.run(writer.write(chosen, lambda: rows, KnownQuestions()))
    assert len(target.requests) <= bound(12, kinds).calls
    return written


def test_a_question_that_passes_names_its_passage_document_and_checks() -> None:
    written = write(Teacher())
    assert [one.failed for one in written] == [""] * 12
    single = next(row_of(one, "t") for one in written if one.draft.candidate.kind == "single")
    name = single["gold_ids"][0]
    assert single["document"] == name
    assert single["answers"] == [f"Ada{name[1:-3]} Quill"]
    assert single["checks"][-4:] == ["answerable", "needs_passage", "confirmed", "no_duplicate"]
    assert 0 < single["overlap"] <= 0.85
    open_one = next(row_of(one, "t") for one in written if one.draft.candidate.kind == "unanswerable")
    assert open_one["answers"][0] == "unknown"
    assert open_one["gold_ids"] == []
    assert "unanswered" in open_one["checks"]


def test_what_the_model_knows_or_cannot_find_is_rejected() -> None:
    known = write(_known, ("single",))
    assert {one.failed for one in known} == {"needs_passage"}
    lost = write(Teacher(shown_answer="unknown"), ("single",))
    assert {one.failed for one in lost} == {"answerable"}
    denied = write(Teacher(right="no"), ("single",))
    assert {one.failed for one in denied} == {"confirmed"}


@pytest.mark.parametrize(("probability", "failed"), [(MIN_CONFIRMED - 0.1, "confirmed"), (0.95, "")])
def test_a_yes_of_which_the_model_is_not_sure_is_none(probability: float, failed: str) -> None:
    teacher = Teacher()

    def reply(request: ChatRequest) -> str | Reply:
        text = str(teacher(request))
        if not request.logprobs:
            return text
        before, _, after = text.partition("yes")
        tokens = ((before, 0.0), ("yes", math.log(probability)), (after, 0.0))
        return Reply(text, logprobs=tuple(TokenLogprob(*token) for token in tokens))

    assert {one.failed for one in write(reply, ("single",))} == {failed}


def _known(request: ChatRequest) -> str | Reply:
    shown = request.messages[-1].content
    number = "".join(char for char in shown.partition("northtown")[2].split()[0] if char.isdigit())
    return Teacher(alone=f"Ada{number} Quill")(request)


def test_a_reply_that_cannot_be_read_rejects_its_question_alone() -> None:
    teacher = Teacher()

    def reply(request: ChatRequest) -> str | Reply:
        shown = any("northtown3 " in message.content for message in request.messages)
        return "no such thing" if shown else teacher(request)

    failures = [one.failed for one in write(reply, ("single",))]
    assert sorted(failures) == [""] * 11 + ["unreadable"]


@pytest.mark.parametrize(
    ("named", "failed"), [(NO_KIND, "no_open_detail"), (PERSON, "no_open_detail"), (Teacher.kind, "")]
)
def test_the_teacher_names_a_kind_that_the_passage_does_not_say(named: str, failed: str) -> None:
    teacher = Teacher()
    teacher.kind = named
    text = "The plant in northtown{} makes boats for a company that Ada Quill founded after a long war."
    unsaid = [{**row, "text": text.format(n)} for n, row in enumerate(ROWS)]
    assert {one.failed for one in write(teacher, ("unanswerable",), unsaid)} == {failed}
    assert {one.failed for one in write(teacher, ("unanswerable",))} == {""}  # "is a company"


def test_a_question_without_its_subject_is_written_once_more() -> None:
    drafts: list[str] = []

    def reply(again: str) -> Callable[[ChatRequest], str | Reply]:
        teacher = Teacher()

        def answer(request: ChatRequest) -> str | Reply:
            if list((request.schema or {})["properties"]) == ["question"]:
                drafts.append(request.messages[-1].content)
                return json.dumps({"question": again})
            return str(teacher(request)).replace("plant of northtown", "one of them in ")

        return answer

    mended = write(reply("Who set up the Plant works?"), ("single",))
    assert {one.draft.question for one in mended if not one.failed} == {"Who set up the Plant works?"}
    assert len(drafts) == 12
    assert all("one of them" in shown and "Quill" in shown for shown in drafts)
    same = write(reply("Who set it up there for them?"), ("single",))
    assert {one.failed for one in same} == {"self_contained"}
    assert all("one of them" in one.draft.question for one in same)  # the draft stays


def test_two_passages_are_those_nearest_to_each_other() -> None:
    shown: list[str] = []

    def reply(request: ChatRequest) -> str:
        shown.append(request.messages[-1].content)
        return json.dumps({"answer": "no", "question": "Is this one question?"})

    assert {one.failed for one in write(reply, ("two_passage",))} == {"self_contained"}
    assert all(text.count("northtown") == 2 for text in shown)
