"""The settings of a grid: the baseline, those that the recipe lists, and a sample of its search space."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragc.errors import UsageError
from ragc.optimizers.candidates.space import DEMO_SETS, Candidate, ProgramSpace, search_space
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Knob, Value
from ragc.recipe.rules import MAX_SETTINGS
from ragc.recipe.values import DEMO_COLUMNS, DEMO_KIND, DEMO_SET, DEMOS, FILLED
from ragc.task.base import Task
from ragc.task.prompts import give_prompts

DRAWS = 20
"""Draws for each setting that is there, and ten more of those; when none of them is new, the search space is
taken to have no others.
"""


def settings_of(task: Task) -> tuple[Candidate, ...]:
    """Returns the distinct settings of the grid of `task`: the baseline, the listed ones, the sample.

    A knob that does not matter under the others of its setting has its value of the baseline. More settings
    in a recipe, or a larger sample, do not change the earlier ones. Raises UsageError for a recipe without
    `[grid]`, values that contradict each other, and a sample of more settings than there are.
    """
    spec, space = task.recipe.grid, search_space(task.recipe, task.runtime).first
    if len(spec.settings) + spec.sample > MAX_SETTINGS:
        raise UsageError(f"A grid holds {MAX_SETTINGS:,} settings at most; lower grid.sample.")
    if not (spec.settings or spec.sample):
        raise UsageError(
            "The recipe lists no settings to evaluate; add a table [grid] with settings, product or sample."
        )
    baseline = _listed(space, space.baseline(), spec.baseline, "grid.baseline")
    settings = {baseline.mark: baseline}
    for index, values in enumerate(spec.settings):
        setting = _listed(space, baseline, values, f"grid.settings.{index}")
        settings.setdefault(setting.mark, setting)
    draws, most, failed = _draws(space, baseline, task.seed), len(settings) + spec.sample, 0
    while len(settings) < most and failed < DRAWS * (10 + len(settings)):
        setting = next(draws)
        failed = failed + 1 if setting.mark in settings else 0
        settings.setdefault(setting.mark, setting)
    if len(settings) < most:
        drawn = spec.sample - (most - len(settings))
        raise UsageError(
            f"grid.sample = {spec.sample} asks for more settings than [search] has beside those listed: "
            f"{drawn} were drawn; lower it, or let [search] vary more."
        )
    return tuple(settings.values())


def columns_of(task: Task) -> tuple[str, ...]:
    """Returns the columns that differ in the grid of `task`: knobs as declared, then demonstrations."""
    spec = task.recipe.grid
    named = {name for values in (spec.baseline, *spec.settings) for name in values}
    named |= {knob.name for knob in task.recipe.space()} if spec.sample else set()
    named |= {DEMOS, DEMO_SET} | ({DEMO_KIND} if len(task.recipe.search.demo_kinds) > 1 else set())
    knobs = [knob.name for knob in task.method.knobs.list_knobs()]
    return tuple(name for name in (*knobs, *DEMO_COLUMNS) if name in named)


def build_programs(
    task: Task, settings: Sequence[Mapping[str, Any]], numbers: Iterable[int]
) -> Iterator[RagProgram]:
    """Returns the programs of the settings with these `numbers`, with the recipe's prompts; sends nothing.

    `settings` are those of a grid as JSON, the first of them its baseline. Raises UsageError for a role,
    source or capability that a program lacks, and RecipeError as `give_prompts`: for texts of a prompt that
    the baseline would not send, and for a prompt that does not fit one of the programs.
    """
    method, runtime, recipe = task.method, task.runtime, task.recipe
    if recipe.prompts:
        give_prompts(method.build(runtime, dict(Candidate.of(settings[0]).knobs)), recipe)
    for number in numbers:
        built = method.build(runtime, dict(Candidate.of(settings[number]).knobs))
        yield give_prompts(built, recipe)


def _listed(space: ProgramSpace, base: Candidate, values: Mapping[str, Value], where: str) -> Candidate:
    """Returns `base` changed by `values`; `where` names the setting in errors."""
    knobs = {name: value for name, value in values.items() if name not in DEMO_COLUMNS}
    default = base.demo_kind if base.demos else space.demo_kinds[0]
    kind, number = str(values.get(DEMO_KIND, default)), int(values.get(DEMO_SET, base.demo_set))
    if number not in space.sets(kind):
        raise UsageError(
            f"{where}: demo_set must be below {len(space.sets(kind))} for {kind} demonstrations, "
            f"found {number}."
        )
    try:
        settled = space.kind.of({**base.knobs, **knobs}).to_json(keep=base.knobs)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    shown = int(values.get(DEMOS, base.demos))
    setting = replace(base, knobs=settled, demos=shown, demo_set=number, demo_kind=kind)
    return _tidy(space, base, setting)


def _draws(space: ProgramSpace, base: Candidate, seed: int) -> Iterator[Candidate]:
    """Yields settings drawn uniformly from `space` over `base`, without end; equal seeds give equal ones."""
    source = random.Random(f"grid {seed}")
    free = [knob.name for knob in space.knobs]
    while True:
        values = {**base.knobs, **{knob.name: _draw(knob, source) for knob in space.knobs}}
        demos, kind = source.randint(0, space.demos), source.choice(space.demo_kinds)
        number = source.randrange(DEMO_SETS) % len(space.sets(kind))
        knobs = space.kind.settle(values, free)
        yield _tidy(space, base, replace(base, knobs=knobs, demos=demos, demo_set=number, demo_kind=kind))


def _draw(knob: Knob, source: random.Random) -> Value:
    """Returns a value of `knob`, each with the same chance."""
    if knob.kind == "switch":
        return source.choice((False, True))
    if knob.kind == "choice":
        return source.choice(knob.options)
    low, high = knob.bounds
    if not knob.step:
        return round(source.uniform(low, high), 3)
    value = round(low + knob.step * source.randint(0, int((high - low) / knob.step + 1e-9)), 10)
    return int(value) if knob.kind == "int" else value


def _tidy(space: ProgramSpace, base: Candidate, setting: Candidate) -> Candidate:
    """Returns `one` with the value of `base` for each knob that does not matter."""
    matter = {knob.name: space.kind.matters(knob, setting.knobs) for knob in space.kind.list_knobs()}
    knobs = {name: value if matter[name] else base.knobs[name] for name, value in setting.knobs.items()}
    if setting.demos:
        return replace(setting, knobs=knobs)
    return replace(setting, knobs=knobs, demo_set=0, demo_kind=FILLED)
