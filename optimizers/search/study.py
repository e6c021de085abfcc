"""The study: asks Optuna's storage for trials, runs them on the dev questions, stores and tells the results.

`schedule` decides which candidates are tried next, `looks` which trials answer more questions.

The results of a batch are stored together before Optuna is told of any, so a study killed between two tells
resumes without a difference. Trials that began with a batch that was not stored are marked as failed and
asked again, with the same outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import optuna

from ragc.core.event_loop import gather_or_cancel
from ragc.core.progress import Progress
from ragc.errors import BudgetExhausted, RagcError, UsageError
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.space import Candidate, describe_difference
from ragc.optimizers.candidates.thresholds.tuner import ThresholdTuner
from ragc.optimizers.candidates.trial import BATCH, TrialResult, read_results
from ragc.optimizers.search.checkpoint import BestCheckpoint
from ragc.optimizers.search.journal import one_append
from ragc.optimizers.search.log import StudyLog
from ragc.optimizers.search.looks import Looks
from ragc.optimizers.search.run_trial import LocalRunner, TrialRunner
from ragc.optimizers.search.sampler import PendingTrial, TrialSampler
from ragc.optimizers.search.schedule import Schedule
from ragc.optimizers.search.selection import best, select
from ragc.optimizers.search.storage import StudyAttributes, name_objectives, study_in
from ragc.optimizers.search.tell import finish, report
from ragc.task.base import Task, inputs_of
from ragc.task.study_address import facts_differ

if TYPE_CHECKING:
    from ragc.optimizers.ray import Workers

_QUESTIONS = "dev questions"
"""The attribute with the number of dev questions that the study asks, and the budget that decided it."""


class Study:
    """One search for the best candidate of a task.

    `directory` holds Optuna's storage, the log and the compiled program of the leader, `best`. `limit` bounds
    the questions in flight; `workers` answer those of trials where there are any. `builder` builds the
    programs of candidates and `runner` runs trials. `budget_message` is the message of the budget that ended
    the search, "" for none. Raises UsageError when an existing study was started with other questions,
    sources or targets, and StoreError when its storage cannot be opened or holds something else.
    """

    def __init__(
        self,
        task: Task,
        directory: Path,
        limit: asyncio.Semaphore,
        progress: Progress,
        workers: Workers | None = None,
    ) -> None:
        self.task, self.progress = task, progress
        self.trials: list[TrialResult] = []
        self._numbers: list[int] = []
        self._batches = 0
        self.budget_message = ""
        self._study = study_in(directory, task.recipe.study, len(task.objectives))
        self._log = StudyLog(directory, task)
        self.looks = Looks(task, self.trials)
        record = StudyAttributes(self._study).get(_QUESTIONS)
        if record is not None and not self.looks.resume(record):
            self._begin_anew(
                directory,
                f"The budget changed, and with it the {record['questions']} dev questions that it allowed",
            )
        elif any(result.failures.passing for _, result in read_results(self._study.user_attrs)):
            self._check_inputs()
            self._begin_anew(directory, "Requests failed in trials, for reasons that may have passed")
        self._attributes = StudyAttributes(self._study)
        self.builder = ProgramBuilder(task, self._attributes, limit, progress)
        self.threshold_tuner = ThresholdTuner(self.builder, self._attributes, self._log.note)
        self._best = BestCheckpoint(directory, task, self.builder)
        self.runner: TrialRunner = LocalRunner(self.builder, progress.step, progress.note, workers)
        self._check_inputs()
        self._recover()

    def _begin_anew(self, directory: Path, why: str) -> None:
        """Replaces the stored study, and says `why`."""
        names = self._study.metric_names
        optuna.delete_study(study_name=self._study.study_name, storage=self._study._storage)
        self._study = study_in(directory, self.task.recipe.study, len(self.task.objectives))
        if names:
            name_objectives(self._study, names)
        self.progress.note(f"{why}: the search begins anew, and what was answered is replayed.")

    def _check_inputs(self) -> None:
        """Raises UsageError when earlier trials had other questions, passages, models or own metrics."""
        begun, mine = self._study.user_attrs.get("inputs"), inputs_of(self.task)
        if begun is None:
            self._study.set_user_attr("inputs", mine)
        elif changed := facts_differ(mine, begun):
            raise UsageError(
                f"The {changed} of the recipe changed since the study began, though the recipe did not; undo "
                "the change, or leave --resume out to begin anew."
            )

    def _recover(self) -> None:
        """Completes the work of a killed process: tells Optuna of stored batches, fails other trials."""
        finished_numbers = {t.number for t in self._study.get_trials(deepcopy=False) if t.state.is_finished()}
        self._batches = sum(name.startswith(BATCH) for name in self._study.user_attrs)
        for number, result in read_results(self._study.user_attrs):
            self.trials.append(result)
            self._numbers.append(number)
            if number not in finished_numbers:
                self._tell(number, result)
        states = [trial.state for trial in self._study.get_trials(deepcopy=False)]
        for _ in range(states.count(optuna.trial.TrialState.WAITING)):
            self._study.ask()  # Optuna can only fail a running trial
        self._fail_abandoned()

    def _fail_abandoned(self) -> None:
        """Marks as failed the trials that began with a batch of which nothing is stored."""
        for trial in self._study.get_trials(deepcopy=False):
            if not trial.state.is_finished() and trial.number not in self._numbers:
                self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)

    def _tell(self, number: int, result: TrialResult) -> None:
        """Tells Optuna of the trial `number`, or of its mean so far while it may continue."""
        if result.complete or not self.looks.are_allocated:
            finish(self._study, number, result, self.task.rule.limits)
        else:
            report(self._study, number, result)

    async def baseline(self) -> TrialResult:
        """Returns the first trial, of the recipe's own program; runs it unless it is stored."""
        self._log.begins(len(self.trials))
        if not self.trials:
            self.progress.phase("baseline on dev", len(self.task.dev))
            await self._run_batch(TrialSampler(self._study, self.task).baseline(self.builder.space))
        if not self.trials[0].complete:
            if self._attributes.get(_QUESTIONS) is None:
                self._attributes.put(_QUESTIONS, self.looks.fit_budget())
            if self.looks.fewer_questions:
                self.progress.note(self.looks.fewer_questions)
            await self._run_batch([], [0])
        await self._best.keep(self.trials)
        return self.trials[0]

    async def search(self, reserved: int) -> None:
        """Runs trials after the baseline until the trials or the budget are spent.

        `reserved` is the number of LM calls that the budget holds back for the test questions.
        """
        try:
            space = await self.builder.space_with_instructions()
            schedule = Schedule(
                self._study, self.builder, self.threshold_tuner, space, self._complete_leader, reserved
            )
            while True:
                await schedule.prepare(self.trials)
                left = schedule.size - len(self.trials)
                proposals = schedule.propose(self.trials, self._waiting()) if left else []
                planned = bool(proposals) and schedule.is_planned(len(self.trials))
                looks = self.looks.next(proposals, planned=planned, left=left)
                await self._best.keep(self.trials, looks.fitted)
                if not looks.new and not looks.resumed:
                    break
                await self._run_batch(await schedule.start(looks.new, self.trials), looks.resumed)
            await self._complete_leader()
            while (number := self.looks.unfinished_winner()) is not None:
                await self._run_batch([], [number])
                await self._best.keep(self.trials)
        except BudgetExhausted as error:
            self.budget_message = str(error)
            self.progress.note(self.budget_message)
        self._stop_waiting()

    async def _complete_leader(self) -> None:
        """Lets the leader answer all dev questions; another trial may lead then, which goes on, too."""
        while (number := self.looks.unfinished_leader()) is not None:
            await self._run_batch([], [number])

    def _stop_waiting(self) -> None:
        """Tells Optuna that no trial will continue: those that the budget cut off, and those that wait."""
        self._fail_abandoned()
        states = {trial.number: trial.state for trial in self._study.get_trials(deepcopy=False)}
        with one_append(self._study):
            for number, result in self._waiting().items():
                if not states[number].is_finished():
                    finish(self._study, number, result, self.task.rule.limits)

    def _waiting(self) -> dict[int, TrialResult]:
        """Returns the trials that may go on, by Optuna's number."""
        pairs = zip(self._numbers, self.trials, strict=True)
        return {number: result for number, result in pairs if not result.complete}

    def select(self, trials: Sequence[TrialResult], budget: str) -> TrialResult:
        """Selects the trial to compile and logs the end of the search.

        `budget` is the message of the budget that ended the search, "" for none.
        """
        chosen = select(trials, self.task.rule)
        self._log.ends(chosen, len(trials), budget)
        return chosen

    async def _run_batch(self, pending: Sequence[PendingTrial], resumed: Sequence[int] = ()) -> None:
        """Runs a look of each new and each resumed trial, stores the results and tells Optuna of them."""
        done = len(self.trials)
        numbers = [*resumed, *range(done, done + len(pending))]
        if done:
            phase = f"searching, {_trial_names(numbers)} of {self.task.trials}"
            self.builder.phase_again = partial(self.progress.phase, phase, self.looks.count(numbers))
            self.builder.phase_again()
        candidates = [*(self.trials[n].candidate for n in resumed), *(candidate for _, candidate in pending)]
        results = await self._run_looks(numbers, candidates)
        self._numbers += [number for number, _ in pending]
        with one_append(self._study):
            record = [{"trial": self._numbers[result.number], **result.to_json()} for result in results]
            self._study.set_user_attr(f"{BATCH}{self._batches:06d}", record)
            self._batches += 1
            for result in results:
                self._tell(self._numbers[result.number], result)
                self.trials[result.number : result.number + 1] = [result]
        self._log.log_batch(
            results, [describe_difference(result.candidate, self.task.recipe) for result in results]
        )

    async def _run_looks(self, numbers: Sequence[int], candidates: Sequence[Candidate]) -> list[TrialResult]:
        """Runs a look of each trial at once. Where one fails, the others are cancelled and awaited."""
        rivals, trial_slots = self.looks.rivals(), asyncio.Semaphore(self.runner.concurrency)
        try:
            return await gather_or_cancel(
                self._run_look(number, candidate, rivals, trial_slots)
                for number, candidate in zip(numbers, candidates, strict=True)
            )
        except RagcError as error:
            if not isinstance(error, BudgetExhausted):
                was = "was" if len(numbers) == 1 else "were"
                self.progress.note(
                    f"{_trial_names(numbers).capitalize()} {was} broken off, because a question could not be "
                    "answered; all that was answered is kept for --resume."
                )
            raise

    async def _run_look(
        self,
        number: int,
        candidate: Candidate,
        rivals: Sequence[TrialResult],
        trial_slots: asyncio.Semaphore,
    ) -> TrialResult:
        """Runs the next look of one trial, or all of it, in one of `trial_slots` and reports it as progress.

        `number` is the trial's position in the study, 0 for the baseline. Optuna's own numbers also count
        abandoned trials, of which a killed study has more.
        """
        before = self.trials[number] if number < len(self.trials) else None
        for earlier in self.trials if before is None else ():
            if earlier.candidate.mark == candidate.mark and earlier.complete:
                return replace(earlier, number=number)
        span = self.looks.span(number)
        if before and span and span[0] == span[1]:
            result = before.without_answers()
        else:
            async with trial_slots:
                result = await self.runner.run(number, candidate, rivals, span)
        objectives = self.task.objectives
        if span:
            baseline, answered = self.trials[0] if number else result, before or result.without_answers()
            result = answered.extended(result, baseline, objectives, self.looks.questions)
            if (before or not number) and not result.complete:
                return result
        top = best((*self.trials, result), objectives)
        score, top_score = (objectives[0].to_metric(trial.values[0]) for trial in (result, top))
        text = describe_difference(candidate, self.task.recipe) + result.remarks
        self.progress.trial(number, self.task.trials, score, top_score, text)
        return result


def _trial_names(numbers: Sequence[int]) -> str:
    """Returns `trial 3`, `trials 4 to 7` or `trials 1, 4, 9`."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return f"trial {first}"
    if list(numbers) == list(range(first, last + 1)):
        return f"trials {first} to {last}"
    return "trials " + ", ".join(map(str, numbers))
