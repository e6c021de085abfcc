"""The shared ledger on a real Redis server: the rules of the file's, and limits that hold for all workers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragc.errors import BudgetExhausted, StoreError
from ragc.recipe import Budget
from ragc.targets.charges import Need
from ragc.task.budget import FileLedger, Spare, Spent, StudyLedger
from ragc.task.shared_budget import SharedLedger
from tests.examples import examples, thorough
from tests.optimizers.distributed.redis_server import MISSING, PROGRAM, serving
from tests.paths import ROOT

pytest.importorskip("redis", reason="redis-py is not installed (extra redis)")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

WORKER = """
import asyncio, sys
from ragc.errors import BudgetExhausted
from ragc.task.shared_budget import SharedLedger
from ragc.recipe import Budget
from ragc.targets.charges import Need

async def work(ledger, worker):
    sent = 0
    for number in range(100):
        key = f"{worker}-{number}"
        try:
            (reserved,) = await ledger.reserve([Need(key, 4, 0.5)])
        except BudgetExhausted:
            break
        sent += 1
        await asyncio.sleep(0.001)
        ledger.settle(reserved, 1, 0.125)
    ledger.replay("common", 1, 0.125)
    return sent

address, worker, calls, usd = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
ledger = SharedLedger(address, "study", Budget().replace(lm_calls=calls or None, usd=usd or None))
print(asyncio.run(work(ledger, worker)))
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def study(address: str) -> Iterator[str]:
    """The name of a study of its own."""
    name = uuid4().hex
    yield name
    ledger = SharedLedger(address, name, Budget())
    ledger.forget()
    ledger.close()


def begun(address: str, name: str, budget: Budget, lease_s: float = 900.0) -> SharedLedger:
    ledger = SharedLedger(address, name, budget, lease_s=lease_s)
    ledger.begin()
    return ledger


def reserve(ledger: StudyLedger, key: str, tokens: int = 1, usd: float = 0.0) -> str:
    """The number of a try; raises TimeoutError where it waits for others."""

    async def one() -> str:
        return next(iter(await asyncio.wait_for(ledger.reserve([Need(key, tokens, usd)], lambda: True), 0.1)))

    return asyncio.run(one())


class Steps:
    """Does one step after another to a ledger, and says what each ended in: "" or the refusal."""

    def __init__(self, ledger: StudyLedger) -> None:
        self.ledger = ledger
        self.tries: dict[str, list[str]] = {}

    def do(self, what: str, key: str, amount: int) -> str:
        tries = self.tries.setdefault(key, [])
        try:
            match what:
                case "reserve":
                    tries.append(reserve(self.ledger, key, amount + 3, (amount + 3) / 8))
                case "hold":
                    self.ledger.hold(amount)
                case "replay":
                    self.ledger.replay(key, amount, amount / 8)
                case "settle" if tries:
                    self.ledger.settle(tries.pop(), amount, amount / 8)
                case _ if tries:
                    getattr(self.ledger, what)(tries.pop())
        except BudgetExhausted as error:
            return str(error)
        except TimeoutError:
            return "it waits"
        return ""


@example(
    [("reserve", "a", 0), ("settle", "a", 0), ("reserve", "b", 0), ("charge_in_full", "b", 0)], Budget()
)  # Lua writes the negative of 0 as "-0"
@example(
    [("reserve", "a", 0), ("reserve", "a", 0), ("settle", "a", 5), ("reserve", "a", 9)],
    Budget().replace(tokens=17, usd=2.0),
)  # with what is in flight both limits are passed, without it only that of dollars
@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["reserve", "reserve", "settle", "charge_in_full", "release", "replay", "hold"]),
            st.sampled_from("abcdef"),
            st.integers(0, 9),
        ),
        max_size=20,
    ),
    st.builds(
        Budget().replace,
        lm_calls=st.none() | st.integers(1, 6),
        tokens=st.none() | st.integers(1, 30),
        usd=st.none() | st.sampled_from([0.5, 2.0]),
    ),
)
def test_it_allows_and_refuses_what_the_file_does(
    address: str, steps: list[tuple[str, str, int]], budget: Budget
) -> None:
    file, shared = FileLedger(None, budget), begun(address, uuid4().hex, budget)
    try:
        ours, theirs = Steps(shared), Steps(file)
        for step in steps:
            assert ours.do(*step) == theirs.do(*step)
        assert (shared.calls, shared.tokens, shared.usd) == (file.calls, file.tokens, file.usd)
    finally:
        shared.forget()
        shared.close()


def workers(address: str, calls: str, usd: str) -> list[int]:
    """What each of three workers sent within limits on calls and dollars; "0" is none."""
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, address, name, calls, usd],
            env={"PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    return [int(job.communicate()[0]) for job in jobs]


@thorough
def test_dollars_hold_for_several_processes_and_are_spent_but_for_one_reserve(address: str) -> None:
    ledger = begun(address, "study", Budget())
    sent = sum(workers(address, "0", "3.7"))
    spent = ledger.usd - 0.125  # without the stored reply, which costs nothing
    assert spent == sent * 0.125 <= 3.7
    assert spent + 2 * 0.125 + 0.5 > 3.7  # a worker that ended before the others had charged the reply
    ledger.forget()
    ledger.close()


def test_the_limit_holds_for_several_processes_and_a_request_of_all_is_charged_once(address: str) -> None:
    ledger = begun(address, "study", Budget())
    assert sum(workers(address, "50", "0")) == 50
    assert ledger.calls == ledger.tokens == 51  # with the one that all of them had a reply to
    ledger.forget()
    ledger.close()


def test_what_a_dead_worker_set_aside_is_charged_after_a_while(address: str, study: str) -> None:
    budget = Budget(tokens=10)
    dead, other = begun(address, study, budget, 0.3), SharedLedger(address, study, budget)
    number = reserve(dead, "a", 6)
    with pytest.raises(TimeoutError):  # it may turn out cheaper
        reserve(other, "b", 6)
    time.sleep(0.3)
    with pytest.raises(BudgetExhausted, match=r"budget of 10 tokens is spent; raise budget\.tokens"):
        reserve(other, "b", 6)
    assert (other.calls, other.tokens) == (1, 6)
    dead.settle(number, 2, 0.0)  # it was only slow
    assert (other.calls, other.tokens) == (1, 2)
    reserve(other, "b", 6)
    dead.close()
    other.close()


def test_a_resumed_study_knows_its_charges_and_those_that_were_never_settled(
    address: str, study: str
) -> None:
    first = begun(address, study, Budget(lm_calls=3))
    first.settle(reserve(first, "a", 9, 1.0), 7, 0.25)
    reserve(first, "b", 5, 0.5)
    first.hold(5)
    again = begun(address, study, Budget(lm_calls=3))
    assert (again.calls, again.tokens, again.usd) == (2, 12, 0.75)
    again.settle(reserve(again, "c"), 1, 0.0)
    with pytest.raises(BudgetExhausted):
        reserve(again, "d")
    first.close()
    again.close()


def test_what_is_charged_for_stored_replies_is_known_apart(address: str, study: str) -> None:
    ledger, other = begun(address, study, Budget(usd=1.0)), SharedLedger(address, study, Budget(usd=1.0))
    ledger.settle(reserve(ledger, "a", 9, 1.0), 7, 0.25)
    for one in (ledger, other):
        one.replay("a", 7, 0.25)
        one.replay("b", 4, 0.125)
    assert other.replayed == Spent(1, 4, 0.125)
    assert (other.calls, other.tokens, other.usd) == (2, 11, 0.375)
    assert ledger.price_held(9, 2.0, Spare()) == other.price_held(9, 3.0, Spare()) == (11.0, 0.375)
    ledger.close()
    other.close()


def test_minutes_are_those_of_the_study(address: str, study: str) -> None:
    ledger = begun(address, study, Budget(minutes=0.002))
    number = reserve(ledger, "a")
    time.sleep(0.2)
    with pytest.raises(BudgetExhausted, match=r"budget of 0\.002 minutes is spent; raise budget\.minutes"):
        reserve(ledger, "b")
    ledger.settle(number, 1, 0.0)
    assert 0.002 < ledger.minutes < 1
    ledger.close()


def test_a_worker_of_a_study_that_the_server_does_not_know_is_told_so(address: str) -> None:
    ledger = SharedLedger(address, "never-begun", Budget())
    with pytest.raises(StoreError, match=r"knows no budget of this study.*RAGC_STORE"):
        reserve(ledger, "a")
    ledger.close()


def test_a_server_that_is_gone_is_one_clear_error_without_the_password() -> None:
    ledger = SharedLedger("redis://:hidden@127.0.0.1:1/3", "study", Budget())
    with pytest.raises(StoreError, match=r"redis://127\.0\.0\.1:1/3 \(ConnectionError\)") as caught:
        reserve(ledger, "a")
    assert "hidden" not in str(caught.value)
    ledger.close()
