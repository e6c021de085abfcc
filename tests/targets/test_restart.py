"""A server that is started again in the middle of an evaluation."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from tests.support.server import Answer, Asked, ScriptedServer, serving
from tests.support.targets import KINDS, QUESTIONS, right, scored

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("only_our_key")]

FLYING = 8
ASKED = QUESTIONS[:40]
BEFORE = 12
"""Completions asked for before the server dies; as many as are in flight then are never answered."""


class Restart:
    """A script that falls silent for its server to be killed, and waits that bring it back."""

    def __init__(self, looks: int | None) -> None:
        self.looks = looks
        self.dying, self.dead = threading.Event(), threading.Event()
        self.waits = 0
        self.server: ScriptedServer | None = None

    def script(self, request: Asked) -> Answer:
        if request.number >= BEFORE and not self.dead.is_set():
            self.dying.set()
            return Answer(b"", ending="stall")
        return right(request)

    def kill(self) -> None:
        assert self.server is not None
        assert self.dying.wait(60)
        self.server.close()
        self.dead.set()

    async def wait(self, seconds: float) -> None:
        """A wait that passes at once; so many of them after its death, the server is back."""
        assert self.server is not None
        assert self.dead.wait(60)
        self.waits += 1
        if self.waits == self.looks:
            self.server.open()


@pytest.mark.parametrize("kind", KINDS)
def test_every_question_gets_its_answer_and_none_is_sent_again_once_answered(kind: str) -> None:
    restart = Restart(looks=20)
    with serving(restart.script) as server:
        restart.server = server
        killer = threading.Thread(target=restart.kill)
        killer.start()
        rows, spent = scored(kind, server, ASKED, flying=FLYING, waits=restart.wait)
        killer.join()
        answered, times = Counter(server.answered), server.times
    assert [row.prediction for row in rows] == [question.answers[0] for question in ASKED]
    assert spent.sent == len(ASKED)
    assert set(answered.values()) == {1}
    assert len(answered) == len(ASKED)
    assert max(times.values()) == 2
    assert restart.waits >= 20
