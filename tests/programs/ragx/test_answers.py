"""The answering calls of RAG-X: what they are told, and what counts as a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.records import Passage
from ragc.signatures.answer import INVALID, UNSURE
from ragc.targets.base import Reply
from ragc.testing import ListSource, ScriptedTarget
from tests.programs.ragx.common import QUESTION, build_program, by_field, last, notes
from tests.support.requests import last_output


def test_the_query_time_is_told() -> None:
    target = ScriptedTarget(by_field())
    program = build_program(target)
    program(question=QUESTION, query_time="2024-03-01")
    assert "Query time: 2024-03-01" in last(target)
    program(question=QUESTION)
    assert "Query time: unknown" in last(target)


@pytest.mark.parametrize("wording", ["full", "brief"])
@pytest.mark.parametrize("policy", ["llm", "web", "llm_web"])
def test_the_form_of_the_query_time_is_told(policy: str, wording: str) -> None:
    target = ScriptedTarget(by_field())
    build_program(target, source_policy=policy, wording=wording)(question=QUESTION)
    system = target.requests[-1].messages[0].content
    assert "mm/dd/yyyy, hh:mm:ss PT" in system
    assert "month" in system


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


@pytest.mark.parametrize("policy", ["llm", "predefined_web"])
def test_the_model_alone_is_not_asked_for_citations(policy: str) -> None:
    target = ScriptedTarget(by_field())
    build_program(target, source_policy=policy, answer_format="cited")(question=QUESTION)
    system = target.requests[0].messages[0].content
    assert "in one paragraph" in system
    assert "[1]" not in system


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
    prediction = build_program(ScriptedTarget([cut]), cot=True)(question=QUESTION)
    assert (prediction.answer, prediction.counters["truncated"]) == (UNSURE, 1)


@pytest.mark.parametrize(
    ("knobs", "look"),
    [
        ({"top_k": 5}, lambda r: "w text 4" in r.messages[-1].content),
        ({"query_pos": "after"}, lambda r: r.messages[-1].content.endswith(f"Question: {QUESTION}")),
        ({"query_pos": "both"}, lambda r: r.messages[-1].content.count(QUESTION) == 2),
        ({"cot": True}, lambda r: r.sampling.max_tokens == 512),
        ({"max_answer_tokens": 60}, lambda r: r.sampling.max_tokens == 60),
        (
            {"noise_n": 2},
            lambda r: r.messages[-1].content.find("w text 8") > r.messages[-1].content.find("w text 2"),
        ),
        ({"noise_n": 2, "noise_pos": "random"}, lambda r: "w text 7" in r.messages[-1].content),
        ({"temperature": 0.5}, lambda r: r.sampling.temperature == 0.5),
        ({"temperature": 0.5, "top_p": 0.7}, lambda r: r.sampling.top_p == 0.7),
        ({"layout": "json"}, lambda r: "[[ ## question ## ]]" in r.messages[-1].content),
        ({"source_policy": "web"}, lambda r: "passages alone" in r.messages[0].content),
    ],
)
def test_every_shared_knob_changes_what_is_sent(knobs: dict[str, Any], look: Any) -> None:
    plain, other = ScriptedTarget(by_field()), ScriptedTarget(by_field())
    build_program(plain)(question=QUESTION)
    build_program(other, **knobs)(question=QUESTION)
    assert look(other.requests[0])
    assert not look(plain.requests[0])


def test_icl_n_bounds_the_demonstrations() -> None:
    target = ScriptedTarget(by_field())
    program = build_program(target, icl_n=1, icl_domain="any")
    demo = {"question": "Q1?", "query_time": "t", "passages": ["p"], "answer": "a"}
    program.answer.demos = [demo, {**demo, "question": "Q2?"}]
    program(question=QUESTION)
    assert [m.role for m in target.requests[0].messages] == ["system", "user", "assistant", "user"]


def test_passages_that_do_not_fit_are_trimmed_from_the_end() -> None:
    sources = {"web": ListSource([Passage(f"w{i}", "", "word " * 60) for i in range(3)])}
    prediction = build_program(ScriptedTarget(by_field(), context_tokens=310), sources)(question=QUESTION)
    assert [p.id for p in prediction.passages] == [f"w{i}" for i in range(3 - prediction.counters["trimmed"])]
    assert prediction.counters["trimmed"] > 0


def test_lists_are_bounded_in_the_schemas_and_choices_are_closed() -> None:
    target = ScriptedTarget(by_field(answer=[UNSURE, "y"], order=[[1]]))
    build_program(target, source_policy="agent", rerank=True)(question=QUESTION)
    schemas = {last_output(r): r.schema for r in target.requests if r.schema}
    assert schemas["entities"]["$defs"]["Entities"]["properties"]["items"]["maxItems"] == 6
    assert schemas["entities"]["$defs"]["Entity"]["properties"]["text"]["maxLength"] == 80
    assert schemas["order"]["properties"]["order"]["maxItems"] == 40
    assert schemas["choice"]["properties"]["choice"]["enum"] == ["web", "api", "both"]
    assert "open" in schemas["domain"]["properties"]["domain"]["enum"]
    assert all(schema["additionalProperties"] is False for schema in schemas.values())
