"""Allocates the dev questions: how many the study asks, and which trials answer more of them next.

With one objective trials answer in looks. A trial begins with a few questions, and after every batch of looks
the model of all scores says which trials go on and whether new ones begin (`allocation`). No stop is final
before the end of the search. With several objectives each trial of a batch is raced against the Pareto front
(`racing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ragc.metrics.base import Objective
from ragc.metrics.limits import CostLimit
from ragc.optimizers.candidates.dev_order import group_sizes, shuffle_dev
from ragc.optimizers.candidates.eligible import is_hopeless
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.allocation import (
    MARGIN,
    MIN_DEV_QUESTIONS,
    TOLERANCE,
    affordable_questions,
    next_looks,
    stopping_points,
    whole_groups,
)
from ragc.optimizers.search.score_model import Posterior
from ragc.optimizers.search.selection import FittedScores, leading, pareto_front, select
from ragc.task.base import Task


class NextLooks(NamedTuple):
    """The next batch: positions of the proposals that begin, and numbers of the trials that go on.

    `fitted` is the model of scores that decided it; None where a plan or a race did.
    """

    new: Sequence[int]
    resumed: Sequence[int] = ()
    fitted: FittedScores | None = None


class Looks:
    """Allocates the dev questions of `task` to `trials`, the list of a study, which grows.

    `questions` is the number of dev questions that the study asks, in the order of `shuffle_dev`.
    """

    def __init__(self, task: Task, trials: Sequence[TrialResult]) -> None:
        self._task, self._trials = task, trials
        self.questions, self._groups = len(task.dev), group_sizes(shuffle_dev(task))
        budget = task.recipe.budget
        self._limits = [budget.lm_calls, budget.tokens, budget.usd]

    @property
    def are_allocated(self) -> bool:
        """Whether trials answer in looks; otherwise each is raced to its end."""
        return len(self._task.objectives) == 1

    def resume(self, record: Mapping[str, Any]) -> bool:
        """Takes the number of questions from `record`, which `fit_budget` returned in an earlier process.

        Returns False, and takes nothing, if another budget decided it: the trials would be others.
        """
        fits: bool = record["questions"] == self.questions or record["limits"] == self._limits
        if fits:
            self.questions = int(record["questions"])
        return fits

    def fit_budget(self) -> dict[str, Any]:
        """Lowers `questions` to what the budget allows, by the cost of the baseline's first answers.

        Returns the number and the limits that decided it.
        """
        task, base = self._task, self._trials[0]
        left = task.answers_left(base.counters, len(base.scores)) + len(base.scores)
        left -= task.tested * len(task.test)
        self.questions = affordable_questions(len(task.dev), left, self._groups)
        return {"questions": self.questions, "limits": self._limits}

    @property
    def fewer_questions(self) -> str:
        """Returns why the study uses only a part of the dev questions; "" if it uses all."""
        if self.questions == len(self._task.dev):
            return ""
        return (
            f"The budget is small, so {self.questions} of {len(self._task.dev)} dev questions are asked: "
            "with more of them too few settings could be compared."
        )

    def span(self, number: int) -> tuple[int, int] | None:
        """Returns the next dev questions of the trial `number`, up to a stopping point; None for all.

        The baseline answers a few, which say what an answer costs where the budget limits that, and then all.
        """
        if not self.are_allocated:
            return None
        if not self._trials:
            limited = any(limit is not None for limit in self._limits)
            first_questions = whole_groups(MIN_DEV_QUESTIONS, self._groups, self.questions)
            return (0, first_questions) if limited and self.questions > first_questions else None
        first = len(self._trials[number].scores) if number < len(self._trials) else 0
        if number == 0:
            return first, self.questions
        return first, next(end for end in stopping_points(self.questions, self._groups) if end > first)

    def count(self, numbers: Sequence[int]) -> int:
        """Returns the number of questions in the next looks of the trials `numbers`; of a race, at most."""
        spans = [self.span(number) or (0, self.questions) for number in numbers]
        return sum(end - first for first, end in spans)

    def rivals(self) -> list[TrialResult]:
        """Returns the trials that a new trial is raced against: the Pareto front; none where trials answer in
        looks.

        A trial that answered nothing is no rival: any answer is better, at any cost.
        """
        if self.are_allocated or not self._trials:
            return []
        front = pareto_front(self._trials, self._task.rule)
        return [trial for trial in front if not trial.failures.all]

    def next(self, proposals: Sequence[Candidate], *, planned: bool, left: int) -> NextLooks:
        """Returns which of the `proposals` begin, at most `left`, and which trials go on.

        The first proposals are a batch. It begins as it is where it is `planned`, in a race, and where no
        look is worth its questions.
        """
        task, done = self._task, len(self._trials)
        batch = range(min(len(proposals), task.batch, left))
        if not self.are_allocated or planned:
            return NextLooks(batch)
        fitted = FittedScores.to(self._trials, task.objectives[0], proposals)
        limits = task.rule.limits
        looks = best_looks(fitted, self._trials, proposals, task.objectives[0], task.looks, limits)
        if not looks:
            return NextLooks(batch, (), fitted)
        new = [index - done for index in looks if index >= done][:left]
        return NextLooks(new, sorted(index for index in looks if index < done), fitted)

    def unfinished_leader(self) -> int | None:
        """Returns the trial with the greatest expected score; None once it answered all dev questions."""
        if not self.are_allocated:
            return None
        leader = leading(self._trials, self._task.rule)
        return None if leader.complete else leader.number

    def unfinished_winner(self) -> int | None:
        """Returns the trial that would be compiled; None once it answered all dev questions."""
        if not self.are_allocated:
            return None
        winner = select(self._trials, self._task.rule)
        return None if winner.complete else winner.number


def best_looks(
    fitted: FittedScores,
    trials: Sequence[TrialResult],
    fresh: Sequence[Candidate],
    objective: Objective,
    most: int,
    limits: Sequence[CostLimit] = (),
) -> list[int]:
    """Returns which settings answer more questions next: indices into `trials` and then `fresh`, at most
    `most`, the best first.

    `fitted` is the model of both. A fresh candidate answered nothing yet. Left out are trials that saw all
    questions, those that answered none of theirs, settings that likely exceed a limit, and looks that promise
    nothing (`allocation.next_looks`). The first of `trials` is the baseline.
    """
    open_settings = OpenSettings.of(fitted, objective, fresh, limits)
    if open_settings is None:
        return []
    unique = fitted.trials
    looks = next_looks(
        open_settings.posterior,
        open_settings.seen,
        open_settings.among,
        questions=len(fitted.lines[0]),
        most=most,
        tolerance=fitted.table.margin * TOLERANCE / MARGIN,
        ends=_ends(unique[0]),
    )
    at = {trial.number: index for index, trial in enumerate(trials)}
    positions = [*(at[trial.number] for trial in unique), *range(len(trials), len(trials) + len(fresh))]
    return [positions[open_settings.positions[index]] for index in looks]


@dataclass(frozen=True, slots=True)
class OpenSettings:
    """The settings of a model that may win: `positions` in the model, and what is known of each.

    `among` are the indices of those that may answer more questions, and `seen` says how many each answered;
    groups count as one question.
    """

    positions: Sequence[int]
    posterior: Posterior
    among: Sequence[int]
    seen: Sequence[int]

    @classmethod
    def of(
        cls,
        fitted: FittedScores,
        objective: Objective,
        fresh: Sequence[Candidate],
        limits: Sequence[CostLimit],
    ) -> OpenSettings | None:
        """Returns the settings of `fitted`, of which the last are `fresh`, that likely keep to `limits`.

        None without a model, and where no setting does.
        """
        unique, every = fitted.trials, [*map(len, fitted.lines), *[0] * len(fresh)]
        over = likely_over(unique, fresh, limits) if limits else ()
        positions = [index for index in range(len(every)) if index not in over]
        if fitted.posterior is None or not positions:
            return None
        seen = [every[index] for index in positions]
        among = [
            at
            for at, index in enumerate(positions)
            if index >= len(unique)
            or (every[index] < every[0] and not is_hopeless(unique[index], unique[0], objective))
        ]
        posterior = fitted.posterior.only(positions) if over else fitted.posterior
        return cls(positions, posterior, among, seen)


LIKELY = 0.9
"""The probability of exceeding a limit from which a setting answers no more questions."""


def likely_over(
    trials: Sequence[TrialResult], fresh: Sequence[Candidate], limits: Sequence[CostLimit]
) -> set[int]:
    """Returns the settings that exceed one of `limits` with a probability of `LIKELY`: indices into `trials`
    and then `fresh`.

    A trial that saw all questions exceeds a limit as measured. The mean of `fresh` candidates is expected by
    the model of costs of all trials; their quantiles are unknown.
    """
    from scipy.special import ndtr

    over = set[int]()
    for limit in limits:
        for index, trial in enumerate(trials):
            labels = [f"{at}" for at, size in enumerate(trial.groups) for _ in range(size)]
            if trial.complete:
                exceeds = limit.excess(trial.scores) > 0
            else:
                exceeds = limit.standing(trial.scores, 1 - LIKELY, labels) == "over"
            over |= {index} if exceeds else set()
        fitted = FittedScores.to(trials, limit.objective, fresh)
        if limit.quantile is None and fresh and fitted.posterior is not None:
            scale, first = fitted.table.scale * limit.factor, len(trials)
            means = -limit.factor * (fitted.table.centre + fitted.table.scale * fitted.posterior.mean)
            spread = scale * np.sqrt(np.maximum(np.diag(fitted.posterior.covariance), 1e-12))
            exceeding = ndtr((means - limit.most) / spread) > LIKELY
            over |= {int(index) for index in np.flatnonzero(exceeding) if index >= first}
    return over


def _ends(baseline: TrialResult) -> list[int]:
    """Returns the numbers of groups after which a trial may be stopped; [] for independent questions."""
    if not baseline.groups:
        return []
    ends = list(accumulate(baseline.groups))
    return [ends.index(end) + 1 for end in stopping_points(len(baseline.scores), baseline.groups)]
