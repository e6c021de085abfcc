"""What must hold across the tables of a recipe, and what follows from them: knobs, roles, files.

Each table is checked by its model (`ragc.recipe.models`); knobs check their own values, and targets what only
their constructor finds. Every problem is added to a list, so that all are reported at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from ragc.core.files import missing_file
from ragc.core.plugins import Registry
from ragc.core.tables import Keys, Problem, dotted, read
from ragc.corpora import SOURCES, datasets
from ragc.corpora.files.field_maps import GROUP
from ragc.corpora.files.records import files_named, is_address
from ragc.downloads import is_hub_file
from ragc.errors import UnknownName, UsageError
from ragc.metrics import ADDED, is_added
from ragc.programs import METHODS, Method, method
from ragc.programs.knobs import Knob, Value
from ragc.recipe.models import CostLimits, Data, GridSpec, Recipe, Search, SourceSpec
from ragc.recipe.values import (
    CALLERS_METRIC,
    CROSS,
    DEMO_COLUMNS,
    DEMO_KIND,
    DEMOS,
    OWN_OPTIMIZER,
    check_metric,
)
from ragc.targets import TARGETS, build
from ragc.targets.base import ROLES
from ragc.targets.options import TargetSpec

T = TypeVar("T")
S = TypeVar("S", TargetSpec, SourceSpec)

STUDY_CONTEXT_TOKENS = 3000
"""Most tokens of passages that a call reads where programs are compared: the prompt that SlimPLM caps at."""

MAX_SETTINGS = 32_767
"""Most settings of a grid, and most questions: what 16 bits hold."""

_EXAMPLES = {
    "targets": 'with kind = "embedded", "vllm" or "hosted"',
    "sources": 'with kind = "bm25" and a corpus',
}


class Rules:
    """The rules of one recipe for `methods`, its programs, its own first; empty when that is invalid.

    `found` are the problems of its tables: what only follows from one of them is not reported again.
    """

    def __init__(self, methods: Sequence[Method], found: Sequence[Problem] = ()) -> None:
        self.methods = tuple(methods)
        self.found, self.problems = tuple(found), list(found)
        self.knobs: dict[str, list[Knob]] = {}
        for knob in (knob for program in self.methods for knob in program.knobs.list_knobs()):
            self.knobs.setdefault(knob.name, []).append(knob)

    def add(self, keys: Keys, message: str, *others: Keys) -> None:
        """Adds a problem of `keys`, unless it may follow from one that was found at, around or inside them or
        the `others`. Nothing follows from an unknown key, which is left out.
        """
        found = [one for one in self.found if not one.message.startswith("unknown key")]
        known = [(one.keys, root) for one in found for root in (keys, *others)]
        if not any(at[: len(root)] == root or root[: len(at)] == at for at, root in known):
            self.problems.append(Problem(keys, message.rstrip(".")))

    def tried(self, keys: Keys, work: Callable[[], T], before: str = "") -> T | None:
        """Returns the result of `work`; None, and a problem of `keys`, where it raises UsageError."""
        try:
            return work()
        except UsageError as error:
            self.add(keys, f"{before}{error}")
            return None

    # Knobs, search and grid

    def fixed(self, values: Mapping[str, Any], search: Search) -> dict[str, Value]:
        """Returns the fixed knobs, in the order of declaration, with what makes several programs comparable.

        That is one answer format, the first default that all have, else the first that all have, and one
        budget of passages, unless the recipe sets them.
        """
        common: dict[str, Any] = {}
        if len(self.methods) > 1:
            formats = self.knobs["answer_format"]
            shared = [one for one in formats[0].options if all(one in knob.options for knob in formats)]
            common["answer_format"] = [*(k.default for k in formats if k.default in shared), *shared][0]
            if any(program.reads_passages for program in self.methods):
                common["context_tokens"] = STUDY_CONTEXT_TOKENS
        own = {name: value for name, value in common.items() if name not in {*search.knobs, *search.ranges}}
        fixed = self._checked(("knobs",), {**own, **values}, Knob.check)
        for program in self.methods:  # values that contradict each other
            own = {knob.name: fixed[knob.name] for knob in program.knobs.list_knobs() if knob.name in fixed}
            self.tried(("knobs",), partial(program.knobs.of, own))
        return {name: fixed[name] for name in self.knobs if name in fixed}

    def _checked(
        self, table: Keys, values: Mapping[str, Any], check: Callable[[Knob, Any], T]
    ) -> dict[str, T]:
        """Returns the values of `table` by knob as `check` returns them for every program with the knob."""
        valid: dict[str, T] = {}
        for name, value in values.items():
            for knob in self._find(name, (*table, name)):
                checked = self.tried((*table, name), partial(check, knob, value))
                valid |= {} if checked is None else {name: checked}
        return valid

    def _find(self, name: str, keys: Keys) -> list[Knob]:
        """Returns the knob `name` of every program that has it; a problem at `keys` if none has."""
        if self.methods and name not in self.knobs:
            having = [one.id for one in METHODS if any(knob.name == name for knob in one.knobs.list_knobs())]
            advice = f"It is a knob of {', '.join(having[:3])}." if having else ""
            kind = f"knob of {' or '.join(program.id for program in self.methods)}"
            self.add(keys, str(UnknownName(kind, name, self.knobs, advice)))
        return self.knobs.get(name, [])

    def search(
        self, search: Search, fixed: Mapping[str, Value], report: Sequence[str], *, crossed: bool = False
    ) -> Search:
        """Returns the search space. A knob with a range is searched whether it is listed or not.

        `crossed` says whether the recipe names questions of another domain.
        """
        ranges = self._checked(("search", "ranges"), search.ranges, check_range)
        names = {*search.knobs, *ranges}
        if "all" in names:
            usual = {name for name, knobs in self.knobs.items() if any(knob.searched for knob in knobs)}
            names = (usual - fixed.keys()) | ranges.keys()
        for name in sorted(names):
            keys = ("search", "ranges" if name in ranges else "knobs", name)
            if self._find(name, keys) and name in fixed:
                self.add(keys, f"knob {name} is fixed in [knobs] and searched here; keep one")
        unseen = report[0] == CALLERS_METRIC or (is_added(report[0]) and ADDED.loaded(report[0]) is None)
        objectives = search.objectives or (report[0] if unseen else check_metric(report[0]),)
        pick = search.pick_name or objectives[0]
        own, chosen = f'optimizer = "{OWN_OPTIMIZER}"', "chooses among trials, which only that does"
        others = search.optimizer != OWN_OPTIMIZER
        for wrong, key, message in (
            (pick not in objectives, "pick", str(UnknownName("objective of this recipe", pick, objectives))),
            (
                search.front and len(objectives) < 2,
                "front",
                f'search.front needs several objectives, as ["f1", "-tokens"]; found {", ".join(objectives)}',
            ),
            (search.front and others, "front", f"search.front needs {own}, whose trials are measured alike"),
            (others and search.limits != CostLimits(), "limits", f"search.limits needs {own}: it {chosen}"),
            (
                others and not isinstance(search.pick, str),
                "pick",
                f"a table search.pick needs {own}: it {chosen}",
            ),
            (
                CROSS in search.demo_kinds and not crossed,
                "demo_kinds",
                f'{CROSS!r} needs questions of another domain; add data.cross_domain = "FILE"',
            ),
            (
                search.instruction_rounds and not search.instructions,
                "instruction_rounds",
                "search.instruction_rounds needs search.instructions, the most that a round writes",
            ),
        ):
            if wrong:
                self.add(("search", key), message, ("search", "objectives"))
        return search.replace(
            knobs=tuple(name for name in self.knobs or sorted(names) if name in names),
            ranges={name: ranges[name] for name in self.knobs if name in ranges},
            objectives=objectives,
            pick=pick if isinstance(search.pick, str) else search.pick.replace(objective=pick),
            programs=tuple(program.id for program in self.methods[1:]),
        )

    def grid(self, grid: GridSpec, search: Search) -> GridSpec:
        """Returns the settings of a grid, those of its products included.

        A value may be any that a knob of the recipe's own program has, whether the recipe fixes it or not.
        """
        if not self.methods:
            return grid.replace(settings=(), baseline={}, product=())
        own = {knob.name: knob for knob in self.methods[0].knobs.list_knobs()}
        settings = [
            self._setting(values, ("grid", "settings", index), own, search)
            for index, values in enumerate(grid.settings)
        ]
        for axes in [grid.product] if isinstance(grid.product, dict) else grid.product:
            keys, count = ("grid", "product"), math.prod(map(len, axes.values()))
            if count > MAX_SETTINGS:
                self.add(keys, f"a grid holds {MAX_SETTINGS:,} settings, and grid.product has {count:,}")
                continue
            columns = [
                [self.tried(keys, partial(_in_grid, name, value, own, search)) for value in values]
                for name, values in axes.items()
            ]
            settings += [dict(zip(axes, values, strict=True)) for values in product(*columns)]
        baseline = self._setting(grid.baseline, ("grid", "baseline"), own, search)
        return grid.replace(baseline=baseline, settings=tuple(settings), product=())

    def _setting(
        self, values: Mapping[str, Any], keys: Keys, own: Mapping[str, Knob], search: Search
    ) -> dict[str, Any]:
        return {
            name: self.tried(keys, partial(_in_grid, name, value, own, search))
            for name, value in values.items()
        }

    # Data, sources and targets

    def data(self, data: Data, *, stored: bool) -> Data:
        """Returns the data with filters by their whole paths."""
        from ragc.corpora.files.records import flat, match_rows

        where: dict[str, Any] = {
            path: tuple(value) if isinstance(value, list) else (value,)
            for path, value in flat(data.where).items()
        }
        for path, values in where.items():
            self.tried(("data", "where", path), partial(match_rows, [], {path: values}, ""))
        hosted, name = is_address(data.dataset), data.dataset
        if data.fields.explicit.keys() - {GROUP} and not hosted and name != "jsonl":
            self.add(
                ("data", "fields"),
                f"data set {name!r} knows its own fields; leave data.fields out, but for group",
            )
        sizes = [
            name for name in ("train", "dev", "test") if type(size := getattr(data, name)) is int and size
        ]
        complete = hosted or name in datasets.BUILT_IN or data.questions
        if sizes and not complete:
            self.add(
                ("data", sizes[0]),
                f"data.{sizes[0]} is drawn from a question file; add data.questions",
                ("data", "questions"),
                ("data", "dataset"),
            )
        elif (
            not (complete or stored or any((data.train, data.dev, data.test))) and "dataset" in data.explicit
        ):
            self.add(
                ("data", "dataset"),
                f"data set {name!r} needs a question file; add data.questions",
                ("data", "questions"),
            )
        return data.replace(where=where)

    def source(self, name: str, source: SourceSpec, data: Data) -> SourceSpec:
        """Returns a source with its corpus: by default that of the data."""
        record, keys = SOURCES.loaded(source.kind), ("sources", name, "corpus")
        if record is None or record.corpus != "passages" or source.corpus:
            return source
        if not data.corpus and data.dataset not in {*datasets.BUILT_IN, *datasets.FILES}:
            self.add(keys, f"a source of kind {source.kind!r} needs a corpus; add {dotted(keys)}")
        return source.replace(corpus=data.corpus)

    def targets(
        self, targets: Mapping[str, TargetSpec], search: Search, base: Path, *, code: bool
    ) -> tuple[dict[str, TargetSpec], Search]:
        """Returns the targets with one for each effort of `search.efforts`, which may play its role too.

        A target is a role, one that may take a role, or a fallback.
        """
        varied, playing = dict(targets), {**search.targets}
        for role, efforts in search.efforts.items():
            if role not in targets:
                self._add_lacking(role, ("search", "efforts", role))
                continue
            own = targets[role]
            others = [effort for effort in efforts if effort != own.options.get("reasoning_effort")]
            for effort in others:
                options = {**own.options, "reasoning_effort": effort}
                varied.setdefault(f"{role}-{effort}", own.replace(options=options))
            playing[role] = (*playing.get(role, (role,)), *(f"{role}-{effort}" for effort in others))
        fallbacks = {name: spec.options.get("fallbacks", ()) for name, spec in targets.items()}
        named = [*playing.values(), *fallbacks.values(), ROLES]
        for name, spec in varied.items():
            keys = ("targets", name)
            if not any(name in names for names in named):
                self.add(keys, str(UnknownName("target role", name, ROLES)))
            for other in fallbacks.get(name, ()):
                if other == name or other not in targets:
                    self._add_lacking(other, keys)
            if code or TARGETS.loaded(spec.kind):  # what only its constructor finds
                self.tried(keys, partial(build, spec.at(base)), f"[{dotted(keys)}]: ")
        for role, names in playing.items():
            place = ("search", "targets", role)
            if role not in ROLES:
                self.add(place, str(UnknownName("target role", role, ROLES)))
            elif role not in names:
                self.add(place, f"{dotted(place)} must list {role!r}, the target that plays it at first")
            for name in (name for name in names if name not in varied):
                self._add_lacking(name, place)
        players = {role: tuple(dict.fromkeys((role, *names))) for role, names in playing.items()}
        return varied, search.replace(targets=players, efforts={})

    def _add_lacking(self, name: str, keys: Keys) -> None:
        self.add(
            keys,
            f"{dotted(keys)} names [targets.{name}], and there is no other target of that name; add it",
            ("targets", name),
        )

    def check_needs(self, recipe: Recipe) -> None:
        """Reports the targets and sources that programs need and that are not there."""
        for program in self.methods:
            for part in lacking_parts(program, recipe.targets, recipe.sources):
                family, _, name = part.partition(".")
                if not any(one.keys[:2] == (family, name) for one in self.problems):
                    needed = f"program {program.id!r} needs [{part}]; add [{part}] {_EXAMPLES[family]}"
                    self.problems.append(Problem(("program",), needed))

    def check_files(self, recipe: Recipe, *, files: bool) -> None:
        """Reports invalid addresses and, with `files`, missing files."""
        for keys, value in named_files(recipe):
            if is_address(value) and keys[0] in ("data", "sources"):
                from ragc.corpora.files import hub

                self.tried(keys, partial(hub.parse, value))
            elif files and not files_named(recipe.base, value):
                self.add(keys, missing_file(f"{dotted(keys)} = {value!r}", value, recipe.base))


def resolved(
    recipe: Recipe, found: Sequence[Problem], *, files: bool, code: bool, stored: bool
) -> tuple[Recipe, list[Problem]]:
    """Returns the recipe with what follows from its tables, and all problems, those `found` among them.

    `files=False` skips the check that files exist. `code` allows the import of the author's own program;
    without it the recipe only names it, and its knobs are left out. A recipe that ragc `stored` may lack what
    only the caller's Python had: targets and sources that were objects.
    """
    known = {one.keys for one in found}
    tables: dict[str, dict[str, Any]] = {"sources": dict(recipe.sources), "targets": dict(recipe.targets)}
    for registry, family in ((SOURCES, "sources"), (TARGETS, "targets")):
        for name, spec in tables[family].items():
            tables[family][name], wrong = _of_kind(registry, spec, (family, name), code=code)
            found = [*found, *(one for one in wrong if one.keys not in known)]
    recipe = recipe.replace(**tables)
    methods, wrong = _methods(recipe, found, code=code)
    rules = Rules(methods, (*found, *wrong))
    fixed = rules.fixed(recipe.knobs, recipe.search)
    data = rules.data(recipe.data, stored=stored)
    search = rules.search(recipe.search, fixed, recipe.metrics.report, crossed=bool(data.cross_domain))
    sources = {name: rules.source(name, source, data) for name, source in recipe.sources.items()}
    grid = rules.grid(recipe.grid, search)
    targets, search = rules.targets(recipe.targets, search, recipe.base, code=code)
    if not stored:
        rules.check_needs(recipe)
    rules.check_files(recipe, files=files)
    whole = recipe.replace(knobs=fixed, search=search, data=data, sources=sources, targets=targets, grid=grid)
    return whole, rules.problems


def _of_kind(registry: Registry[Any], spec: S, keys: Keys, *, code: bool) -> tuple[S, list[Problem]]:
    """Returns a table of a kind in `registry` without wrong options, and the problems of kind and options.

    The options of a kind of another package are not checked where its code may not be imported.
    """
    if not registry.is_known(spec.kind):
        error = str(registry.unknown(spec.kind)) if spec.kind else f"is missing. Known: {', '.join(registry)}"
        return spec.replace(kind=""), [Problem((*keys, "kind"), error.rstrip("."))]
    if code:
        registry.get(spec.kind)
    if (record := registry.loaded(spec.kind)) is None:
        return spec, []
    options, wrong = read(record.options, spec.options, (*keys, "options"))
    return spec.replace(options=options.model_dump(exclude_unset=True)) if wrong else spec, wrong


def _methods(recipe: Recipe, found: Sequence[Problem], *, code: bool) -> tuple[list[Method], list[Problem]]:
    """Returns the programs of a recipe, none if its own is invalid or not imported, and the reason."""
    if any(one.keys == ("program",) for one in found):
        return [], []
    try:
        if ":" in recipe.program:
            from ragc.programs.own import own_method, registered  # DSPy, which other recipes do without

            (own_method if code else registered)(recipe.program, recipe.base)
    except UsageError as error:
        return [], [Problem(("program",), str(error).rstrip("."))] if code else []
    named = [method(recipe.program, recipe.base), *map(method, recipe.search.programs)]
    return [*{one.id: one for one in named}.values()], []


def _in_grid(name: str, value: Any, own: Mapping[str, Knob], search: Search) -> Value:
    """Returns the value of a knob in `own`, or of one of `DEMO_COLUMNS`. Raises UsageError for any other."""
    if name in own:
        return own[name].check(value)
    if name not in DEMO_COLUMNS:
        raise UnknownName("knob of this program", name, (*own, *DEMO_COLUMNS))
    if name == DEMO_KIND:
        if value not in search.demo_kinds:
            raise UnknownName("kind of demonstrations in search.demo_kinds", str(value), search.demo_kinds)
        return str(value)
    most = search.demos if name == DEMOS else math.inf
    if type(value) is not int or not 0 <= value <= most:
        most_demos = f", at most search.demos = {most}" if name == DEMOS else ""
        raise UsageError(f"{name} must be an integer of at least 0{most_demos}, found {repr(value)[:60]}")
    return value


def named_files(recipe: Recipe) -> Iterator[tuple[Keys, str]]:
    """Yields every file or address that a recipe names, with its keys."""
    files = ("questions", "corpus", "train", "dev", "test", "cross_domain", "cross_domain_corpus")
    named: list[tuple[Keys, Any]] = [(("data", key), getattr(recipe.data, key)) for key in files]
    named += [(("sources", name, "corpus"), source.corpus) for name, source in recipe.sources.items()]
    for name, target in recipe.targets.items():
        record = TARGETS.loaded(target.kind)
        if record is not None and record.model_file and not is_hub_file(target.model):
            named.append((("targets", name, "model"), target.model))
    named += [(("prompts", predictor), file) for predictor, file in recipe.prompts.items()]
    return ((keys, value) for keys, value in named if isinstance(value, str) and value)


def lacking_parts(program: Method, targets: Collection[str], sources: Collection[str]) -> list[str]:
    """Returns the tables that `program` needs and that are not among the names, such as `targets.main`."""
    return [
        *(f"targets.{role}" for role in program.roles if role not in targets),
        *(f"sources.{name}" for name in program.sources if name not in sources),
    ]


def check_range(knob: Knob, value: Any) -> tuple[Value, ...]:
    """Returns the range of `knob` in `value`; raises UsageError when it is invalid."""
    numeric = knob.kind in ("int", "float")
    if not isinstance(value, list | tuple) or not value or (numeric and len(value) != 2):
        expected = "[low, high]" if numeric else "a list of options"
        raise UsageError(f"the range of knob {knob.name} must be {expected}, found {value!r}")
    limits = tuple(knob.check(item) for item in value)
    if len(set(limits)) < len(limits) and not numeric:
        raise UsageError(f"the range of knob {knob.name} lists a value twice: {value!r}")
    if numeric and float(limits[0]) > float(limits[1]):
        raise UsageError(f"the range of knob {knob.name} must have low <= high, found {value!r}")
    step, low = knob.step, knob.low or 0.0
    off = [limit for limit in limits if numeric and step and round((float(limit) - low) / step, 6) % 1]
    if step and off:
        grid = f"{low:g}, {low + step:g}, {low + 2 * step:g}, ..."
        raise UsageError(f"knob {knob.name} takes the values {grid}; its range cannot end at {off[0]}")
    return limits
