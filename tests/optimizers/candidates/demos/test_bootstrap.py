"""Where demonstrations come from: what scored, filled up with gold answers at no request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ragc import metrics
from ragc.core import event_loop
from ragc.metrics.base import Scorer
from ragc.optimizers.candidates.demos.bootstrap import collect
from ragc.optimizers.candidates.demos.pool import DemoPool
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.records import Passage, Question
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget

FOUND = Passage("d1", title="", text="Thing is red.")
TRAIN = tuple(
    Question(f"q{i}", f"What colour is thing {i}?", ("red",), gold_ids=("d1" if i % 4 else "d9",))
    for i in range(40)
)
ODD = Question("q40", "How large is thing 40?", ("nine feet",), gold_ids=("d1",))
LABEL = [Question(f"q{i}", f"Is thing {i} blue?", ("no",), gold_ids=("d1",)) for i in (41, 42)]


def gathered(
    reply: Callable[[ChatRequest], Any], train: Sequence[Question] = TRAIN, **knobs: Any
) -> tuple[DemoPool, ScriptedTarget]:
    target = ScriptedTarget(reply)
    runtime = Runtime({"main": target}, {"local": ListSource([FOUND])}, store=CallStore(None))
    return collected(method("vanilla").build(runtime, knobs), train), target


def collected(program: RagProgram, train: Sequence[Question], kinds: Sequence[str] = ()) -> DemoPool:
    scorer, limit = Scorer.of(metrics.get("em")), asyncio.Semaphore(4)
    return event_loop.run(
        collect(program, train, scorer, n_demos=8, filled=24, threshold=0.75, limit=limit, kinds=kinds)
    )


def number(request: ChatRequest) -> int:
    return int(request.messages[-1].content.rpartition("thing ")[2].split("?")[0])


def test_a_model_that_answers_earns_its_demonstrations_and_needs_no_others() -> None:
    pool, target = gathered(lambda request: {"answer": "red"})
    assert (len(pool.scores), pool.labelled, pool.n_answered) == (8, 0, 16)
    assert len(target.requests) == 16


def test_a_model_that_never_does_is_asked_all_and_gold_answers_fill_up_at_no_request() -> None:
    pool, target = gathered(lambda request: {"answer": "no idea"})
    assert (len(pool.scores), pool.labelled, pool.n_answered) == (0, 24, 40)
    assert len(target.requests) == 40
    assert all(demo["answer"] == "red" for demo in pool.demos["answer"])


def test_gold_answers_teach_only_where_their_passages_were_shown() -> None:
    pool, _ = gathered(lambda request: {"answer": "no idea"})
    taught = {demo["question"] for demo in pool.demos["answer"]}
    assert taught == {q.question for q in TRAIN if q.gold_ids == ("d1",)} & taught
    assert len(taught) == pool.labelled == 24


def test_an_answer_that_no_passage_contains_teaches_only_as_a_label() -> None:
    pool, _ = gathered(lambda request: {"answer": "no idea"}, [*TRAIN[:2], ODD, *LABEL])
    assert [demo["answer"] for demo in pool.demos["answer"]] == ["red", "no", "no"]


def test_one_of_two_supporting_passages_teaches_where_nothing_better_does() -> None:
    both = Question("q50", "What colour is the thing made in 1950?", ("red",), gold_ids=("d1", "d9"))
    lone = Question("q51", "What colour is it?", ("blue",), gold_ids=("d1", "d9"))
    pool, _ = gathered(lambda request: {"answer": "no idea"}, [both, lone])
    assert [demo["question"] for demo in pool.demos["answer"]] == [both.question]
    pool, _ = gathered(lambda request: {"answer": "no idea"}, [both, lone, *TRAIN])
    assert both.question not in {demo["question"] for demo in pool.demos["answer"]}


def test_without_supporting_passages_named_those_with_the_answer_teach() -> None:
    some = [Question(f"q{i}", f"Colour {i}?", (colour,)) for i, colour in enumerate(("red", "blue", "no"))]
    pool, _ = gathered(lambda request: {"answer": "no idea"}, some)
    assert [demo["answer"] for demo in pool.demos["answer"]] == ["red"]


def test_questions_that_earned_one_are_not_taught_again() -> None:
    pool, target = gathered(lambda request: {"answer": "red" if number(request) % 8 == 1 else "?"})
    assert (len(pool.scores), pool.n_answered) == (5, 40)
    assert len({demo["question"] for demo in pool.demos["answer"]}) == pool.size == 24
    assert len(target.requests) == 40


def test_as_long_as_enough_may_come_more_are_asked() -> None:
    pool, target = gathered(lambda request: {"answer": "red" if number(request) % 4 == 1 else "?"})
    assert (len(pool.scores), pool.n_answered) == (8, 32)
    assert len(target.requests) == 32


def test_a_call_that_gives_more_than_the_answer_is_not_made_up() -> None:
    pool, target = gathered(lambda request: {"reasoning": "hm", "answer": "no idea"}, cot=True)
    assert (len(pool.scores), pool.labelled) == (0, 0)
    assert len(target.requests) == 40


@pytest.mark.parametrize("size", [1, 3, 24])
def test_sets_are_drawn_from_the_whole_pool_and_repeatable(size: int) -> None:
    pool, _ = gathered(lambda request: {"answer": "no idea"})
    sets = pool.sets(4, size, seed=1)
    assert sets == pool.sets(4, size, seed=1)
    assert sets[0]["answer"] == list(pool.demos["answer"][:size])
    assert all(len({d["question"] for d in s["answer"]}) == size for s in sets)
    if 1 < size < 24:
        assert len({tuple(d["question"] for d in s["answer"]) for s in sets}) == 4


def test_every_judgement_of_a_question_that_scored_is_kept_by_what_it_decided() -> None:
    def judging(request: ChatRequest) -> dict[str, Any]:
        prompt = request.messages[-1].content
        values = {"need": {"percent": 90}, "relevant": "is red" in prompt, "support": "fully", "utility": 5}
        values["answer"] = "red" if "thing 1" in prompt else "no idea"
        return {name: values[name] for name in (request.schema or {})["properties"]}

    passages = [FOUND, Passage("d2", "", "Wall is old."), Passage("d3", "", "Wall is new.")]
    target = ScriptedTarget(judging, hold=True)
    runtime = Runtime({"main": target}, {"local": ListSource(passages)}, store=CallStore(None))
    pool = collected(method("selfrag").build(runtime), TRAIN, kinds=("balanced",))
    judged = pool.by_label["relevance"]
    scored = {q.question for q in TRAIN[: pool.n_answered] if "thing 1" in q.question}
    assert {one.values["question"] for one in judged} <= scored
    assert {(one.label, one.values["relevant"]) for one in judged} == {("true", True), ("false", False)}
    assert len(judged) > len(pool.scores) == len(pool.filled["relevance"])
    assert {one.score for one in judged} == {1.0}
    assert target.peak >= 4, "questions are answered at the same time"
