"""Targets at a server that misbehaves, and an evaluation over one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ragc import metrics
from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.metrics.base import Scorer
from ragc.programs import method
from ragc.programs.runtime import Runtime
from ragc.records import Question
from ragc.targets.base import Target
from ragc.targets.chat import ChatTarget
from ragc.targets.hosted import HostedTarget
from ragc.targets.options import HostedOptions, VllmOptions
from ragc.task.answering import Row, evaluate
from tests.support.server import MODEL, Answer, Asked, ScriptedServer, fitting

T = TypeVar("T")
HANG_S = 60
"""Only a call that would never end takes this long."""
KINDS = ("vllm", "hosted")
QUESTIONS = tuple(Question(f"q{n}", f"Which number is item {n:04}?", (f"{n:04}",)) for n in range(200))
EM = Scorer((metrics.get("em"),))


class Waits:
    """Sleeps that pass at once and are kept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def target_of(kind: str, url: str, waits: Callable[[float], Awaitable[None]], **options: Any) -> Target:
    """A target of `kind` at the server `url`."""
    target: ChatTarget | HostedTarget
    if kind == "vllm":
        target = ChatTarget(url, MODEL, VllmOptions(**options))
    else:
        target = HostedTarget(f"openai/{MODEL}", url, HostedOptions(**options))
    target.sleep = waits
    return target


def finished(target: Target, work: Coroutine[Any, Any, T]) -> T:
    """What `work` comes to on the process's loop; the target is closed after it."""

    async def go() -> T:
        try:
            return await asyncio.wait_for(work, HANG_S)
        finally:
            await target.aclose()

    return event_loop.run(go())


def number_of(request: Asked) -> str:
    """The item that a completion was asked for, in whichever message it stands."""
    messages = " ".join(str(message["content"]) for message in request.body["messages"])
    return messages.partition("item ")[2][:4]


def right(request: Asked) -> Answer:
    """The right answer."""
    return fitting(request, answer=number_of(request))


def scored(
    kind: str,
    server: ScriptedServer,
    questions: tuple[Question, ...] = QUESTIONS,
    *,
    flying: int = 64,
    waits: Callable[[float], Awaitable[None]] | None = None,
    **options: Any,
) -> tuple[tuple[Row, ...], Counters]:
    """The rows of no_retrieval over `questions`, `flying` at once, and what they took."""
    target = target_of(kind, server.url, waits or Waits(), concurrency=flying, **options)
    program = method("no_retrieval").build(Runtime({"main": target}), {})

    async def go() -> tuple[tuple[Row, ...], Counters]:
        await target.open()
        with counting(Counters()) as spent:
            return await evaluate(program, questions, EM, limit=asyncio.Semaphore(flying)), spent

    return finished(target, go())
