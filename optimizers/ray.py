"""Ray: the blocks of a study's trials are answered on any number of machines.

    study ─► block of questions ─► Ray tasks, a part each ─► rows, in the order of the questions
                                       │ replies, charges
                                       ▼
                                    Keeper, one actor on the study's machine ─► store, budget

The study asks and tells Optuna in order, so it compiles the program that one process gives. A machine joins or
leaves at any time, by `ray start --address=HOST:PORT`; a worker that dies costs its part, which another answers.
Every machine has the same version of ragc, and the recipe's files at the same path.
"""

from __future__ import annotations

import asyncio
import math
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from ragc import errors
from ragc.compiled.base import CompiledProgram, ProgramState, state_of
from ragc.core import event_loop
from ragc.core.counters import Counters, count, counting
from ragc.core.extras import __version__, require
from ragc.core.progress import Progress
from ragc.core.text import first_line
from ragc.errors import BudgetExhausted, RagcError, UsageError
from ragc.programs.base import RagProgram
from ragc.recipe import Budget, parse
from ragc.records import Question
from ragc.store.calls import CallStore
from ragc.task.answering import Row, evaluate
from ragc.task.base import Task, prepare
from ragc.task.budget import BudgetFile, Spent
from ragc.task.study_address import facts_differ

T = TypeVar("T")

TRIES = 5
"""How often a part is handed out before the study stops because its workers die."""

MOST_MEMORY = 128 * 2**20
"""Bytes of Ray's store of objects, where a cluster is started here: what is sent is small."""


class ClusterError(RagcError):
    """The Ray cluster cannot be reached, or its workers die."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker needs to answer questions of a study; `facts` are those of its task."""

    name: str
    recipe: str
    base: str
    facts: Mapping[str, Any]
    salt: str
    version: str = __version__


class Keeper:
    """The actor that holds the store and the budget of a study for its workers."""

    def __init__(self, store: Path | None, budget: Path | None, limits: Budget) -> None:
        self._store = CallStore(store)
        self._budget = BudgetFile(budget, limits)
        self._making: dict[str, asyncio.Event] = {}

    async def read(self, key: str) -> str | None:
        """Returns the text under `key`, waiting for the worker that makes it; None if the caller is to make it."""
        while (text := await self._store.read(key)) is None and (making := self._making.get(key)):
            await making.wait()
        if text is None:
            self._making[key] = asyncio.Event()
        return text

    async def write(self, key: str, text: str) -> None:
        """Stores `text` under `key`."""
        await self._store.write(key, text)
        await self.leave(key)

    async def leave(self, *keys: str) -> None:
        """Lets another worker make what is under `keys`; without keys, everything."""
        for key in keys or tuple(self._making):
            if making := self._making.pop(key, None):
                making.set()

    async def hold(self, held: Spent) -> None:
        """Holds back what the study holds back for later."""
        self._budget.held = held

    async def reserve(self, key: str, tokens: int, usd: float) -> int | str:
        """Returns the number of a try of the request `key`, or why the budget refuses it."""
        try:
            return await self._budget.reserve(key, tokens, usd)
        except BudgetExhausted as error:
            return str(error)

    async def charge(self, method: str, *arguments: Any) -> None:
        """Ends a try, by a `method` of the budget, or charges a stored reply."""
        getattr(self._budget, method)(*arguments)


class KeptStore(CallStore):
    """The store of the study, as its workers reach it."""

    def __init__(self, keeper: Any) -> None:
        super().__init__(None)
        self._keeper = keeper

    async def read(self, key: str) -> str | None:
        """Returns the text under `key`; None if this worker is to make it."""
        text: str | None = await self._keeper.read.remote(key)
        return text

    async def write(self, key: str, text: str) -> None:
        """Stores `text` under `key`."""
        await self._keeper.write.remote(key, text)

    async def get_or_make(
        self,
        key: str,
        make: Callable[[], Awaitable[T]],
        read: Callable[[str], T | None],
        write: Callable[[T], str],
    ) -> tuple[T, bool]:
        """As in `CallStore`; where making fails, another worker may make it."""

        async def made() -> T:
            try:
                return await make()
            except BaseException:
                self._keeper.leave.remote(key)
                raise

        return await super().get_or_make(key, made, read, write)


class KeptBudget:
    """The budget of the study, as its workers reach it."""

    def __init__(self, keeper: Any, limits: Budget) -> None:
        self._keeper, self.limits_usd = keeper, limits.usd is not None

    async def reserve(self, key: str, tokens: int, usd: float) -> int:
        """Returns the number of a try of the request `key`. Raises BudgetExhausted."""
        number: int | str = await self._keeper.reserve.remote(key, tokens, usd)
        if isinstance(number, str):
            raise BudgetExhausted(number)
        return number

    def settle(self, number: int, tokens: int, usd: float) -> None:
        """Charges what the try cost."""
        self._keeper.charge.remote("settle", number, tokens, usd)

    def keep(self, number: int) -> None:
        """Charges all that was reserved."""
        self._keeper.charge.remote("keep", number)

    def release(self, number: int) -> None:
        """Charges nothing."""
        self._keeper.charge.remote("release", number)

    def charge_cached(self, key: str, tokens: int, usd: float) -> None:
        """Charges a stored reply, once."""
        self._keeper.charge.remote("charge_cached", key, tokens, usd)


_opened: dict[str, Task] = {}
"""The tasks of the jobs that this worker has worked on, by name."""


def answer_part(
    job: Job, keeper: Any, state: str, ids: Sequence[str]
) -> tuple[tuple[Row, ...], str, str, dict[str, float]]:
    """Answers the dev questions `ids` with the program in `state`, as a Ray task.

    Returns the rows, the class and the message of the error that ended it ("" for none), and what was counted.
    """
    spent, rows, kind, message = Counters(), tuple[Row, ...](), "", ""
    try:
        with counting(spent):
            rows = event_loop.run(_answer(job, keeper, ProgramState.model_validate_json(state), ids))
    except RagcError as error:
        kind, message = type(error).__name__, str(error)
    return rows, kind, message, spent.to_json()


async def _answer(job: Job, keeper: Any, state: ProgramState, ids: Sequence[str]) -> tuple[Row, ...]:
    if job.name not in _opened:
        task = await asyncio.to_thread(_open, job, keeper)
        await task.runtime.open()
        _opened[job.name] = task
    task = _opened[job.name]
    program = CompiledProgram(state, {}, job.recipe).build(task.runtime)
    questions = {question.id: question for question in task.dev}
    limit = asyncio.Semaphore(task.in_flight)
    return await evaluate(program, [questions[name] for name in ids], task.scorer, limit=limit)


def _open(job: Job, keeper: Any) -> Task:
    if job.version != __version__:
        raise UsageError(
            f"A worker has ragc {__version__}, and the study runs on {job.version}; install the same version on every "
            "machine."
        )
    recipe = parse(job.recipe, where="the study's recipe", base=Path(job.base), code=True)
    task = prepare(recipe, store=KeptStore(keeper))
    task.runtime.gateway.budget = KeptBudget(keeper, recipe.budget)
    task.runtime.gateway.salt = job.salt
    if different := facts_differ(task.facts, job.facts):
        raise UsageError(
            f"A worker's {different} differ from those of the study; give every machine the same files at {job.base}."
        )
    return task


class Workers:
    """The Ray cluster that this process is connected to, at work on `task`. `step` is called for each question."""

    def __init__(self, task: Task, progress: Progress) -> None:
        ray, recipe = library(), task.recipe
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        store, budget = task.runtime.gateway.store, task.budget
        keeper = ray.remote(num_cpus=0, scheduling_strategy=here, max_concurrency=10_000)(Keeper)
        self._keeper = keeper.remote(store.directory, budget.path, recipe.budget)
        self._part = ray.remote(num_cpus=1, max_retries=0)(answer_part)
        base, salt = str(recipe.base.resolve()), task.runtime.gateway.salt
        self._job = ray.put(Job(uuid4().hex, recipe.to_toml(), base, task.facts, salt))
        self._ray, self._task, self._progress = ray, task, progress

    async def answer(self, program: RagProgram, questions: Sequence[Question]) -> tuple[Row, ...]:
        """Returns `questions` answered and scored, in their order. Raises ClusterError, and a worker's error."""
        await self._keeper.hold.remote(self._task.budget.held)
        state = self._ray.put(state_of(program).model_dump_json())
        size = math.ceil(len(questions) / max(1, slots(self._ray)))
        parts = [questions[first : first + size] for first in range(0, len(questions), size)]
        rows = await event_loop.gather_or_cancel(self._answer_part(state, part) for part in parts)
        return tuple(row for part in rows for row in part)

    async def _answer_part(self, state: Any, part: Sequence[Question]) -> tuple[Row, ...]:
        for attempt in range(TRIES):
            result = self._part.remote(self._job, self._keeper, state, [question.id for question in part])
            try:
                rows, kind, message, spent = await result
                break
            except asyncio.CancelledError:
                self._ray.cancel(result)
                raise
            except self._ray.exceptions.RayError as error:
                await self._keeper.leave.remote()
                if attempt == TRIES - 1 or isinstance(error, self._ray.exceptions.RayTaskError):
                    raise ClusterError(
                        f"A worker failed ({first_line(error, 200)}); look at Ray's logs on its machine, then run the same "
                        "command with --resume."
                    ) from error
        count(**spent)
        if kind:
            raise getattr(errors, kind, RagcError)(message)
        for _ in rows:
            self._progress.step()
        return rows


@asynccontextmanager
async def workers(task: Task, progress: Progress) -> AsyncIterator[Workers]:
    """Opens the workers that `study.workers` of the recipe names: "ray", or the HOST:PORT of a cluster.

    A cluster started here is stopped at exit. Raises UsageError without Ray and ClusterError.
    """
    ray, address = library(), task.recipe.study.workers
    ours = not ray.is_initialized()
    try:
        if ours:
            await asyncio.to_thread(_connect, ray, "" if address == "ray" else address)
        where = ray.get_runtime_context().gcs_address
        progress.note(f"workers: {slots(ray)} at once; a machine joins by `ray start --address={where}`")
        yield Workers(task, progress)
    finally:
        if ours:
            ray.shutdown()


def library() -> Any:
    """Imports Ray, which then reports nothing home. Raises UsageError if it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        require("ray", "study.workers")
        import ray
        import ray.exceptions
        import ray.util.scheduling_strategies
    return ray


def slots(ray: Any) -> int:
    """Returns how many parts the cluster answers at once: a CPU each."""
    return int(ray.cluster_resources().get("CPU", 0))


def _connect(ray: Any, address: str) -> None:
    """Connects to the cluster at `address`, or at RAY_ADDRESS, or starts one on this machine."""
    address = address or os.environ.get("RAY_ADDRESS", "")
    started = {"include_dashboard": False, "object_store_memory": MOST_MEMORY}
    try:
        ray.init(logging_level="ERROR", log_to_driver=False, **({"address": address} if address else started))
    except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        where = f"at {address}" if address else "of this machine"
        raise ClusterError(
            f"The Ray cluster {where} cannot be used ({first_line(error, 200)}); start one with `ray start --head`, or "
            "leave study.workers out."
        ) from error
