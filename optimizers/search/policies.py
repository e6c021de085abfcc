"""Policies that propose candidates: children of instruction rounds, screening, fitted thresholds, retries.

A `Schedule` (`schedule`) asks its policies in order and takes the first proposal. Each policy proposes for a
`NextTrial`, a coming trial.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass
from typing import Protocol

from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.instructions.base import Round
from ragc.optimizers.candidates.instructions.rounds import InstructionRounds
from ragc.optimizers.candidates.space import Candidate, SearchSpace
from ragc.optimizers.candidates.thresholds.tuner import ThresholdTuner
from ragc.optimizers.candidates.trial import TrialResult

SCREENED = "screened"
"""The attribute of a study whose screening leader has answered all dev questions."""

CompleteLeader = Callable[[], Awaitable[None]]
"""Lets the leader answer all dev questions, so that a plan starts from a leader and not from luck."""


@dataclass(frozen=True, slots=True)
class NextTrial:
    """A coming trial, for which policies propose a candidate.

    `done` is the number of trials in the study, the baseline included, and `position` the number of trials
    before this one in its batch. `regular_index` counts all trials before it without the baseline and the
    children of instruction rounds. `tried_marks` are the digests of earlier candidates. `with_demos` are
    candidates that show demonstrations, the best first.
    """

    done: int
    position: int
    regular_index: int
    space: SearchSpace
    tried_marks: Container[str] = ()
    with_demos: Sequence[Candidate] = ()

    @property
    def index(self) -> int:
        """The number of trials before this one, without the baseline."""
        return self.done - 1 + self.position


class Policy(Protocol):
    """One rule of what is tried next."""

    def candidate(self, next_trial: NextTrial) -> Candidate | None:
        """Returns the candidate for `next_trial`; None leaves it to the next policy."""
        ...


class PreparedPolicy(Policy, Protocol):
    """A policy that finds its candidates between two batches."""

    def is_due(self, done: int) -> bool:
        """Returns whether `prepare` has new candidates to find after `done` trials."""
        ...

    async def prepare(self, trials: Sequence[TrialResult], space: SearchSpace) -> SearchSpace:
        """Finds new candidates and returns the space that they are in. Raises BudgetExhausted.

        `trials` is the list of the study, which grows while the leader is completed.
        """
        ...


class RoundChildren:
    """The children of instruction rounds, which are the next trials after their round."""

    def __init__(self, rounds: InstructionRounds, complete_leader: CompleteLeader) -> None:
        self._rounds, self._complete_leader = rounds, complete_leader
        self._children: dict[int, Candidate] = {}

    def is_due(self, done: int) -> bool:
        """Returns whether a round is due."""
        return self._rounds.due(done)

    async def prepare(self, trials: Sequence[TrialResult], space: SearchSpace) -> SearchSpace:
        """Holds a round."""
        await self._complete_leader()
        return self._add(await self._rounds.hold(trials), space)

    def recall(self, space: SearchSpace) -> SearchSpace:
        """Adds the rounds that the study stored, and returns the space with their instructions."""
        for stored in self._rounds.held:
            space = self._add(stored, space)
        return space

    def _add(self, stored: Round, space: SearchSpace) -> SearchSpace:
        self._children |= dict(enumerate(stored.children, start=stored.at - 1))
        return space.grown(stored.texts)

    def candidate(self, next_trial: NextTrial) -> Candidate | None:
        """Returns the child of this very trial."""
        return self._children.get(next_trial.index)

    def regular_index(self, index: int) -> int:
        """Returns how many of the first `index` trials after the baseline are no children."""
        return index - sum(1 for at in self._children if at < index)


class Screening:
    """The first candidates, chosen by rule and not at random. `batch` is the number of trials in a batch."""

    def __init__(self, candidates: Sequence[Candidate], batch: int) -> None:
        self.candidates = tuple(candidates)
        self.size = math.ceil(len(self.candidates) / batch) * batch
        """The number of trials in the batches of the screening, without the baseline."""

    def candidate(self, next_trial: NextTrial) -> Candidate | None:
        """Returns the screening candidate in the order of the space, unless its program was tried."""
        at = next_trial.regular_index
        shown = next_trial.space.shown(self.candidates[at]) if at < len(self.candidates) else None
        return shown if shown and shown.mark not in next_trial.tried_marks else None


class FittedThresholds:
    """Thresholds that are fitted once to the scores of the screening, and tried right after it.

    `reserved` is the number of LM calls that the budget holds back for the test questions.
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        tuner: ThresholdTuner,
        children: RoundChildren,
        screening: Screening,
        complete_leader: CompleteLeader,
        reserved: int,
    ) -> None:
        self._builder, self._tuner, self._reserved = builder, tuner, reserved
        self._children, self._screening, self._complete_leader = children, screening, complete_leader
        self._candidates: tuple[Candidate, ...] = ()
        self._first = 0

    def is_due(self, done: int) -> bool:
        """Returns whether the screening has ended and nothing was fitted in this process."""
        return not self._tuner.done and self._screened(done) > 0

    async def prepare(self, trials: Sequence[TrialResult], space: SearchSpace) -> SearchSpace:
        """Fits the thresholds, or reads those that the study stored."""
        screened = self._screened(len(trials))
        if self._builder.attribute(SCREENED) is None:
            await self._complete_leader()
            self._builder.put_attribute(SCREENED, screened)
        fitted = await self._tuner.candidates(space, trials[:screened], self._reserved)
        self._candidates, self._first = tuple(fitted), self._children.regular_index(screened - 1)
        return space

    def candidate(self, next_trial: NextTrial) -> Candidate | None:
        """Returns the fitted candidate whose turn it is."""
        at = next_trial.regular_index - self._first
        return self._candidates[at] if 0 <= at < len(self._candidates) else None

    def _screened(self, done: int) -> int:
        """Returns the trials, with the baseline, at the first end of a batch after the screening; 0 if `done`
        trials are fewer.
        """
        ends = range(1, done + 1, self._builder.task.batch)
        size = self._screening.size
        return next((end for end in ends if self._children.regular_index(end - 1) >= size), 0)


class DemoRetries:
    """Retries of the best candidate with other demonstrations, in two of every three trials.

    Each has a new demonstration set for all predictors. When no set is left, one of three changes the set of
    a single predictor. `screening` is the number of screening candidates.
    """

    def __init__(self, screening: int) -> None:
        self._screening = screening

    def candidate(self, next_trial: NextTrial) -> Candidate | None:
        """Returns the best candidate with demonstrations that were not tried."""
        turn = (next_trial.regular_index - self._screening) % 3
        if turn == 2 or not next_trial.with_demos:
            return None
        best = next_trial.with_demos[0]
        retry = next_trial.space.next_demo_set(best, next_trial.tried_marks)
        if retry is None and turn == 0:
            retry = next_trial.space.next_own_demo_set(best, next_trial.tried_marks)
        return retry
