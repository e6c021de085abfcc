"""Runs trials as Ray tasks on any number of machines. Workers may join and leave while a study runs.

A trial whose worker or machine died is run again elsewhere; its finished calls are replayed from the store.
Results are processed in the order of their requests, so the compiled program equals that of a single process.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragc.core.digest import canonical
from ragc.core.progress import Progress
from ragc.core.redact import bare_address, mask, secrets
from ragc.core.text import first_line
from ragc.errors import RagcError, UsageError
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.distributed.worker import Job, read, run_job
from ragc.optimizers.search.run_trial import TrialRunner
from ragc.task.base import Task
from ragc.task.study_address import study_name, write_address

RETRIES = 20
"""The most retries of a trial whose worker died."""

_STORE_BYTES = 128 * 2**20


class ClusterError(RagcError):
    """The Ray cluster cannot be reached, or a trial cannot be run on it."""


class RayRunner:
    """Runs each trial as a task of the Ray cluster that this process is connected to.

    `step` of `progress` is called for all questions of a trial when it is done.
    """

    def __init__(self, job: Job, progress: Progress, concurrency: int) -> None:
        self.concurrency = concurrency
        self._job, self._progress, self._ray = job.text(), progress, _library()
        self._task = self._ray.remote(num_cpus=1, max_retries=RETRIES)(run_job)

    async def run(
        self,
        number: int,
        candidate: Candidate,
        rivals: Sequence[TrialResult],
        span: tuple[int, int] | None = None,
    ) -> TrialResult:
        """See `TrialRunner.run`. Cancelling it cancels the task. Raises the trial's error or ClusterError."""
        others = canonical([rival.to_json() for rival in rivals])
        arguments = canonical(candidate.to_json()), others, canonical(span)
        result = self._task.remote(self._job, number, *arguments)
        try:
            text = await result
        except asyncio.CancelledError:
            self._ray.cancel(result)
            raise
        except self._ray.exceptions.RayError as error:
            raise ClusterError(
                f"Trial {number} could not be run by a worker ({_cause(error)}); look at Ray's logs on "
                "the worker's machine, then run the same command with --resume."
            ) from error
        trial = read(text)
        self._progress.step(len(trial.scores))
        return replace(trial, candidate=candidate)  # restores the order of its knobs


@asynccontextmanager
async def on_workers(task: Task, directory: Path, progress: Progress) -> AsyncIterator[TrialRunner | None]:
    """The runner of `task`'s trials on workers; None if the recipe has no workers.

    While the block runs, `directory` records the address that workers join. A cluster started here is stopped
    on exit. Raises UsageError without Ray and ClusterError if the cluster cannot be reached.
    """
    address = task.recipe.study.workers
    if not address:
        yield None
        return
    ray = _library()
    ours = not ray.is_initialized()
    if ours:
        await asyncio.to_thread(_connect, ray, "" if address == "ray" else address)
    try:
        joined = ray.get_runtime_context().gcs_address
        write_address(directory, workers=joined)
        seen = sum(1 for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU"))
        machines = f"{seen} machine{'s' * (seen != 1)} at work"
        progress.note(f"workers: {machines}; others join with: ragc study worker {joined}")
        recipe = task.recipe
        job = Job(
            recipe.to_toml(),
            str(recipe.base.resolve()),
            study_name(directory),
            task.facts,
            epoch=task.runtime.gateway.epoch,
        )
        yield RayRunner(job, progress, task.batch)
    finally:
        write_address(directory, workers="")
        if ours:
            ray.shutdown()


def _library() -> Any:
    """Ray, with its usage reports switched off. Raises UsageError if it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # the caller may write JSON to stdout
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
            import ray.exceptions
    except ImportError as error:
        raise UsageError(
            "Workers need Ray, which is not installed; run: pip install 'ragc[ray,postgres,redis]'."
        ) from error
    return ray


def _connect(ray: Any, address: str) -> None:
    """Connects to the cluster at `address`, or at RAY_ADDRESS, or starts one on this machine."""
    address = address or os.environ.get("RAY_ADDRESS", "")
    how = (
        {"address": address} if address else {"include_dashboard": False, "object_store_memory": _STORE_BYTES}
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(logging_level="ERROR", log_to_driver=False, **how)
    except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        where = f"at {bare_address(address)}" if address else "of this machine"
        raise ClusterError(
            f"The Ray cluster {where} cannot be used ({mask(_cause(error), address)}); start one with "
            "`ray start --head`, or leave study.workers out."
        ) from (None if secrets(address) else error)


def _cause(error: BaseException) -> str:
    name, line = type(error).__name__, first_line(error, None)
    return name if line == name else f"{name}: {line}"
