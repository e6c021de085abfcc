"""The answering calls of RAG-X: what they are told, and what counts as a refusal."""

from __future__ import annotations

import pytest

from ragc.signatures.answer import INVALID, UNSURE
from ragc.targets.base import Reply
from ragc.testing import ScriptedTarget
from tests.programs.ragx.common import QUESTION, build_program, by_field, last, notes


def test_the_query_time_is_told() -> None:
    target = ScriptedTarget(by_field())
    program = build_program(target)
    program(question=QUESTION, query_time="2024-03-01")
    assert "Query time: 2024-03-01" in last(target)
    program(question=QUESTION)
    assert "Query time: unknown" in last(target)


@pytest.mark.parametrize(
    ("reply", "answer", "tallies"),
    [
        ("Paris", "Paris", (0, 0)),
        ("Invalid question.", INVALID, (1, 0)),
        ("I don’t know.", UNSURE, (0, 1)),
        ("i DON'T know who", UNSURE, (0, 1)),
        ("I do not know.", UNSURE, (0, 1)),
        ("  ", UNSURE, (0, 1)),
    ],
)
def test_refusals_get_their_exact_words_a_note_and_a_tally(
    reply: str, answer: str, tallies: tuple[int, int]
) -> None:
    made_of = build_program(ScriptedTarget([{"answer": reply}]))(question=QUESTION)
    assert made_of.answer == answer
    assert (made_of.counters["invalid"], made_of.counters["missing"]) == tallies
    assert (("answer", answer) in notes(made_of)) == (sum(tallies) == 1)


def test_a_cited_answer_loses_marks_of_passages_that_were_not_shown() -> None:
    target = ScriptedTarget(by_field(answer="It is so [1]. It was not [4]."))
    prediction = build_program(target, answer_format="cited")(question=QUESTION)
    assert (prediction.answer, prediction.counters["dropped"]) == ("It is so [1]. It was not.", 1)
    assert "numbers of the one to three passages" in target.requests[0].messages[0].content


def test_yes_or_no_leaves_room_for_refusals() -> None:
    target = ScriptedTarget(by_field())
    build_program(target, answer_format="yesno")(question=QUESTION)
    schema = target.requests[0].schema
    assert schema is not None
    assert schema["properties"]["answer"]["enum"] == ["yes", "no", INVALID, UNSURE]


def test_an_invalid_question_is_not_looked_up() -> None:
    target = ScriptedTarget([{"answer": "invalid question"}])
    prediction = build_program(target, source_policy="predefined_web")(question=QUESTION)
    assert (prediction.answer, prediction.counters["searches"], target.replies_left) == (INVALID, 0, 0)


def test_an_answer_that_cannot_be_read_or_was_cut_is_unsure() -> None:
    prediction = build_program(ScriptedTarget(["{}", "{}"], capabilities=()))(question=QUESTION)
    assert (prediction.answer, prediction.counters["missing"], prediction.counters["repairs"]) == (
        UNSURE,
        1,
        1,
    )
    assert prediction.counters["dropped"] == 1
    assert [about for about, _ in notes(prediction)] == ["answer", "answer"]
    assert len(prediction.passages) == 3  # they were shown, though nothing came of it
    cut = Reply('{"reasoning": "first of all', finish="length")
    prediction = build_program(ScriptedTarget([cut, cut]), cot=True)(question=QUESTION)
    assert (prediction.answer, prediction.counters["truncated"]) == (UNSURE, 2)
