"""The ledger: what fits, what waits, and what failed, killed and replayed requests are charged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.errors import BudgetExhausted, TargetError, TargetUnavailable, UsageError
from ragc.recipe import Budget
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Usage
from ragc.targets.charges import Need
from ragc.targets.gateway import Gateway
from ragc.targets.token_price import Price, prompt_bound, reply_bound
from ragc.targets.retry import Again, with_tries
from ragc.targets.vllm_options import VllmOptions
from ragc.task.budget import FileLedger, Spare
from ragc.testing import ScriptedTarget

PRICE = Price(2.0, 1.0, 10.0)
MILLION = 1_000_000


class Priced(ScriptedTarget):
    """A scripted target whose tokens cost something."""

    price = PRICE


def request(number: int = 0) -> ChatRequest:
    return ChatRequest(
        (Message("user", f"Capital of country {number:04}?"),), sampling=Sampling(max_tokens=100)
    )


def most(of: ChatRequest) -> tuple[int, float]:
    """Tokens and dollars that one try reserves."""
    prompt, reply = prompt_bound(of), reply_bound(Priced([]), of)
    return prompt + reply, PRICE.most(prompt, reply)


def ask(ledger: FileLedger, target: ScriptedTarget, numbers: range = range(1), **gateway: Any) -> list[Any]:
    """What becomes of the requests with these numbers, all in flight at once."""
    asked_of = Gateway(gateway.get("store") or CallStore(None), ledger)

    async def go() -> list[Any]:
        work = [asked_of.complete(target, request(number)) for number in numbers]
        return await asyncio.gather(*work, return_exceptions=True)

    return event_loop.run(go())


def reply(_: ChatRequest) -> Reply:
    return Reply("Lima", usage=Usage(10, 2, 4))


COST = PRICE.usd(Usage(10, 2, 4))


def test_dollars_are_those_of_the_typed_price_with_the_cached_part_apart() -> None:
    assert pytest.approx((6 * 2.0 + 4 * 1.0 + 2 * 10.0) / MILLION) == COST
    ledger = FileLedger(None, Budget())
    (answer,) = ask(ledger, Priced(reply))
    assert (answer.usd, ledger.usd, ledger.tokens, ledger.calls) == (COST, COST, 12, 1)


@pytest.mark.parametrize("flying", [1, 64])
@pytest.mark.parametrize("what", ["usd", "tokens"])
def test_a_first_wave_does_not_pass_and_nothing_that_fits_is_refused(what: str, flying: int) -> None:
    tokens, usd = most(request())
    limit = {"usd": Budget(usd=usd + 6.5 * COST), "tokens": Budget(tokens=tokens + 6 * 12)}[what]
    ledger, target = FileLedger(None, limit), Priced(reply, concurrency=flying)
    answers = ask(ledger, target, range(64))
    assert len(target.requests) == 7
    assert sum(isinstance(answer, BudgetExhausted) for answer in answers) == 57
    assert ledger.usd == pytest.approx(7 * COST)


@pytest.mark.parametrize("usd", [1e-9, 0.0001])
def test_a_budget_that_is_too_small_for_one_request_sends_none(usd: float) -> None:
    target = Priced(reply)
    (error,) = ask(FileLedger(None, Budget(usd=usd)), target)
    assert isinstance(error, BudgetExhausted)
    assert f"The budget of {usd:g} dollars is spent; raise budget.usd to go on." in str(error)
    assert target.requests == []


class Failing(Priced):
    """Raises `failures` one after another with ragc's own retries, then answers."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__(reply)
        self.failures = list(failures)

    async def complete(self, request: ChatRequest) -> Reply:
        async def attempt() -> Reply:
            if self.failures:
                raise self.failures.pop(0)
            return await super(Failing, self).complete(request)

        async def skip(_: float) -> None:
            return None

        return await with_tries(attempt, "here", tries=3, sleep=skip)


FAILURES: dict[str, tuple[Callable[[], Exception], str]] = {
    "broke off": (lambda: Again("broke the connection off"), "reserve"),
    "500": (lambda: Again("answered 500"), "reserve"),
    "429": (lambda: Again("answered 429", refused=True), "nothing"),
    "not there": (lambda: Again("does not answer", refused=True), "nothing"),
    "400": (lambda: TargetError("answered 400", refused=True), "nothing"),
    "no logprobs": (lambda: TargetError("sent no logprobs"), "reserve"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_try_stays_charged_unless_the_provider_says_otherwise(name: str, tmp_path: Path) -> None:
    make, charged = FAILURES[name]
    tokens, usd = most(request())
    path = tmp_path / "charges.jsonl"
    ledger, target = FileLedger(path, Budget()), Failing(make())
    (answer,) = ask(ledger, target)
    sent = not isinstance(make(), TargetError)
    assert isinstance(answer, Reply if sent else TargetError)
    calls, more_tokens, more_usd = {
        "reserve": (1, tokens, usd),
        "nothing": (0, 0, 0.0),
        "usage": (1, 34, PRICE.most(30, 4)),
    }[charged]
    assert ledger.calls == calls + sent
    assert ledger.tokens == more_tokens + 12 * sent
    assert ledger.usd == pytest.approx(more_usd + COST * sent)
    ledger.close()
    again = FileLedger(path, Budget())
    assert (again.calls, again.tokens) == (ledger.calls, ledger.tokens)
    assert again.usd == pytest.approx(ledger.usd)


def test_a_retry_that_does_not_fit_is_not_sent() -> None:
    tokens, _ = most(request())
    target = Failing(Again("answered 500"))
    (error,) = ask(FileLedger(None, Budget(tokens=tokens + 50)), target)
    assert isinstance(error, BudgetExhausted)
    assert target.requests == []


def test_what_was_in_flight_when_the_process_was_killed_stays_charged(tmp_path: Path) -> None:
    path = tmp_path / "charges.jsonl"
    ledger = FileLedger(path, Budget())
    event_loop.run(_reserve(ledger, Need("a", 50, 0.5), Need("b", 60, 0.25)))
    (first,) = event_loop.run(_reserve(ledger, Need("c", 70, 1.0)))
    ledger.settle(first, 7, 0.125)
    del ledger  # nothing is written at the end, as when it is killed
    again = FileLedger(path, Budget(usd=1.0))
    assert (again.calls, again.tokens, again.usd) == (3, 117, 0.875)
    with pytest.raises(BudgetExhausted):
        event_loop.run(_reserve(again, Need("a", 50, 0.5)))
    event_loop.run(_reserve(again, Need("a", 5, 0.0625)))


def test_a_stored_reply_is_charged_once_and_a_request_that_is_sent_again_twice(tmp_path: Path) -> None:
    ledger, store = FileLedger(None, Budget()), CallStore(None)
    target = Priced(reply)
    for _ in range(2):
        ask(ledger, target, store=store)
    assert (ledger.calls, len(target.requests)) == (1, 1)
    ask(ledger, target)  # its store was lost, as by a kill between the reply and the store
    assert (ledger.calls, len(target.requests)) == (2, 2)


def test_a_waiting_request_that_nobody_wants_any_more_is_not_sent() -> None:
    tokens, _ = most(request())
    ledger, goes_on = FileLedger(None, Budget(tokens=tokens + 50)), asyncio.Event()

    class Slow(Priced):
        async def complete(self, request: ChatRequest) -> Reply:
            await goes_on.wait()
            return await super().complete(request)

    target, gateway = Slow(reply), Gateway(CallStore(None), ledger)

    async def go() -> None:
        first = asyncio.ensure_future(gateway.complete(target, request(0)))
        second = asyncio.ensure_future(gateway.complete(target, request(1)))
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        goes_on.set()
        await first
        await asyncio.wait_for(gateway.store.settle(), 5)

    event_loop.run(go())
    assert (len(target.requests), ledger.calls) == (1, 1)


def test_what_is_held_back_is_spent_for_everybody_else() -> None:
    ledger = FileLedger(None, Budget(usd=10.0))
    for number in range(4):
        ledger.replay(str(number), 10, 1.0)
    ledger.price_held(4, 1.0, Spare(calls=1, usd=0.5))
    ledger.hold(3)  # four calls at a dollar and half a dollar are held back
    with pytest.raises(BudgetExhausted):
        event_loop.run(_reserve(ledger, Need("a", 1, 1.6)))
    event_loop.run(_reserve(ledger, Need("a", 1, 1.5)))
    ledger.hold(0)
    event_loop.run(_reserve(ledger, Need("b", 1, 4.5)))


def test_requests_that_travel_together_are_reserved_all_at_once_or_not() -> None:
    ledger = FileLedger(None, Budget(usd=1.0))
    with pytest.raises(BudgetExhausted):
        event_loop.run(_reserve(ledger, Need("a", 1, 0.6), Need("b", 1, 0.6)))
    assert len(event_loop.run(_reserve(ledger, Need("a", 1, 0.6), Need("b", 1, 0.4)))) == 2


def test_a_target_that_is_not_there_costs_nothing() -> None:
    class Gone(Priced):
        async def complete(self, request: ChatRequest) -> Reply:
            raise TargetUnavailable("nothing listens there", refused=True)

    ledger = FileLedger(None, Budget())
    ask(ledger, Gone(reply), range(3))
    assert (ledger.calls, ledger.usd) == (0, 0.0)


def test_requests_to_a_server_that_is_not_there_cost_nothing() -> None:
    class Down(Priced):
        options = VllmOptions.of({"tries": 1, "price": {"input": 2.0, "output": 10.0}})
        endpoint = "http://127.0.0.1:9/v1"

        async def complete(self, request: ChatRequest) -> Reply:
            raise TargetUnavailable("nothing listens there", refused=True)

    ledger = FileLedger(None, Budget(usd=1.0))
    for number in range(5):
        (error,) = ask(ledger, Down(reply), range(number, number + 1))
        assert isinstance(error, TargetUnavailable)
    assert (ledger.calls, ledger.usd) == (0, 0.0)


def test_a_reply_that_was_stored_after_the_ledger_closed_is_charged_once(tmp_path: Path) -> None:
    path, budget = tmp_path / "charges.jsonl", Budget(usd=1.0)
    ledger = FileLedger(path, budget)
    (number,) = event_loop.run(_reserve(ledger, Need("a", 100, 0.9)))
    ledger.close()  # as by Ctrl-C; the store keeps the reply that is on its way
    ledger.settle(number, 10, 0.2)
    again = FileLedger(path, budget)
    again.replay("a", 10, 0.2)
    assert (again.calls, again.usd) == (1, 0.9)


def test_a_request_without_a_price_is_not_sent_where_dollars_are_limited() -> None:
    target = ScriptedTarget(reply)
    (error,) = ask(FileLedger(None, Budget(usd=1.0)), target)
    assert isinstance(error, UsageError)
    assert "whose price is not known" in str(error)
    assert target.requests == []
    assert ask(FileLedger(None, Budget(lm_calls=1)), target)


async def _reserve(ledger: FileLedger, *needs: Need) -> list[str]:
    return await ledger.reserve(needs)


def test_stored_replies_are_never_refused_and_leave_less_for_requests(tmp_path: Path) -> None:
    path, budget = tmp_path / "charges.jsonl", Budget(usd=1.0)
    ledger = FileLedger(path, budget)
    (number,) = event_loop.run(_reserve(ledger, Need("sent", 9, 0.3)))
    ledger.settle(number, 9, 0.3)
    for key in ("a", "b", "a"):
        ledger.replay(key, 10, 0.6)
    assert (ledger.calls, ledger.tokens, round(ledger.usd, 9)) == (3, 29, 1.5)
    assert (ledger.replayed.calls, ledger.replayed.tokens, ledger.replayed.usd) == (2, 20, 1.2)
    with pytest.raises(BudgetExhausted):
        event_loop.run(_reserve(ledger, Need("c", 1, 0.01)))
    ledger.close()
    again = FileLedger(path, budget)
    assert (again.calls, again.usd, again.replayed) == (3, ledger.usd, ledger.replayed)
