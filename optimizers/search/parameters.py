"""Maps the search space to Optuna parameters, and parameter values back to candidates.

This is the only module that uses Optuna's distributions. A program's parameters have its name as a prefix,
because two programs may declare one knob with different ranges.
"""

from __future__ import annotations

from typing import Any, assert_never

import optuna

from ragc.errors import UsageError
from ragc.optimizers.candidates.space import Candidate, ProgramSpace, SearchSpace
from ragc.programs.knobs import Knob, Value
from ragc.recipe.values import FILLED


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
            values[knob.name] = _suggest_value(trial, f"{prefix}knob.{knob.name}", knob)
    values = part.kind.settle(values, searched)
    demos = trial.suggest_int(f"{prefix}demos", 0, part.demos) if part.demos else 0
    kind = _suggest_kind(trial, f"{prefix}demo_kind", part) if demos else FILLED
    demo_set = _suggest_set(trial, f"{prefix}demo_set", part.sets(kind)) if demos else 0
    own = _suggest_own_demos(trial, f"{prefix}own_demos", part, kind) if demos and part.predictors else {}
    numbers = {
        name: int(trial.suggest_categorical(f"{prefix}instructions.{name}", range(count)))
        for name, count in part.instruction_options.items()
    }
    role_targets = {
        role: str(trial.suggest_categorical(f"target.{role}", names))
        for role, names in spaces.targets.items()
    }
    return Candidate(
        values,
        demos,
        demo_set,
        {name: number for name, number in numbers.items() if number},
        {role: name for role, name in role_targets.items() if name != role},
        chosen,
        own,
        kind,
    ).with_demos(demos, demo_set)


def _suggest_kind(trial: optuna.Trial, name: str, part: ProgramSpace) -> str:
    first, *others = part.demo_kinds
    return str(trial.suggest_categorical(name, part.demo_kinds)) if others else first


def _suggest_set(trial: optuna.Trial, name: str, sets: range) -> int:
    return int(trial.suggest_categorical(name, sets)) if len(sets) > 1 else 0


def _suggest_own_demos(
    trial: optuna.Trial, name: str, part: ProgramSpace, kind: str
) -> dict[str, tuple[int, int]]:
    """Suggests a count and a set for each predictor; empty in about half of the trials drawn at random."""
    own: dict[str, tuple[int, int]] = {}
    if trial.suggest_categorical(name, (False, True)):
        for predictor in part.predictors:
            count = trial.suggest_int(f"{name}.{predictor}", 0, part.demos)
            own[predictor] = (
                count,
                _suggest_set(trial, f"{name}.{predictor}.set", part.sets(kind)) if count else 0,
            )
    return own


def to_parameters(spaces: SearchSpace, candidate: Candidate) -> dict[str, Any]:
    """`candidate` as Optuna parameters, without values outside the searched ranges.

    A number between two steps becomes the nearest step, because Optuna accepts no other value.
    """
    part = spaces.part(candidate)
    values, prefix = dict(candidate.knobs), _prefix(part)
    out: dict[str, Any] = {"program": candidate.program} if len(spaces.parts) > 1 else {}
    for knob in part.knobs:
        if part.kind.matters(knob, values) and _is_in_range(knob, values[knob.name]):
            out[f"{prefix}knob.{knob.name}"] = _on_grid(knob, values[knob.name])
    if part.demos:
        out[f"{prefix}demos"] = candidate.demos
        if candidate.demos and len(part.demo_kinds) > 1:
            out[f"{prefix}demo_kind"] = candidate.demo_kind
        if candidate.demos and len(part.sets(candidate.demo_kind)) > 1:
            out[f"{prefix}demo_set"] = candidate.demo_set
        if candidate.demos and part.predictors:
            out |= _own_demo_parameters(f"{prefix}own_demos", part, candidate)
    for name in part.instruction_options:
        out[f"{prefix}instructions.{name}"] = candidate.instructions.get(name, 0)
    for role in spaces.targets:
        out[f"target.{role}"] = candidate.targets.get(role, role)
    return out


def _own_demo_parameters(name: str, part: ProgramSpace, candidate: Candidate) -> dict[str, Any]:
    out: dict[str, Any] = {name: bool(candidate.own_demos)}
    for predictor in part.predictors if candidate.own_demos else ():
        count, number = candidate.demos_of(predictor)
        out[f"{name}.{predictor}"] = count
        if count and len(part.sets(candidate.demo_kind)) > 1:
            out[f"{name}.{predictor}.set"] = number
    return out


def _prefix(part: ProgramSpace) -> str:
    """Returns the prefix of a program's parameters; "" in a study of one program."""
    return f"{part.program}." if part.program else ""


def _is_in_range(knob: Knob, value: Value) -> bool:
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


def _suggest_value(trial: optuna.Trial, name: str, knob: Knob) -> Value:
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
