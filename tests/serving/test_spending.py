"""Limits by key: dollars a day, reserved before a request is sent and kept over restarts."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

import ragc
from ragc.recipe import Budget
from ragc.serving.guards import client
from ragc.serving.settings import Settings, key_digests
from ragc.serving.spending import DailySpending
from ragc.targets.charges import Need
from ragc.targets.token_price import Price
from ragc.task.budget import FileLedger
from ragc.testing import ScriptedTarget
from tests.examples import thorough
from tests.serving.server import KEY, OTHER, PartsTarget, running, until


def needs(usd: float) -> list[Need]:
    return [Need("request", 10, usd)]


def reserve(ledger: DailySpending, usd: float, key: str = "") -> str:
    async def work() -> str:
        token = client.set(key)
        try:
            return (await ledger.reserve(needs(usd)))[0]
        finally:
            client.reset(token)

    return asyncio.run(work())


def test_what_is_reserved_counts_until_its_cost_is_known(tmp_path: Path) -> None:
    path = tmp_path / "store" / "spending.sqlite3"
    ledger = DailySpending(path, 1.0)
    first = reserve(ledger, 0.6)
    with pytest.raises(ragc.BudgetExhausted, match="may spend 1 dollars a day"):
        reserve(ledger, 0.6)
    reserve(ledger, 0.6, "another key")
    ledger.settle(first, 10, 0.1)
    second = reserve(ledger, 0.6)
    ledger.release(second)
    third = reserve(ledger, 0.8)
    ledger.charge_in_full(third)
    with pytest.raises(ragc.BudgetExhausted):
        reserve(ledger, 0.2)
    ledger.close()
    # A process that was killed leaves what it had reserved, and its successor sees it.
    again = DailySpending(path, 1.0)
    with pytest.raises(ragc.BudgetExhausted):
        reserve(again, 0.2)
    reserve(again, 0.05)
    again.close()
    assert path.stat().st_mode & 0o077 == 0
    assert b"another key" not in path.read_bytes()


def _reserve_many(path: Path, start: Any, results: Any) -> None:
    ledger, fitted = DailySpending(path, 1.0), 0
    start.wait(30)
    for _ in range(20):
        try:
            reserve(ledger, 0.05)
            fitted += 1
        except ragc.BudgetExhausted:
            pass
    results.put(fitted)


@thorough
def test_processes_share_one_limit(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    workers = [
        context.Process(target=_reserve_many, args=(tmp_path / "spending.sqlite3", start, results))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    start.set()
    fitted = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(20)
    assert sum(fitted) in (19, 20)  # a sum of twenty 0.05 may lie a bit above 1


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "spending.sqlite3"
    path.write_bytes(b"no database, " * 100)
    with pytest.raises(ragc.StoreError, match=r"cannot be kept in .*spending\.sqlite3"):
        DailySpending(path, 1.0)


def test_a_key_that_spent_its_dollars_is_refused_before_anything_is_sent(colours: Path) -> None:
    def ask(address: str, number: int, key: str) -> httpx.Response:
        question = f"What colour is thing number{number}?"
        body = {"model": "colours", "messages": [{"role": "user", "content": question}]}
        url, headers = f"{address}/v1/chat/completions", {"Authorization": f"Bearer {key}"}
        return httpx.post(url, json=body, headers=headers)

    settings = Settings(port=0, key_digests=key_digests([KEY, OTHER]), usd_per_day=1e-9)
    target = ScriptedTarget(lambda request: {"answer": "red"})
    target.price = Price(0.0, 0.0, 1000.0)  # type: ignore[attr-defined]
    with running([colours], {"main": target}, settings) as served:
        reply = ask(served.address, 1, KEY)
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "budget_exhausted")
        message = reply.json()["error"]["message"]
        assert message.startswith("This key may spend 1e-09 dollars a day, and one request may cost 0.")
        assert "midnight" not in message
        assert target.requests == []
    settings = Settings(port=0, key_digests=key_digests([KEY, OTHER]), usd_per_day=0.12)
    for restart in range(2):  # what was spent before a restart counts
        with running([colours], {"main": target}, settings) as served:
            replies = [ask(served.address, number + 30 * restart, KEY) for number in range(20)]
            statuses = [reply.status_code for reply in replies]
            assert statuses[-1] == 429
            assert "try again after midnight UTC" in replies[-1].json()["error"]["message"]
            assert (200 in statuses) is (restart == 0)
    with running([colours], {"main": target}, settings) as served:
        assert ask(served.address, 1, OTHER).status_code == 200


def test_a_model_without_a_price_is_refused_at_the_start(colours: Path) -> None:
    target = ScriptedTarget(lambda request: {"answer": "red"})
    target.table_price = lambda: None  # type: ignore[attr-defined]
    with (
        pytest.raises(ragc.UsageError, match="--usd-per-day cannot be held to"),
        running([colours], {"main": target}, Settings(port=0, usd_per_day=1.0)),
    ):
        pass


def test_questions_of_one_key_at_once(colours: Path) -> None:
    target = PartsTarget(lambda request: {"answer": "red"})
    settings = Settings(port=0, in_flight_per_key=1, key_digests=key_digests([KEY, OTHER]))
    body = {"model": "colours", "messages": [{"role": "user", "content": "What colour is thing number7?"}]}
    with running([colours], {"main": target}, settings) as served:
        url = f"{served.v1}/chat/completions"
        headers = [{"Authorization": f"Bearer {key}"} for key in (KEY, OTHER)]
        first: list[httpx.Response] = []
        thread = threading.Thread(
            target=lambda: first.append(httpx.post(url, json=body, headers=headers[0], timeout=30))
        )
        thread.start()
        assert until(lambda: served.service.in_flight == 1)
        refused = httpx.post(url, json=body, headers=headers[0])
        assert refused.status_code == 429
        assert "1 questions of this key" in refused.json()["error"]["message"]
        target.go.set()
        assert httpx.post(url, json=body, headers=headers[1], timeout=30).status_code == 200
        thread.join()
    assert first[0].status_code == 200


def test_a_file_that_cannot_be_written_leaves_nothing_reserved_in_the_budget_within(tmp_path: Path) -> None:
    inner = FileLedger(None, Budget(lm_calls=1))
    ledger = DailySpending(tmp_path / "store" / "spending.sqlite3", 1.0, inner)
    ledger.close()  # every statement now fails
    for _ in range(2):
        with pytest.raises(ragc.StoreError, match="cannot be kept"):
            reserve(ledger, 0.1)

    async def begun() -> list[str]:
        return await asyncio.wait_for(inner.reserve(needs(0.1)), 5)

    assert asyncio.run(begun())
