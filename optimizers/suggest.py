"""From the search space to Optuna's distributions and back to a candidate.

This is the only file that knows Optuna's distributions.
"""

from __future__ import annotations

import warnings
from typing import Any, assert_never

import optuna

from ragc.errors import UsageError
from ragc.fingerprint import digest
from ragc.optimizers.space import Candidate, Space, Spaces
from ragc.programs.knobs import Knob, Value
from ragc.recipe_spec import FILLED


def suggest(spaces: Spaces, trial: optuna.Trial) -> Candidate:
    """A candidate for `trial`; a knob whose condition does not hold keeps its default."""
    several = len(spaces.parts) > 1
    chosen = spaces.first.program
    if several:
        chosen = str(trial.suggest_categorical("program", [part.program for part in spaces.parts]))
    part = next(part for part in spaces.parts if part.program == chosen)
    values, prefix = dict(part.baseline().knobs), _prefix(part)
    searched = {knob.name: knob for knob in part.knobs}
    for declared in part.kind.declared():
        knob = searched.get(declared.name)
        if knob is not None and part.kind.matters(knob, values):
            values[knob.name] = _one(trial, f"{prefix}knob.{knob.name}", knob)
    demos = trial.suggest_int(f"{prefix}demos", 0, part.demos) if part.demos else 0
    kind = _kind(trial, f"{prefix}demo_kind", part) if demos else FILLED
    demo_set = _set(trial, f"{prefix}demo_set", part.sets(kind)) if demos else 0
    own = _own(trial, f"{prefix}own_demos", part, kind) if demos and part.predictors else {}
    numbers = {
        name: int(trial.suggest_categorical(f"{prefix}instructions.{name}", range(count)))
        for name, count in part.instructed.items()
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
    ).sharing(demos, demo_set)


def _kind(trial: optuna.Trial, name: str, part: Space) -> str:
    first, *others = part.demo_kinds
    return str(trial.suggest_categorical(name, part.demo_kinds)) if others else first


def _set(trial: optuna.Trial, name: str, sets: range) -> int:
    return int(trial.suggest_categorical(name, sets)) if len(sets) > 1 else 0


def _own(trial: optuna.Trial, name: str, part: Space, kind: str) -> dict[str, tuple[int, int]]:
    """What each predictor shows of its own; nothing in every other trial drawn at random."""
    own: dict[str, tuple[int, int]] = {}
    if trial.suggest_categorical(name, (False, True)):
        for predictor in part.predictors:
            count = trial.suggest_int(f"{name}.{predictor}", 0, part.demos)
            own[predictor] = (count, _set(trial, f"{name}.{predictor}.set", part.sets(kind)) if count else 0)
    return own


def enqueued(spaces: Spaces, candidate: Candidate) -> dict[str, Any]:
    """`candidate` as Optuna parameters; a value outside the searched range is left out.

    A value between the steps of a number is told as the nearest step, for Optuna knows no other.
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
    for name in part.instructed:
        out[f"{prefix}instructions.{name}"] = candidate.instructions.get(name, 0)
    for role in spaces.targets:
        out[f"target.{role}"] = candidate.targets.get(role, role)
    return out


def _own_as_parameters(name: str, part: Space, candidate: Candidate) -> dict[str, Any]:
    out: dict[str, Any] = {name: bool(candidate.own_demos)}
    for predictor in part.predictors if candidate.own_demos else ():
        count, number = candidate.shows(predictor)
        out[f"{name}.{predictor}"] = count
        if count and len(part.sets(candidate.demo_kind)) > 1:
            out[f"{name}.{predictor}.set"] = number
    return out


def _prefix(part: Space) -> str:
    """Two programs may declare one knob with different ranges, which are then two parameters."""
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
    """TPE seeded from the study's seed, the number of finished trials and the place in the batch.

    A killed and resumed study therefore asks for the same candidates as an unbroken one. With `explore`
    it draws uniformly at random.
    """
    mixed = int(digest([seed, finished, position])[:8], 16)
    if explore:
        return optuna.samplers.RandomSampler(seed=mixed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # group and multivariate
        return optuna.samplers.TPESampler(
            seed=mixed,
            n_startup_trials=max(4, min(10, trials // 3)),
            multivariate=True,
            group=True,
            constant_liar=True,
        )
