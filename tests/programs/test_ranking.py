"""RankGPT, LLatrieval, SKR-KNN and Self-Eval, through the public API, on scripted targets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ragc import metrics
from ragc.errors import SourceError, UsageError
from ragc.programs import method
from ragc.programs.llatrieval_knobs import LLatrievalKnobs
from ragc.programs.method import Method
from ragc.programs.rankgpt import permutation, windows
from ragc.programs.rankgpt_knobs import RankGptKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.shared_knobs import PassageKnobs
from ragc.programs.skr_knn import helps, label
from ragc.programs.skr_knn_knobs import SkrKnnKnobs
from ragc.programs.trace import Call, Note
from ragc.records import Hit, Passage, Question
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import ListSource, ScriptedTarget

Replies = Callable[[ChatRequest], dict[str, Any]]

RECORDS = {
    entry.id: entry
    for entry in (
        Method("rankgpt", "a", "p", "ragc.programs.rankgpt:RankGpt", RankGptKnobs, sources=("local",)),
        Method(
            "llatrieval", "a", "p", "ragc.programs.llatrieval:LLatrieval", LLatrievalKnobs, sources=("local",)
        ),
        Method("skr", "a", "p", "ragc.programs.skr_knn:SkrKnn", SkrKnnKnobs, sources=("local",)),
        Method("self_eval", "a", "p", "ragc.programs.self_eval:SelfEval", PassageKnobs, sources=("local",)),
    )
}


class Failing(ListSource):
    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        raise SourceError("the index is gone")


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
    return RECORDS[id].build(runtime, knobs)


def wants(request: ChatRequest) -> str:
    """The first output that the request asks for."""
    assert request.schema is not None
    return str(next(iter(request.schema["properties"])))


def asking(target: ScriptedTarget, field: str) -> list[str]:
    """The last message of every request that asks for `field`."""
    return [r.messages[-1].content for r in target.requests if wants(r) == field]


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
    assert any(isinstance(event, Note) and "order kept" in event.outcome for event in said.trace)


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
        ({"top_up": False}, lambda t: numbered(asking(t, "answer")[0]) == [1]),
    ],
)
def test_every_knob_of_llatrieval_changes_what_is_sent(knobs: dict[str, Any], look: Any) -> None:
    source = ListSource(passages(12, " word"))
    plain, other = (ScriptedTarget(replying(sufficient="NO", ids=[2])) for _ in range(2))
    made("llatrieval", plain, source)(question="Q?")
    made("llatrieval", other, source, **knobs)(question="Q?")
    assert look(other)
    assert not look(plain)


def test_the_verifying_call_shows_as_many_demonstrations_as_asked_for() -> None:
    demo = {"question": "D?", "documents": ["x"], "sufficient": "YES"}
    for shots in (0, 1, 2):
        target = ScriptedTarget(replying())
        program = made("llatrieval", target, ListSource(passages(2)), verify_demo=shots)
        program.verify.demos = [demo] * 3
        program(question="Q?")
        sent = next(r for r in target.requests if wants(r) == "sufficient")
        assert len(sent.messages) == 2 + 2 * shots


def test_calls_that_cannot_be_read_change_nothing() -> None:
    def reply(request: ChatRequest) -> Any:
        return {"answer": "x"} if wants(request) == "answer" else "no"

    target = ScriptedTarget(reply)
    said = made("llatrieval", target, ListSource(passages(7)))(question="Q?")
    assert (said.answer, [p.id for p in said.passages]) == ("x", ["p00", "p01", "p02", "p03", "p04"])
    assert asking(target, "new_question")
    assert said.counters["repairs"] == 7 + 1 + 1 + 1


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


# SKR-KNN


def test_skr_without_labels_always_retrieves_and_says_so() -> None:
    target = ScriptedTarget([{"answer": "x"}])
    said = made("skr", target)(question="Q?")
    assert (len(said.passages), said.counters["retrieved"], said.counters["lm_calls"]) == (3, 1, 1)
    assert any(isinstance(event, Note) and event.about == "labels" for event in said.trace)


def test_skr_goes_by_the_train_questions_that_are_alike() -> None:
    target = ScriptedTarget(replying())
    program = made("skr", target)
    program.labels = [
        *((f"capital town {i}", "worse") for i in range(6)),
        *((f"river length {i}", "better") for i in range(5)),
    ]
    assert program(question="capital of France?").counters["retrieved"] == 0
    assert numbered(asking(target, "answer")[-1]) == []
    assert program(question="river Rhine?").counters["retrieved"] == 1
    assert numbered(asking(target, "answer")[-1]) == [0, 1, 2]
    assert program(question="nothing shared?").counters["retrieved"] == 1
    assert [type(e) for e in program(question="capital?").trace] == [Note, Call]


def test_a_train_question_is_not_its_own_neighbour() -> None:
    program = made("skr", ScriptedTarget(replying()))
    program.labels = [("capital one", "worse"), *((f"river {i}", "better") for i in range(2))]
    said = program(question="capital one")
    assert said.counters["retrieved"] == 1
    assert "no train question is like" in said.trace[0].outcome


@pytest.mark.parametrize(
    ("better", "worse", "all_better", "all_worse", "rule", "expected"),
    [
        (4, 4, 47, 62, "majority", True),
        (3, 5, 47, 62, "majority", False),
        (4, 4, 47, 62, "margin", True),  # int(15 * 8 / 109) = 1
        (3, 5, 47, 62, "margin", False),
        (3, 5, 10, 90, "margin", True),  # int(80 * 8 / 100) = 6: worse must lead by 6
        (1, 7, 10, 90, "margin", False),
        (5, 3, 90, 10, "margin", False),
        (7, 1, 90, 10, "margin", True),
        (4, 4, 50, 50, "margin", False),
    ],
)
def test_the_rule_of_skr(
    better: int, worse: int, all_better: int, all_worse: int, rule: str, expected: bool
) -> None:
    assert helps(better, worse, all_better, all_worse, rule) is expected


def test_the_knobs_of_skr_change_what_is_sent() -> None:
    def retrieved(pairs: list[tuple[str, str]], **knobs: Any) -> float:
        program = made("skr", ScriptedTarget(replying()), **knobs)
        program.labels = pairs
        return float(program(question="town").counters["retrieved"])

    near = [
        *((f"town {'x ' * i}", "worse") for i in range(3)),
        *((f"town {'y ' * 9}{i}", "better") for i in range(6)),
    ]
    assert (
        retrieved(near, skr_k=5, skr_rule="majority"),
        retrieved(near, skr_k=10, skr_rule="majority"),
    ) == (0, 1)
    rare = [
        ("town a", "better"),
        ("town b", "worse"),
        ("town c", "worse"),
        *((f"z {i}", "worse") for i in range(60)),
    ]
    assert (retrieved(rare, skr_rule="majority"), retrieved(rare)) == (0, 1)


def test_labels_are_checked_kept_in_copies_and_saved(tmp_path: Any) -> None:
    program = made("skr", ScriptedTarget(replying()))
    with pytest.raises(UsageError, match="'better' or 'worse', found 'same'"):
        program.labels = [("q", "same")]
    with pytest.raises(UsageError, match="two labels"):
        program.labels = [("q", "better"), ("q", "worse")]
    program.labels = [("capital town", "worse")]
    program.save(tmp_path / "state.json")
    twin = made("skr", ScriptedTarget(replying()))
    twin.load(tmp_path / "state.json")
    for copy in (twin, program.deepcopy()):
        assert copy.labels == (("capital town", "worse"),)
        assert copy(question="capital?").counters["retrieved"] == 0


def test_label_compares_the_pair_at_once_and_leaves_ties_out() -> None:
    def reply(request: ChatRequest) -> str | dict[str, Any]:
        content = " ".join(m.content for m in request.messages)
        number, retrieved = int(re.findall(r"Q(\d)", content)[0]), "Passages:" in content
        right = {0: retrieved, 1: not retrieved, 2: True}.get(number, retrieved)
        return "unreadable" if number == 3 and not retrieved else {"answer": "yes" if right else "no"}

    target = ScriptedTarget(reply, hold=True)
    runtime = Runtime({"main": target}, {"local": ListSource(passages(3))})
    pair = (method("no_retrieval").build(runtime), method("vanilla").build(runtime))
    questions = [Question(str(i), f"Q{i}?", ("yes",)) for i in range(4)]
    found = label(pair, questions, metrics.get("em"))
    assert found == (("Q0?", "better"), ("Q1?", "worse"), ("Q3?", "better"))
    assert target.peak == 8
    program = RECORDS["skr"].build(runtime)
    program.labels = found
    assert program.labels == found


# Self-Eval


@pytest.mark.parametrize(("need", "shown"), [(True, [0, 1, 2]), (False, [])])
def test_self_eval_retrieves_when_the_model_says_so(need: bool, shown: list[int]) -> None:
    target = ScriptedTarget([{"need": need}, {"answer": "x"}], hold=True)
    said = made("self_eval", target)(question="Q?")
    assert numbered(target.requests[1].messages[-1].content) == shown
    assert said.counters["retrieved"] == said.counters["searches"] == int(need)
    assert (said.counters["lm_calls"], target.steps, target.left) == (2, 2, 0)


def test_a_gate_that_cannot_be_read_counts_as_a_need() -> None:
    target = ScriptedTarget(["hm", Reply("?"), {"answer": "x"}])
    said = made("self_eval", target)(question="Q?")
    assert (len(said.passages), said.counters["retrieved"]) == (3, 1)


@pytest.mark.parametrize("id", ["self_eval", "skr"])
def test_both_answers_of_a_gated_method_reason_when_asked_to(id: str) -> None:
    for need in (True, False):
        target = ScriptedTarget(replying(need=need, reasoning="so"))
        program = made(id, target, cot=True)
        if id == "skr" and not need:
            program.labels = [("capital", "worse")]
        program(question="capital?")
        assert wants(target.requests[-1]) == "reasoning"
        assert bool(numbered(target.requests[-1].messages[-1].content)) is need


# All of them


@pytest.mark.parametrize("id", RECORDS)
@pytest.mark.parametrize("source", [ListSource([]), Failing([])], ids=["empty", "failing"])
def test_a_search_that_finds_nothing_still_ends_in_an_answer(id: str, source: ListSource) -> None:
    said = made(id, ScriptedTarget(replying(need=True)), source)(question="Q?")
    assert (said.answer, said.passages) == ("x", ())
    assert said.counters["failed_searches"] == (isinstance(source, Failing))
