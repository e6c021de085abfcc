"""The last policy: samples from Optuna, where no other policy has a candidate.

Before each ask Optuna's sampler is seeded from the number of finished trials and the position in the batch. A
killed and resumed study therefore asks for the same candidates as an unbroken one. The ask goes to a copy of
the study in memory, because in the stored study each parameter of a trial costs a transaction. The chosen
trial is then added to the stored study. Trials in the copy have the values that the sampler should learn from
(`tell`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import optuna

from ragc.core.digest import digest
from ragc.optimizers.candidates.space import Candidate, SearchSpace
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.journal import one_append
from ragc.optimizers.search.parameters import suggest, to_parameters
from ragc.optimizers.search.policies import NextTrial
from ragc.optimizers.search.tell import sampler_view
from ragc.task.base import Task

DRAWS = 12
"""The most draws to find a new candidate; the second half is drawn uniformly at random."""

RESERVE = 48
"""Candidates drawn uniformly at random from which any may begin when the model of scores says so.

With 4 in place of 48 the winners of small budgets were clearly worse (experiments/LOG.md).
"""

PendingTrial = tuple[int, Candidate]
"""The trial's number in Optuna's storage and its candidate."""


def seeded_sampler(
    seed: int, finished: int, position: int, *, trials: int, explore: bool = False
) -> optuna.samplers.BaseSampler:
    """Returns TPE, seeded from the study's seed, the number of finished trials and the position in the batch.

    A killed and resumed study therefore asks for the same candidates as an unbroken one. With `explore`,
    candidates are drawn uniformly at random.
    """
    mixed = int(digest([seed, finished, position])[:8], 16)
    if explore:
        return optuna.samplers.RandomSampler(seed=mixed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # `group`, `multivariate`
        return optuna.samplers.TPESampler(
            seed=mixed,
            n_startup_trials=max(4, min(10, trials // 3)),
            multivariate=True,
            group=True,
            constant_liar=True,
        )


class TrialSampler:
    """Samples candidates for the trials of `task` and adds trials to `study`."""

    def __init__(self, study: optuna.Study, task: Task) -> None:
        self._study, self._task = study, task
        self._drawn: tuple[optuna.Trial, Candidate] | None = None
        self._reserve: tuple[SearchSpace, list[Candidate]] | None = None
        self._view = optuna.create_study(directions=study.directions)

    def baseline(self, space: SearchSpace) -> list[PendingTrial]:
        """Adds the baseline, as a batch of one trial."""
        self.copy({})
        baseline = space.baseline()
        return self.add([(self.trial(baseline, NextTrial(0, 0, 0, space)), baseline)])

    def copy(self, waiting: Mapping[int, TrialResult]) -> None:
        """Makes a new copy of the study, in which the `waiting` trials have their results so far."""
        self._view = optuna.create_study(directions=self._study.directions)
        trials = self._study.get_trials(deepcopy=False)
        self._view.add_trials(sampler_view(trials, waiting, self._task.rule.limits))

    def candidate(self, next_trial: NextTrial) -> Candidate:
        """Returns a new candidate. If all draws repeat earlier ones, a variant of the last draw or of
        `next_trial.with_demos`.
        """
        candidate = next_trial.space.baseline()
        for attempt in range(DRAWS):
            position = next_trial.position + attempt * self._task.batch
            trial, drawn = self._ask(replace(next_trial, position=position), explore=attempt >= DRAWS // 2)
            candidate = next_trial.space.written(drawn)
            is_new = candidate.mark not in next_trial.tried_marks and next_trial.admits(candidate)
            if is_new and candidate == drawn:
                self._drawn = trial, candidate
                return candidate
            self._view.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            if is_new:
                return candidate
        others = (
            next_trial.space.next_demo_set(like, next_trial.tried_marks)
            or next_trial.space.next_own_demo_set(like, next_trial.tried_marks)
            for like in (candidate, *next_trial.with_demos)
        )
        return next(filter(None, others), candidate)

    def trial(self, candidate: Candidate, next_trial: NextTrial) -> optuna.Trial:
        """Returns the trial that was drawn with `candidate`, or asks for one with its parameters."""
        if self._drawn is not None and self._drawn[1] is candidate:
            return self._drawn[0]
        self._view.enqueue_trial(to_parameters(next_trial.space, candidate))
        return self._ask(next_trial)[0]

    def reserve(self, space: SearchSpace) -> list[Candidate]:
        """Returns `RESERVE` candidates of `space` drawn uniformly at random, without duplicates."""
        if self._reserve is None or self._reserve[0] is not space:
            study = optuna.create_study(
                sampler=optuna.samplers.RandomSampler(seed=int(digest([self._task.seed, "reserve"])[:8], 16))
            )
            drawn = (space.written(suggest(space, study.ask())) for _ in range(RESERVE))
            self._reserve = space, list({candidate.mark: candidate for candidate in drawn}.values())
        return self._reserve[1]

    def add(self, trials: Sequence[tuple[optuna.Trial, Candidate]]) -> list[PendingTrial]:
        """Adds running `trials` to the stored study and returns them with their numbers there."""
        pending = []
        with one_append(self._study):
            for trial, candidate in trials:
                self._study.add_trial(self._view.get_trials(deepcopy=False)[trial.number])
                pending.append((self._study.get_trials(deepcopy=False)[-1].number, candidate))
        return pending

    def _ask(self, next_trial: NextTrial, *, explore: bool = False) -> tuple[optuna.Trial, Candidate]:
        self._view.sampler = seeded_sampler(
            self._task.seed, next_trial.done, next_trial.position, trials=self._task.trials, explore=explore
        )
        trial = self._view.ask()
        return trial, suggest(next_trial.space, trial)
