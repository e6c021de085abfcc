"""A server that misbehaves: nothing is lost, sent too often, scored in silence, or waited for without end."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from ragc.errors import TargetUnavailable
from ragc.targets.base import ChatRequest, Message, Reply
from tests.examples import thorough
from tests.targets.fault_clients import KINDS, QUESTIONS, Waits, finished, number_of, right, scored, target_of
from tests.targets.fault_server import Answer, Asked, FaultServer, build_answer, failing, serving

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("only_our_key")]

GOOD = build_answer("Lima")


def in_order(*answers: Answer) -> Callable[[Asked], Answer]:
    """A script of `answers`, the last one for ever."""
    return lambda request: answers[min(request.number, len(answers) - 1)]


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
        assert len(server.prompts) == 3
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
        assert len(server.prompts) == 3
    assert sum(waits.slept) <= 60


@thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sent", [-1, 0, 40], ids=["before the first byte", "after the head", "mid-body"])
def test_a_stall_is_asked_for_again_after_the_read_timeout(kind: str, sent: int) -> None:
    stalled = Answer(GOOD.body, ending="stall", sent=sent)
    with serving(in_order(stalled, GOOD)) as server:
        assert asked_once(kind, server, Waits(), timeout_s=0.2, total_s=30.0).text == "Lima"
        assert len(server.prompts) == 2
    with serving(in_order(stalled)) as server:
        with pytest.raises(TargetUnavailable, match=r"within 0\.2 s \(tried 3 times\)"):
            asked_once(kind, server, Waits(), timeout_s=0.2, total_s=30.0, tries=3)
        assert len(server.prompts) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_one_stalled_reply_does_not_end_an_evaluation(kind: str) -> None:
    stalled: list[str] = []

    def script(request: Asked) -> Answer:
        if number_of(request) == "0003" and not stalled:
            stalled.append(request.text)
            return Answer(GOOD.body, ending="stall", sent=20)
        return right(request)

    with serving(script) as server:
        rows, spent = scored(kind, server, QUESTIONS[:8], flying=8, timeout_s=0.5, total_s=30.0)
    assert stalled
    assert {row.scores["em"] for row in rows} == {1.0}
    assert spent.sent == 8


@pytest.mark.parametrize("kind", KINDS)
def test_all_tries_together_end_with_the_cap(kind: str) -> None:
    with serving(in_order(Answer(GOOD.body, ending="stall"))) as server:
        with pytest.raises(TargetUnavailable, match=r"within 0\.3 s"):
            asked_once(kind, server, Waits(), total_s=0.3, timeout_s=30.0)
        assert len(server.prompts) == 1
    with serving(in_order(failing(429, "tomorrow", retry_after="86400"))) as server:
        with pytest.raises(TargetUnavailable, match="tomorrow"):
            asked_once(kind, server, Waits())
        assert len(server.prompts) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_one_in_ten_failing_under_64_in_flight_loses_and_doubles_nothing(kind: str) -> None:
    faults = [*PASSING.values()][2:]
    draws = random.Random(3)
    failed: list[str] = []

    def script(request: Asked) -> Answer:
        if draws.random() < 0.1:
            failed.append(request.text)
            return draws.choice(faults)
        return right(request)

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
    def script(request: Asked) -> Answer:
        return failing(500) if number_of(request) == "0005" else right(request)

    with serving(script) as server:
        with pytest.raises(TargetUnavailable, match="answered 500"):
            scored(kind, server, QUESTIONS[:20], tries=2)
        assert max(server.times.values()) <= 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_in_a_wrong_schema_gets_one_repair_call(kind: str) -> None:
    def script(request: Asked) -> Answer:
        repaired = request.number > 0
        return (
            right(request)
            if repaired
            else build_answer('{"reply": {"not": "what was asked"}, "nor": ["this"]}')
        )

    with serving(script) as server:
        rows, spent = scored(kind, server, QUESTIONS[:1])
        assert len(server.prompts) == 2
    assert rows[0].scores["em"] == 1.0
    assert (spent.repairs, spent.sent) == (1, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_schema_that_stays_is_a_failure_that_is_named_and_counted(kind: str) -> None:
    def script(request: Asked) -> Answer:
        return build_answer("{}") if "0001" in number_of(request) else right(request)

    with serving(script) as server:
        rows, spent = scored(kind, server, QUESTIONS[:3])
        assert len(server.prompts) == 4
    assert [row.scores["em"] for row in rows] == [1.0, 0.0, 1.0]
    assert rows[1].prediction is None
    assert rows[1].failure
    assert not rows[0].failure
    assert spent.repairs == 1
