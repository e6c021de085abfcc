"""A server that misbehaves: nothing is lost, sent too often, scored in silence, or waited for without end."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from ragc import loop, metrics
from ragc.counters import Counters, counting
from ragc.errors import TargetUnavailable
from ragc.metrics.scoring import Scorer
from ragc.optimizers.evaluation import Row, evaluate
from ragc.programs import method
from ragc.programs.runtime import Runtime
from ragc.records import Question
from ragc.targets.base import ChatRequest, Message, Reply, Target
from ragc.targets.hosted import HostedTarget
from ragc.targets.options import HostedOptions, VllmOptions
from ragc.targets.vllm import VllmTarget
from tests.targets.fault_server import MODEL, Answer, Asked, FaultServer, failing, fitting, said, serving

pytestmark = pytest.mark.filterwarnings("error")

T = TypeVar("T")
HANG_S = 60
"""Only a call that would never end takes this long."""
KINDS = ("vllm", "hosted")
GOOD = said("Lima")


@pytest.fixture(autouse=True)
def only_our_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")


class Waits:
    """Sleeps that pass at once and are kept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def target_of(kind: str, url: str, waits: Waits, **options: Any) -> Target:
    if kind == "vllm":
        return VllmTarget(url, MODEL, VllmOptions(**options), sleep=waits)
    return HostedTarget(f"openai/{MODEL}", url, HostedOptions(**options), sleep=waits)


def finished(target: Target, work: Coroutine[Any, Any, T]) -> T:
    """What `work` comes to on the process's loop; the target is closed after it."""

    async def go() -> T:
        try:
            return await asyncio.wait_for(work, HANG_S)
        finally:
            await target.aclose()

    return loop.run(go())


def in_order(*answers: Answer) -> Callable[[Asked], Answer]:
    """A script of `answers`, the last one for ever."""
    return lambda asked: answers[min(asked.number, len(answers) - 1)]


def asked_once(kind: str, server: FaultServer, waits: Waits, **options: Any) -> Reply:
    target = target_of(kind, server.url, waits, **options)
    return finished(target, target.complete(ChatRequest((Message("user", "Capital of Peru?"),))))


PASSING = {
    "429 with Retry-After": failing(429, "slow down", retry_after="7"),
    "429": failing(429, "slow down"),
    "500": failing(500),
    "502 in HTML": Answer(b"<html>Bad gateway</html>", 502, "text/html"),
    "503": failing(503),
    "reset before the head": Answer(GOOD.body, ending="reset"),
    "reset mid-body": Answer(GOOD.body, ending="reset", sent=40),
    "half a JSON": Answer(GOOD.body[: len(GOOD.body) // 2]),
    "empty choices": Answer(b'{"id": "x", "object": "chat.completion", "model": "m", "choices": []}'),
    "wrong content type": Answer(b"<html>Welcome!</html>", content_type="text/html"),
    "empty body": Answer(b""),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", PASSING.values(), ids=list(PASSING))
def test_a_passing_fault_is_tried_again_and_counted(kind: str, fault: Answer) -> None:
    waits = Waits()
    with serving(in_order(fault, fault, GOOD)) as server:
        assert asked_once(kind, server, waits).text == "Lima"
        assert len(server.asked) == 3
    assert len(waits.slept) == 2
    if fault.headers:
        assert all(7 <= wait < 8 for wait in waits.slept)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", PASSING.values(), ids=list(PASSING))
def test_a_fault_that_stays_is_one_error_after_the_stated_tries(kind: str, fault: Answer) -> None:
    waits = Waits()
    with serving(in_order(fault)) as server:
        with pytest.raises(TargetUnavailable, match="tried 3 times") as caught:
            asked_once(kind, server, waits, tries=3, total_s=60.0)
        assert server.url in str(caught.value)
        assert len(server.asked) == 3
    assert sum(waits.slept) <= 60


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sent", [-1, 0, 40], ids=["before the first byte", "after the head", "mid-body"])
def test_a_stall_ends_with_the_read_timeout_and_is_sent_once(kind: str, sent: int) -> None:
    """The server may still be at work on the request, so that a second one would only slow it down."""
    with serving(in_order(Answer(GOOD.body, ending="stall", sent=sent))) as server:
        with pytest.raises(TargetUnavailable, match=r"within 0\.2 s"):
            asked_once(kind, server, Waits(), timeout_s=0.2, total_s=30.0)
        assert len(server.asked) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_all_tries_together_end_with_the_cap(kind: str) -> None:
    with serving(in_order(Answer(GOOD.body, ending="stall"))) as server:
        with pytest.raises(TargetUnavailable, match=r"within 0\.3 s"):
            asked_once(kind, server, Waits(), total_s=0.3, timeout_s=30.0)
        assert len(server.asked) == 1
    with serving(in_order(failing(429, "tomorrow", retry_after="86400"))) as server:
        with pytest.raises(TargetUnavailable, match="tomorrow"):
            asked_once(kind, server, Waits())
        assert len(server.asked) == 1


QUESTIONS = tuple(Question(f"q{n}", f"Which number is item {n:04}?", (f"{n:04}",)) for n in range(200))
EM = Scorer((metrics.get("em"),))


def number_of(asked: Asked) -> str:
    messages = " ".join(str(message["content"]) for message in asked.body["messages"])
    return messages.partition("item ")[2][:4]


def right(asked: Asked) -> Answer:
    return fitting(asked, answer=number_of(asked))


def scored(
    kind: str, server: FaultServer, questions: tuple[Question, ...] = QUESTIONS, **options: Any
) -> tuple[tuple[Row, ...], Counters]:
    """The rows of no_retrieval over `questions`, 64 in flight, and what they took."""
    target = target_of(kind, server.url, Waits(), concurrency=64, **options)
    program = method("no_retrieval").build(Runtime({"main": target}), {})

    async def go() -> tuple[tuple[Row, ...], Counters]:
        await target.open()
        with counting(Counters()) as spent:
            return await evaluate(program, questions, EM, limit=asyncio.Semaphore(64)), spent

    return finished(target, go())


@pytest.mark.parametrize("kind", KINDS)
def test_one_in_ten_failing_under_64_in_flight_loses_and_doubles_nothing(kind: str) -> None:
    faults = [*PASSING.values()][2:]
    draws = random.Random(3)
    failed: list[str] = []

    def script(asked: Asked) -> Answer:
        if draws.random() < 0.1:
            failed.append(asked.text)
            return draws.choice(faults)
        return right(asked)

    with serving(script, together=64) as server:
        rows, spent = scored(kind, server, tries=8)
        times = server.times
    assert [row.prediction for row in rows] == [question.answers[0] for question in QUESTIONS]
    assert {row.scores["em"] for row in rows} == {1.0}
    assert spent.sent == spent.lm_calls == len(QUESTIONS)
    assert len(times) == len(QUESTIONS)
    assert sum(times.values()) == len(QUESTIONS) + len(failed)
    assert all(times[text] == 1 + failed.count(text) for text in times)
    assert 5 <= len(failed) <= 60


@pytest.mark.parametrize("kind", KINDS)
def test_an_evaluation_over_a_broken_server_is_an_error_and_no_score(kind: str) -> None:
    def script(asked: Asked) -> Answer:
        return failing(500) if number_of(asked) == "0005" else right(asked)

    with serving(script) as server:
        with pytest.raises(TargetUnavailable, match="answered 500"):
            scored(kind, server, QUESTIONS[:20], tries=2)
        assert max(server.times.values()) <= 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_in_a_wrong_schema_gets_one_repair_call(kind: str) -> None:
    def script(asked: Asked) -> Answer:
        repaired = asked.number > 0
        return right(asked) if repaired else said('{"reply": ["not", "what was asked"]}')

    with serving(script) as server:
        rows, spent = scored(kind, server, QUESTIONS[:1])
        assert len(server.asked) == 2
    assert rows[0].scores["em"] == 1.0
    assert (spent.repairs, spent.sent) == (1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_schema_that_stays_is_a_failure_that_is_named_and_counted(kind: str) -> None:
    def script(asked: Asked) -> Answer:
        return said("no JSON at all") if "0001" in number_of(asked) else right(asked)

    with serving(script) as server:
        rows, spent = scored(kind, server, QUESTIONS[:3])
        assert len(server.asked) == 4
    assert [row.scores["em"] for row in rows] == [1.0, 0.0, 1.0]
    assert rows[1].prediction is None
    assert rows[1].failure
    assert not rows[0].failure
    assert spent.repairs == 1
