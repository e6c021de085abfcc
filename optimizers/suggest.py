"""The search space: from declared knobs to Optuna's distributions and back to a candidate.

This is the only file that knows Optuna's distributions.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

import optuna

from ragc.errors import UsageError
from ragc.fingerprint import digest
from ragc.programs.knobs import Knob, Knobs, Value


@dataclass(frozen=True, slots=True)
class Candidate:
    """One point of the search space: knob values, and which demonstrations are shown.

    `demos` is how many (0 for none), taken from the front of demonstration set number `demo_set`.
    """

    knobs: Mapping[str, Value] = field(default_factory=dict)
    demos: int = 0
    demo_set: int = 0

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        return {"knobs": dict(self.knobs), "demos": self.demos, "demo_set": self.demo_set}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Candidate:
        """The candidate that `to_json` described."""
        return cls(dict(value["knobs"]), int(value["demos"]), int(value["demo_set"]))

    @property
    def mark(self) -> str:
        """A short digest; equal candidates have equal marks."""
        return digest(self.to_json())[:12]


@dataclass(frozen=True, slots=True)
class Space:
    """What may vary: some declared knobs, and demonstrations.

    `fixed` are values that hold for every candidate. `demos` is the most demonstrations shown,
    drawn from `demo_sets` sets; 0 searches none.
    """

    knobs: tuple[Knob, ...]
    kind: type[Knobs]
    fixed: Mapping[str, Value] = field(default_factory=dict)
    demos: int = 0
    demo_sets: int = 1

    @property
    def size(self) -> int:
        """The number of dimensions; 0 when nothing varies."""
        return len(self.knobs) + (1 if self.demos else 0) + (1 if self.demos and self.demo_sets > 1 else 0)

    def baseline(self) -> Candidate:
        """The declared defaults with `fixed` over them, and no demonstrations."""
        values: dict[str, Value] = self.kind.of(dict(self.fixed)).to_json()
        return Candidate(values)

    def screening(self, most: int) -> list[Candidate]:
        """At most `most` candidates to begin with, chosen by rule and not by chance.

        The baseline with all demonstrations, then the same with one choice or switch moved to one of
        its other options, in the order of declaration. Empty without demonstrations.
        """
        if not self.demos:
            return []
        base = replace(self.baseline(), demos=self.demos)
        made = [base]
        for knob in self.knobs:
            options = (False, True) if knob.kind == "switch" else knob.options
            active = self.kind.matters(knob, base.knobs)
            others = [option for option in options if active and option != base.knobs[knob.name]]
            made += [replace(base, knobs={**base.knobs, knob.name: option}) for option in others]
        return made[:most]

    def another_set(self, candidate: Candidate, tried: Container[str]) -> Candidate | None:
        """`candidate` with the first other demonstration set whose mark is not among those `tried`.

        None when it shows no demonstrations or all sets were tried. Which set is shown matters as much as
        most knobs do, and a sampler learns nothing about one set from another.
        """
        sets = range(self.demo_sets) if candidate.demos else ()
        others = (replace(candidate, demo_set=number) for number in sets)
        return next((other for other in others if other.mark not in tried), None)

    def suggest(self, trial: optuna.Trial) -> Candidate:
        """A candidate for `trial`; a knob whose condition does not hold keeps its default."""
        values = dict(self.baseline().knobs)
        searched = {knob.name: knob for knob in self.knobs}
        for declared in self.kind.declared():
            knob = searched.get(declared.name)
            if knob is not None and self.kind.matters(knob, values):
                values[knob.name] = _one(trial, knob)
        demos = trial.suggest_int("demos", 0, self.demos) if self.demos else 0
        several = demos > 0 and self.demo_sets > 1
        demo_set = trial.suggest_categorical("demo_set", range(self.demo_sets)) if several else 0
        return Candidate(values, demos, int(demo_set))

    def enqueued(self, candidate: Candidate) -> dict[str, Any]:
        """`candidate` as Optuna parameters; a value outside the searched range is left out."""
        values = dict(candidate.knobs)
        out: dict[str, Any] = {}
        for knob in self.knobs:
            if self.kind.matters(knob, values) and _inside(knob, values[knob.name]):
                out[f"knob.{knob.name}"] = values[knob.name]
        if self.demos:
            out["demos"] = candidate.demos
            if candidate.demos and self.demo_sets > 1:
                out["demo_set"] = candidate.demo_set
        return out


def _inside(knob: Knob, value: Value) -> bool:
    try:
        knob.check(value)
    except UsageError:
        return False
    return True


def _one(trial: optuna.Trial, knob: Knob) -> Value:
    name = f"knob.{knob.name}"
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
