"""The measured run of a recipe: opened, counted, timed and closed, and what its requests took.

    open_state     locks the output and holds the folder with its state on this machine
    open_run       opens store and task; their budget is closed at exit
    open           loads models and connects to servers
    measure        counts and times what is sent

Compile, eval, grid, tables, headroom and training data run so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from filelock import FileLock, Timeout

from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.core.digest import digest
from ragc.core.files import PRIVATE_FILE, cache_home, make_private
from ragc.core.progress import SILENT, Progress, listening
from ragc.errors import UsageError
from ragc.programs.base import RagProgram
from ragc.recipe import Recipe
from ragc.records import Question
from ragc.store.calls import CallStore
from ragc.targets.base import Target
from ragc.targets.prices import price_of
from ragc.task.answering import Row, evaluate, failed_searches
from ragc.task.base import Task, prepare
from ragc.task.budget import BudgetFile


@contextmanager
def lock_state(out: Path, folder: Path, work: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Keeps other processes of this machine from the `work` on `out`, whose state is in `folder`.

    `work` stands in a sentence, such as "writing". Raises UsageError where another process holds the lock for
    more than `wait_s` seconds.
    """
    lock = FileLock(f"{folder}.lock", mode=PRIVATE_FILE)
    make_private(folder.parent)
    try:
        lock.acquire(timeout=wait_s)
    except Timeout:
        raise UsageError(f"Another process is {work} {out}; wait for it or choose another --out.") from None
    try:
        yield
    finally:
        lock.release()


def state_folder(kind: str, out: Path) -> Path:
    """Returns the folder on this machine for the state of the output `out`, one of a `kind` such as
    "grids".
    """
    name = out.name.encode()[:60].decode(errors="ignore")
    return cache_home() / kind / f"{name}-{digest(str(out))[:12]}"


@contextmanager
def open_state(kind: str, out: Path, work: str) -> Iterator[Path]:
    """Locks `out` as `lock_state` does and opens its `state_folder`."""
    folder = state_folder(kind, out)
    with lock_state(out, folder, work):
        make_private(folder)
        yield folder


@dataclass(slots=True)
class Measurement:
    """What was sent during a measurement, and its wall-clock seconds, known at its end."""

    spent: Counters = field(default_factory=Counters)
    seconds: float = 0.0
    started: float = field(default_factory=time.monotonic, repr=False)

    def to_json(self) -> dict[str, float]:
        """Returns all counters, tokens and seconds."""
        return {**self.spent.to_json(), "tokens": self.spent.tokens, "seconds": self.seconds}

    def brief(self) -> dict[str, float]:
        """Requests sent and replayed, tokens, US dollars and seconds."""
        return {name: self.to_json()[name] for name in ("sent", "replayed", "tokens", "usd", "seconds")}


@contextmanager
def measure() -> Iterator[Measurement]:
    """Counts what is sent inside the block, and times it."""
    measurement = Measurement()
    try:
        with event_loop.frozen_gc(), counting(measurement.spent):
            yield measurement
    finally:
        measurement.seconds = time.monotonic() - measurement.started


@dataclass(frozen=True)
class MeasuredRun:
    """A run over the questions of `task`, shown by `progress`."""

    task: Task
    progress: Progress = SILENT

    @cached_property
    def limit(self) -> asyncio.Semaphore:
        """Bounds the questions in flight."""
        return asyncio.Semaphore(self.task.in_flight)

    async def open(self, *, shown: bool = True) -> None:
        """Loads models and connects to servers. Raises TargetUnavailable and UsageError as `Runtime.open`.

        The phase is `shown` unless the run has another name for it.
        """
        if shown:
            self.progress.phase("opening the model", None)
        with listening(self.progress.note):
            await self.task.runtime.open(self.progress.download)

    async def answer(
        self,
        program: RagProgram,
        questions: Sequence[Question],
        keep: Callable[[Row], None] = lambda row: None,
    ) -> tuple[Row, ...]:
        """Answers and scores `questions`, each a step of the progress, with a note on searches that failed.

        `keep` is called with each row as soon as it is complete. Raises as `evaluate`.
        """
        rows = await evaluate(
            program, questions, self.task.scorer, limit=self.limit, done=self.progress.step, keep=keep
        )
        if text := failed_searches(rows):
            self.progress.note(text)
        return rows


@contextmanager
def open_run(
    recipe: Recipe,
    budget: BudgetFile,
    *,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
    progress: Progress = SILENT,
) -> Iterator[MeasuredRun]:
    """Opens a run of `recipe` as `task.base.prepare` does; nothing is sent. `budget` is closed at exit.

    Raises UsageError and its subclasses.
    """
    with closing(budget):
        task = prepare(
            recipe,
            store=store,
            budget=budget,
            targets=targets,
            progress=progress,
        )
        yield MeasuredRun(task, progress)


@dataclass(frozen=True, slots=True)
class MeanCallCost:
    """The mean cost of an LM call: tokens of prompt and reply, and dollars; `usd` None without a price."""

    tokens: float
    usd: float | None


def cost_so_far(task: Task) -> MeanCallCost | None:
    """Returns the cost of an LM call that this process made for `task`, replayed ones too; None before the
    first.
    """
    gateway = task.runtime.gateway
    calls = gateway.sent + gateway.cached
    if not calls:
        return None
    used = gateway.used
    tokens = sum(usage.prompt + usage.completion for usage in used.values()) / calls
    prices = {target.identity: price_of(target) for target in task.runtime.targets.values()}
    usd = 0.0
    for name, usage in used.items():
        price = prices.get(name)
        if price is None:
            return MeanCallCost(tokens, None)
        usd += price.usd(usage)
    return MeanCallCost(tokens, usd / calls)
