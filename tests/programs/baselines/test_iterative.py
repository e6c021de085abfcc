"""ReAct, Self-Ask, ITER-RETGEN, CoT and Vanilla over several sources, on scripted targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, Search
from ragc.records import Hit, Passage
from ragc.testing import ListSource, ScriptedTarget
from tests.support.sources import numbered_passages, numbered_source


class Echo(ListSource):
    """Finds its passages under the query as their title, so that no two rounds send the same."""

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        hits = await super().search(query, k)
        return tuple(Hit(Passage(hit.passage.id, query, hit.passage.text), hit.score) for hit in hits)


def sources(local: Any = None, web: Any = None) -> dict[str, Any]:
    return {"local": local or numbered_source("l", 9), "web": web or numbered_source("w", 9)}


def build_program(
    id: str, target: ScriptedTarget, source_map: dict[str, Any] | None = None, **knobs: Any
) -> RagProgram:
    if source_map is None:
        source_map = sources(Echo(numbered_passages("l", 9)) if id == "iter_retgen" else None)
    if id == "iter_retgen":  # its drafts are reasoned, which most of these tests are not about
        knobs = {"cot": False, **knobs}
    return method(id).build(Runtime({"main": target}, source_map), {"wording": "brief", **knobs})


def step(action: str, text: str, thought: str = "I wonder") -> dict[str, str]:
    return {"thought": thought, "action": action, "action_input": text}


def ask(text: str) -> dict[str, str]:
    return {"kind": "follow_up", "text": text}


def make_answer(text: str) -> dict[str, str]:
    return {"kind": "answer", "text": text}


def read(text: str) -> dict[str, str]:
    return {"intermediate_answer": text}


def read_prompt(target: ScriptedTarget, at: int = -1) -> str:
    return target.requests[at].messages[-1].content


def list_searches(prediction: Any) -> list[tuple[str, str, int]]:
    return [(event.source, event.query, event.k) for event in prediction.trace if isinstance(event, Search)]


def notes(prediction: Any) -> list[str]:
    return [event.about for event in prediction.trace if isinstance(event, Note)]


# How the answer is worded.

FINISH: dict[str, Callable[[str], dict[str, str]]] = {
    "react": lambda text: step("finish", text),
    "self_ask": make_answer,
}
"""A step that answers, for the programs whose steps may."""


@pytest.mark.parametrize("id", FINISH)
@pytest.mark.parametrize(
    ("answer_format", "text", "answer"),
    [
        ("short", " Ann ", "Ann"),
        ("list", "Ann, Bob", "Ann, Bob"),
        ("long", "Ann built it. Bob paid.", "Ann built it. Bob paid."),
        ("yesno", "Yes.", "yes"),
        ("yesno", "no", "no"),
        ("choice", "(b)", "B"),
    ],
)
def test_an_answer_as_asked_for_ends_the_steps(id: str, answer_format: str, text: str, answer: str) -> None:
    target = ScriptedTarget([FINISH[id](text)])
    prediction = build_program(id, target, answer_format=answer_format)(question="Is it?")
    assert (prediction.answer, prediction.counters["forced"], prediction.counters["dropped"]) == (
        answer,
        0,
        0,
    )


@pytest.mark.parametrize("id", FINISH)
@pytest.mark.parametrize(
    ("answer_format", "text", "answer"),
    [("yesno", "No house was his", "no"), ("choice", "A house of Ann's", "C"), ("yesno", "yes or no", "yes")],
)
def test_an_answer_that_is_no_option_is_asked_for_again_and_shown(
    id: str, answer_format: str, text: str, answer: str
) -> None:
    target = ScriptedTarget([FINISH[id](text), {"answer": answer}])
    prediction = build_program(id, target, answer_format=answer_format)(question="Is it?")
    assert (prediction.answer, prediction.counters["forced"], prediction.counters["dropped"]) == (
        answer,
        1,
        1,
    )
    assert text in read_prompt(target)
    assert len(notes(prediction)) == 2


# CoT


def test_cot_gives_its_whole_output_when_that_is_scored() -> None:
    target = ScriptedTarget([{"reasoning": "It is in France.", "answer": "Paris"}])
    assert (
        build_program("cot", target, {}, whole=True)(question="Capital?").answer == "It is in France.\nParis"
    )


# ITER-RETGEN

TOPICS = [
    Passage("sea", "Sea", "waves and water"),
    Passage("bird", "Bird", "wings and feathers"),
    Passage("rome", "Rome", "the capital of Italy"),
]


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_iter_retgen_searches_with_the_answer_before_and_calls_once_a_round(rounds: int) -> None:
    answers = [f"a{i}" for i in range(rounds)]
    target = ScriptedTarget([{"answer": answer} for answer in answers], hold=True)
    prediction = build_program("iter_retgen", target, rounds=rounds)(question="Capital?")
    assert prediction.answer == answers[-1]
    assert [query for _, query, _ in list_searches(prediction)] == [
        "Capital?",
        *(f"Capital? {a}" for a in answers[:-1]),
    ]
    assert (prediction.counters["lm_calls"], prediction.counters["searches"], target.steps) == (rounds,) * 3


def test_iter_retgen_discards_the_passages_of_earlier_rounds() -> None:
    class Turning(ListSource):
        async def search(self, query: str, k: int) -> tuple[Hit, ...]:
            return (Hit(self.passages["one" in query], 1.0),)

    target = ScriptedTarget([{"answer": "one"}, {"answer": "two"}])
    prediction = build_program("iter_retgen", target, sources(Turning(numbered_passages("l", 2))), rounds=2)(
        question="Capital?"
    )
    assert [p.id for p in prediction.passages] == ["l1"]
    assert "text l1" in read_prompt(target)
    assert "text l0" not in read_prompt(target)


@pytest.mark.parametrize(
    ("knobs", "k", "shown"),
    [
        ({}, 10, ["rome", "sea"]),
        ({"pool": 2}, 2, ["sea", "bird"]),
        ({"pool": 1}, 2, ["sea", "bird"]),
        ({"rerank": False}, 2, ["sea", "bird"]),
    ],
)
def test_iter_retgen_orders_a_pool_by_the_question(knobs: dict[str, Any], k: int, shown: list[str]) -> None:
    target = ScriptedTarget([{"answer": "water"}, {"answer": "Rome"}])
    program = build_program("iter_retgen", target, sources(ListSource(TOPICS)), rounds=2, top_k=2, **knobs)
    prediction = program(question="capital of Italy")
    assert list_searches(prediction)[-1] == ("local", "capital of Italy water", k)
    assert [p.id for p in prediction.passages] == shown


def test_iter_retgen_searches_without_the_marks_of_citations() -> None:
    target = ScriptedTarget([{"answer": "In Rome [1][2]. Yes [3]."}, {"answer": "Rome [1]."}])
    prediction = build_program("iter_retgen", target, rounds=2, answer_format="cited")(question="Capital?")
    assert [query for _, query, _ in list_searches(prediction)] == ["Capital?", "Capital? In Rome. Yes."]
    assert prediction.answer == "Rome [1]."


def test_iter_retgen_keeps_its_answer_when_a_later_round_cannot_be_read() -> None:
    target = ScriptedTarget([{"answer": "x"}, "{}", "{}"], capabilities=())
    prediction = build_program("iter_retgen", target)(question="Capital?")
    assert (prediction.answer, notes(prediction), target.replies_left) == ("x", ["answer", "round 2"], 0)
    assert prediction.counters["dropped"] == 1


# Self-Ask


def test_self_ask_reads_for_each_follow_up_and_stops_when_the_model_answers() -> None:
    target = ScriptedTarget([ask("Who built it?"), read("Ann built it."), make_answer("Ann")], hold=True)
    prediction = build_program("self_ask", target, top_k=2)(question="Whose house?")
    assert (prediction.answer, target.replies_left, target.steps) == ("Ann", 0, 3)
    assert list_searches(prediction) == [("local", "Who built it?", 2)]
    assert "Who built it?" in read_prompt(target, 1)
    assert "text l1" in read_prompt(target, 1)
    assert "Whose house?" not in read_prompt(target, 1)
    assert "Follow-up: Who built it?\nAnswer: Ann built it." in read_prompt(target)
    assert "text l0" not in read_prompt(target)
    assert [p.id for p in prediction.passages] == ["l0", "l1"]
    assert (prediction.counters["follow_ups"], prediction.counters["forced"]) == (1, 0)


@pytest.mark.parametrize("rounds", [1, 3])
def test_self_ask_is_bounded_and_forces_an_answer_at_the_end(rounds: int) -> None:
    replies = [reply for i in range(rounds) for reply in (ask(f"Q{i}?"), read(f"fact {i}"))]
    target = ScriptedTarget([*replies, {"answer": "x"}])
    prediction = build_program("self_ask", target, rounds=rounds)(question="Whose house?")
    assert (prediction.answer, target.replies_left, prediction.counters["lm_calls"]) == (
        "x",
        0,
        2 * rounds + 1,
    )
    assert all(f"fact {i}" in read_prompt(target) for i in range(rounds))
    assert (prediction.counters["follow_ups"], prediction.counters["forced"]) == (rounds, 1)
    assert len(prediction.passages) == 3  # the same three each time, told once


@pytest.mark.parametrize("empty", [ask("  "), make_answer("")])
def test_self_ask_drops_a_step_without_a_text_and_forces_an_answer(empty: dict[str, str]) -> None:
    target = ScriptedTarget([empty, {"answer": "x"}])
    prediction = build_program("self_ask", target)(question="Whose house?")
    assert (prediction.answer, prediction.counters["dropped"], prediction.counters["forced"]) == ("x", 1, 1)
    assert prediction.counters["searches"] == 0


def test_self_ask_leaves_out_the_oldest_steps_when_they_do_not_fit() -> None:
    replies = [ask("First?"), read("old " * 60), ask("Second?"), read("new " * 60), make_answer("x")]
    target = ScriptedTarget(replies, context_tokens=250)
    prediction = build_program("self_ask", target)(question="Whose house?")
    assert (prediction.answer, prediction.counters["follow_ups"], prediction.counters["trimmed"]) == (
        "x",
        2,
        1,
    )
    assert "Second?" in read_prompt(target)
    assert "First?" not in read_prompt(target)


# ReAct


def test_react_lets_the_model_choose_a_source_and_finish() -> None:
    replies = [step("web", "house"), step("local", "builder", "Now who built it"), step("finish", "Ann")]
    target = ScriptedTarget(replies, hold=True)
    prediction = build_program("react", target, k_local=1, k_web=2)(question="Whose house?")
    assert (prediction.answer, target.replies_left, target.steps) == ("Ann", 0, 3)
    assert list_searches(prediction) == [("web", "house", 2), ("local", "builder", 1)]
    assert (
        "[1] Thought: I wonder\nAction: web: house\nFound:\n- Title w0\ntext w0\n- Title w1"
        in read_prompt(target)
    )
    assert "[2] Thought: Now who built it\nAction: local: builder\nFound:\n- Title l0" in read_prompt(target)
    assert [p.id for p in prediction.passages] == ["w0", "w1", "l0"]
    assert [prediction.counters[name] for name in ("total_local", "total_web", "forced")] == [1, 1, 0]


def test_react_concat_shows_what_both_sources_find() -> None:
    source_map = sources(numbered_source("l", 3), numbered_source("w", 3))
    target = ScriptedTarget([step("search", "house"), step("finish", "Ann")])
    prediction = build_program("react", target, source_map, tools="concat", k_local=2, k_web=1)(
        question="Whose house?"
    )
    assert prediction.answer == "Ann"
    assert [p.id for p in prediction.passages] == ["l0", "l1", "w0"]
    assert list_searches(prediction) == [("local", "house", 2), ("web", "house", 1)]
    assert [prediction.counters[name] for name in ("total_local", "total_web", "failed_searches")] == [
        1,
        1,
        0,
    ]


@pytest.mark.parametrize("max_step", [1, 3])
def test_react_is_bounded_and_forces_an_answer_at_the_end(max_step: int) -> None:
    target = ScriptedTarget([*(step("local", f"q{i}") for i in range(max_step)), {"answer": "x"}])
    prediction = build_program("react", target, max_step=max_step)(question="Whose house?")
    assert (prediction.answer, target.replies_left, prediction.counters["lm_calls"]) == ("x", 0, max_step + 1)
    assert all(f"Action: local: q{i}" in read_prompt(target) for i in range(max_step))
    assert (prediction.counters["total_local"], prediction.counters["forced"]) == (max_step, 1)


def test_react_refuses_a_search_that_was_made_before_unless_it_may_be_repeated() -> None:
    replies = [step("local", "who"), step("local", "Who"), step("web", "who"), {"answer": "x"}]
    target = ScriptedTarget(replies)
    prediction = build_program("react", target)(question="Whose house?")
    assert [(e.source, e.query) for e in prediction.trace if isinstance(e, Search)] == [
        ("local", "who"), ("web", "who")
    ]  # fmt: skip
    assert prediction.counters["dropped"] == 1
    assert "Action: local: Who, refused because it was searched before" in read_prompt(target, 2)
    again = ScriptedTarget(replies)
    prediction = build_program("react", again, no_repeats=False)(question="Whose house?")
    assert [e.query for e in prediction.trace if isinstance(e, Search)] == ["who", "Who", "who"]
    assert (prediction.counters["dropped"], prediction.counters["total_local"]) == (0, 2)


def test_react_forces_an_answer_when_finishing_without_one() -> None:
    target = ScriptedTarget([step("local", "house"), step("finish", ""), {"answer": "x"}])
    prediction = build_program("react", target)(question="Whose house?")
    assert (prediction.answer, prediction.counters["dropped"], prediction.counters["forced"]) == ("x", 1, 1)
    assert notes(prediction) == ["finish", "answer"]


def test_react_never_uses_a_tool_that_is_not_there() -> None:
    replies: list[Any] = [step("library", "house"), step("web", "house"), step("finish", "x")]
    target = ScriptedTarget(replies, capabilities=())
    prediction = build_program("react", target)(question="Whose house?")
    assert (prediction.answer, prediction.counters["repairs"]) == ("x", 1)
    assert [source for source, _, _ in list_searches(prediction)] == ["web"]
    lost = build_program("react", ScriptedTarget(["no", "no", {"answer": "x"}], capabilities=()))(
        question="Whose house?"
    )
    assert (lost.answer, notes(lost), lost.counters["dropped"]) == ("x", ["step", "answer"], 1)


def test_react_trims_the_longest_observation_first_and_then_the_oldest_step() -> None:
    long = sources(ListSource([Passage(f"l{i}", "", "word " * 20) for i in range(4)]))
    replies = [step("local", "one"), step("web", "two"), step("finish", "x")]
    target = ScriptedTarget(replies, context_tokens=400)
    prediction = build_program("react", target, long, k_local=4, k_web=1)(question="Whose house?")
    shown_ids = [p.id for p in prediction.passages]
    assert shown_ids == [f"l{i}" for i in range(len(shown_ids) - 1)] + ["w0"]
    assert prediction.counters["trimmed"] == 5 - len(shown_ids) > 0


# Vanilla over several sources


@pytest.mark.parametrize(
    ("used", "shown"), [("local", ["l0", "l1"]), ("web", ["w0"]), ("both", ["l0", "l1", "w0"])]
)
def test_vanilla_sources_shows_the_sources_used_local_first(used: str, shown: list[str]) -> None:
    target = ScriptedTarget([{"answer": "x"}])
    prediction = build_program("vanilla_sources", target, sources_used=used, k_local=2, k_web=1)(
        question="Capital?"
    )
    assert [p.id for p in prediction.passages] == shown
    assert [line for line in read_prompt(target).splitlines() if line.startswith("text")] == [
        f"text {p}" for p in shown
    ]
    assert (prediction.counters["lm_calls"], prediction.counters["searches"]) == (
        1,
        2 if used == "both" else 1,
    )


def test_vanilla_sources_shows_a_shared_passage_once() -> None:
    shared = numbered_passages("s", 1)
    source_map = sources(
        ListSource([*shared, *numbered_passages("l", 1)]), ListSource([*shared, *numbered_passages("w", 1)])
    )
    prediction = build_program("vanilla_sources", ScriptedTarget([{"answer": "x"}]), source_map)(
        question="Capital?"
    )
    assert [p.id for p in prediction.passages] == ["s0", "l0", "w0"]
    assert prediction.counters["failed_searches"] == 0


def test_iter_retgen_searches_with_a_reasoned_draft_by_default() -> None:
    replies = [{"reasoning": f"Ann built house {i}.", "answer": "Ann"} for i in range(3)]
    target = ScriptedTarget(replies)
    program = method("iter_retgen").build(Runtime({"main": target}, sources(Echo(numbered_passages("l", 9)))))
    prediction = program(question="Whose house?")
    assert [query for _, query, _ in list_searches(prediction)] == [
        "Whose house?",
        "Whose house? Ann built house 0. Ann",
        "Whose house? Ann built house 1. Ann",
    ]
    assert prediction.answer == "Ann"


# The word that prompts write for an empty list.


@pytest.mark.parametrize("word", ["none", "None.", '"none"'])
@pytest.mark.parametrize("id", FINISH)
def test_nothing_is_no_answer(id: str, word: str) -> None:
    target = ScriptedTarget([FINISH[id](word), {"answer": "Ann"}])
    prediction = build_program(id, target)(question="Whose house?")
    assert (prediction.answer, prediction.counters["forced"], prediction.counters["dropped"]) == ("Ann", 1, 1)
    forced = build_program(id, ScriptedTarget([FINISH[id](word), {"answer": word}]))(question="Whose house?")
    assert forced.answer == ""


@pytest.mark.parametrize("id", FINISH)
def test_an_answer_that_holds_the_word_is_one(id: str) -> None:
    target = ScriptedTarget([FINISH[id]("None of the above")])
    assert build_program(id, target)(question="Which?").answer == "None of the above"
