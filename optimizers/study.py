"""The study: Optuna ask/tell over candidates, raced on the dev questions, safe against kills.

Trials run in batches of a fixed size. Results of a batch are written down together before any is
told, so a study killed between two tells goes on as if it had not been. Trials that were running when a
process died are failed and asked again, with the same outcome.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna

from ragc.errors import BudgetExhausted
from ragc.fingerprint import digest
from ragc.optimizers.asking import Asked, Asking, storage
from ragc.optimizers.demos import Pool, collect, show
from ragc.optimizers.evaluation import Row, evaluate
from ragc.optimizers.fitting import fit
from ragc.optimizers.racing import hopeless
from ragc.optimizers.suggest import Candidate
from ragc.optimizers.task import DEMO_SETS, Task
from ragc.optimizers.trials import Tried, best, finished
from ragc.programs.base import RagProgram
from ragc.progress import Progress

BLOCKS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
"""Shares of the dev questions after which a trial may be stopped."""


class Study:
    """One search for the best candidate of a task.

    `directory` holds Optuna's storage. `limit` bounds the questions in flight.
    """

    def __init__(self, task: Task, directory: Path, limit: asyncio.Semaphore, progress: Progress) -> None:
        self.task, self.limit, self.progress = task, limit, progress
        self.order = list(task.dev)
        random.Random(f"dev {task.seed}").shuffle(self.order)
        self.trials: list[Tried] = []
        self.spent = ""
        self._pools: dict[str, asyncio.Task[Pool]] = {}
        self._study = storage(directory, len(task.objectives))
        self._asking = Asking(self._study, task)
        self._take_up()

    @property
    def looks(self) -> list[int]:
        """The numbers of dev questions after which a trial may be stopped, rising to all of them."""
        n = len(self.order)
        return sorted({max(1, round(n * share)) for share in BLOCKS} | {n})

    def _take_up(self) -> None:
        """Finish what a killed process left: tell recorded batches, fail trials that were running."""
        told = {t.number for t in self._study.get_trials(deepcopy=False) if t.state.is_finished()}
        records = sorted((k, v) for k, v in self._study.user_attrs.items() if k.startswith("batch:"))
        for _, record in records:
            for value in record:
                tried = Tried.of(value)
                self.trials.append(tried)
                if tried.number not in told:
                    self._study.tell(tried.number, list(tried.values))
        for trial in self._study.get_trials(deepcopy=False):
            if not trial.state.is_finished():
                self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)

    async def run(self) -> Tried:
        """Search until the trials or the budget are spent; the best complete trial."""
        if not self.trials:
            self.progress.phase("baseline on dev", len(self.order))
            await self._batch(self._asking.baseline())
        calls = self.trials[0].counters["lm_calls"] / max(1, len(self.order))
        self.task.ledger.hold(round(2 * calls * len(self.task.test)))
        wanted = self.task.trials + 1 if self.task.space.size else 1
        try:
            while len(self.trials) < wanted:
                await self._batch(self._asking.batch(self.trials, wanted))
        except BudgetExhausted as error:
            self.spent = str(error)
            self.progress.note(self.spent)
        self.task.ledger.hold(0)
        return best(self.trials)

    async def _batch(self, asked: Sequence[Asked]) -> None:
        """Race and tell one batch."""
        done = len(self.trials)
        incumbent = best(self.trials) if self.trials else None
        abreast = asyncio.Semaphore(math.ceil(self.task.in_flight / self.looks[0]))
        races = [
            asyncio.ensure_future(self._race(trial.number, candidate, incumbent, done + place, abreast))
            for place, (trial, candidate) in enumerate(asked)
        ]
        try:
            results = await asyncio.gather(*races)
        except BaseException:
            for race in races:
                race.cancel()
            await asyncio.gather(*races, return_exceptions=True)
            raise
        self._study.set_user_attr(f"batch:{done:06d}", [tried.to_json() for tried in results])
        for tried in results:
            self._study.tell(tried.number, list(tried.values))
        self.trials.extend(results)

    async def _race(
        self,
        number: int,
        candidate: Candidate,
        incumbent: Tried | None,
        index: int,
        abreast: asyncio.Semaphore,
    ) -> Tried:
        """Evaluate `candidate` block by block until it is done or cannot win.

        Only as many trials run `abreast` as fill the requests in flight: each has a prompt prefix of
        its own, and a model in this process holds few of them.
        """
        async with abreast:
            return await self._evaluated(number, candidate, incumbent, index)

    async def _evaluated(
        self, number: int, candidate: Candidate, incumbent: Tried | None, index: int
    ) -> Tried:
        for earlier in self.trials:
            if earlier.candidate.mark == candidate.mark and earlier.complete:
                return Tried(number, candidate, earlier.scores, earlier.values, True, earlier.counters)
        program = await self.program(candidate)
        rows: list[Row] = []
        task, stopped = self.task, False
        for end in self.looks:
            block = self.order[len(rows) : end]
            rows += await evaluate(
                program, block, task.scorer, limit=self.limit, done=lambda row: self.progress.step()
            )
            if end < len(self.order) and self._hopeless(rows, incumbent):
                stopped = True
                break
        tried = finished(number, candidate, rows, task.objectives, incumbent, complete=not stopped)
        top = max([t.values[0] for t in (*self.trials, tried) if t.complete], default=tried.values[0])
        about = self.describe(candidate) + (f", stopped after {len(rows)}" if stopped else "")
        self.progress.trial(index, task.trials, tried.values[0], top, about)
        return tried

    def _hopeless(self, rows: Sequence[Row], incumbent: Tried | None) -> bool:
        """Whether `rows` show that their trial cannot beat `incumbent`; never with several objectives."""
        if incumbent is None or len(self.task.objectives) > 1:
            return False
        objective = self.task.objectives[0]
        mine = [objective.of(row.scores) for row in rows]
        return hopeless(mine, incumbent.series(objective), best=1.0 if objective.sign > 0 else 0.0)

    def describe(self, candidate: Candidate) -> str:
        """How `candidate` differs from the baseline, in a few words."""
        base = self.task.space.baseline().knobs
        parts = [f"{name}={value}" for name, value in candidate.knobs.items() if base[name] != value]
        if candidate.demos:
            parts.append(f"demos={candidate.demos}/{candidate.demo_set}")
        return " ".join(parts) or "baseline"

    async def demos(self, candidate: Candidate, *, whole: bool = False) -> Mapping[str, Any]:
        """The demonstrations of `candidate`, by predictor: as many as it shows, or `whole` sets."""
        if not candidate.demos:
            return {}
        pool = await self._pool(candidate)
        chosen = pool.sets(DEMO_SETS, pool.size if whole else candidate.demos, self.task.seed)
        return chosen[candidate.demo_set]

    async def program(self, candidate: Candidate) -> RagProgram:
        """The program of `candidate`, with its demonstrations and what it learned from train questions.

        One that chooses its demonstrations by the question gets all that were collected.
        """
        built = await self._built(candidate.knobs)
        if built.chooses_demos and candidate.demos:
            shown = min(candidate.demos, int(candidate.knobs["icl_n"]))
            built = await self._built({**candidate.knobs, "icl_n": shown})
        await fit(built, self.task)
        return show(built, await self.demos(candidate, whole=built.chooses_demos))

    async def _built(self, knobs: Mapping[str, Any]) -> RagProgram:
        return await asyncio.to_thread(self.task.method.build, self.task.runtime, knobs)

    async def _pool(self, candidate: Candidate) -> Pool:
        """The demonstrations collected under the setting that fits `candidate`, made once a study."""
        method = self.task.method
        shape = {name: candidate.knobs[name] for name in method.shaping}
        setting = {**self.task.space.baseline().knobs, **method.demo_knobs, **shape}
        name = f"pool:{digest(setting)[:16]}"
        if name not in self._pools:
            self._pools[name] = asyncio.ensure_future(self._collected(name, setting))
        return await asyncio.shield(self._pools[name])

    async def _collected(self, name: str, setting: Mapping[str, Any]) -> Pool:
        kept = self._study.user_attrs.get(name)
        if kept is not None:
            return Pool.of(kept)
        task = self.task
        built = await asyncio.to_thread(task.method.build, task.runtime, setting)
        pool = await collect(
            built,
            task.train,
            task.scorer.only([task.demo_metric]),
            wanted=max(8, task.space.demos + 2),
            filled=max(8, task.space.demos * DEMO_SETS),
            threshold=task.demo_threshold,
            limit=self.limit,
            done=lambda row: self.progress.step(),
        )
        kinds = f"{len(pool.earned)} bootstrapped, {pool.labelled} labelled"
        self.progress.note(f"demonstrations: {kinds} ({pool.asked} train questions were answered)")
        self._study.set_user_attr(name, pool.to_json())
        return pool

    def demo_costs(self) -> list[Mapping[str, float]]:
        """What each collection of demonstrations cost."""
        kept = sorted(
            (name, value) for name, value in self._study.user_attrs.items() if name.startswith("pool:")
        )
        return [Pool.of(value).counters for _, value in kept]
