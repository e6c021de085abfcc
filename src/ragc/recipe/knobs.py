"""Validates a recipe's knobs against its programs: fixed ones, searched ones, and objectives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, TypeVar

from ragc.core.validation import Location, dotted
from ragc.errors import UnknownName, UsageError
from ragc.metrics import ADDED, is_added
from ragc.programs import Method
from ragc.programs.knobs import Knob, Value
from ragc.recipe.models import CostLimits, GridSpec, Search
from ragc.recipe.values import (
    CROSS,
    DEMO_COLUMNS,
    DEMO_KIND,
    DEMOS,
    OWN_OPTIMIZER,
    check_metric,
)
from ragc.targets.base import ROLES

if TYPE_CHECKING:
    from ragc.recipe.load import RecipeProblems

T = TypeVar("T")

BUDGET = "context_tokens"
STUDY_CONTEXT_TOKENS = 3000
"""Most tokens of passages that a call reads where programs are compared: the prompt that SlimPLM caps at."""

MAX_SETTINGS = 32_767
"""Most settings of a grid, and most questions: what 16 bits hold."""

Methods = tuple[Method, ...]
"""The programs of a recipe, its own first; empty when that is invalid."""


@dataclass(frozen=True, slots=True)
class KnobChecks:
    """Validates the knobs in a recipe for its programs."""

    methods: Methods
    problems: RecipeProblems

    def comparable(self, values: Mapping[str, object], table: Search) -> Mapping[str, object]:
        """Returns `values`, with defaults that make several programs comparable unless the recipe sets them.

        These are one answer format, that of the recipe's own program if all have it, and one budget of
        passages.
        """
        if len(self.methods) < 2:
            return values
        varied = {*table.knobs, *table.ranges}
        common: dict[str, object] = {"answer_format": self._common_format()}
        if any(program.reads_passages for program in self.methods):
            common[BUDGET] = STUDY_CONTEXT_TOKENS
        return {name: value for name, value in common.items() if name not in varied} | dict(values)

    def _common_format(self) -> Value:
        """Returns the first default answer format that all programs have, else the first that all have."""
        listed = [{knob.name: knob for knob in program.knobs.list_knobs()} for program in self.methods]
        knobs = [every["answer_format"] for every in listed if "answer_format" in every]
        shared = [option for option in knobs[0].options if all(option in knob.options for knob in knobs)]
        return next((knob.default for knob in knobs if knob.default in shared), shared[0])

    def fixed(self, values: Mapping[str, object]) -> dict[str, Value]:
        """Returns the fixed knobs, in the order of declaration."""
        if not self.methods:
            return {}
        fixed = self._checked("knobs", values, _value)
        for program in self.methods:
            own = {knob.name for knob in program.knobs.list_knobs()}
            try:
                program.knobs.of({name: value for name, value in fixed.items() if name in own})
            except UsageError as error:  # values that contradict each other
                self.problems.add(("knobs",), str(error))
        return {name: fixed[name] for name in self._declared() if name in fixed}

    def search(
        self,
        table: Search,
        fixed: Mapping[str, Value],
        report: tuple[str, ...],
        *,
        crossed: bool = False,
    ) -> Search:
        """Returns the search space. A knob with a range in the recipe is searched whether it is listed or
        not.

        `crossed` says whether the recipe names questions of another domain.
        """
        ranges = self._checked("search.ranges", table.ranges, _range) if self.methods else {}
        names = self._searched(table, fixed, ranges)
        objectives = table.objectives or (_signed(report[0]),)
        if table.pick_name and table.pick_name not in objectives:
            error = UnknownName("objective of this recipe", table.pick_name, objectives)
            self.problems.add(("search", "pick"), str(error))
        pick = table.pick_name or objectives[0]
        self._check_choice(table, objectives)
        if CROSS in table.demo_kinds and not crossed:
            text = f'{CROSS!r} needs questions of another domain; add data.cross_domain = "FILE"'
            self.problems.add(("search", "demo_kinds"), text)
        if table.instruction_rounds and not table.instructions:
            text = (
                f"search.instruction_rounds = {table.instruction_rounds} needs search.instructions, the most "
                "that a round writes; set it to 1 or more"
            )
            self.problems.add(("search", "instruction_rounds"), text)
        return table.replace(
            knobs=names,
            ranges={name: ranges[name] for name in names if name in ranges},
            objectives=objectives,
            pick=pick if isinstance(table.pick, str) else table.pick.replace(objective=pick),
            programs=tuple(program.id for program in self.methods[1:]),
            targets=self._role_targets(table.targets),
        )

    def _check_choice(self, table: Search, objectives: Sequence[str]) -> None:
        """Adds the problems of a choice by costs that this search cannot make."""
        if table.front and len(objectives) < 2:
            text = 'search.front needs several objectives, such as ["f1", "-tokens"]; found one, '
            self.problems.add(("search", "front"), f"{text}{objectives[0]}")
        if table.front and table.optimizer != OWN_OPTIMIZER:
            text = f'search.front needs optimizer = "{OWN_OPTIMIZER}", whose trials are measured alike'
            self.problems.add(("search", "front"), text)
        chosen = (("limits", table.limits != CostLimits()), ("pick", not isinstance(table.pick, str)))
        for key, used in chosen:
            if used and table.optimizer != OWN_OPTIMIZER:
                text = f"search.{key} needs trials to choose among, and {table.optimizer} chooses by itself; "
                text += f'leave it out, or set search.optimizer = "{OWN_OPTIMIZER}"'
                self.problems.add(("search", key), text)

    def grid(self, table: GridSpec, search: Search) -> GridSpec:
        """Returns the settings of a grid, those of its products included.

        A value may be any that a knob of the recipe's own program has, whether the recipe fixes it or not.
        """
        settings: list[dict[str, Value]] = []
        for index, values in enumerate(table.settings if self.methods else ()):
            where = ("grid", "settings", index)
            settings.append(
                {name: self._in_grid(name, value, where, search) for name, value in values.items()}
            )
        keys = ("grid", "product")
        for axes in table.product if self.methods else ():
            if bad := [name for name, values in axes.items() if not isinstance(values, list) or not values]:
                self.problems.add(keys, f"grid.product.{bad[0]} must be a list of values that is not empty")
                continue
            sizes = math.prod(map(len, axes.values()))
            if sizes > MAX_SETTINGS:
                text = f"grid.product has {sizes:,} combinations, and a grid holds {MAX_SETTINGS:,} settings"
                self.problems.add(keys, text)
                continue
            columns = [[self._in_grid(name, value, keys, search) for value in axes[name]] for name in axes]
            settings += [dict(zip(axes, values, strict=True)) for values in product(*columns)]
        listed = table.baseline.items() if self.methods else ()
        baseline = {name: self._in_grid(name, value, ("grid", "baseline"), search) for name, value in listed}
        return table.replace(baseline=baseline, settings=tuple(settings), product=())

    def _in_grid(self, name: str, value: object, keys: Location, search: Search) -> Value:
        """Returns `value` of a knob, or of one of `DEMO_COLUMNS`; a problem at `keys` for any other."""
        own = {knob.name: knob for knob in self.methods[0].knobs.list_knobs()}
        try:
            if name in own:
                return _value(own[name], value)
            if name == DEMO_KIND and value in search.demo_kinds:
                return str(value)
            if name == DEMO_KIND:
                raise UnknownName(
                    "kind of demonstrations in search.demo_kinds", str(value), search.demo_kinds
                )
            if name not in DEMO_COLUMNS:
                raise UnknownName(f"knob of {self.methods[0].id}", name, (*own, *DEMO_COLUMNS))
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise UsageError(f"{name} must be an integer of at least 0, found {repr(value)[:60]}")
            if name == DEMOS and value > search.demos:
                raise UsageError(f"{name} = {value} is more than search.demos = {search.demos}; raise that")
            return value
        except UsageError as error:
            self.problems.add(keys, f"{dotted(keys)}: {error}")
            return 0

    def _checked(
        self, table: str, values: Mapping[str, object], check: Callable[[Knob, object], T]
    ) -> dict[str, T]:
        """Returns the values of `table` by knob as `check` returns them for every program with the knob."""
        valid: dict[str, T] = {}
        for name, value in values.items():
            keys = (*table.split("."), name)
            for knob in self._find(name, keys):
                try:
                    valid[name] = check(knob, value)
                except UsageError as error:
                    self.problems.add(keys, str(error))
                    break
        return valid

    def _declared(self) -> tuple[str, ...]:
        """Returns the names of all knobs without duplicates, in the order of declaration."""
        every = (knob.name for program in self.methods for knob in program.knobs.list_knobs())
        return tuple(dict.fromkeys(every))

    def _find(self, name: str, keys: Location) -> list[Knob]:
        """Returns the knob called `name` in every program that has it; a problem at `keys` if none has."""
        every = (knob for program in self.methods for knob in program.knobs.list_knobs())
        knobs = [knob for knob in every if knob.name == name]
        if not knobs:
            kind = f"knob of {' or '.join(program.id for program in self.methods)}"
            error = UnknownName(kind, name, self._declared())
            self.problems.add(keys, _other_programs_message(error, name) or str(error))
        return knobs

    def _searched(
        self, table: Search, fixed: Mapping[str, Value], ranges: Mapping[str, object]
    ) -> tuple[str, ...]:
        """Returns the names of the knobs to vary, in the order of declaration."""
        if table.knobs == ("all",):
            every = (knob for program in self.methods for knob in program.knobs.list_knobs())
            names = {knob.name for knob in every if knob.searched and knob.name not in fixed}
        else:
            names = set(table.knobs)
            for index, name in enumerate(table.knobs if self.methods else ()):
                keys = ("search", "knobs", index)
                if self._find(name, keys) and name in fixed:
                    text = f"knob {name} is fixed in [knobs] and searched here; keep one"
                    self.problems.add(keys, text)
        for name in ranges:
            if name in fixed and name not in names:
                text = f"knob {name} is fixed in [knobs] and has a range here; keep one"
                self.problems.add(("search", "ranges", name), text)
        declared = self._declared() if self.methods else sorted(names)
        return tuple(name for name in declared if name in names or name in ranges)

    def _role_targets(self, listed: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Returns the possible targets of each role, its own first."""
        players: dict[str, tuple[str, ...]] = {}
        for role, names in listed.items():
            keys = ("search", "targets", role)
            if role not in ROLES:
                self.problems.add(keys, str(UnknownName("target role", role, ROLES)))
            elif role not in names:
                text = f"{dotted(keys)} must list {role!r}, the target that plays it at first"
                self.problems.add(keys, text)
            else:
                players[role] = (role, *(name for name in names if name != role))
        return players


def _value(knob: Knob, value: object) -> Value:
    """Returns `value` as the knob's type; raises UsageError."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"knob {knob.name} must be a finite number, found {value!r}")
    return knob.check(value)


def _range(knob: Knob, value: object) -> tuple[Value, ...]:
    """Returns the range of `knob` in `value`; raises UsageError when it is invalid."""
    numeric = knob.kind in ("int", "float")
    if not isinstance(value, list) or not value or (numeric and len(value) != 2):
        expected = "[low, high]" if numeric else "a list of options"
        raise UsageError(f"the range of knob {knob.name} must be {expected}, found {value!r}")
    limits = tuple(_value(knob, item) for item in value)
    if len(set(limits)) < len(limits) and not numeric:
        raise UsageError(f"the range of knob {knob.name} lists a value twice: {value!r}")
    if numeric and float(limits[0]) > float(limits[1]):
        raise UsageError(f"the range of knob {knob.name} must have low <= high, found {value!r}")
    if numeric and knob.step and knob.low is not None:
        for limit in limits:
            steps = (float(limit) - knob.low) / knob.step
            if abs(steps - round(steps)) > 1e-6:
                grid = f"{knob.low:g}, {knob.low + knob.step:g}, {knob.low + 2 * knob.step:g}, ..."
                raise UsageError(f"knob {knob.name} takes the values {grid}; its range cannot end at {limit}")
    return limits


def _signed(name: str) -> str:
    """Returns the metric `name` as an objective; one that is unknown or not loaded unchanged."""
    if is_added(name) and ADDED.loaded(name) is None:
        return name
    try:
        return check_metric(name)
    except UsageError:
        return name


def _other_programs_message(error: UnknownName, name: str) -> str:
    """Returns the sentence on a knob that only other programs have, if no similar name is the reason."""
    from ragc.programs import METHODS

    having = [entry.id for entry in METHODS if any(knob.name == name for knob in entry.knobs.list_knobs())]
    if not having:
        return ""
    more = f" and {len(having) - 3} more" if len(having) > 3 else ""
    known = ", ".join(error.known)
    return f"No {error.kind} is named {name!r}; it is one of {', '.join(having[:3])}{more}. Known: {known}."
