"""The study: ask/tell with Optuna over candidates, compared on the dev questions, and resumable after a kill.

With one objective, trials answer the dev questions in looks (`allocation`): each begins with a few questions,
and after every batch of looks the model of all scores says which trials go on and whether new ones begin. No
stop is final before the end of the search. With several objectives each trial of a batch is raced against the
Pareto front (`racing`).

The results of a batch are stored together before Optuna is told of any, so a study killed between two tells
resumes without a difference. Trials that began with a batch that was not stored are marked as failed and
asked again, with the same outcome.
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
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.dev_order import group_sizes, shuffle_dev
from ragc.optimizers.candidates.thresholds.tuner import ThresholdTuner
from ragc.optimizers.candidates.trial import BATCH, NONE, TrialResult, read_results
from ragc.optimizers.search.allocation import (
    FEWEST,
    affordable_questions,
    stopping_points,
    whole_groups,
)
from ragc.optimizers.search.checkpoint import BestCheckpoint
from ragc.optimizers.search.log import StudyLog
from ragc.optimizers.search.run_trial import LocalRunner, Runner
from ragc.optimizers.search.sampler import PendingTrial, TrialSampler
from ragc.optimizers.search.selection import (
    FittedScores,
    best,
    leading,
    pareto_front,
    select,
    worth_looking,
)
from ragc.optimizers.search.storage import (
    DamagedJournal,
    StudyAttributes,
    name_objectives,
    one_append,
    study_in,
)
from ragc.optimizers.search.tell import finish, report
from ragc.task.base import Task
from ragc.task.budget import answers_left
from ragc.task.space import Candidate, SearchSpace, describe_candidate
from ragc.task.study_address import facts_differ

if TYPE_CHECKING:
    from ragc.optimizers.candidates.instructions.rounds import InstructionRounds


_QUESTIONS = "dev questions"
"""The attribute with the number of dev questions that the study asks, and the budget that decided it."""

_SCREENED = "screened"
"""The attribute that says that the leader of the screening has answered all dev questions."""


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
    the questions in flight. `builder` builds the programs of candidates and `runner` runs trials. `spent` is
    the message of the budget that ended the search, "" for none.
    Raises UsageError when an existing study was started with other questions, sources or targets, and
    StoreError when its storage cannot be opened or holds something else.
    """

    def __init__(self, task: Task, directory: Path, limit: asyncio.Semaphore, progress: Progress) -> None:
        self.task, self.limit, self.progress = task, limit, progress
        self._directory = directory
        self.trials: list[TrialResult] = []
        self._numbers: list[int] = []
        self._batches = 0
        self.spent = ""
        self._study = study_in(directory, task.recipe.study, len(task.objectives))
        self._journal = StudyLog(directory, task)
        self._attributes = StudyAttributes(self._study)
        self.questions, self._groups = len(task.dev), group_sizes(shuffle_dev(task))
        self._adopt_questions()
        self.builder = ProgramBuilder(task, self._attributes, limit, progress)
        self.calibrating = ThresholdTuner(self.builder, self._attributes, self._journal.note)
        self._best = BestCheckpoint(directory, task, self.builder)
        self.runner: Runner = LocalRunner(self.builder, progress.step)
        self._check_inputs()
        self._recover()

    def _adopt_questions(self) -> None:
        """Sets `questions`, of all in the order of `shuffle_dev`.

        A study that asked a part for its budget begins anew with another budget: the trials would be others.
        """
        decided = self._attributes.get(_QUESTIONS)
        if decided is None:
            return
        if decided["questions"] == self.questions or decided["limits"] == self._limits:
            self.questions = int(decided["questions"])
            return
        names = self._study.metric_names
        optuna.delete_study(study_name=self._study.study_name, storage=self._study._storage)
        self._study = study_in(self._directory, self.task.recipe.study, len(self.task.objectives))
        if names:
            name_objectives(self._study, names)
        self._attributes = StudyAttributes(self._study)
        self.progress.note(
            f"The budget changed, and with it the {decided['questions']} dev questions that it allowed: the "
            "search begins anew, and what was answered is replayed."
        )

    @property
    def _limits(self) -> list[float | None]:
        """The limits that decide on the number of dev questions."""
        budget = self.task.recipe.budget
        return [budget.lm_calls, budget.tokens, budget.usd]

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
        """Completes the work of a killed process: tells Optuna of stored batches, fails other trials."""
        finished_numbers = {t.number for t in self._study.get_trials(deepcopy=False) if t.state.is_finished()}
        self._batches = sum(name.startswith(BATCH) for name in self._study.user_attrs)
        for number, tried in read_results(self._study.user_attrs):
            self.trials.append(tried)
            self._numbers.append(number)
            if number not in finished_numbers:
                self._tell(number, tried)
        states = [trial.state for trial in self._study.get_trials(deepcopy=False)]
        for _ in range(states.count(optuna.trial.TrialState.WAITING)):
            self._study.ask()  # Optuna can only fail a running trial
        for trial in self._study.get_trials(deepcopy=False):
            if not trial.state.is_finished() and trial.number not in self._numbers:
                self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)

    @property
    def _in_looks(self) -> bool:
        """Whether trials answer in looks; otherwise each is raced to its end."""
        return len(self.task.objectives) == 1

    def _tell(self, number: int, tried: TrialResult) -> None:
        """Tells Optuna of the trial `number`, or of its mean so far while it may go on."""
        if tried.complete or not self._in_looks:
            finish(self._study, number, tried)
        else:
            report(self._study, number, tried)

    async def baseline(self) -> TrialResult:
        """The first trial, of the recipe's own program; run unless it is stored."""
        self._journal.begins(len(self.trials))
        if not self.trials:
            self.progress.phase("baseline on dev", len(self.task.dev))
            await self._run_batch(TrialSampler(self._study, self.task, self.task.space).baseline())
        if not self.trials[0].complete:
            if self._attributes.get(_QUESTIONS) is None:
                self.questions = self._affordable()
                self._attributes.put(_QUESTIONS, {"questions": self.questions, "limits": self._limits})
            if self.cut:
                self.progress.note(self.cut)
            await self._run_batch([], [0])
        await self._best.keep(self.trials)
        return self.trials[0]

    @property
    def cut(self) -> str:
        """Why the study asks a part of the dev questions; "" if it asks all."""
        if self.questions == len(self.task.dev):
            return ""
        return (
            f"The budget is small, so {self.questions} of {len(self.task.dev)} dev questions are asked: with "
            "more of them too few settings could be compared."
        )

    def _affordable(self) -> int:
        """The number of dev questions that the budget allows, by the cost of the baseline's first answers."""
        task, base = self.task, self.trials[0]
        left = answers_left(task.recipe.budget, task.ledger, base) + len(base.scores) - 2 * len(task.test)
        return affordable_questions(len(task.dev), left, self._groups)

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
            while True:
                if rounds and rounds.due(len(self.trials)):
                    await self._complete_leader()
                    held = await rounds.hold(self.trials)
                    space = space.grown(held.texts)
                    asking.add_children(space, held.at, held.children)
                screened = 0 if self.calibrating.done else asking.screened(len(self.trials))
                if screened and len(self.trials) < n_trials:
                    if self._attributes.get(_SCREENED) is None:
                        await self._complete_leader()
                        self._attributes.put(_SCREENED, screened)
                    fitted = await self.calibrating.candidates(space, self.trials[:screened], reserved)
                    asking.offer(fitted, screened)
                beginning, going_on, scores = self._next(asking, n_trials)
                await self._best.keep(self.trials, scores)
                if not beginning and not going_on:
                    break
                await self._run_batch(await self._prepared(asking.start(beginning)), going_on)
            await self._complete_leader()
            await self._complete_winner()
        except BudgetExhausted as error:
            self.spent = str(error)
            self.progress.note(self.spent)
        self._stop_waiting()

    def _next(self, asking: TrialSampler, n_trials: int) -> tuple[list[int], list[int], FittedScores | None]:
        """What comes next: which of the candidates that `asking` proposes begin, and which trials go on.

        Also the model that decided it, None where a plan did. Planned trials begin before anything else,
        `n_trials` in all.
        """
        done, batch, objective = len(self.trials), self.task.batch, self.task.objectives[0]
        fresh = asking.propose(self.trials, n_trials, self._waiting()) if done < n_trials else []
        first = list(range(min(len(fresh), batch, n_trials - done)))
        if not self._in_looks or (fresh and asking.is_planned(done)):
            return first, [], None
        fitted = FittedScores.to(self.trials, objective, fresh)
        looks = worth_looking(fitted, self.trials, fresh, objective, self.task.looks)
        beginning = [index - done for index in looks if index >= done][: n_trials - done]
        going_on = sorted(index for index in looks if index < done)
        return (beginning, going_on, fitted) if looks else (first, [], fitted)

    def _stop_waiting(self) -> None:
        """Tells Optuna that the trials which still wait will not go on."""
        states = {trial.number: trial.state for trial in self._study.get_trials(deepcopy=False)}
        with one_append(self._study):
            for number, tried in self._waiting().items():
                if not states[number].is_finished():
                    finish(self._study, number, tried)

    def _waiting(self) -> dict[int, TrialResult]:
        """The trials that may go on, by Optuna's number."""
        pairs = zip(self._numbers, self.trials, strict=True)
        return {number: tried for number, tried in pairs if not tried.complete}

    async def _complete_leader(self) -> None:
        """Lets the trial with the greatest expected score answer all dev questions.

        What is derived from the trials then starts from a leader and not from a lucky beginning.
        """
        while self._in_looks:
            leader = leading(self.trials, self.task.objectives[0])
            if leader.complete:
                return
            await self._run_batch([], [leader.number])

    async def _complete_winner(self) -> None:
        """Lets the trial that would be compiled answer all dev questions."""
        while self._in_looks:
            winner = select(self.trials, self.task.objectives, self.task.pick, risk=self.task.risk)
            if winner.complete:
                return
            await self._run_batch([], [winner.number])
            await self._best.keep(self.trials)

    def select(self, trials: Sequence[TrialResult], budget: str) -> TrialResult:
        """Selects the trial to compile and logs the end of the search.

        `budget` is the message of the budget that ended the search, "" for none.
        """
        chosen = select(trials, self.task.objectives, self.task.pick, risk=self.task.risk)
        self._journal.ends(chosen, len(trials), budget)
        return chosen

    async def _add_instructions(self, space: SearchSpace) -> SearchSpace:
        """`space` with the number of instruction candidates of each program, if the recipe asks for any."""
        search = self.task.recipe.search
        most = 1 + search.instruction_rounds * search.instructions if search.instruction_rounds else 0
        if search.instructions:
            for part in space.parts:
                proposals = await self.builder.proposals(part.program)
                space = space.with_instruction_counts(part.program, proposals.counts, most)
        return space

    async def _prepared(self, pending: Sequence[PendingTrial]) -> list[PendingTrial]:
        """`pending` within the cap on prompts, with demonstrations chosen where the trials decide on them."""
        prepared = []
        for number, candidate in pending:
            await self.builder.choose_helpful(candidate, self.trials)
            prepared.append((number, await self.builder.fitted(candidate)))
        return prepared

    def _rounds(self) -> InstructionRounds | None:
        """The rounds of evolving instructions; None if the recipe asks for none."""
        if not self.task.recipe.search.instruction_rounds:
            return None
        from ragc.optimizers.candidates.instructions.rounds import InstructionRounds

        return InstructionRounds(self.builder, self.task.trials)

    async def _run_batch(self, pending: Sequence[PendingTrial], going_on: Sequence[int] = ()) -> None:
        """Begins trials and lets others go on, stores the results and tells Optuna of them."""
        done = len(self.trials)
        numbers = [*going_on, *range(done, done + len(pending))]
        if done:
            spans = [self._span(number) or (0, self.questions) for number in numbers]
            questions = sum(end - first for first, end in spans)
            self.builder.phase_again = partial(self._say_batch, numbers, questions)
            self.builder.phase_again()
        rivals = self._rivals()
        abreast = asyncio.Semaphore(self.runner.concurrency)
        candidates = [*(self.trials[n].candidate for n in going_on), *(candidate for _, candidate in pending)]
        races = [
            asyncio.ensure_future(self._race(number, candidate, rivals, abreast))
            for number, candidate in zip(numbers, candidates, strict=True)
        ]
        try:
            results = await asyncio.gather(*races)
        except BaseException as error:
            for race in races:
                race.cancel()
            await asyncio.gather(*races, return_exceptions=True)
            if isinstance(error, RagcError) and not isinstance(error, BudgetExhausted):
                rest = "; all that was answered is kept for --resume" if self.task.recipe.study.keep else ""
                was = "was" if len(numbers) == 1 else "were"
                self.progress.note(
                    f"{_name(numbers).capitalize()} {was} broken off, because a question could not be "
                    f"answered{rest}."
                )
            raise
        self._numbers += [number for number, _ in pending]
        record = [{"trial": self._numbers[tried.number], **tried.to_json()} for tried in results]
        with one_append(self._study):
            self._study.set_user_attr(f"{BATCH}{self._batches:06d}", record)
            self._batches += 1
            for tried in results:
                self._tell(self._numbers[tried.number], tried)
                self.trials[tried.number : tried.number + 1] = [tried]
        self._journal.log_batch(results, [self.describe(tried.candidate) for tried in results])

    def _say_batch(self, numbers: Sequence[int], questions: int) -> None:
        """Shows progress for the trials `numbers` on `questions`; of those that are raced, at most."""
        self.progress.phase(f"searching, {_name(numbers)} of {self.task.trials}", questions)

    def _span(self, number: int) -> tuple[int, int] | None:
        """The next dev questions of the trial `number`, up to a stopping point; None for all.

        The baseline answers a few, which say what an answer costs where the budget limits that, and then all.
        """
        if not self._in_looks:
            return None
        if not self.trials:
            limited = any(limit is not None for limit in self._limits)
            fewest = whole_groups(FEWEST, self._groups, self.questions)
            return (0, fewest) if limited and self.questions > fewest else None
        first = len(self.trials[number].scores) if number < len(self.trials) else 0
        if number == 0:
            return first, self.questions
        return first, next(end for end in stopping_points(self.questions, self._groups) if end > first)

    def _rivals(self) -> list[TrialResult]:
        """The trials that a new trial is raced against: the Pareto front; none where trials answer in looks.

        A trial that answered nothing is no rival: any answer is better, at any cost.
        """
        if self._in_looks or not self.trials:
            return []
        front = pareto_front(self.trials, self.task.objectives)
        return [trial for trial in front if not trial.failures.all]

    async def _race(
        self,
        number: int,
        candidate: Candidate,
        rivals: Sequence[TrialResult],
        abreast: asyncio.Semaphore,
    ) -> TrialResult:
        """Runs one trial, or its next look, once `abreast` allows it, and reports it as progress.

        `number` is the trial's position in the study, 0 for the baseline. Optuna's own numbers also count
        abandoned trials, of which a killed study has more.
        """
        before = self.trials[number] if number < len(self.trials) else None
        for earlier in self.trials if before is None else ():
            if earlier.candidate.mark == candidate.mark and earlier.complete:
                return replace(earlier, number=number)
        span = self._span(number)
        if before and span and span[0] == span[1]:
            tried = replace(before, scores=(), counters={}, failures=NONE, groups=())
        else:
            async with abreast:
                tried = await self.runner.run(number, candidate, rivals, span)
        if span:
            empty = replace(tried, scores=(), counters={}, failures=NONE, groups=())
            base = self.trials[0] if number else tried
            tried = (before or empty).extended(tried, base, self.task.objectives, self.questions)
            if (before or not number) and not tried.complete:
                return tried
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


def _name(numbers: Sequence[int]) -> str:
    """`trial 3`, `trials 4 to 7` or `trials 1, 4, 9`."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) == 1:
        return f"trial {first}"
    if list(numbers) == list(range(first, last + 1)):
        return f"trials {first} to {last}"
    return "trials " + ", ".join(map(str, numbers))
