"""The part of a recipe that names knobs: which are fixed, which are searched, and to what end."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from ragc import metrics
from ragc.errors import UnknownName, UsageError
from ragc.metrics.assessing import CRAG_JUDGES, Assessing
from ragc.programs import METHODS, Method, method
from ragc.programs.knobs import Knob, Value
from ragc.recipe_spec import CROSS, DEMO_KINDS, FILLED, Search
from ragc.recipe_table import Table
from ragc.targets.base import ROLES

OPTIMIZERS = ("ragc", "mipro", "gepa", "random", "reanchor")


Methods = tuple[Method, ...]
"""The programs of a recipe, its own first; empty when that is wrong."""


def read_programs(table: Table, chosen: Method | None) -> Methods:
    """The recipe's own program and the others that `search.programs` compares with it."""
    listed = table.texts("programs", (), empty=True)
    known = [entry.id for entry in METHODS]
    for index, name in enumerate(listed):
        if name not in known:
            table.note("programs", str(UnknownName("program", name, known)), index)
    others = [method(name) for name in listed if name in known and (not chosen or name != chosen.id)]
    return (chosen, *others) if chosen else ()


def read_knobs(table: Table, methods: Methods) -> dict[str, Value]:
    """The fixed knobs, in the order of declaration."""
    if not methods:
        return {}
    fixed: dict[str, Value] = {}
    for name, value in table.values.items():
        for knob in _find(table, methods, name, name):
            try:
                fixed[name] = _checked(knob, value)
            except UsageError as error:
                table.note(name, str(error))
                break
    for chosen in methods:
        own = {knob.name for knob in chosen.knobs.declared()}
        try:
            chosen.knobs.of({name: value for name, value in fixed.items() if name in own})
        except UsageError as error:  # values that cannot hold together
            table.notes.add(table.keys, str(error))
    return {name: fixed[name] for name in _declared(methods) if name in fixed}


def read_search(
    table: Table,
    methods: Methods,
    fixed: Mapping[str, Value],
    report: tuple[str, ...],
    *,
    crossed: bool = False,
) -> Search:
    """What may vary. A knob with a range of its own is searched whether it is listed or not.

    `crossed` tells whether the recipe names questions of another domain.
    """
    ranges = _ranges(table.table("ranges"), methods)
    knobs = _searched(table, methods, fixed, ranges)
    objectives = _objectives(table, report)
    search = Search(
        knobs=knobs,
        ranges={name: ranges[name] for name in knobs if name in ranges},
        demos=table.integer("demos", 0, low=0),
        instructions=table.integer("instructions", 0, low=0),
        trials=table.integer("trials", 30, low=1),
        batch=table.integer("batch", 4, low=1),
        objectives=objectives,
        optimizer=table.one_of("optimizer", OPTIMIZERS, "optimizer", "ragc"),
        pick=table.one_of("pick", objectives, "objective of this recipe", objectives[0]),
        programs=tuple(entry.id for entry in methods[1:]),
        targets=_players(table.table("targets")),
        calibrate=table.switch("calibrate", True),
        demo_kinds=_demo_kinds(table, crossed),
    )
    table.close()
    return search


def _demo_kinds(table: Table, crossed: bool) -> tuple[str, ...]:
    kinds = table.texts("demo_kinds", (FILLED,))
    for index, kind in enumerate(kinds):
        if kind not in DEMO_KINDS:
            table.note("demo_kinds", str(UnknownName("kind of demonstrations", kind, DEMO_KINDS)), index)
    if CROSS in kinds and not crossed:
        table.note(
            "demo_kinds", f'{CROSS!r} needs questions of another domain; add data.cross_domain = "FILE"'
        )
    return kinds


def named_players(search: Table) -> set[str]:
    """The names of targets in `search.targets`, whatever else is wrong there."""
    listed = search.values.get("targets")
    lists = listed.values() if isinstance(listed, dict) else ()
    return {name for names in lists if isinstance(names, list) for name in names if isinstance(name, str)}


def _players(table: Table) -> dict[str, tuple[str, ...]]:
    """The targets that may play each role, its own first."""
    found: dict[str, tuple[str, ...]] = {}
    for role in table.values:
        names = table.texts(role, (), wanted="a list of names of [targets.NAME]")
        if role not in ROLES:
            table.note(role, str(UnknownName("target role", role, ROLES)))
        elif role not in names:
            table.note(role, f"{table.name(role)} must list {role!r}, the target that plays it at first")
        else:
            found[role] = (role, *(name for name in names if name != role))
    return found


def read_metrics(table: Table) -> tuple[tuple[str, ...], Assessing]:
    """The metrics to report, at least one, and how findings are made."""
    report = table.texts("report", ("em", "f1"))
    for index, name in enumerate(report):
        _metric(table, "report", index, name)
    entailment = table.text("entailment", "lexical")
    if entailment not in ("lexical", "judge") and not re.fullmatch(r"nli:\s*\S.*", entailment):
        table.wrong("entailment", '"lexical", "judge" or "nli:PATH_OR_ID"')
    assessing = Assessing(
        entailment=entailment,
        crag_judge=table.one_of("crag_judge", CRAG_JUDGES, "way to judge CRAG", "auto"),
        alternatives=table.switch("alternatives"),
    )
    table.close()
    return report, assessing


def _declared(methods: Methods) -> tuple[str, ...]:
    """The names of all knobs, each once, in the order of declaration."""
    return tuple(dict.fromkeys(knob.name for chosen in methods for knob in chosen.knobs.declared()))


def _find(table: Table, methods: Methods, name: str, *inside: str | int) -> list[Knob]:
    """The knob called `name` in every program that has it; a note at what stands `inside` if none has."""
    found = [knob for chosen in methods for knob in chosen.knobs.declared() if knob.name == name]
    if not found:
        kind = f"knob of {' or '.join(chosen.id for chosen in methods)}"
        table.notes.add((*table.keys, *inside), str(UnknownName(kind, name, _declared(methods))))
    return found


def _checked(knob: Knob, value: object) -> Value:
    """`value` as the knob's type; raises UsageError."""
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"knob {knob.name} must be a finite number, found {value!r}")
    return knob.check(value)


def _searched(
    table: Table, methods: Methods, fixed: Mapping[str, Value], ranges: Mapping[str, object]
) -> tuple[str, ...]:
    """The names of the knobs to vary, in the order of declaration."""
    if table.values.get("knobs") == "all":
        table.get("knobs")
        every = (knob for chosen in methods for knob in chosen.knobs.declared())
        names = {knob.name for knob in every if knob.searched and knob.name not in fixed}
    else:
        listed = table.texts("knobs", (), wanted='"all" or a list of knob names', empty=True)
        names = set(listed)
        for index, name in enumerate(listed):
            if methods and _find(table, methods, name, "knobs", index) and name in fixed:
                table.note("knobs", f"knob {name} is fixed in [knobs] and searched here; keep one", index)
    for name in ranges:
        if name in fixed and name not in names:
            table.note("ranges", f"knob {name} is fixed in [knobs] and has a range here; keep one", name)
    return tuple(name for name in _declared(methods) if name in names or name in ranges)


def _ranges(table: Table, methods: Methods) -> dict[str, tuple[Value, ...]]:
    """The user's own ranges: [low, high] of numbers, options of choices and switches."""
    found: dict[str, tuple[Value, ...]] = {}
    for name, value in table.values.items() if methods else ():
        for knob in _find(table, methods, name, name):
            try:
                found[name] = _range(knob, value)
            except UsageError as error:
                table.note(name, str(error))
                break
    return found


def _range(knob: Knob, value: object) -> tuple[Value, ...]:
    """The range that `value` gives to `knob`; raises UsageError when it cannot hold."""
    numeric = knob.kind in ("int", "float")
    if not isinstance(value, list) or not value or (numeric and len(value) != 2):
        wanted = "[low, high]" if numeric else "a list of options"
        raise UsageError(f"the range of knob {knob.name} must be {wanted}, found {value!r}")
    limits = tuple(_checked(knob, item) for item in value)
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


def _objectives(table: Table, report: tuple[str, ...]) -> tuple[str, ...]:
    """What is optimized, with `-` before what should be small."""
    objectives = table.texts("objectives", ())
    for index, written in enumerate(objectives):
        signed = _metric(table, "objectives", index, written.removeprefix("-"))
        if signed and signed != written:
            better = "less" if signed.startswith("-") else "more"
            table.note(
                "objectives", f"{better} of {signed.removeprefix('-')} is better: write {signed!r}", index
            )
    return objectives or (_metric(None, "report", 0, report[0]) or report[0],)


def _metric(table: Table | None, key: str, index: int, name: str) -> str:
    """The metric `name` as an objective, `-` first where less is better; "" and a note if none."""
    try:
        metric = metrics.get(name)
        if name.endswith("@k"):
            raise UsageError(f"metric {name!r} needs a number for k, such as {name[:-1]}5")
    except UsageError as error:
        if table:
            table.note(key, str(error), index)
        return ""
    return name if metric.higher_is_better else f"-{name}"
