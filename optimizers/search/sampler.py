"""Chooses the next trials: screening candidates, new demonstration sets for the best trial, and samples from
Optuna.

This is the only module that uses Optuna's distributions. It maps the search space to Optuna parameters and
parameter values back to candidates.

Before each ask the sampler is seeded from the number of finished trials and the position in the batch. A
killed and resumed study therefore asks for the same candidates as an unbroken one. The ask goes to a copy of
the study in memory, because in the stored study each parameter of a trial costs a transaction. The chosen
trial is then added to the stored study. Trials in the copy have the values that the sampler should learn from
(`tell`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Container, Mapping, Sequence
from typing import Any, assert_never

import optuna

from ragc.core.digest import digest
from ragc.errors import UsageError
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.selection import best
from ragc.optimizers.search.storage import one_append
from ragc.optimizers.search.tell import sampler_view
from ragc.programs.knobs import Knob, Value
from ragc.recipe.values import FILLED, HELPFUL
from ragc.task.base import Task
from ragc.task.space import Candidate, ProgramSpace, SearchSpace


def suggest(spaces: SearchSpace, trial: optuna.Trial) -> Candidate:
    """Suggests a candidate for `trial`. A knob whose condition does not hold has its default."""
    several = len(spaces.parts) > 1
    chosen = spaces.first.program
    if several:
        chosen = str(trial.suggest_categorical("program", [part.program for part in spaces.parts]))
    part = next(part for part in spaces.parts if part.program == chosen)
    values, prefix = dict(part.baseline().knobs), _prefix(part)
    searched = {knob.name: knob for knob in part.knobs}
    for declared in part.kind.list_by_condition():
        knob = searched.get(declared.name)
        if knob is not None and part.kind.matters(knob, values):
            values[knob.name] = _one(trial, f"{prefix}knob.{knob.name}", knob)
    values = part.kind.settle(values, searched)
    demos = trial.suggest_int(f"{prefix}demos", 0, part.demos) if part.demos else 0
    kind = _kind(trial, f"{prefix}demo_kind", part) if demos else FILLED
    demo_set = _set(trial, f"{prefix}demo_set", part.sets(kind)) if demos else 0
    own = _own(trial, f"{prefix}own_demos", part, kind) if demos and part.predictors else {}
    numbers = {
        name: int(trial.suggest_categorical(f"{prefix}instructions.{name}", range(count)))
        for name, count in part.instruction_options.items()
    }
    players = {
        role: str(trial.suggest_categorical(f"target.{role}", names))
        for role, names in spaces.targets.items()
    }
    return Candidate(
        values,
        demos,
        demo_set,
        {name: number for name, number in numbers.items() if number},
        {role: name for role, name in players.items() if name != role},
        chosen,
        own,
        kind,
    ).with_demos(demos, demo_set)


def _kind(trial: optuna.Trial, name: str, part: ProgramSpace) -> str:
    first, *others = part.demo_kinds
    return str(trial.suggest_categorical(name, part.demo_kinds)) if others else first


def _set(trial: optuna.Trial, name: str, sets: range) -> int:
    return int(trial.suggest_categorical(name, sets)) if len(sets) > 1 else 0


def _own(trial: optuna.Trial, name: str, part: ProgramSpace, kind: str) -> dict[str, tuple[int, int]]:
    """Suggests a count and a set for each predictor; empty in about half of the trials drawn at random."""
    own: dict[str, tuple[int, int]] = {}
    if trial.suggest_categorical(name, (False, True)):
        for predictor in part.predictors:
            count = trial.suggest_int(f"{name}.{predictor}", 0, part.demos)
            own[predictor] = (count, _set(trial, f"{name}.{predictor}.set", part.sets(kind)) if count else 0)
    return own


def to_parameters(spaces: SearchSpace, candidate: Candidate) -> dict[str, Any]:
    """`candidate` as Optuna parameters, without values outside the searched ranges.

    A number between two steps becomes the nearest step, because Optuna accepts no other value.
    """
    part = spaces.part(candidate)
    values, prefix = dict(candidate.knobs), _prefix(part)
    out: dict[str, Any] = {"program": candidate.program} if len(spaces.parts) > 1 else {}
    for knob in part.knobs:
        if part.kind.matters(knob, values) and _inside(knob, values[knob.name]):
            out[f"{prefix}knob.{knob.name}"] = _on_grid(knob, values[knob.name])
    if part.demos:
        out[f"{prefix}demos"] = candidate.demos
        if candidate.demos and len(part.demo_kinds) > 1:
            out[f"{prefix}demo_kind"] = candidate.demo_kind
        if candidate.demos and len(part.sets(candidate.demo_kind)) > 1:
            out[f"{prefix}demo_set"] = candidate.demo_set
        if candidate.demos and part.predictors:
            out |= _own_as_parameters(f"{prefix}own_demos", part, candidate)
    for name in part.instruction_options:
        out[f"{prefix}instructions.{name}"] = candidate.instructions.get(name, 0)
    for role in spaces.targets:
        out[f"target.{role}"] = candidate.targets.get(role, role)
    return out


def _own_as_parameters(name: str, part: ProgramSpace, candidate: Candidate) -> dict[str, Any]:
    out: dict[str, Any] = {name: bool(candidate.own_demos)}
    for predictor in part.predictors if candidate.own_demos else ():
        count, number = candidate.demos_of(predictor)
        out[f"{name}.{predictor}"] = count
        if count and len(part.sets(candidate.demo_kind)) > 1:
            out[f"{name}.{predictor}.set"] = number
    return out


def _prefix(part: ProgramSpace) -> str:
    """The prefix of a program's parameters. Two programs may declare one knob with different ranges."""
    return f"{part.program}." if part.program else ""


def _inside(knob: Knob, value: Value) -> bool:
    try:
        knob.check(value)
    except UsageError:
        return False
    return True


def _on_grid(knob: Knob, value: Value) -> Value:
    if knob.kind != "float" or not knob.step:
        return value
    least, most = knob.bounds
    steps = min(round((float(value) - least) / knob.step), int((most - least) / knob.step + 1e-9))
    return round(least + steps * knob.step, 10)


def _one(trial: optuna.Trial, name: str, knob: Knob) -> Value:
    least, most = knob.bounds
    match knob.kind:
        case "int":
            step, low, high = int(knob.step or 1), int(least), int(most)
            return trial.suggest_int(name, low, high - (high - low) % step, step=step)
        case "float":
            return round(trial.suggest_float(name, least, most, step=knob.step), 10)
        case "switch":
            return bool(trial.suggest_categorical(name, (False, True)))
        case "choice":
            return knob.check(trial.suggest_categorical(name, knob.options))
        case _:
            assert_never(knob.kind)


def sampler(
    seed: int, finished: int, position: int, *, trials: int, explore: bool = False
) -> optuna.samplers.BaseSampler:
    """TPE, seeded from the study's seed, the number of finished trials and the position in the batch.

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


DRAWS = 12
"""The most draws to find a new candidate; the second half is drawn uniformly at random."""

RESERVE = 48
"""Candidates drawn uniformly at random from which any may begin when the model of scores says so.

With 4 in place of 48 the winners of small budgets were clearly worse (experiments/LOG.md).
"""

KNOWN_SETS = 3
"""Demonstration sets, or all where there are fewer, that are tried before the first of kind `helpful`."""

PendingTrial = tuple[int, Candidate]
"""The trial's number in Optuna's storage and its candidate."""


class TrialSampler:
    """Chooses the trials of `task` in `space`, batch by batch, and adds them to `study`."""

    def __init__(self, study: optuna.Study, task: Task, space: SearchSpace) -> None:
        self._study, self._task, self._space = study, task, space
        self._first = space.screening(math.ceil(task.trials * 2 / 3))
        self._offered: tuple[Candidate, ...] = ()
        self._offered_at = 0
        self._children: dict[int, Candidate] = {}
        self._reserve: tuple[Candidate, ...] | None = None
        self._knows_sets = False
        self._proposed: list[tuple[optuna.Trial, Candidate]] = []
        self._further: list[Candidate] = []
        self._done = 0

    def baseline(self) -> list[PendingTrial]:
        """The baseline, as a batch of one trial."""
        self._copy({})
        self._proposed = [self._enqueue(self._space.baseline(), 0, 0)]
        return self.start([0])

    @property
    def screening_size(self) -> int:
        """The number of trials in the batches of the screening, without the baseline."""
        return math.ceil(len(self._first) / self._task.batch) * self._task.batch

    def add_children(self, space: SearchSpace, done: int, children: Sequence[Candidate]) -> None:
        """Schedules `children` right after the first `done` trials, before all others.

        `space` replaces the search space: it knows their instructions.
        """
        self._space, self._reserve = space, None
        self._children |= dict(enumerate(children, start=done - 1))

    def screened(self, done: int) -> int:
        """The number of trials at the first end of a batch after the screening; 0 if `done` trials are fewer.

        The baseline counts as a trial.
        """
        ends = range(1, done + 1, self._task.batch)
        return next((end for end in ends if self._own_index(end - 1) >= self.screening_size), 0)

    def _own_index(self, index: int) -> int:
        """The number of trials without the baseline before trial `index` that are no scheduled children."""
        return index - sum(1 for at in self._children if at < index)

    def offer(self, candidates: Sequence[Candidate], done: int) -> None:
        """Schedules `candidates` right after the screening, which ended with `done` trials (`screened`)."""
        self._offered, self._offered_at = tuple(candidates), self._own_index(done - 1)

    def is_planned(self, done: int) -> bool:
        """Whether the next trial after `done` trials is planned: of the screening, offered, or of a round of
        instructions.
        """
        return done - 1 in self._children or self._planned_at(self._own_index(done - 1)) is not None

    def start(self, chosen: Sequence[int]) -> list[PendingTrial]:
        """Adds the `chosen` proposals, by their position, to the study."""
        done, first = self._done, len(self._proposed)
        pairs = [
            self._proposed[index]
            if index < first
            else self._enqueue(self._further[index - first], done, index)
            for index in chosen
        ]
        self._proposed, self._further = [], []
        with one_append(self._study):
            return [(self._storage_number(trial), candidate) for trial, candidate in pairs]

    def propose(
        self, trials: Sequence[TrialResult], size: int, waiting: Mapping[int, TrialResult]
    ) -> list[Candidate]:
        """The candidates of the next batch after `trials`, which include the baseline, and then the reserve.

        Nothing is added to the study before `start`. `size` is the number of trials in all, `waiting` are the
        running ones by Optuna's number. The reserve are `RESERVE` candidates drawn uniformly at random, less
        those that were tried; none where a planned batch comes next.

        Children of a round of instructions come right after it. Other candidates come in this order:

        1. The remaining screening candidates.
        2. The offered candidates, such as fitted thresholds.
        3. Of every three trials, two retry the best candidate with a new demonstration set for all
           predictors. When no set is left, one of three changes the set of a single predictor. The rest come
           from Optuna's sampler.
        """
        self._copy(waiting)
        done, pending = len(trials), list[tuple[optuna.Trial, Candidate]]()
        tried = {trial.candidate.mark for trial in trials}
        self._knows_sets = self._are_sets_known(trials)
        leader = best(trials, self._task.objectives).candidate
        shown = [candidate for candidate in (leader, *self._first) if candidate.demos]
        for position in range(min(self._task.batch, size - done)):
            index = done - 1 + position
            candidate = self._children.get(index) or self._planned_at(self._own_index(index))
            turn = (self._own_index(index) - len(self._first)) % 3
            if candidate is None and shown and turn < 2:
                candidate = self._space.next_demo_set(shown[0], tried)
            if candidate is None and shown and turn == 0:
                candidate = self._space.next_own_demo_set(shown[0], tried)
            if candidate is None or self._is_early(candidate):
                pending.append(self._sample(done, position, tried, shown))
            else:
                pending.append(self._enqueue(candidate, done, position))
            tried.add(pending[-1][1].mark)
        self._done, self._proposed = done, pending
        several = len(self._task.objectives) > 1
        self._further = [] if several or self.is_planned(done) or done >= size else self._untried(tried)
        return [*(candidate for _, candidate in pending), *self._further]

    def _untried(self, tried: Container[str]) -> list[Candidate]:
        """The reserve without candidates that were tried."""
        if self._reserve is None:
            study = optuna.create_study(
                sampler=optuna.samplers.RandomSampler(seed=int(digest([self._task.seed, "reserve"])[:8], 16))
            )
            drawn = (self._space.written(suggest(self._space, study.ask())) for _ in range(RESERVE))
            self._reserve = tuple({candidate.mark: candidate for candidate in drawn}.values())
        return [c for c in self._reserve if c.mark not in tried and not self._is_early(c)]

    def _are_sets_known(self, trials: Sequence[TrialResult]) -> bool:
        """Whether enough demonstration sets were tried to tell which demonstrations help (`KNOWN_SETS`)."""
        sets = {
            (c.program, c.demo_kind, c.demo_set)
            for c in (trial.candidate for trial in trials)
            if c.demos and c.demo_kind != HELPFUL
        }
        there = sum(
            len(part.sets(kind)) for part in self._space.parts for kind in part.demo_kinds if kind != HELPFUL
        )
        return len(sets) >= min(KNOWN_SETS, there)

    def _is_early(self, candidate: Candidate) -> bool:
        """Whether the demonstrations of `candidate` are chosen by an effect of which too little is known."""
        return not self._knows_sets and candidate.demos > 0 and candidate.demo_kind == HELPFUL

    def _copy(self, waiting: Mapping[int, TrialResult]) -> None:
        """Makes a new copy of the study in memory."""
        self._view = optuna.create_study(directions=self._study.directions)
        self._view.add_trials(sampler_view(self._study.get_trials(deepcopy=False), waiting))

    def _planned_at(self, index: int) -> Candidate | None:
        """The screening or offered candidate of trial `index`, 0 for the first after the baseline; None if
        there is none. Children are not counted.
        """
        if index < len(self._first):
            return self._first[index]
        at = index - self._offered_at
        return self._offered[at] if 0 <= at < len(self._offered) else None

    def _enqueue(self, candidate: Candidate, done: int, position: int) -> tuple[optuna.Trial, Candidate]:
        self._view.enqueue_trial(to_parameters(self._space, candidate))
        trial, _ = self._ask(done, position)
        return trial, candidate

    def _sample(
        self, done: int, position: int, tried: Container[str], shown: Sequence[Candidate]
    ) -> tuple[optuna.Trial, Candidate]:
        """A new candidate from the sampler. If all draws repeat earlier candidates, a variant of the last
        draw or of `shown`.
        """
        written = self._space.baseline()
        for attempt in range(DRAWS):
            index = position + attempt * self._task.batch
            trial, candidate = self._ask(done, index, explore=attempt >= DRAWS // 2)
            written = self._space.written(candidate)
            is_new = written.mark not in tried and not self._is_early(written)
            if is_new and written == candidate:
                return trial, candidate
            self._view.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            if is_new:
                return self._enqueue(written, done, position)
        others = (
            self._space.next_demo_set(like, tried) or self._space.next_own_demo_set(like, tried)
            for like in (written, *shown)
        )
        return self._enqueue(next(filter(None, others), written), done, position)

    def _ask(self, done: int, index: int, *, explore: bool = False) -> tuple[optuna.Trial, Candidate]:
        self._view.sampler = sampler(self._task.seed, done, index, trials=self._task.trials, explore=explore)
        trial = self._view.ask()
        return trial, suggest(self._space, trial)

    def _storage_number(self, trial: optuna.Trial) -> int:
        """Adds the running `trial` to the stored study and returns its number there."""
        self._study.add_trial(self._view.get_trials(deepcopy=False)[trial.number])
        return self._study.get_trials(deepcopy=False)[-1].number
