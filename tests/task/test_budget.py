"""The budget: what fits, what waits, and what failed, killed and replayed requests are charged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.errors import BudgetExhausted, StoreError, TargetError, UsageError
from ragc.recipe import Budget
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Usage
from ragc.targets.gateway import Gateway
from ragc.targets.prices import Price, most_tokens
from ragc.targets.retry import Again, with_tries
from ragc.task.budget import BudgetFile, Spent
from ragc.testing import ScriptedTarget

PRICE = Price(input=2.0, cached_input=1.0, output=10.0)


class Priced(ScriptedTarget):
    """A scripted target whose tokens cost something."""

    price = PRICE


def request(number: int = 0) -> ChatRequest:
    return ChatRequest(
        (Message("user", f"Capital of country {number:04}?"),), sampling=Sampling(max_tokens=100)
    )


def most(of: ChatRequest) -> tuple[int, float]:
    """Tokens and dollars that one try reserves."""
    bound = most_tokens(Priced([]), of)
    return bound.prompt + bound.completion, PRICE.most(bound.prompt, bound.completion)


def ask(budget: BudgetFile, target: ScriptedTarget, numbers: range = range(1), **gateway: Any) -> list[Any]:
    """What becomes of the requests with these numbers, all in flight at once."""
    asked_of = Gateway(gateway.get("store") or CallStore(None), budget)

    async def go() -> list[Any]:
        work = [asked_of.complete(target, request(number)) for number in numbers]
        return await asyncio.gather(*work, return_exceptions=True)

    return event_loop.run(go())


def reply(_: ChatRequest) -> Reply:
    return Reply("Lima", usage=Usage(10, 2, 4))


COST = PRICE.usd(Usage(10, 2, 4))


@pytest.mark.parametrize("flying", [1, 64])
@pytest.mark.parametrize("what", ["usd", "tokens"])
def test_a_first_wave_does_not_pass_and_nothing_that_fits_is_refused(what: str, flying: int) -> None:
    tokens, usd = most(request())
    limit = {"usd": Budget(usd=usd + 6.5 * COST), "tokens": Budget(tokens=tokens + 6 * 12)}[what]
    budget, target = BudgetFile(None, limit), Priced(reply, concurrency=flying)
    answers = ask(budget, target, range(64))
    assert len(target.requests) == 7
    assert sum(isinstance(answer, BudgetExhausted) for answer in answers) == 57
    assert budget.spent.usd == pytest.approx(7 * COST)


@pytest.mark.parametrize("usd", [1e-9, 0.0001])
def test_a_budget_that_is_too_small_for_one_request_sends_none(usd: float) -> None:
    target = Priced(reply)
    (error,) = ask(BudgetFile(None, Budget(usd=usd)), target)
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
    path = tmp_path / "charges.sqlite3"
    budget, target = BudgetFile(path, Budget()), Failing(make())
    (answer,) = ask(budget, target)
    sent = not isinstance(make(), TargetError)
    assert isinstance(answer, Reply if sent else TargetError)
    calls, more_tokens, more_usd = {"reserve": (1, tokens, usd), "nothing": (0, 0, 0.0)}[charged]
    assert budget.spent.calls == calls + sent
    assert budget.spent.tokens == more_tokens + 12 * sent
    assert budget.spent.usd == pytest.approx(more_usd + COST * sent)
    budget.close()
    again = BudgetFile(path, Budget())
    assert (again.spent.calls, again.spent.tokens) == (budget.spent.calls, budget.spent.tokens)
    assert again.spent.usd == pytest.approx(budget.spent.usd)


def test_a_retry_that_does_not_fit_is_not_sent() -> None:
    tokens, _ = most(request())
    target = Failing(Again("answered 500"))
    (error,) = ask(BudgetFile(None, Budget(tokens=tokens + 50)), target)
    assert isinstance(error, BudgetExhausted)
    assert target.requests == []


def reserve(budget: BudgetFile, key: str, tokens: int, usd: float) -> int:
    return event_loop.run(budget.reserve(key, tokens, usd))


def test_what_was_in_flight_when_the_process_was_killed_stays_charged(tmp_path: Path) -> None:
    path = tmp_path / "charges.sqlite3"
    budget = BudgetFile(path, Budget())
    reserve(budget, "a", 50, 0.5)
    reserve(budget, "b", 60, 0.25)
    budget.settle(reserve(budget, "c", 70, 1.0), 7, 0.125)
    assert budget.spent == Spent(1, 7, 125 * 10**9)
    del budget  # nothing is written at the end, as when it is killed
    again = BudgetFile(path, Budget(usd=1.0))
    assert (again.spent.calls, again.spent.tokens, again.spent.usd) == (3, 117, 0.875)
    with pytest.raises(BudgetExhausted):
        reserve(again, "a", 50, 0.5)
    reserve(again, "a", 5, 0.0625)


def test_processes_that_use_one_file_at_a_time_do_not_exceed_it_together(tmp_path: Path) -> None:
    path, limits = tmp_path / "charges.sqlite3", Budget(lm_calls=3)
    one, other = BudgetFile(path, limits), BudgetFile(path, limits)
    tries = [reserve(budget, str(n), 1, 0.0) for n, budget in enumerate((one, other, one))]
    for budget, number in zip((one, other, one), tries, strict=True):
        budget.settle(number, 1, 0.0)
    for budget in (one, other):
        assert budget.spent.calls == 3
        with pytest.raises(BudgetExhausted):
            reserve(budget, "more", 1, 0.0)


@pytest.mark.parametrize("content", [b"not a database", b"{}\n" * 500, b"SQLite format 3\0" + b"x" * 5000])
def test_a_damaged_file_is_refused_in_a_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "charges.sqlite3"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"cannot be kept in .*charges\.sqlite3 .*leave --resume out"):
        BudgetFile(path, Budget())
    assert path.read_bytes() == content


def test_a_stored_reply_is_charged_once_and_a_request_that_is_sent_again_twice(tmp_path: Path) -> None:
    budget, store = BudgetFile(None, Budget()), CallStore(None)
    target = Priced(reply)
    for _ in range(2):
        ask(budget, target, store=store)
    assert (budget.spent.calls, len(target.requests)) == (1, 1)
    ask(budget, target)  # its store was lost, as by a kill between the reply and the store
    assert (budget.spent.calls, len(target.requests)) == (2, 2)


def test_a_reply_that_was_stored_after_the_ledger_closed_is_charged_once(tmp_path: Path) -> None:
    path, limits = tmp_path / "charges.sqlite3", Budget(usd=1.0)
    budget = BudgetFile(path, limits)
    number = reserve(budget, "a", 100, 0.9)
    budget.close()  # as by Ctrl-C; the store keeps the reply that is on its way
    budget.settle(number, 10, 0.2)
    again = BudgetFile(path, limits)
    again.charge_cached("a", 10, 0.2)
    assert (again.spent.calls, again.spent.usd) == (1, 0.9)


def test_a_request_without_a_price_is_not_sent_where_dollars_are_limited() -> None:
    target = ScriptedTarget(reply)
    (error,) = ask(BudgetFile(None, Budget(usd=1.0)), target)
    assert isinstance(error, UsageError)
    assert "the price of" in str(error)
    assert "is not known" in str(error)
    assert target.requests == []
    assert ask(BudgetFile(None, Budget(lm_calls=1)), target)


def test_stored_replies_are_never_refused_and_leave_less_for_requests(tmp_path: Path) -> None:
    path, limits = tmp_path / "charges.sqlite3", Budget(usd=1.0)
    budget = BudgetFile(path, limits)
    budget.settle(reserve(budget, "sent", 9, 0.3), 9, 0.3)
    for key in ("a", "b", "a"):
        budget.charge_cached(key, 10, 0.6)
    assert (budget.spent.calls, budget.spent.tokens, round(budget.spent.usd, 9)) == (3, 29, 1.5)
    assert budget.cached.to_json() == {"calls": 2, "tokens": 20, "usd": 1.2}
    with pytest.raises(BudgetExhausted):
        reserve(budget, "c", 1, 0.01)
    budget.close()
    again = BudgetFile(path, limits)
    assert (again.spent, again.cached) == (budget.spent, budget.cached)
