"""Ray: the questions of a study's trials are answered on any number of machines.

    study ─► block of questions ─► Ray tasks, a part each ─► rows, in the order of the questions
                                       │ replies, charges
                                       ▼
                                    Keeper, one actor on the study's machine ─► store, budget

The study asks and tells Optuna in order, so it compiles the program that one process gives. A machine joins
by `ray start --address=HOST:PORT` and leaves at any time; a worker that dies costs its part, which is
answered again. Every machine has the same version of ragc, and the files of the recipe at the same path.
Two workers that ask the same at once each send it.
"""

from __future__ import annotations

import asyncio
import math
import os
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from ragc import errors
from ragc.compiled.base import CompiledProgram, ProgramState, state_of
from ragc.core import event_loop
from ragc.core.counters import Counters, count, counting
from ragc.core.extras import require
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

TRIES = 5
"""How often a part is handed out before the study stops because its workers die."""

MEMORY = 128 * 2**20
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


class Keeper:
    """The actor that holds the store and the budget of a study for its workers."""

    def __init__(self, store: Path, budget: Path, limits: Budget) -> None:
        self._store, self._budget = CallStore(store), BudgetFile(budget, limits)

    async def read(self, key: str) -> str | None:
        """Returns the text under `key`, or None."""
        return await self._store.read(key)

    async def write(self, key: str, text: str) -> None:
        """Stores `text` under `key`."""
        await self._store.write(key, text)

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
        """Ends a try, or charges a stored reply, by a `method` of the budget."""
        getattr(self._budget, method)(*arguments)


class KeptStore(CallStore):
    """The store of the study, as a worker reaches it."""

    def __init__(self, keeper: Any) -> None:
        super().__init__(None)
        self._keeper = keeper

    async def read(self, key: str) -> str | None:
        """Returns the text under `key`, or None."""
        text: str | None = await event_loop.wait(self._keeper.read.remote(key))
        return text

    async def write(self, key: str, text: str) -> None:
        """Stores `text` under `key`."""
        await event_loop.wait(self._keeper.write.remote(key, text))


class KeptBudget:
    """The budget of the study, as a worker reaches it: a `ragc.targets.gateway.Budget`."""

    def __init__(self, keeper: Any, limits: Budget) -> None:
        self._keeper, self.limits_usd = keeper, limits.usd is not None
        self.settle, self.keep, self.release, self.charge_cached = (
            partial(keeper.charge.remote, name) for name in ("settle", "keep", "release", "charge_cached")
        )

    async def reserve(self, key: str, tokens: int, usd: float) -> int:
        """Returns the number of a try of the request `key`. Raises BudgetExhausted."""
        number: int | str = await self._keeper.reserve.remote(key, tokens, usd)
        if isinstance(number, str):
            raise BudgetExhausted(number)
        return number


_tasks: dict[str, Task] = {}
"""The tasks of the jobs that this worker has worked on, by name."""


def answer_part(
    job: Job, keeper: Any, state: str, ids: Sequence[str]
) -> tuple[tuple[Row, ...], str, str, dict[str, float]]:
    """Answers the dev questions `ids` with the program in `state`, as a Ray task.

    Returns the rows, the class and message of the error that ended it ("" for none), and what it counted.
    """
    rows, kind, message = tuple[Row, ...](), "", ""
    with counting(Counters()) as spent:
        try:
            rows = event_loop.run(_answer(job, keeper, ProgramState.model_validate_json(state), ids))
        except RagcError as error:
            kind, message = type(error).__name__, str(error)
    return rows, kind, message, spent.to_json()


async def _answer(job: Job, keeper: Any, state: ProgramState, ids: Sequence[str]) -> tuple[Row, ...]:
    if job.name not in _tasks:
        _tasks[job.name] = await asyncio.to_thread(_open, job, keeper)
    task = _tasks[job.name]
    await task.runtime.ready()
    program = CompiledProgram(state, {}, job.recipe).build(task.runtime, task.method_of(state.method))
    questions = {question.id: question for question in task.dev}
    limit = asyncio.Semaphore(task.in_flight)
    return await evaluate(program, [questions[name] for name in ids], task.scorer, limit=limit)


def _open(job: Job, keeper: Any) -> Task:
    recipe = parse(job.recipe, where="the study's recipe", base=Path(job.base), code=True)
    task = prepare(recipe, store=KeptStore(keeper))
    task.runtime.gateway.budget = KeptBudget(keeper, recipe.budget)
    task.runtime.gateway.salt = job.salt
    if different := facts_differ(task.facts, job.facts):
        raise UsageError(
            f"A worker's {different} differ from those of the study; give every machine the same files at "
            f"{job.base}."
        )
    return task


class Workers:
    """The Ray cluster that this process is connected to, at work on `task`, whose `progress` it shows."""

    def __init__(self, task: Task, progress: Progress) -> None:
        ray, recipe, gateway = _library(), task.recipe, task.runtime.gateway
        here = {f"node:{ray.util.get_node_ip_address()}": 0.001}
        keeper = ray.remote(num_cpus=0, resources=here, max_concurrency=10_000)(Keeper)
        self._keeper = keeper.remote(Path(gateway.store.where), task.budget.path, recipe.budget)
        self._part = ray.remote(num_cpus=1, max_retries=0)(answer_part)
        self._job = ray.put(
            Job(uuid4().hex, recipe.to_toml(), str(recipe.base.resolve()), dict(task.facts), gateway.salt)
        )
        self._ray, self._task, self._progress = ray, task, progress

    async def answer(self, program: RagProgram, questions: Sequence[Question]) -> tuple[Row, ...]:
        """Returns `questions` answered and scored, in their order.

        Raises ClusterError, and the first error of a worker.
        """
        await self._keeper.hold.remote(self._task.budget.held)
        state = self._ray.put(state_of(program).model_dump_json())
        size = math.ceil(len(questions) / max(1, _slots(self._ray)))
        parts = [questions[first : first + size] for first in range(0, len(questions), size)]
        rows = await event_loop.gather_or_cancel(self._answer_part(state, part) for part in parts)
        return tuple(row for part in rows for row in part)

    async def _answer_part(self, state: Any, part: Sequence[Question], tries: int = TRIES) -> tuple[Row, ...]:
        result = self._part.remote(self._job, self._keeper, state, [question.id for question in part])
        try:
            rows, kind, message, spent = await result
        except asyncio.CancelledError:
            self._ray.cancel(result)
            raise
        except self._ray.exceptions.RayError as error:
            if tries > 1 and not isinstance(error, self._ray.exceptions.RayTaskError):
                return await self._answer_part(state, part, tries - 1)
            raise ClusterError(
                f"A worker failed ({first_line(error)}); look at Ray's logs on its machine, then run the "
                "same command with --resume."
            ) from error
        count(**spent)
        if kind:
            raise getattr(errors, kind, RagcError)(message)
        self._progress.step(len(part))
        return tuple(rows)


@asynccontextmanager
async def workers(task: Task, progress: Progress) -> AsyncIterator[Workers]:
    """Opens the workers that `study.workers` of the recipe names: "ray", or the HOST:PORT of a cluster.

    "ray" is the cluster in RAY_ADDRESS, else one that is started here and stopped at exit. Raises UsageError
    without Ray, and ClusterError if the cluster cannot be reached.
    """
    ray, address = _library(), task.recipe.study.workers
    if address == "ray":
        address = os.environ.get("RAY_ADDRESS", "")
    started: dict[str, Any] = {"include_dashboard": False, "object_store_memory": MEMORY}
    where = {"address": address} if address else started
    ours = not ray.is_initialized()
    try:
        if ours:
            await asyncio.to_thread(ray.init, logging_level="ERROR", log_to_driver=False, **where)
    except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        raise ClusterError(
            f"The Ray cluster {address} cannot be used ({first_line(error)}); start one with "
            "`ray start --head`, or leave study.workers out."
        ) from error
    try:
        progress.note(
            f"workers: {_slots(ray)} at once; a machine joins by "
            f"`ray start --address={ray.get_runtime_context().gcs_address}`"
        )
        yield Workers(task, progress)
    finally:
        if ours:
            ray.shutdown()


def _library() -> Any:
    """Imports Ray, which then reports nothing home. Raises UsageError if it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    require("ray", "study.workers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
    return ray


def _slots(ray: Any) -> int:
    """Returns how many parts the cluster answers at once: one a CPU."""
    return int(ray.cluster_resources().get("CPU", 0))
