"""A reply that cannot be read costs what was spent on it, wherever costs are counted or compared."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from ragc import metrics
from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.errors import ParseFailure
from ragc.metrics import Metric
from ragc.metrics.base import Objective, Scorer
from ragc.optimizers.search.racing import dominated
from ragc.programs import method, trace
from ragc.programs.runtime import Runtime
from ragc.recipe import Budget
from ragc.records import Question
from ragc.targets.base import ChatRequest
from ragc.task.answering import NOTHING, answer, evaluate, means
from ragc.task.budget import BudgetFile
from ragc.testing import ScriptedTarget

COSTS = ("tokens", "lm_calls", "usd", "latency", "searches", "tokens@main", "lm_calls@main", "tokens@proxy")
ASKED = Question("q", "What?", ("x",))


def row_of(target: ScriptedTarget, name: str = "no_retrieval") -> Any:
    program = method(name).build(Runtime({"main": target}), {})
    return event_loop.run(answer(program, ASKED, Scorer(tuple(map(metrics.get, COSTS)))))


def test_every_cost_of_a_failed_question_is_what_was_spent() -> None:
    target = ScriptedTarget(["{} {}", "{} {} {}"], capabilities=())
    row = row_of(target)
    spent = sum(target.count_tokens(m.content) for request in target.requests for m in request.messages) + 5
    assert row.failure
    assert row.scores["tokens"] == row.scores["tokens@main"] == spent
    assert row.scores["lm_calls"] == row.scores["lm_calls@main"] == 2
    assert row.scores["searches"] == row.scores["tokens@proxy"] == row.scores["usd"] == 0
    assert row.scores["latency"] > 0
    assert row.total_cost.tokens == spent
    (event,) = row.to_json()["trace"]
    assert (event["calls"], event["prompt_tokens"] + event["completion_tokens"]) == (2, spent)
    assert event["outcome"].startswith("unreadable: ")


def test_means_of_costs_have_the_failed_questions_in_them() -> None:
    good, bad = ({"answer": "x"}, "{}")
    target = ScriptedTarget(lambda request: bad if "Which" in request.messages[1].content else good)
    program = method("no_retrieval").build(Runtime({"main": target}), {})
    questions = (Question("a", "What?", ("x",)), Question("b", "Which?", ("x",)))
    tokens = metrics.get("tokens")
    rows = event_loop.run(evaluate(program, questions, Scorer.of(tokens), limit=asyncio.Semaphore(2)))
    assert [bool(row.failure) for row in rows] == [False, True]
    assert means(rows, [tokens])["tokens"] == sum(row.total_cost.tokens for row in rows) / 2
    assert rows[1].total_cost.tokens > rows[0].total_cost.tokens


@pytest.mark.parametrize("seed", range(4))
def test_what_a_failed_question_costs_does_not_hang_on_who_was_faster(seed: int) -> None:
    """Branches that run beside one whose reply cannot be read end first, and are paid for."""
    waits = random.Random(seed)
    delays = [waits.random() / 50 for _ in range(4)]
    cost = Counters()

    async def branch(number: int) -> int:
        await asyncio.sleep(delays[number])
        from ragc.core import counters

        counters.count(lm_calls=1)
        if number in (1, 3):
            raise ParseFailure(f"branch {number}")
        await asyncio.sleep(delays[number])
        counters.count(lm_calls=1)
        return number

    async def go() -> None:
        with counting(cost), trace.recording():
            await trace.together(*(branch(number) for number in range(4)))

    with pytest.raises(ParseFailure, match="branch 1"):
        asyncio.run(go())
    assert cost.lm_calls == 6


@pytest.mark.parametrize("closed", [False, True])
def test_a_budget_counts_a_request_whose_caller_is_gone(closed: bool, tmp_path: Path) -> None:
    budget = BudgetFile(tmp_path / "charges.sqlite3", Budget())
    budget.charge_cached("another", 5, 0.0)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedTarget):
        async def complete(self, request: ChatRequest) -> Any:
            begun.set()
            await goes_on.wait()
            return await super().complete(request)

    runtime = Runtime({"main": Slow([{"answer": "x"}])}, budget=budget)
    program = method("no_retrieval").build(runtime, {})

    async def go() -> None:
        asking = asyncio.ensure_future(answer(program, ASKED, NOTHING))
        await begun.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert budget.spent.calls == 1  # it is reserved, and not charged yet
        if closed:
            budget.close()
        goes_on.set()
        await runtime.gateway.store.settle()
        assert (await answer(program, ASKED, NOTHING)).counters["replayed"] == 1

    event_loop.run(go())
    assert budget.spent.calls == 2
    assert budget.spent.tokens > 5
    budget.close()
    again = BudgetFile(tmp_path / "charges.sqlite3", Budget())
    assert again.spent.calls == 2
    # What the request cost is not known to a closed budget: it stays charged at what it reserved.
    assert (again.spent.tokens > budget.spent.tokens) is closed


@pytest.mark.parametrize("id", ["tokens", "usd", "latency", "lm_calls@proxy", "crag_halluc"])
def test_a_cost_that_was_not_measured_is_never_a_good_one(id: str) -> None:
    objective = Objective(metrics.get(id), -1)
    unmeasured = objective.of({id: None})
    for measured in (0.0, 1.0) if id == "crag_halluc" else (0.0, 1.0, 1e6):
        assert unmeasured <= objective.of({id: measured})
    # A program with equal scores elsewhere is beaten for it, so that it does not stay on a front.
    assert dominated((0.5, unmeasured), (0.5, objective.of({id: 0.0})))


def test_a_metric_that_does_not_apply_still_counts_0_where_more_is_better() -> None:
    gold: Metric = metrics.get("recall@5")
    assert Objective(gold, 1).of({"recall@5": None}) == 0
