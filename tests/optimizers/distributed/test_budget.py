"""The shared ledger on a real Redis server: the rules of the file's, and limits that hold for all workers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragc.errors import BudgetExhausted, StoreError
from ragc.optimizers.budget import FileLedger, StudyLedger
from ragc.optimizers.distributed.budget import SharedLedger
from ragc.recipe import Budget
from tests.examples import examples
from tests.optimizers.distributed.redis_server import MISSING, PROGRAM, serving
from tests.paths import ROOT

pytest.importorskip("redis", reason="redis-py is not installed (extra redis)")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

WORKER = """
import sys
from ragc.errors import BudgetExhausted
from ragc.optimizers.distributed.budget import SharedLedger
from ragc.recipe import Budget

address, worker, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
ledger = SharedLedger(address, "study", Budget(lm_calls=limit))
sent = 0
for number in range(100):
    key = f"{worker}-{number}"
    try:
        ledger.reserve(key, 1)
    except BudgetExhausted:
        break
    sent += 1
    ledger.settle(key, 1, 0.0)
ledger.settle("common", 1, 0.0)
print(sent)
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


def do(ledger: StudyLedger, step: tuple[str, str, int]) -> str:
    """What one step ended in: "" or the refusal."""
    what, key, amount = step
    try:
        match what:
            case "reserve":
                ledger.reserve(key, amount)
            case "settle":
                ledger.settle(key, amount, amount / 8)
            case "release":
                ledger.release(key)
            case "hold":
                ledger.hold(amount)
    except BudgetExhausted as error:
        return str(error)
    return ""


@example([("reserve", "a", 0), ("settle", "a", 0)], Budget())  # Lua writes the negative of 0 as "-0"
@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["reserve", "settle", "release", "hold"]),
            st.sampled_from("abcdef"),
            st.integers(0, 9),
        ),
        max_size=25,
    ),
    st.builds(
        Budget,
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
        for step in steps:
            assert do(shared, step) == do(file, step)
        assert (shared.calls, shared.tokens, shared.usd) == (file.calls, file.tokens, file.usd)
    finally:
        shared.forget()
        shared.close()


def test_the_limit_holds_for_several_processes_and_a_request_of_all_is_charged_once(address: str) -> None:
    ledger = begun(address, "study", Budget())
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, address, name, "50"],
            env={"PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    sent = [int(job.communicate()[0]) for job in jobs]
    assert sum(sent) == 50
    assert ledger.calls == ledger.tokens == 51  # with the one that all of them had a reply to
    ledger.forget()
    ledger.close()


def test_what_a_dead_worker_set_aside_is_given_back(address: str, study: str) -> None:
    dead, other = (
        begun(address, study, Budget(lm_calls=1), 0.1),
        SharedLedger(address, study, Budget(lm_calls=1)),
    )
    dead.reserve("a", 1)
    with pytest.raises(BudgetExhausted, match=r"budget of 1 LM calls is spent; raise budget\.lm_calls"):
        other.reserve("b", 1)
    other.reserve("a", 1)  # the same request is taken over, for the longer time
    with pytest.raises(BudgetExhausted):
        other.reserve("b", 1)
    other.release("a")
    dead.reserve("c", 1)
    time.sleep(0.2)
    other.reserve("b", 1)
    dead.close()
    other.close()


def test_a_resumed_study_knows_its_charges_and_gives_back_what_was_set_aside(
    address: str, study: str
) -> None:
    first = begun(address, study, Budget(lm_calls=2))
    first.settle("a", 7, 0.25)
    first.reserve("b", 1)
    first.hold(5)
    again = begun(address, study, Budget(lm_calls=2))
    again.reserve("c", 1)
    with pytest.raises(BudgetExhausted):
        again.reserve("d", 1)
    assert (again.calls, again.tokens, again.usd) == (1, 7, 0.25)
    first.close()
    again.close()


def test_minutes_are_those_of_the_study(address: str, study: str) -> None:
    ledger = begun(address, study, Budget(minutes=0.002))
    ledger.reserve("a", 1)
    time.sleep(0.2)
    with pytest.raises(BudgetExhausted, match=r"budget of 0\.002 minutes is spent; raise budget\.minutes"):
        ledger.reserve("b", 1)
    ledger.settle("a", 1, 0.0)
    assert 0.002 < ledger.minutes < 1
    ledger.close()


def test_a_worker_of_a_study_that_the_server_does_not_know_is_told_so(address: str) -> None:
    ledger = SharedLedger(address, "never-begun", Budget())
    with pytest.raises(StoreError, match=r"knows no budget of this study.*RAGC_STORE"):
        ledger.reserve("a", 1)
    ledger.close()


def test_a_server_that_is_gone_is_one_clear_error_without_the_password() -> None:
    ledger = SharedLedger("redis://:hidden@127.0.0.1:1/3", "study", Budget())
    with pytest.raises(StoreError, match=r"redis://127\.0\.0\.1:1/3 \(ConnectionError\)") as caught:
        ledger.reserve("a", 1)
    assert "hidden" not in str(caught.value)
    ledger.close()
