"""What the gateway makes of a request that is refused, of a target that ends its program, and of salts."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Literal

import pytest

from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.core.redact import remember
from ragc.errors import RequestRefused, TargetError, TargetStopped, TargetUnavailable
from ragc.recipe import Budget
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Message, Reply, Usage
from ragc.targets.gateway import Gateway
from ragc.task.budget import BudgetFile
from ragc.testing import ScriptedTarget

ASK = ChatRequest((Message("user", "Capital of Peru?"),))


class Raising(ScriptedTarget):
    """Raises `error`, or calls it."""

    def __init__(self, error: Any) -> None:
        super().__init__(["Lima"] * 9)
        self.error: Any = error

    async def complete(self, request: ChatRequest) -> Reply:
        self.requests.append(request)
        if isinstance(self.error, BaseException):
            raise self.error
        if self.error is not None:
            self.error()
        return Reply("Lima", usage=Usage(10, 1))


def ask(gateway: Gateway, target: ScriptedTarget) -> tuple[Any, Counters]:
    async def go() -> tuple[Any, Counters]:
        with counting(Counters()) as spent:
            (outcome,) = await asyncio.gather(gateway.complete(target, ASK), return_exceptions=True)
        return outcome, spent

    return event_loop.run(asyncio.wait_for(go(), 20))


@pytest.mark.parametrize("kind", ["filtered", "too long"])
def test_a_refusal_of_the_request_is_stored_and_raised_again(kind: Literal["filtered", "too long"]) -> None:
    target, store = Raising(RequestRefused("It answered 400.", kind, request_id="r1")), CallStore(None)
    budgets = [BudgetFile(None, Budget()), BudgetFile(None, Budget())]
    seen = [ask(Gateway(store, budget), target) for budget in budgets]
    assert len(target.requests) == 1
    for error, spent in seen:
        assert isinstance(error, RequestRefused)
        assert (str(error), error.kind, error.request_id) == ("It answered 400.", kind, "r1")
        assert (spent.lm_calls, spent.tokens) == (1, 0)
    first, again = (spent.invariant() for _, spent in seen)
    assert first == again
    assert budgets[0].spent == budgets[1].spent
    assert budgets[0].spent.tokens == 0


@pytest.mark.parametrize(
    "error",
    [
        RequestRefused("It answered 422.", "failed"),
        TargetUnavailable("It answered 503."),
        TargetStopped("It answered 401."),
    ],
)
def test_a_failure_that_may_be_mended_is_not_stored(error: Exception) -> None:
    target, gateway = Raising(error), Gateway(CallStore(None))
    outcome, spent = ask(gateway, target)
    assert outcome is error
    assert spent.lm_calls == 0
    target.error = None
    assert ask(gateway, target)[0].text == "Lima"


def test_a_key_in_a_refusal_is_not_stored() -> None:
    key = "sk-" + "abcdefgh12345678" * 2
    remember(key)
    target, store = Raising(RequestRefused(f"Not for {key}.", "filtered")), CallStore(None)
    ask(Gateway(store), target)
    error, _ = ask(Gateway(store), target)
    assert key not in str(error)
    assert str(error).startswith("Not for ")


@pytest.mark.parametrize(
    "ending", [lambda: sys.exit(3), lambda: exec("raise KeyboardInterrupt"), SystemExit("gone")]
)
@pytest.mark.timeout(60)
def test_a_target_that_ends_its_program_is_an_error(ending: Any) -> None:
    target, budget = Raising(ending), BudgetFile(None, Budget())
    gateway = Gateway(CallStore(None), budget)
    outcome, _ = ask(gateway, target)
    assert isinstance(outcome, TargetError)
    assert "scripted ended its program" in str(outcome)
    target.error = None
    assert ask(gateway, target)[0].text == "Lima", "the loop goes on"
    assert budget.spent.calls == 2, "what it did is unknown, so it is charged in full"


def test_a_target_that_stopped_with_its_fallback_stops_the_run() -> None:
    main, second = Raising(TargetStopped("401.")), Raising(TargetStopped("402."))
    second.identity = "second"
    gateway = Gateway(CallStore(None))
    gateway.fallbacks = {main: (second,)}
    error, _ = ask(gateway, main)
    assert type(error) is TargetStopped
    assert "401. 402." in str(error)


def test_a_salt_sets_the_replies_of_a_run_apart() -> None:
    target, store = Raising(None), CallStore(None)
    plain, salted, again = Gateway(store), Gateway(store), Gateway(store)
    salted.salt = again.salt = "a run"
    for gateway in (plain, salted, again, plain):
        ask(gateway, target)
    assert len(target.requests) == 2
    target.forgets = True  # type: ignore[attr-defined]
    ask(plain, target)
    ask(plain, target)
    assert len(target.requests) == 3
    ask(Gateway(store), target)
    assert len(target.requests) == 4, "another run"


def test_a_request_that_nobody_waits_for_any_more_is_not_sent() -> None:
    goes_on = asyncio.Event()

    class Slow(Raising):
        async def complete(self, request: ChatRequest) -> Reply:
            await goes_on.wait()
            return await super().complete(request)

    target, gateway = Slow(None), Gateway(CallStore(None))
    target.concurrency = 1

    async def go() -> None:
        asked = [ChatRequest((Message("user", str(number)),)) for number in range(3)]
        first, *others = [asyncio.ensure_future(gateway.complete(target, request)) for request in asked]
        await asyncio.sleep(0.01)
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        goes_on.set()
        await first
        await asyncio.wait_for(gateway.store.settle(), 5)

    event_loop.run(go())
    assert len(target.requests) == 1
