"""What a study tries next: a rule first, then other demonstrations for the best, and Optuna's sampler.

Before each ask the sampler is seeded from the number of finished trials and the place in the batch, so a
study that was killed and resumed asks for what an unbroken one does. A copy of the study in memory is asked,
for each parameter of a trial is a transaction of the study that is kept; what is tried is then added to that.
In the copy a trial has the values that the sampler is to learn from (`telling`).
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence

import optuna

from ragc.optimizers.space import Candidate, Spaces
from ragc.optimizers.suggest import enqueued, sampler, suggest
from ragc.optimizers.task import Task
from ragc.optimizers.telling import learned_from
from ragc.optimizers.trials import Tried
from ragc.optimizers.winner import best

DRAWS = 12
"""How often a candidate is drawn before one that was tried may come again; the later half at random."""

Asked = tuple[int, Candidate]
"""The number of a trial in Optuna's storage, and what it tries."""


class Asking:
    """Asks `study` for the trials of `task` in `space`, batch by batch."""

    def __init__(self, study: optuna.Study, task: Task, space: Spaces) -> None:
        self._study, self._task, self._space = study, task, space
        self._first = space.screening(math.ceil(task.trials * 2 / 3))
        self._offered: tuple[Candidate, ...] = ()

    def baseline(self) -> list[Asked]:
        """The declared defaults, alone."""
        self._copy()
        return [self._given(self._space.baseline(), 0, 0)]

    @property
    def screened(self) -> int:
        """How many trials, the baseline not counted, are done when the batches of the screening are."""
        return math.ceil(len(self._first) / self._task.batch) * self._task.batch

    def offer(self, candidates: Sequence[Candidate]) -> None:
        """Try `candidates` as soon as the screening is over."""
        self._offered = tuple(candidates)

    def batch(self, trials: Sequence[Tried], wanted: int) -> list[Asked]:
        """The next trials after `trials`, the baseline among them, of `wanted` in all.

        What is left of the screening; then what was offered; then two in three show the best candidate so
        far another demonstration set, all predictors the same. When none is left, one in three shows it to
        one predictor alone. The others are the sampler's.
        """
        self._copy()
        done, asked = len(trials), list[Asked]()
        tried = {trial.candidate.mark for trial in trials}
        leader = best(trials, self._task.objectives).candidate
        shown = [candidate for candidate in (leader, *self._first) if candidate.demos]
        for position in range(min(self._task.batch, wanted - done)):
            place = done - 1 + position
            candidate = self._given_at(place)
            turn = (place - len(self._first)) % 3
            if candidate is None and shown and turn < 2:
                candidate = self._space.another_set(shown[0], tried)
            if candidate is None and shown and turn == 0:
                candidate = self._space.another_own(shown[0], tried)
            if candidate is None:
                asked.append(self._drawn(done, position, tried, shown))
            else:
                asked.append(self._given(candidate, done, position))
            tried.add(asked[-1][1].mark)
        return asked

    def _copy(self) -> None:
        """Take a new copy of the study."""
        self._asked = optuna.create_study(directions=self._study.directions)
        self._asked.add_trials(learned_from(self._study.get_trials(deepcopy=False)))

    def _given_at(self, place: int) -> Candidate | None:
        """What the rule has for trial `place`, the first after the baseline being 0; None when it is over."""
        if place < len(self._first):
            return self._first[place]
        at = place - self.screened
        return self._offered[at] if 0 <= at < len(self._offered) else None

    def _given(self, candidate: Candidate, done: int, position: int) -> Asked:
        self._asked.enqueue_trial(enqueued(self._space, candidate))
        trial, _ = self._ask(done, position)
        return self._kept(trial), candidate

    def _drawn(self, done: int, position: int, tried: Container[str], shown: Sequence[Candidate]) -> Asked:
        """A candidate of the sampler's; where it only repeats itself, one like it or like those `shown`."""
        candidate = self._space.baseline()
        for attempt in range(DRAWS):
            place = position + attempt * self._task.batch
            trial, candidate = self._ask(done, place, explore=attempt >= DRAWS // 2)
            if candidate.mark not in tried:
                return self._kept(trial), candidate
            self._asked.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        others = (
            self._space.another_set(like, tried) or self._space.another_own(like, tried)
            for like in (candidate, *shown)
        )
        return self._given(next(filter(None, others), candidate), done, position)

    def _ask(self, done: int, place: int, *, explore: bool = False) -> tuple[optuna.Trial, Candidate]:
        self._asked.sampler = sampler(self._task.seed, done, place, trials=self._task.trials, explore=explore)
        trial = self._asked.ask()
        return trial, suggest(self._space, trial)

    def _kept(self, trial: optuna.Trial) -> int:
        """The number under which the study keeps `trial`, which runs."""
        self._study.add_trial(self._asked.get_trials(deepcopy=False)[trial.number])
        return self._study.get_trials(deepcopy=False)[-1].number
