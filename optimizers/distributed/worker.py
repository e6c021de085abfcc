"""Worker of a distributed study: runs trials for the study's process, or joins its Ray cluster as a node.

A trial uses the store, the budget and the storage shared by all workers. Its inputs and outputs are JSON
texts. The study's task is opened once a process. A machine joins a running study as a Ray node in the
foreground.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from ragc import errors
from ragc.core import event_loop
from ragc.core.counters import Counters, count, counting
from ragc.core.digest import canonical
from ragc.core.extras import __version__
from ragc.core.home import cache_home
from ragc.core.progress import Silent
from ragc.errors import RagcError, Untrusted, UsageError
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.run_trial import LocalRunner
from ragc.optimizers.search.storage import StudyAttributes, find, is_outside, open_server_study
from ragc.recipe import parse
from ragc.store.call_store import STORAGE_ENV, STORE_ENV, CallStore
from ragc.task.base import Task, prepare, recorded_rooms
from ragc.task.shared_budget import SharedLedger
from ragc.task.study_address import facts_differ, read_address, storage_address, store_address

_POLL_S = 0.2
_KINDS: Mapping[str, type[RagcError]] = {
    kind.__name__: kind
    for kind in (
        errors.UsageError,
        errors.TargetError,
        errors.TargetUnavailable,
        errors.CapabilityMissing,
        errors.ParseFailure,
        errors.SourceError,
        errors.StoreError,
        errors.BudgetExhausted,
    )
}
"""Errors that can be built from a text alone; others are sent as their nearest base class."""
_opened: dict[str, LocalRunner] = {}


@dataclass(frozen=True, slots=True)
class Job:
    """The inputs common to all trials of a study. `name` is its name on servers, `facts` are those of its
    task, and `epoch` is that of its replies.
    """

    recipe: str
    base: str
    name: str
    facts: Mapping[str, Any]
    version: str = __version__
    epoch: str = ""

    def text(self) -> str:
        """Returns the job as JSON text; `of` is the inverse."""
        return canonical(
            {
                "recipe": self.recipe,
                "base": self.base,
                "name": self.name,
                "facts": dict(self.facts),
                "version": self.version,
                "epoch": self.epoch,
            }
        )

    @classmethod
    def of(cls, text: str) -> Job:
        """Returns the inverse of `text`."""
        return cls(**json.loads(text))


def run_job(job: str, number: int, candidate: str, rivals: str, span: str) -> str:
    """Runs trial `number` of `job` and returns its result as JSON for `read`. An interrupt cancels it.

    An error of ragc is returned as a value; every other error is raised.
    """
    future = asyncio.run_coroutine_threadsafe(
        _run_job(job, number, candidate, rivals, span), event_loop.get()
    )
    try:
        while not future.done():  # an interrupt from another thread is only seen between two waits
            concurrent.futures.wait([future], timeout=_POLL_S)
        return canonical(future.result())
    except BaseException:
        future.cancel()
        raise


def read(text: str) -> TrialResult:
    """Returns the result of `run_job`. Adds its cost to the current counters. Raises the trial's error."""
    payload = json.loads(text)
    count(**payload["spent"])
    if "error" in payload:
        raise _KINDS.get(payload["error"], RagcError)(payload["text"])
    return TrialResult.of(payload["tried"])


async def _run_job(job: str, number: int, candidate: str, rivals: str, span: str) -> dict[str, Any]:
    trial_candidate = Candidate.of(json.loads(candidate))
    others = [TrialResult.of(rival) for rival in json.loads(rivals)]
    ends = json.loads(span)
    with counting(Counters()) as spent:
        try:
            runner = await _runner(job)
            result = await runner.run(number, trial_candidate, others, (ends[0], ends[1]) if ends else None)
            payload: dict[str, Any] = {"tried": result.to_json()}
        except RagcError as error:
            kind = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KINDS), "")
            payload = {"error": kind, "text": str(error)}
    return {**payload, "spent": spent.to_json()}


async def _runner(job: str) -> LocalRunner:
    """Returns the runner for the trials of `job` in this process, opened once."""
    if job not in _opened:
        task, runner = await asyncio.to_thread(_open, Job.of(job))
        await task.runtime.open()
        _opened[job] = runner
    return _opened[job]


def _open(job: Job) -> tuple[Task, LocalRunner]:
    if job.version != __version__:
        raise UsageError(
            f"A worker has ragc {__version__}, and the study was begun with {job.version}; install the same "
            "version on every machine."
        )
    recipe = parse(job.recipe, where="the study's recipe", base=Path(job.base), code=True)
    storage, store = storage_address(recipe.study), store_address(recipe.study)
    for address, variable in ((storage, STORAGE_ENV), (store, STORE_ENV)):
        if not address:
            raise UsageError(
                f"A worker knows no address of what the study shares; set {variable} in its environment too."
            )
    ledger = SharedLedger(store, job.name, recipe.budget)
    call_store = CallStore.at(store, cache_home() / "store")
    rooms = recorded_rooms(job.facts)
    task = prepare(recipe, store=call_store, ledger=ledger, rooms=rooms)
    task.runtime.gateway.epoch = job.epoch
    _refuse_another(task, job)
    attributes = StudyAttributes(open_server_study(storage, job.name))
    return task, LocalRunner(ProgramBuilder(task, attributes, asyncio.Semaphore(task.in_flight), Silent()))


def _refuse_another(task: Task, job: Job) -> None:
    """Raises UsageError if this machine's data, sources or targets differ from the study's."""
    if different := facts_differ(task.facts, job.facts):
        raise UsageError(
            f"A worker's {different} differ from those that the study was begun with; give every machine the "
            f"same files at {job.base}."
        )


_ADDRESS = re.compile(r"[^\s/@:]+:[0-9]{1,5}")
_STORE_BYTES = 128 * 2**20


def join(where: str, *, trials: int | None = None) -> NoReturn:
    """Joins the study at `where` as a worker until interrupted; this process is replaced by Ray's.

    `where` is a study as in `status`, on a machine that has its directory, or the address of its cluster,
    HOST:PORT, as the study's machine shows it. `trials` is the number of concurrent trials, by default one a
    core. The environment holds what the recipe leaves to it: RAGC_STORE, RAGC_STORAGE, PGPASSWORD, API keys.
    Unfinished trials of a worker that leaves are run again elsewhere. Raises UsageError.
    """
    if trials is not None and trials < 1:
        raise UsageError(f"A worker runs at least one trial at a time, found {trials}.")
    address = address_of(where)
    if find_spec("ray") is None:
        raise UsageError(
            "Workers need Ray, which is not installed; run: pip install 'ragc[ray,postgres,redis]'."
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--address", address]
    command += ["--object-store-memory", str(_STORE_BYTES)]
    command += [] if trials is None else ["--num-cpus", str(trials)]
    os.execv(sys.executable, command)  # noqa: S606 - no shell, and all arguments are the user's own


def address_of(where: str) -> str:
    """Returns the cluster address for `where`, which is as in `join`. Raises UsageError."""
    if _ADDRESS.fullmatch(where) and not Path(where).exists():
        return where
    directory = find(where)
    if is_outside(directory):
        raise Untrusted(
            f"{directory} is no study of this machine's, and whom a worker joins runs programs on it; name "
            "the cluster itself: ragc study worker HOST:PORT."
        )
    address = read_address(directory).get("workers", "")
    if not address:
        raise UsageError(
            f"The study at {where} has no workers to join now; start it with study.workers in its recipe, "
            "and join while it runs."
        )
    return address
