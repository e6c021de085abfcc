"""The last policy: candidates drawn by Optuna, where no other policy has one.

With one objective they come from a pool of untried candidates, drawn uniformly at random, of which the model
of scores chooses (`looks`). With TPE in place of the pool a search took 2.7 times the processor time and
chose no better (experiments/LOG.md).

With several objectives there is no such model, and TPE proposes. It is seeded from the number of finished
trials and the position in the batch, so a killed and resumed study asks for the same candidates as an
unbroken one. It is asked in a copy of the study in memory, because in the stored study each parameter of a
trial costs a transaction. Trials in the copy have the values that TPE should learn from (`tell`).
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping, Sequence

import optuna

from ragc.core.digest import digest
from ragc.optimizers.candidates.space import Candidate, SearchSpace
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.journal import one_append
from ragc.optimizers.search.parameters import suggest, to_parameters
from ragc.optimizers.search.policies import NextTrial
from ragc.optimizers.search.tell import sampler_view
from ragc.task.base import Task

DRAWS = 6
"""The most draws of TPE to find a new candidate."""

POOL = 48
"""The most untried candidates from which any may begin when the model of scores says so.

With 4 in place of 48 the winners of small budgets were clearly worse (experiments/LOG.md).
"""

MAX_REPEATS = 200
"""Draws in a row that repeat earlier ones, after which the space counts as drawn out."""


class UntriedPool:
    """Candidates of `space` in the order in which they are drawn, uniformly at random and without duplicates.

    The order depends on `seed` alone, so a resumed study finds the same untried candidates.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self.space = space
        sampler = optuna.samplers.RandomSampler(seed=_mixed(seed, "reserve"))
        self._study = optuna.create_study(sampler=sampler)
        self._drawn: dict[str, Candidate] = {}
        self._repeats = 0

    def untried(self, tried_marks: Container[str]) -> list[Candidate]:
        """Returns the first `POOL` candidates whose digests are not in `tried_marks`, or all there are."""
        untried = [candidate for mark, candidate in self._drawn.items() if mark not in tried_marks]
        while len(untried) < POOL and self._repeats < MAX_REPEATS:
            candidate = self.space.written(suggest(self.space, self._study.ask()))
            self._repeats = self._repeats + 1 if candidate.mark in self._drawn else 0
            if not self._repeats:
                self._drawn[candidate.mark] = candidate
                untried += [candidate] if candidate.mark not in tried_marks else []
        return untried[:POOL]


PendingTrial = tuple[int, Candidate]
"""The trial's number in Optuna's storage and its candidate."""


def seeded_sampler(seed: int, finished: int, position: int, *, trials: int) -> optuna.samplers.BaseSampler:
    """Returns TPE, seeded from the study's seed, the number of finished trials and the position in the batch.

    A killed and resumed study therefore asks for the same candidates as an unbroken one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # `group`, `multivariate`
        return optuna.samplers.TPESampler(
            seed=_mixed(seed, finished, position),
            n_startup_trials=max(4, min(10, trials // 3)),
            multivariate=True,
            group=True,
            constant_liar=True,
        )


class TrialSampler:
    """Samples candidates for the trials of `task` and adds trials to `study`."""

    def __init__(self, study: optuna.Study, task: Task) -> None:
        self._study, self._task = study, task
        self._uses_tpe = len(study.directions) > 1
        self._pool: UntriedPool | None = None
        self._expected: dict[str, optuna.Trial] = {}
        self._view = optuna.create_study(directions=study.directions)

    def baseline(self, space: SearchSpace) -> list[PendingTrial]:
        """Adds the baseline, as a batch of one trial."""
        return self.add([(space.baseline(), NextTrial(0, 0, 0, space))])

    def begin_batch(self, waiting: Mapping[int, TrialResult]) -> None:
        """Lets TPE learn from the study so far; the `waiting` trials have their results so far."""
        self._expected = {}
        if self._uses_tpe:
            self._view = optuna.create_study(directions=self._study.directions)
            trials = self._study.get_trials(deepcopy=False)
            self._view.add_trials(sampler_view(trials, waiting, self._task.rule.limits))

    def candidate(self, next_trial: NextTrial) -> Candidate | None:
        """Returns a candidate of TPE with several objectives, and otherwise, or where TPE repeats itself, of
        the pool. Where that is empty, a variant of `next_trial.with_demos` with other demonstrations; None
        once all of these were tried, too.
        """
        drawn = self._draw(next_trial) if self._uses_tpe else None
        candidate = drawn or next(iter(self.untried(next_trial)), None)
        if candidate is not None:
            return candidate
        space, tried = next_trial.space, next_trial.tried_marks
        others = (
            space.next_demo_set(like, tried) or space.next_own_demo_set(like, tried)
            for like in next_trial.with_demos
        )
        return next(filter(None, others), None)

    def untried(self, next_trial: NextTrial) -> list[Candidate]:
        """Returns the candidates of the pool that were not tried."""
        if self._pool is None or self._pool.space is not next_trial.space:
            self._pool = UntriedPool(next_trial.space, self._task.seed)
        return self._pool.untried(next_trial.tried_marks)

    def expect(self, candidate: Candidate, next_trial: NextTrial) -> None:
        """Counts the proposed `candidate` as running, so that further draws of TPE differ from it."""
        if self._uses_tpe and candidate.mark not in self._expected:
            self._expected[candidate.mark] = self._trial(candidate, next_trial)

    def add(self, started: Sequence[tuple[Candidate, NextTrial]]) -> list[PendingTrial]:
        """Adds running trials to the stored study and returns them with their numbers there."""
        pending = []
        with one_append(self._study):
            for candidate, next_trial in started:
                trial = self._expected.get(candidate.mark) or self._trial(candidate, next_trial)
                self._study.add_trial(self._view.get_trials(deepcopy=False)[trial.number])
                pending.append((self._study.get_trials(deepcopy=False)[-1].number, candidate))
        return pending

    def _draw(self, next_trial: NextTrial) -> Candidate | None:
        """Returns a new candidate of TPE; None if all draws repeat earlier ones."""
        for attempt in range(DRAWS):
            position = next_trial.position + attempt * self._task.batch
            self._view.sampler = seeded_sampler(
                self._task.seed, next_trial.done, position, trials=self._task.trials
            )
            trial = self._view.ask()
            drawn = suggest(next_trial.space, trial)
            candidate = next_trial.space.written(drawn)
            is_new = candidate.mark not in next_trial.tried_marks
            if is_new and candidate == drawn:
                self._expected[candidate.mark] = trial
                return candidate
            self._view.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            if is_new:
                return candidate
        return None

    def _trial(self, candidate: Candidate, next_trial: NextTrial) -> optuna.Trial:
        """Returns a trial of `candidate`; a parameter whose range leaves its value out is drawn at random."""
        mixed = _mixed(self._task.seed, next_trial.done, next_trial.position)
        self._view.sampler = optuna.samplers.RandomSampler(seed=mixed)
        self._view.enqueue_trial(to_parameters(next_trial.space, candidate))
        trial = self._view.ask()
        suggest(next_trial.space, trial)
        return trial


def _mixed(*parts: int | str) -> int:
    """Returns a seed for Optuna, mixed from `parts`."""
    return int(digest(list(parts))[:8], 16)
