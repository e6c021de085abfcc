"""RankGPT and LLatrieval, through the public API, on scripted targets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ragc.programs import method
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note
from ragc.records import Hit, Passage
from ragc.signatures.select import irrelevant
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget

Replies = Callable[[ChatRequest], dict[str, Any]]


class Pages(ListSource):
    """Another ten documents for every query it has not seen; keeps the queries."""

    def __init__(self, n: int = 10) -> None:
        super().__init__(())
        self.n, self.pages = n, list[str]()

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        if query not in self.pages:
            self.pages.append(query)
        page = self.pages.index(query)
        ids = range(page * self.n, (page + 1) * self.n)
        return tuple(Hit(Passage(f"p{i:02}", f"Title {i}", f"text {i} end"), 1.0) for i in ids)[:k]


def passages(n: int, words: str = "") -> list[Passage]:
    return [Passage(f"p{i:02}", f"Title {i}", f"text {i} end{words}") for i in range(n)]


def build_program(id: str, target: ScriptedTarget, source: Any = None, **knobs: Any) -> Any:
    runtime = Runtime({"main": target}, {"local": ListSource(passages(30)) if source is None else source})
    return method(id).build(runtime, {"wording": "brief", **knobs})


def wants(request: ChatRequest) -> str:
    """The first output that the request asks for."""
    assert request.schema is not None
    return str(next(iter(request.schema["properties"])))


def asking(target: ScriptedTarget, field: str) -> list[str]:
    """The last message of every request that asks for `field`."""
    return [r.messages[-1].content for r in target.requests if wants(r) == field]


def read_numbers(content: str) -> list[int]:
    """Which documents stand in a prompt, in order."""
    return [int(n) for n in re.findall(r"text (\d+) end", content)]


def replying(**values: Any) -> Replies:
    """A script that gives each output its value, or what a function makes of the request."""
    script = {
        "order": [], "answer": "x",
        "summary": lambda r: f"text {read_numbers(r.messages[-1].content)[0]} end",
        "ids": [1, 2, 3, 4, 5], "sufficient": "YES", "new_question": "next?", "missing": "so", **values,
    }  # fmt: skip

    def reply(request: ChatRequest) -> dict[str, Any]:
        assert request.schema is not None
        fields = request.schema["properties"]
        return {name: script[name](request) if callable(script[name]) else script[name] for name in fields}

    return reply


# RankGPT


def test_rankgpt_carries_the_best_passage_from_the_bottom_to_the_top() -> None:
    def best(request: ChatRequest) -> list[int]:
        numbers = read_numbers(request.messages[-1].content)
        return [numbers.index(29) + 1] if 29 in numbers else []

    target = ScriptedTarget(replying(order=best), hold=True)
    prediction = build_program("rankgpt", target, rank_pool=30)(question="Q?")
    assert [p.id for p in prediction.passages] == ["p29", "p00", "p01", "p02", "p03"]
    prompt_numbers = [read_numbers(content) for content in asking(target, "order")]
    assert prompt_numbers == [list(range(10, 30)), [*range(10), 29, *range(10, 19)]]
    assert read_numbers(asking(target, "answer")[0]) == [29, 0, 1, 2, 3]
    assert (prediction.counters["lm_calls"], prediction.counters["searches"], target.steps) == (3, 1, 3)
    assert (
        prediction.counters["windows"],
        prediction.counters["ranked"],
        prediction.counters["dropped"],
    ) == (2, 30, 0)


def test_rankgpt_counts_numbers_that_are_repeated_or_not_there() -> None:
    target = ScriptedTarget([{"order": [2, 2, 7, 0]}, {"answer": "x"}])
    prediction = build_program("rankgpt", target, ListSource(passages(3)))(question="Q?")
    assert [p.id for p in prediction.passages] == ["p01", "p00", "p02"]
    assert prediction.counters["dropped"] == 3


def test_a_ranking_that_cannot_be_read_keeps_the_order() -> None:
    target = ScriptedTarget(["no", "no", {"answer": "x"}])
    prediction = build_program("rankgpt", target, ListSource(passages(3)))(question="Q?")
    assert [p.id for p in prediction.passages] == ["p00", "p01", "p02"]
    assert prediction.counters["dropped"] == 1
    assert [event.outcome for event in prediction.trace if isinstance(event, Note)][-1] == "order kept"


def test_rankgpt_shortens_a_window_to_fit_and_only_then_leaves_passages_out() -> None:
    long = ListSource(passages(10, " w" * 200))
    roomy = ScriptedTarget(replying(order=[10]), context_tokens=1100)
    prediction = build_program("rankgpt", roomy, long)(question="Q?")
    assert prediction.passages[0].id == "p09"
    assert 10 * 50 < len(asking(roomy, "order")[0].split()) < 10 * 100
    tight = ScriptedTarget(replying(order=[2]), context_tokens=350)
    prediction = build_program("rankgpt", tight, long, k_support=3)(question="Q?")
    assert prediction.counters["trimmed"] > 0
    assert (prediction.passages[0].id, prediction.counters["ranked"]) == ("p01", 10)


# LLatrieval


def test_llatrieval_in_one_round_condenses_chooses_verifies_and_answers_in_full() -> None:
    source = ListSource(passages(10, " full"))
    target = ScriptedTarget(replying(answer="It is [1][5]. So [6]."), hold=True)
    prediction = build_program("llatrieval", target, source)(question="Q?")
    assert [wants(r) for r in target.requests] == ["summary"] * 10 + ["ids", "sufficient", "answer"]
    assert (target.peak, target.steps, prediction.counters["lm_calls"]) == (10, 4, 13)
    assert "full" not in asking(target, "ids")[0]
    assert "full" in asking(target, "answer")[0]
    assert (prediction.answer, prediction.counters["dropped"]) == ("It is [1][5]. So.", 1)
    assert [p.id for p in prediction.passages] == ["p00", "p01", "p02", "p03", "p04"]
    assert (
        prediction.counters["rounds"],
        prediction.counters["documents"],
        prediction.counters["irrelevant"],
    ) == (1, 10, 0)


@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_llatrieval_stops_after_its_rounds_and_carries_the_chosen_documents_on(rounds: int) -> None:
    source, numbers = Pages(), iter(range(100))
    reply = replying(sufficient="NO", new_question=lambda r: f"Q{next(numbers)}?", ids=[1, 10])
    target = ScriptedTarget(reply)
    prediction = build_program("llatrieval", target, source, rounds=rounds, top_up=False)(question="Q?")
    assert source.pages == ["Q?", "Q0?", "Q1?", "Q2?"][:rounds]
    assert (prediction.counters["rounds"], prediction.counters["searches"]) == (rounds, rounds)
    assert prediction.counters["lm_calls"] == rounds * 10 + rounds + 2 * (rounds - 1) + 1
    chosen = asking(target, "ids")
    assert read_numbers(chosen[0]) == list(range(10))
    if rounds > 1:
        assert read_numbers(chosen[1]) == [0, 9, *range(10, 20)]


def test_llatrieval_slides_a_window_with_the_chosen_at_its_head() -> None:
    target = ScriptedTarget(replying(ids=lambda r: [len(read_numbers(r.messages[-1].content)), 1, 2]))
    prediction = build_program("llatrieval", target, rounds=1, top_up=False)(question="Q?")
    prompt_numbers = [read_numbers(content) for content in asking(target, "ids")]
    assert prompt_numbers == [list(range(20)), [19, 0, 1, *range(20, 30)]]
    assert [p.id for p in prediction.passages] == ["p29", "p19", "p00"]


def test_llatrieval_drops_and_counts_numbers_that_are_not_there() -> None:
    target = ScriptedTarget(replying(ids=[2, 2, 0, 99], answer="a"))
    prediction = build_program("llatrieval", target, ListSource(passages(4)), rounds=1, top_up=False)(
        question="Q?"
    )
    assert [p.id for p in prediction.passages] == ["p01"]
    assert prediction.counters["dropped"] == 2  # the number that came twice is there
    target = ScriptedTarget(replying(ids=[6, 5, 4, 3, 2, 1]))
    prediction = build_program("llatrieval", target, ListSource(passages(6)), rounds=1)(question="Q?")
    assert [p.id for p in prediction.passages] == ["p05", "p04", "p03", "p02", "p01"]
    assert prediction.counters["dropped"] == 0  # all are there, the sixth is one too many


def test_llatrieval_leaves_irrelevant_documents_out() -> None:
    def about(request: ChatRequest) -> str:
        number = read_numbers(request.messages[-1].content)[0]
        return f"text {number} end" if number % 2 else "Irrelevant."

    target = ScriptedTarget(replying(summary=about))
    prediction = build_program("llatrieval", target, ListSource(passages(6)), rounds=1)(question="Q?")
    assert read_numbers(asking(target, "ids")[0]) == [1, 3, 5]
    assert prediction.counters["irrelevant"] == 3
    nothing = ScriptedTarget(replying(summary="irrelevant", sufficient="NO"))
    prediction = build_program("llatrieval", nothing, ListSource(passages(6)))(question="Q?")
    assert (prediction.passages, asking(nothing, "ids"), asking(nothing, "sufficient")) == ((), [], [])
    assert prediction.counters["irrelevant"] == 6


def test_llatrieval_ends_when_a_round_finds_nothing_new() -> None:
    target = ScriptedTarget(replying(sufficient="NO"))
    prediction = build_program("llatrieval", target, ListSource(passages(6)))(question="Q?")
    assert (prediction.counters["rounds"], prediction.counters["searches"]) == (1, 2)
    assert any(
        isinstance(event, Note) and event.outcome == "nothing new was found" for event in prediction.trace
    )


@pytest.mark.parametrize("shots", [0, 1, 2])
def test_the_verifying_call_is_shown_questions_with_answers_and_no_documents(shots: int) -> None:
    for most in (0, 1, 16):
        target = ScriptedTarget(replying())
        program = build_program("llatrieval", target, ListSource(passages(2)), icl_n=most, verify_demo=shots)
        program.answer.demos = [
            {"question": f"D{i}?", "passages": ["old"], "answer": f"y{i}"} for i in range(3)
        ]
        program(question="Q?")
        (sent,) = (r for r in target.requests if wants(r) == "sufficient")
        assert len(sent.messages) == 2
        assert [f"D{i}?\ny{i}" in sent.messages[1].content for i in range(3)] == [
            i < min(shots, most) for i in range(3)
        ]
        assert "old" not in sent.messages[1].content


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("irrelevant", True),
        ("[Irrelevant].", True),
        ("Irrelevant. It is about ships.", True),
        ("The document is irrelevant to the question.", True),
        ("Irrelevant evidence was left out in 1960", False),
        ("It was held irrelevant", False),
        ("Not relevant.", True),
        ("This passage is not relevant to the question", True),
        ("No relevant information is given.", True),
        ("N/A", True),
        ("None.", True),
        ("nothing", True),
        ("None of the members survived", False),
        ("Nothing but the tower was left in 1960", False),
        ("", False),
    ],
)
def test_a_summary_that_says_irrelevant_is_told_from_one_that_speaks_of_it(
    summary: str, expected: bool
) -> None:
    assert irrelevant(summary) is expected


def test_llatrieval_fits_what_it_sends_and_lets_the_rest_wait_for_the_next_window() -> None:
    source = ListSource(passages(8, " w" * 30))
    knobs: dict[str, Any] = {"doc_condense": False, "rounds": 1, "top_up": False, "answer_format": "short"}
    target = ScriptedTarget(replying(ids=[1, 2]), context_tokens=320)
    build_program("llatrieval", target, source, **knobs)(question="Q?")
    prompt_numbers = [read_numbers(content) for content in asking(target, "ids")]
    assert len(prompt_numbers) > 1
    assert {n for window in prompt_numbers for n in window} == set(range(8))
    assert all(len(" ".join(m.content for m in r.messages).split()) < 320 for r in target.requests)
    assert [window[:2] for window in prompt_numbers] == [[0, 1]] * len(prompt_numbers)
