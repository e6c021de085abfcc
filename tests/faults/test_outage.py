"""Ten minutes in which a server only says 5xx, on a simulated clock, and a study that goes on after them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import TargetUnavailable
from tests.examples import cases, thorough
from tests.faults.checks import same
from tests.faults.commands import COMMANDS, NOISE, Prepared, prepare, stored_replies
from tests.faults.injector import missing
from tests.support.loopback import Loopback
from tests.support.loopback_world import reply
from tests.support.server import Answer, Asked, ScriptedServer, failing, serving
from tests.support.targets import KINDS, QUESTIONS, right, scored

OUTAGE_S = 600.0
FIVES = (500, 502, 503, 504)


class Clock:
    """A clock that only goes on while somebody sleeps. `time.monotonic` of the retries is its time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@dataclass
class Outage:
    """A server that answers 5xx until `ends` on `clock`, in turn, and is well then."""

    clock: Clock
    ends: float
    failed: int = 0

    def __call__(self, request: Asked) -> Answer:
        if self.clock.now >= self.ends:
            return right(request)
        self.failed += 1
        return failing(FIVES[self.failed % len(FIVES)])


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    clock = Clock()
    monkeypatch.setattr("ragc.core.retry.time", _Time(lambda: clock.now))
    return Outage(clock, clock.now + OUTAGE_S)


@dataclass
class _Time:
    """The module `time` with another monotonic clock."""

    monotonic: Callable[[], float]
    sleep: Callable[[float], None] = time.sleep
    time: Callable[[], float] = time.time


def over(outage: Outage, kind: str, questions: int, **options: Any) -> tuple[Any, ScriptedServer]:
    with serving(outage) as server:
        rows, _ = scored(
            kind,
            server,
            QUESTIONS[:questions],
            flying=1,
            waits=outage.clock.sleep,
            **options,
        )
        return rows, server


@pytest.mark.parametrize("kind", cases(KINDS, 1))
def test_a_request_that_may_wait_outlasts_the_outage(outage: Outage, kind: str) -> None:
    rows, _ = over(outage, kind, 2, tries=100, total_s=900.0)
    assert [row.scores["em"] for row in rows] == [1.0] * 2
    slept = outage.clock.slept
    assert OUTAGE_S <= sum(slept) <= OUTAGE_S + 20
    assert max(slept) <= 20
    assert outage.failed <= 64  # waits of 10 to 20 s after the first six: no storm of requests
    assert min(slept[6:]) >= 10


@pytest.mark.parametrize("kind", cases(KINDS, 1))
def test_by_default_a_request_gives_up_in_one_sentence_and_a_later_one_is_answered(
    outage: Outage, kind: str
) -> None:
    with pytest.raises(TargetUnavailable, match=r"answered 50\d.* \(tried 4 times\)\.$") as caught:
        over(outage, kind, 1)
    assert "\n" not in str(caught.value)
    assert outage.failed == 4
    assert sum(outage.clock.slept) <= 300
    outage.ends = 0.0
    rows, _ = over(outage, kind, 3)
    assert [row.scores["em"] for row in rows] == [1.0] * 3


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Prepared, list[bool]]]:
    """A study at a server that is down while the list says so."""
    down = [False]

    def answer(body: Any) -> str:
        if down[0] and reached() >= 10:
            raise RuntimeError("out of order")
        return reply(body)

    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "work/home"))
    with Loopback(latency_s=0.001, answer=answer) as server:
        prepared_run = prepare(COMMANDS["compile"], tmp_path, server)
        begun = server.answer_count

        def reached() -> int:
            return server.answer_count - begun

        yield prepared_run, down


@thorough
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_study_that_an_outage_ended_goes_on_and_asks_nothing_again(
    prepared: tuple[Prepared, list[bool]],
) -> None:
    prepared_run, down = prepared
    prepared_run.lay()
    down[0] = True
    ended = prepared_run.run((*prepared_run.command.run, "--set", "targets.main.options.tries=1"))
    assert ended.status == 1
    assert len(ended.errors) == 1
    assert not [word for word in NOISE if word in ended.err]
    stored, before = stored_replies(prepared_run.folder), prepared_run.server.log.requests
    assert stored >= 10
    down[0] = False
    again = prepared_run.run((*prepared_run.command.again, "--set", "targets.main.options.tries=1"))
    assert again.status == 0, again.err
    assert prepared_run.server.log.requests - before == prepared_run.sent - stored
    result = prepared_run.read() or {}
    assert same({**result, "recipe.toml": b""}, {**(prepared_run.new or {}), "recipe.toml": b""})
