"""RankGPT and LLatrieval, through the public API, on scripted targets."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.programs import method
from ragc.programs.baselines.rankgpt import first_words, permutation, shorter, windows
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note
from ragc.records import Hit, Passage
from ragc.signatures.select import irrelevant
from ragc.targets.base import ChatRequest
from ragc.testing import FailingSource, ListSource, ScriptedTarget

Replies = Callable[[ChatRequest], dict[str, Any]]


class Pages(ListSource):
    """Another ten documents for every query it has not seen; keeps the queries."""

    def __init__(self, n: int = 10) -> None:
        super().__init__(())
        self.n, self.queries = n, list[str]()

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        if query not in self.queries:
            self.queries.append(query)
        page = self.queries.index(query)
        ids = range(page * self.n, (page + 1) * self.n)
        return tuple(Hit(Passage(f"p{i:02}", f"Title {i}", f"text {i} end"), 1.0) for i in ids)[:k]


def passages(n: int, words: str = "") -> list[Passage]:
    return [Passage(f"p{i:02}", f"Title {i}", f"text {i} end{words}") for i in range(n)]


def made(id: str, target: ScriptedTarget, source: Any = None, **knobs: Any) -> Any:
    runtime = Runtime({"main": target}, {"local": ListSource(passages(30)) if source is None else source})
    return method(id).build(runtime, knobs)


def wants(request: ChatRequest) -> str:
    """The first output that the request asks for."""
    assert request.schema is not None
    return str(next(iter(request.schema["properties"])))


def asking(target: ScriptedTarget, field: str) -> list[str]:
    """The last message of every request that asks for `field`."""
    return [r.messages[-1].content for r in target.requests if wants(r) == field]


def system(target: ScriptedTarget) -> str:
    """The instructions of the first request."""
    return target.requests[0].messages[0].content


def contents(target: ScriptedTarget) -> list[str]:
    """The last message of every request."""
    return [request.messages[-1].content for request in target.requests]


def numbered(content: str) -> list[int]:
    """Which documents stand in a prompt, in order."""
    return [int(n) for n in re.findall(r"text (\d+) end", content)]


def replying(**values: Any) -> Replies:
    """A script that gives each output its value, or what a function makes of the request."""
    known = {
        "order": [], "answer": "x", "summary": lambda r: f"text {numbered(r.messages[-1].content)[0]} end",
        "ids": [1, 2, 3, 4, 5], "sufficient": "YES", "new_question": "next?", "missing": "so", **values,
    }  # fmt: skip

    def reply(request: ChatRequest) -> dict[str, Any]:
        assert request.schema is not None
        asked = request.schema["properties"]
        return {name: known[name](request) if callable(known[name]) else known[name] for name in asked}

    return reply


# RankGPT


@pytest.mark.parametrize(
    ("total", "calls"), [(0, 0), (1, 0), (2, 1), (20, 1), (21, 2), (30, 2), (31, 3), (95, 9), (100, 9)]
)
def test_windows_cover_the_pool_from_the_bottom_to_the_top(total: int, calls: int) -> None:
    spans = list(windows(total, 20, 10))
    assert len(spans) == calls
    assert {i for start, end in spans for i in range(start, end)} == set(range(total if total > 1 else 0))
    assert [start for start, _ in spans] == sorted((start for start, _ in spans), reverse=True)


def test_words_are_cut_with_what_stands_between_them() -> None:
    assert first_words("Title\n one  two three", 3) == "Title\n one  two"
    assert first_words("one two", 5) == "one two"
    assert first_words(" ", 5) == ""


def test_texts_get_half_as_many_words_then_fewer_of_them() -> None:
    assert [len(text.split()) for text in shorter(["w " * 200, "w " * 70])] == [100, 70]
    assert [len(text.split()) for text in shorter(["w " * 30, "w " * 25])] == [20, 20]
    assert shorter(["a b", "c"]) == ["a b"]


@given(st.integers(0, 60), st.integers(2, 25), st.data())
def test_windows_cover_everything_and_overlap(total: int, size: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, size - 1))
    spans = list(windows(total, size, step))
    if total < 2:
        assert spans == []
        return
    assert (spans[0][1], spans[-1][0]) == (total, 0)
    assert all(0 < end - start <= size for start, end in spans)
    assert all(end - later_end == step for (_, end), (_, later_end) in pairwise(spans))
    assert len(spans) == 1 + max(0, -(-(total - size) // step))


@given(st.lists(st.integers(-3, 9)), st.integers(0, 6))
def test_a_permutation_loses_and_repeats_nothing(numbers: list[int], n: int) -> None:
    order = permutation(numbers, n)
    assert sorted(order) == list(range(1, n + 1))
    named = [number for number in dict.fromkeys(numbers) if 1 <= number <= n]
    assert order[: len(named)] == named
    assert order[len(named) :] == sorted(order[len(named) :])


def test_a_permutation_drops_what_is_not_there_and_appends_what_is_missing() -> None:
    assert permutation([3, 3, 9, 0, -1, 1], 4) == [3, 1, 2, 4]


def test_rankgpt_carries_the_best_passage_from_the_bottom_to_the_top() -> None:
    def best(request: ChatRequest) -> list[int]:
        found = numbered(request.messages[-1].content)
        return [found.index(29) + 1] if 29 in found else []

    target = ScriptedTarget(replying(order=best), hold=True)
    said = made("rankgpt", target, rank_pool=30)(question="Q?")
    assert [p.id for p in said.passages] == ["p29", "p00", "p01", "p02", "p03"]
    asked = [numbered(content) for content in asking(target, "order")]
    assert asked == [list(range(10, 30)), [*range(10), 29, *range(10, 19)]]
    assert numbered(asking(target, "answer")[0]) == [29, 0, 1, 2, 3]
    assert (said.counters["lm_calls"], said.counters["searches"], target.steps) == (3, 1, 3)
    assert (said.counters["windows"], said.counters["ranked"], said.counters["dropped"]) == (2, 30, 0)


def test_rankgpt_counts_numbers_that_are_repeated_or_not_there() -> None:
    target = ScriptedTarget([{"order": [2, 2, 7, 0]}, {"answer": "x"}])
    said = made("rankgpt", target, ListSource(passages(3)))(question="Q?")
    assert [p.id for p in said.passages] == ["p01", "p00", "p02"]
    assert said.counters["dropped"] == 3


def test_a_ranking_that_cannot_be_read_keeps_the_order() -> None:
    target = ScriptedTarget(["no", "no", {"answer": "x"}])
    said = made("rankgpt", target, ListSource(passages(3)))(question="Q?")
    assert [p.id for p in said.passages] == ["p00", "p01", "p02"]
    assert said.counters["dropped"] == 1
    assert [event.outcome for event in said.trace if isinstance(event, Note)][-1] == "order kept"


@pytest.mark.parametrize(
    ("knobs", "look"),
    [
        ({"rank_pool": 20}, lambda t: len(asking(t, "order")) == 1),
        ({"window": 10}, lambda t: [len(numbered(c)) for c in asking(t, "order")] == [10, 10, 10]),
        ({"step": 5}, lambda t: len(asking(t, "order")) == 3),
        ({"words": 20}, lambda t: "word" not in "".join(asking(t, "order"))),
        ({"k_support": 3}, lambda t: numbered(asking(t, "answer")[0]) == [0, 1, 2]),
        ({"query_pos": "after"}, lambda t: asking(t, "answer")[0].endswith("Question: Q?")),
    ],
)
def test_every_knob_of_rankgpt_changes_what_is_sent(knobs: dict[str, Any], look: Any) -> None:
    source = ListSource(passages(30, " and" * 20 + " word"))
    plain, other = ScriptedTarget(replying()), ScriptedTarget(replying())
    made("rankgpt", plain, source)(question="Q?")
    made("rankgpt", other, source, **knobs)(question="Q?")
    assert look(other)
    assert not look(plain)


def test_rankgpt_with_reasoning_asks_for_it() -> None:
    target = ScriptedTarget(replying(reasoning="so"))
    made("rankgpt", target, ListSource(passages(1)), cot=True)(question="Q?")
    assert [wants(request) for request in target.requests] == ["reasoning"]


def test_rankgpt_shortens_a_window_to_fit_and_only_then_leaves_passages_out() -> None:
    long = ListSource(passages(10, " w" * 200))
    roomy = ScriptedTarget(replying(order=[10]), context_tokens=1100)
    said = made("rankgpt", roomy, long)(question="Q?")
    assert said.passages[0].id == "p09"
    assert 10 * 50 < len(asking(roomy, "order")[0].split()) < 10 * 100
    tight = ScriptedTarget(replying(order=[2]), context_tokens=350)
    said = made("rankgpt", tight, long, k_support=3)(question="Q?")
    assert said.counters["trimmed"] > 0
    assert [event.outcome for event in said.trace if isinstance(event, Note)] == [
        f"{len(numbered(asking(tight, 'order')[0]))} of 10 passages fit, with at most 20 words"
    ]
    assert (said.passages[0].id, said.counters["ranked"]) == ("p01", 10)
    none = ScriptedTarget(replying(), context_tokens=150)
    assert made("rankgpt", none, long)(question="Q?").answer == "x"
    assert asking(none, "order") == []


# LLatrieval


def test_llatrieval_in_one_round_condenses_chooses_verifies_and_answers_in_full() -> None:
    source = ListSource(passages(10, " full"))
    target = ScriptedTarget(replying(answer="It is [1][5]. So [6]."), hold=True)
    said = made("llatrieval", target, source)(question="Q?")
    assert [wants(r) for r in target.requests] == ["summary"] * 10 + ["ids", "sufficient", "answer"]
    assert (target.peak, target.steps, said.counters["lm_calls"]) == (10, 4, 13)
    assert "full" not in asking(target, "ids")[0]
    assert "full" in asking(target, "answer")[0]
    assert (said.answer, said.counters["dropped"]) == ("It is [1][5]. So.", 1)
    assert [p.id for p in said.passages] == ["p00", "p01", "p02", "p03", "p04"]
    assert (said.counters["rounds"], said.counters["documents"], said.counters["irrelevant"]) == (1, 10, 0)


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_llatrieval_stops_after_its_rounds_and_carries_the_chosen_documents_on(rounds: int) -> None:
    source, numbers = Pages(), iter(range(100))
    reply = replying(sufficient="NO", new_question=lambda r: f"Q{next(numbers)}?", ids=[1, 10])
    target = ScriptedTarget(reply)
    said = made("llatrieval", target, source, rounds=rounds, top_up=False)(question="Q?")
    assert source.queries == ["Q?", "Q0?", "Q1?", "Q2?"][:rounds]
    assert (said.counters["rounds"], said.counters["searches"]) == (rounds, rounds)
    assert said.counters["lm_calls"] == rounds * 10 + rounds + 2 * (rounds - 1) + 1
    chosen = asking(target, "ids")
    assert numbered(chosen[0]) == list(range(10))
    if rounds > 1:
        assert numbered(chosen[1]) == [0, 9, *range(10, 20)]


def test_llatrieval_slides_a_window_with_the_chosen_at_its_head() -> None:
    target = ScriptedTarget(replying(ids=lambda r: [len(numbered(r.messages[-1].content)), 1, 2]))
    said = made("llatrieval", target, rounds=1, top_up=False)(question="Q?")
    asked = [numbered(content) for content in asking(target, "ids")]
    assert asked == [list(range(20)), [19, 0, 1, *range(20, 30)]]
    assert [p.id for p in said.passages] == ["p29", "p19", "p00"]


def test_llatrieval_drops_and_counts_numbers_that_are_not_there() -> None:
    target = ScriptedTarget(replying(ids=[2, 2, 0, 99], answer="a"))
    said = made("llatrieval", target, ListSource(passages(4)), rounds=1, top_up=False)(question="Q?")
    assert [p.id for p in said.passages] == ["p01"]
    assert said.counters["dropped"] == 2  # the number that came twice is there
    target = ScriptedTarget(replying(ids=[6, 5, 4, 3, 2, 1]))
    said = made("llatrieval", target, ListSource(passages(6)), rounds=1)(question="Q?")
    assert [p.id for p in said.passages] == ["p05", "p04", "p03", "p02", "p01"]
    assert said.counters["dropped"] == 0  # all are there, the sixth is one too many


def test_llatrieval_leaves_irrelevant_documents_out() -> None:
    def about(request: ChatRequest) -> str:
        number = numbered(request.messages[-1].content)[0]
        return f"text {number} end" if number % 2 else "Irrelevant."

    target = ScriptedTarget(replying(summary=about))
    said = made("llatrieval", target, ListSource(passages(6)), rounds=1)(question="Q?")
    assert numbered(asking(target, "ids")[0]) == [1, 3, 5]
    assert said.counters["irrelevant"] == 3
    nothing = ScriptedTarget(replying(summary="irrelevant", sufficient="NO"))
    said = made("llatrieval", nothing, ListSource(passages(6)))(question="Q?")
    assert (said.passages, asking(nothing, "ids"), asking(nothing, "sufficient")) == ((), [], [])
    assert said.counters["irrelevant"] == 6


def test_llatrieval_ends_when_a_round_finds_nothing_new() -> None:
    target = ScriptedTarget(replying(sufficient="NO"))
    said = made("llatrieval", target, ListSource(passages(6)))(question="Q?")
    assert (said.counters["rounds"], said.counters["searches"]) == (1, 2)
    assert any(isinstance(event, Note) and event.outcome == "nothing new was found" for event in said.trace)


@pytest.mark.parametrize(
    ("knobs", "look"),
    [
        ({"candidates": 5}, lambda t: len(numbered(asking(t, "ids")[0])) == 5),
        ({"rounds": 1}, lambda t: not asking(t, "sufficient")),
        ({"window": 10}, lambda t: len(numbered(asking(t, "ids")[0])) == 10),
        ({"k_support": 4}, lambda t: "K: 4" in asking(t, "ids")[0]),
        ({"doc_condense": False}, lambda t: not asking(t, "summary") and "word" in asking(t, "ids")[0]),
        ({"verify": False}, lambda t: not asking(t, "sufficient") and asking(t, "new_question")),
        ({"update": "passage"}, lambda t: asking(t, "missing") and not asking(t, "new_question")),
        ({"condense_to": "answer"}, lambda t: "Answer the question from the document alone" in system(t)),
        ({"top_up": False}, lambda t: numbered(asking(t, "answer")[0]) == [1]),
        ({"asqa_sub_questions": True}, lambda t: all("Which one?" in c for c in contents(t))),
    ],
)
def test_every_knob_of_llatrieval_changes_what_is_sent(knobs: dict[str, Any], look: Any) -> None:
    source = ListSource(passages(12, " word"))
    plain, other = (ScriptedTarget(replying(sufficient="NO", ids=[2])) for _ in range(2))
    made("llatrieval", plain, source)(question="Q?", sub_questions=["Which one?"])
    made("llatrieval", other, source, **knobs)(question="Q?", sub_questions=["Which one?"])
    assert look(other)
    assert not look(plain)


@pytest.mark.parametrize(
    ("knob", "call", "field"),
    [("verify_demo", "verify", "sufficient"), ("shots_answer", "answer", "answer")],
)
@pytest.mark.parametrize("shots", [0, 1, 2])
def test_a_call_shows_as_many_demonstrations_as_asked_for(
    knob: str, call: str, field: str, shots: int
) -> None:
    demo = {"question": "D?", "documents": ["x"], "passages": ["x"], "sufficient": "YES", "answer": "y"}
    for most in (0, 1, 16):
        target = ScriptedTarget(replying())
        program = made("llatrieval", target, ListSource(passages(2)), icl_n=most, **{knob: shots})
        getattr(program, call).demos = [demo] * 3
        program(question="Q?")
        sent = next(r for r in target.requests if wants(r) == field)
        assert len(sent.messages) == 2 + 2 * min(shots, most)


def test_sub_questions_are_searched_with_the_question_and_counted_in_the_trace() -> None:
    source = Pages()
    program = made("llatrieval", ScriptedTarget(replying()), source, asqa_sub_questions=True)
    said = program(question="Q?", sub_questions=["Which one?", "When?"])
    assert source.queries == ["Q? Which one? When?"]
    assert said.trace[0].to_json()["outcome"] == "2 came with the question"
    said = program(question="Q?")
    assert source.queries[1:] == ["Q?"]
    assert said.trace[0].to_json()["outcome"] == "0 came with the question"


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("irrelevant", True),
        ("[Irrelevant].", True),
        ("Irrelevant. It is about ships.", True),
        ("The document is irrelevant to the question.", True),
        ("Irrelevant evidence was left out in 1960", False),
        ("It was held irrelevant", False),
        ("", False),
    ],
)
def test_a_summary_that_says_irrelevant_is_told_from_one_that_speaks_of_it(
    summary: str, expected: bool
) -> None:
    assert irrelevant(summary) is expected


def test_a_round_with_nothing_that_matters_is_the_last_once_documents_are_chosen() -> None:
    def about(request: ChatRequest) -> str:
        number = numbered(request.messages[-1].content)[0]
        return f"text {number} end" if number < 10 else "irrelevant"

    target, source = ScriptedTarget(replying(summary=about, sufficient="NO")), Pages()
    said = made("llatrieval", target, source)(question="Q?")
    assert source.queries == ["Q?", "next?"]
    assert [len(asking(target, field)) for field in ("ids", "sufficient", "new_question")] == [1, 1, 1]
    assert [p.id for p in said.passages] == ["p00", "p01", "p02", "p03", "p04"]
    assert (said.counters["rounds"], said.counters["irrelevant"]) == (2, 10)


def test_calls_that_cannot_be_read_change_nothing() -> None:
    def reply(request: ChatRequest) -> Any:
        return {"answer": "x"} if wants(request) == "answer" else "no"

    target = ScriptedTarget(reply)
    said = made("llatrieval", target, ListSource(passages(7)))(question="Q?")
    assert (said.answer, [p.id for p in said.passages]) == ("x", ["p00", "p01", "p02", "p03", "p04"])
    assert asking(target, "new_question")
    assert said.counters["repairs"] == said.counters["dropped"] == 7 + 1 + 1 + 1
    assert said.counters["searches"] == 1
    assert any(event.to_json().get("outcome") == "nothing further was asked" for event in said.trace)


def test_llatrieval_fits_what_it_sends_and_lets_the_rest_wait_for_the_next_window() -> None:
    source = ListSource(passages(8, " w" * 30))
    knobs: dict[str, Any] = {"doc_condense": False, "rounds": 1, "top_up": False, "answer_format": "short"}
    target = ScriptedTarget(replying(ids=[1, 2]), context_tokens=320)
    said = made("llatrieval", target, source, **knobs)(question="Q?")
    asked = [numbered(content) for content in asking(target, "ids")]
    assert len(asked) > 1
    assert {n for window in asked for n in window} == set(range(8))
    assert all(len(" ".join(m.content for m in r.messages).split()) < 320 for r in target.requests)
    assert [window[:2] for window in asked] == [[0, 1]] * len(asked)
    none = ScriptedTarget(replying(), context_tokens=160)
    said = made("llatrieval", none, source, **knobs)(question="Q?")
    assert (said.answer, asking(none, "ids"), said.counters["trimmed"]) == ("x", [], 8)
    huge = ScriptedTarget(replying(), context_tokens=400)
    made("llatrieval", huge, ListSource(passages(1, " w" * 900)), rounds=1, answer_format="short")(
        question="Q?"
    )
    assert 1 < len(asking(huge, "summary")[0].split()) < 400


# All of them


@pytest.mark.parametrize("id", ["rankgpt", "llatrieval"])
@pytest.mark.parametrize("source", [ListSource([]), FailingSource()], ids=["empty", "failing"])
def test_a_search_that_finds_nothing_still_ends_in_an_answer(id: str, source: ListSource) -> None:
    said = made(id, ScriptedTarget(replying()), source)(question="Q?")
    assert (said.answer, said.passages) == ("x", ())
    assert said.counters["failed_searches"] == (isinstance(source, FailingSource))
