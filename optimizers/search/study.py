"""The study: ask/tell with Optuna over candidates, raced on the dev questions, and resumable after a kill.

Trials run in batches of a fixed size. The results of a batch are stored together before Optuna is told of
any, so a study killed between two tells resumes without a difference. Trials that were running when a process
died are marked as failed and asked again, with the same outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import optuna
from sqlalchemy.exc import SQLAlchemyError

from ragc.core.progress import Progress
from ragc.errors import BudgetExhausted, RagcError, StoreError, UsageError
from ragc.optimizers.distributed.study_address import facts_differ, study_in
from ragc.optimizers.search.builder import ProgramBuilder
from ragc.optimizers.search.checkpoint import BestCheckpoint
from ragc.optimizers.search.log import StudyLog
from ragc.optimizers.search.run_trial import LocalRunner, Runner
from ragc.optimizers.search.sampler import PendingTrial, TrialSampler
from ragc.optimizers.search.selection import best, pareto_front, select
from ragc.optimizers.search.storage import DamagedJournal, StudyAttributes
from ragc.optimizers.search.tell import finish
from ragc.optimizers.search.trial import BATCH, TrialResult, read_results
from ragc.optimizers.space import Candidate, SearchSpace, describe_candidate
from ragc.optimizers.task import Task
from ragc.optimizers.thresholds.tuner import ThresholdTuner

if TYPE_CHECKING:
    from ragc.optimizers.instructions.rounds import InstructionRounds


@contextmanager
def translate_storage_errors(directory: Path) -> Iterator[None]:
    """Raises errors of the state of the study in `directory` as one StoreError."""
    try:
        yield
    except (optuna.exceptions.OptunaError, SQLAlchemyError, OSError) as error:
        if isinstance(error, OSError) and str(directory) not in str(error.filename):
            raise
        cause = error.__cause__ or error
        root = getattr(cause, "orig", None) or cause
        reason = next(iter(str(root).splitlines()), "") or type(root).__name__
        if isinstance(error, DamagedJournal):
            raise StoreError(
                f"The study in {directory} is damaged ({reason}); begin anew without --resume, which replays "
                "what was answered."
            ) from error
        raise StoreError(
            f"The state of the study in {directory} cannot be written or read any more ({reason}); see that "
            "its disk or server is there and that no other program holds it, then go on with --resume."
        ) from error


class Study:
    """One search for the best candidate of a task.

    `directory` holds Optuna's storage, the log and the compiled program of the leader, `best`. `limit` bounds
    the questions in flight. `maker` builds the programs of candidates and `runner` runs trials. `spent` is
    the message of the budget that ended the search, "" for none.
    Raises UsageError when an existing study was started with other questions, sources or targets, and
    StoreError when its storage cannot be opened or holds something else.
    """

    def __init__(self, task: Task, directory: Path, limit: asyncio.Semaphore, progress: Progress) -> None:
        self.task, self.limit, self.progress = task, limit, progress
        self.trials: list[TrialResult] = []
        self.spent = ""
        self._study = study_in(directory, task.recipe.study, len(task.objectives))
        self._journal = StudyLog(directory, task)
        attributes = StudyAttributes(self._study)
        self.maker = ProgramBuilder(task, attributes, limit, progress)
        self.calibrating = ThresholdTuner(self.maker, attributes, self._journal.note)
        self._best = BestCheckpoint(directory, task, self.maker)
        self.runner: Runner = LocalRunner(self.maker, progress.step)
        self._check_inputs()
        self._recover()

    def _check_inputs(self) -> None:
        """Raises UsageError when earlier trials were scored on other questions, passages or models."""
        begun = self._study.user_attrs.get("inputs")
        if begun is None:
            facts = {name: self.task.facts.get(name) for name in ("data", "sources", "targets")}
            self._study.set_user_attr("inputs", facts)
        elif changed := facts_differ(self.task.facts, begun):
            raise UsageError(
                f"The {changed} of the recipe changed since the study began, though the recipe did not; undo "
                "the change, or leave --resume out to begin anew."
            )

    def _recover(self) -> None:
        """Completes the work of a killed process: tells Optuna of stored batches, fails unfinished trials."""
        finished_numbers = {t.number for t in self._study.get_trials(deepcopy=False) if t.state.is_finished()}
        for number, tried in read_results(self._study.user_attrs):
            self.trials.append(tried)
            if number not in finished_numbers:
                finish(self._study, number, tried)
        states = [trial.state for trial in self._study.get_trials(deepcopy=False)]
        for _ in range(states.count(optuna.trial.TrialState.WAITING)):
            self._study.ask()  # Optuna can only fail a running trial
        for trial in self._study.get_trials(deepcopy=False):
            if not trial.state.is_finished():
                self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)

    async def baseline(self) -> TrialResult:
        """The first trial, of the recipe's own program; run unless it is stored."""
        self._journal.begins(len(self.trials))
        if not self.trials:
            self.progress.phase("baseline on dev", len(self.task.dev))
            await self._run_batch(TrialSampler(self._study, self.task, self.task.space).baseline())
        await self._best.keep(self.trials)
        return self.trials[0]

    async def search(self, reserved: int) -> None:
        """Runs trials after the baseline until the trials or the budget are spent.

        `reserved` is the number of LM calls that the budget holds back for the test questions.
        """
        try:
            space = await self._add_instructions(self.task.space)
            n_trials = self.task.trials + 1 if space.size else 1
            asking = TrialSampler(self._study, self.task, space)
            rounds = self._rounds()
            for held in rounds.held if rounds else ():
                space = space.grown(held.texts)
                asking.add_children(space, held.at, held.children)
            while len(self.trials) < n_trials:
                if rounds and rounds.due(len(self.trials)):
                    held = await rounds.hold(self.trials)
                    space = space.grown(held.texts)
                    asking.add_children(space, held.at, held.children)
                if not self.calibrating.done and (screened := asking.screened(len(self.trials))):
                    fitted = await self.calibrating.candidates(space, self.trials[:screened], reserved)
                    asking.offer(fitted, screened)
                await self._run_batch(await self._prepared(asking.batch(self.trials, n_trials)))
                await self._best.keep(self.trials)
        except BudgetExhausted as error:
            self.spent = str(error)
            self.progress.note(self.spent)

    def select(self, trials: Sequence[TrialResult], budget: str) -> TrialResult:
        """Selects the trial to compile and logs the end of the search.

        `budget` is the message of the budget that ended the search, "" for none.
        """
        chosen = select(trials, self.task.objectives, self.task.pick)
        self._journal.ends(chosen, len(trials), budget)
        return chosen

    async def _add_instructions(self, space: SearchSpace) -> SearchSpace:
        """`space` with the number of instruction candidates of each program, if the recipe asks for any."""
        search = self.task.recipe.search
        most = 1 + search.instruction_rounds * search.instructions if search.instruction_rounds else 0
        if search.instructions:
            for part in space.parts:
                proposals = await self.maker.proposals(part.program)
                space = space.with_instruction_counts(part.program, proposals.counts, most)
        return space

    async def _prepared(self, pending: Sequence[PendingTrial]) -> list[PendingTrial]:
        """`pending` within the cap on prompts, with demonstrations chosen where the trials decide on them."""
        prepared = []
        for number, candidate in pending:
            await self.maker.choose_helpful(candidate, self.trials)
            prepared.append((number, await self.maker.fitted(candidate)))
        return prepared

    def _rounds(self) -> InstructionRounds | None:
        """The rounds of evolving instructions; None if the recipe asks for none."""
        if not self.task.recipe.search.instruction_rounds:
            return None
        from ragc.optimizers.instructions.rounds import InstructionRounds

        return InstructionRounds(self.maker, self.task.trials)

    async def _run_batch(self, pending: Sequence[PendingTrial]) -> None:
        """Races one batch, stores its results and tells Optuna of them."""
        done = len(self.trials)
        if done:
            self.maker.phase_again = partial(self._say_batch, done, done + len(pending) - 1)
            self.maker.phase_again()
        rivals = self._rivals()
        abreast = asyncio.Semaphore(self.runner.concurrency)
        races = [
            asyncio.ensure_future(self._race(done + offset, candidate, rivals, abreast))
            for offset, (_, candidate) in enumerate(pending)
        ]
        try:
            results = await asyncio.gather(*races)
        except BaseException as error:
            for race in races:
                race.cancel()
            await asyncio.gather(*races, return_exceptions=True)
            if isinstance(error, RagcError) and not isinstance(error, BudgetExhausted):
                rest = "; all that was answered is kept for --resume" if self.task.recipe.study.keep else ""
                self.progress.note(
                    f"Trials {done} to {done + len(pending) - 1} were broken off and have no score, "
                    f"because a "
                    f"question could not be answered{rest}."
                )
            raise
        pairs = [(number, tried) for (number, _), tried in zip(pending, results, strict=True)]
        record = [{"trial": number, **tried.to_json()} for number, tried in pairs]
        self._study.set_user_attr(f"{BATCH}{done:06d}", record)
        for number, tried in pairs:
            finish(self._study, number, tried)
        self.trials.extend(results)
        self._journal.log_batch(results, [self.describe(tried.candidate) for tried in results])

    def _say_batch(self, first: int, last: int) -> None:
        """Shows progress for trials `first` to `last`. The total is an upper bound: racing may stop trials
        early.
        """
        which = f"trial {first}" if first == last else f"trials {first} to {last}"
        questions = (last - first + 1) * len(self.task.dev)
        self.progress.phase(f"searching, {which} of {self.task.trials}", questions)

    def _rivals(self) -> list[TrialResult]:
        """The trials that a new trial is raced against: the leader, or with several objectives the Pareto
        front.

        A trial that answered nothing is no rival: any answer is better, at any cost.
        """
        if not self.trials:
            return []
        objectives = self.task.objectives
        rivals = (
            [best(self.trials, objectives)] if len(objectives) == 1 else pareto_front(self.trials, objectives)
        )
        return [trial for trial in rivals if not trial.failures.all]

    async def _race(
        self,
        number: int,
        candidate: Candidate,
        rivals: Sequence[TrialResult],
        abreast: asyncio.Semaphore,
    ) -> TrialResult:
        """Runs one trial once `concurrency` allows it, and reports it as progress.

        `number` is the trial's position in the study, 0 for the baseline. Optuna's own numbers also count
        abandoned trials, of which a killed study has more.
        """
        for earlier in self.trials:
            if earlier.candidate.mark == candidate.mark and earlier.complete:
                return replace(earlier, number=number)
        async with abreast:
            tried = await self.runner.run(number, candidate, rivals)
        objective = self.task.objectives[0]
        score, top = (
            objective.to_metric(trial.values[0])
            for trial in (tried, best((*self.trials, tried), self.task.objectives))
        )
        self.progress.trial(number, self.task.trials, score, top, self.describe(candidate) + tried.remarks)
        return tried

    def describe(self, candidate: Candidate) -> str:
        """The differences of `candidate` from the baseline of its program, in a few words."""
        base = self.task.space.part(candidate).baseline().knobs
        other = candidate.program if candidate.program != self.task.space.first.program else ""
        changed = {name: value for name, value in candidate.knobs.items() if base[name] != value}
        return describe_candidate(candidate, changed, program=other) or "baseline"
