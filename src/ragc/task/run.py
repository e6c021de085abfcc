"""The measured run of a recipe: opened, counted, timed and closed, and what its requests took.

    open_state     locks the output and holds the folder with its state on this machine
    open_run       opens store and task; their ledger is closed at exit
    open           loads models and connects to servers
    measuring      counts and times what is sent

Compile, eval, grid, tables, headroom and training data run so. What requests to the same targets took when
they were last measured on this machine is kept for the dry run, tokens and seconds:

    $RAGC_HOME/speeds.json    {digest of the targets and the concurrency: {"seconds": ..., "requests": ...},
                               digest of the recipe: {"calls": ..., "longer": ..., "used": {target: [...]}}}

`used` are tokens of prompts, of replies, and of prompts read from a cache; a call costs `longer` times their
mean. Dollars are not kept: a price may change between two runs, and is applied when one is asked for.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ragc.core import event_loop
from ragc.core.activity import doing
from ragc.core.counters import Counters, counting
from ragc.core.digest import digest, pretty
from ragc.core.home import PRIVATE_FILE, cache_home, make_private, narrow_tree, write_private
from ragc.core.progress import SILENT, Progress, listening
from ragc.errors import UsageError
from ragc.programs.base import RagProgram
from ragc.recipe import Recipe
from ragc.records import Question
from ragc.store.call_store import CallStore, refuse_shared
from ragc.targets.base import Target, Usage
from ragc.targets.token_price import price_of
from ragc.targets.vllm.prefix_cache import increase, prefix_tokens
from ragc.task.answering import Row, evaluate, failed_searches
from ragc.task.base import Task, prepare
from ragc.task.budget import StudyLedger
from ragc.task.spare import longer


def keeping_state(out: Path, folder: Path, what: str = "state") -> AbstractContextManager[None]:
    """Names the step that failed where the state of `out` cannot be kept in `folder`."""
    return doing(f"Keeping the {what} of {out} in {folder}", "check RAGC_HOME, or set it to another folder")


@contextmanager
def lock_state(
    out: Path, folder: Path, work: str, *, what: str = "state", wait_s: float = 0.0
) -> Iterator[None]:
    """Keeps other processes of this machine from the `work` on `out`, whose state is in `folder`.

    `work` stands in a sentence, such as "writing". Raises UsageError where another process holds the lock for
    more than `wait_s` seconds.
    """
    lock = FileLock(f"{folder}.lock", mode=PRIVATE_FILE)
    with keeping_state(out, folder, what):
        make_private(folder.parent)
        try:
            lock.acquire(timeout=wait_s)
        except Timeout:
            raise UsageError(
                f"Another process is {work} {out}; wait for it or choose another --out."
            ) from None
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
def open_state(kind: str, out: Path, work: str, *, keep: bool) -> Iterator[Path | None]:
    """Locks `out` as `lock_state` does and opens its `state_folder`; None without `keep`."""
    if not keep:
        refuse_shared()
    folder = state_folder(kind, out)
    with lock_state(out, folder, work):
        if keep:
            with keeping_state(out, folder):
                make_private(folder)
                narrow_tree(folder)
        yield folder if keep else None


@dataclass(slots=True)
class Measurement:
    """What was sent during a measurement, and its wall-clock seconds, known at its end.

    `cached` counts prompt tokens that vLLM servers looked up and found in their prefix caches; empty without
    such a server.
    """

    spent: Counters = field(default_factory=Counters)
    seconds: float = 0.0
    cached: Mapping[str, float] = field(default_factory=dict)
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

    async def answer(self, program: RagProgram, questions: Sequence[Question]) -> tuple[Row, ...]:
        """Answers and scores `questions`, each a step of the progress, with a note on searches that failed.

        Raises as `evaluate`.
        """
        rows = await evaluate(program, questions, self.task.scorer, limit=self.limit, done=self.progress.step)
        if text := failed_searches(rows):
            self.progress.note(text)
        return rows

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[Measurement]:
        """As `measure`, with what servers found in their caches. Records the speed of the requests."""
        targets = self.task.runtime.targets.values()
        servers = [target for target in targets if getattr(target, "metrics_url", "")]
        before = await prefix_tokens(servers) if servers else {}
        with measure() as measurement:
            yield measurement
        measurement.cached = increase(before, await prefix_tokens(servers)) if servers else {}
        _note_speed(self.task, measurement.spent, measurement.seconds)

    def note_speed(self, measurement: Measurement) -> None:
        """Records the speed of the requests so far, for a run that goes on and replays most."""
        _note_speed(self.task, measurement.spent, time.monotonic() - measurement.started)


@contextmanager
def open_run(
    recipe: Recipe,
    ledger: StudyLedger,
    *,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
    progress: Progress = SILENT,
    rooms: Mapping[str, int] | None = None,
) -> Iterator[MeasuredRun]:
    """Opens a run of `recipe` as `task.base.prepare` does; nothing is sent. `ledger` is closed at exit.

    Raises UsageError and its subclasses.
    """
    with closing(ledger):
        task = prepare(
            recipe,
            store=store,
            ledger=ledger,
            targets=targets,
            progress=progress,
            rooms=rooms,
        )
        yield MeasuredRun(task, progress)


LEAST = 5
"""The least number of sent requests for a measurement. A run with more replayed than sent requests is not
used.
"""


def seconds_per_request(task: Task) -> float | None:
    """Returns seconds a request of `task`, at its concurrency, as last measured; None if never measured.

    Where these targets were not measured together, those of the one that answers.
    """
    speeds = _read()
    for key in (_key(task), _target_key(task.runtime.targets.get("main"), task.in_flight)):
        try:
            entry = speeds[key]
            return round(float(entry["seconds"]) / int(entry["requests"]), 4)
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            continue
    return None


def _note_speed(task: Task, spent: Counters, seconds: float) -> None:
    """Records what the requests that were sent took; a file that cannot be written is ignored."""
    if task.recipe.study.keep:
        _note_seconds(_key(task), spent, seconds)


def note_target_speed(target: Target, measurement: Measurement) -> None:
    """Records what requests to `target` took that no task sent."""
    _note_seconds(_target_key(target, target.concurrency), measurement.spent, measurement.seconds)


def _note_seconds(key: str, spent: Counters, seconds: float) -> None:
    if spent.sent >= LEAST and spent.sent >= spent.replayed:
        _note(key, {"seconds": round(seconds, 3), "requests": int(spent.sent)})


@dataclass(frozen=True, slots=True)
class MeanCallCost:
    """The mean cost of an LM call: tokens of prompt and reply, and dollars; `usd` None without a price."""

    tokens: float
    usd: float | None


def cost_per_call(task: Task) -> MeanCallCost | None:
    """Returns the cost of an LM call of this recipe: last measured tokens at present prices.

    None if never measured.
    """
    try:
        entry = _read()[_recipe_key(task)]
        calls = int(entry["calls"])
        used = {str(name): Usage(*map(int, amounts)) for name, amounts in entry["used"].items()}
        return _mean(task, calls / float(entry["longer"]), used)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError):
        return None


def cost_so_far(task: Task) -> MeanCallCost | None:
    """Returns the cost of an LM call that this process made for `task`, replayed ones too; None before the
    first.
    """
    gateway = task.runtime.gateway
    calls = gateway.sent + gateway.replayed
    return _mean(task, calls, gateway.used) if calls else None


def _mean(task: Task, calls: float, used: Mapping[str, Usage]) -> MeanCallCost:
    """Returns the mean cost of `calls` calls that took the tokens `used`, by target, at present prices."""
    tokens = sum(usage.prompt + usage.completion for usage in used.values()) / calls
    prices = {target.identity: price_of(target) for target in task.runtime.targets.values()}
    usd = 0.0
    for name, usage in used.items():
        price = prices.get(name)
        if price is None:
            return MeanCallCost(tokens, None)
        usd += price.usd(usage)
    return MeanCallCost(tokens, usd / calls)


def note_cost(task: Task, *, whole: bool = True) -> None:
    """Records the cost of the LM calls that this process made for `task`, replayed ones too.

    Unless they are `whole`, they are those of a study's baseline, whose other calls are longer.
    """
    gateway = task.runtime.gateway
    calls = gateway.sent + gateway.replayed
    if calls >= LEAST and task.recipe.study.keep:
        used = {name: [usage.prompt, usage.completion, usage.cached] for name, usage in gateway.used.items()}
        _note(_recipe_key(task), {"calls": calls, "longer": 1.0 if whole else longer(task), "used": used})


def _note(key: str, entry: Mapping[str, object]) -> None:
    path = _path()
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    with suppress(OSError):
        write_private(fresh, pretty(_read() | {key: dict(entry)}))
        fresh.replace(path)


def _path() -> Path:
    return cache_home() / "speeds.json"


def _read() -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        speeds = json.loads(_path().read_bytes())
        return speeds if isinstance(speeds, dict) else {}
    return {}


def _key(task: Task) -> str:
    answering = sorted((role, target.identity) for role, target in task.runtime.targets.items())
    return digest([answering, task.in_flight])[:16]


def _target_key(target: Target | None, in_flight: int) -> str:
    """Returns the key of the speed of `target` alone, in the role main."""
    return digest([[("main", target.identity)], in_flight])[:16] if target is not None else ""


def _recipe_key(task: Task) -> str:
    answering = sorted((role, target.identity) for role, target in task.runtime.targets.items())
    return digest([answering, task.recipe.identity()])[:16]
