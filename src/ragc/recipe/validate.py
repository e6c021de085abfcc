"""Turns the tables of a recipe into records, with checks across tables: knobs, roles, files.

Each table is validated by its model (`ragc.recipe.models`); knobs validate their own values, and targets
their options. Every problem is added to a list, so that all are reported at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ragc.core.inputs import exists, missing_file
from ragc.core.validation import Location, Options, dotted, validate
from ragc.corpora import SOURCES, datasets
from ragc.corpora.files.field_maps import GROUP
from ragc.corpora.files.records import is_address
from ragc.downloads.hub import is_hub_file
from ragc.errors import UnknownName, UsageError
from ragc.metrics.settings import GraderSettings
from ragc.programs import Method, method
from ragc.programs.knobs import Value
from ragc.recipe.base import Recipe
from ragc.recipe.knobs import KnobChecks, Methods
from ragc.recipe.models import Budget, Data, RecipeTables, Search, SourceSpec
from ragc.recipe.secrets import find_secrets
from ragc.recipe.values import CALLERS_METRIC, PROGRAMS, PickRule
from ragc.targets import TARGETS
from ragc.targets.base import ROLES
from ragc.targets.options import TargetSpec

if TYPE_CHECKING:
    from ragc.recipe.load import RecipeProblems

_DATA_FILES = ("questions", "corpus", "train", "dev", "test", "cross_domain", "cross_domain_corpus")
_EXAMPLES = {
    "targets": 'with kind = "embedded", "vllm" or "hosted"',
    "sources": 'with kind = "bm25" and a corpus',
}


def read(
    values: Mapping[str, object],
    base: Path,
    problems: RecipeProblems,
    *,
    files: bool,
    code: bool,
    stored: bool,
) -> Recipe:
    """Returns the recipe in `values`; it may only be used if there is no problem.

    Relative paths are relative to `base`. `files=False` skips the check that files exist. `code` allows the
    import of the author's own program; without it the recipe only names it, and its knobs are left out. A
    recipe that ragc `stored` may lack what only the caller's Python had: targets and sources that were
    objects, and a metric that was a function.
    """
    written, called = values, _callers_metric(values) if stored else []
    values = _without(values, called)
    spoiled = []
    for secret in find_secrets(values):
        problems.add(secret.keys, secret.text, hidden=secret.hidden)
        spoiled.append(secret.spoils)
    tables, wrong = validate(RecipeTables, values, code=code)
    for problem in wrong:
        if not any(problem.keys[: len(keys)] == keys for keys in spoiled):
            problems.add(problem.keys, str(problem))
    recipe = _Reader(values, tables, problems, tuple(spoiled), base, files, code, stored).recipe()
    own: dict[str, object] = {}
    if ("search", "objectives") in called:
        own["objectives"] = (CALLERS_METRIC,)
    if ("search", "pick") in called:
        own["pick"] = _with_callers_metric(written)
    search = recipe.search.replace(**own)
    report = (CALLERS_METRIC,) if ("metrics", "report") in called else recipe.report
    return replace(recipe, search=search, report=report)


def read_settings(
    program: Method, search: Mapping[str, object], budget: Mapping[str, object], problems: RecipeProblems
) -> tuple[Search, Budget]:
    """Returns the tables `[search]` and `[budget]` for `program` with all knobs free, without a recipe."""
    search_table, wrong_search = validate(Search, search, ("search",))
    limits, wrong_budget = validate(Budget, budget, ("budget",))
    for problem in (*wrong_search, *wrong_budget):
        problems.add(problem.keys, str(problem))
    return KnobChecks((program,), problems).search(search_table, {}, ("em",)), limits


@dataclass(frozen=True, slots=True)
class _Reader:
    """Builds a recipe from `tables`; `values` is the same as written, with invalid parts.

    `spoiled` are the keys that contain secrets.
    """

    values: Mapping[str, object]
    tables: RecipeTables
    problems: RecipeProblems
    spoiled: tuple[Location, ...]
    base: Path
    files: bool
    code: bool
    stored: bool

    def recipe(self) -> Recipe:
        """Returns the recipe; reports every problem across tables."""
        tables = self.tables
        methods = self._methods()
        knobs = KnobChecks(methods, self.problems)
        fixed = knobs.fixed(knobs.comparable(tables.knobs, tables.search))
        data = self._data()
        graders = dict(tables.metrics)
        report = graders.pop("report")
        recipe = Recipe(
            program=methods[0].id if methods else self._unimported_program(),
            seed=tables.seed,
            concurrency=tables.concurrency,
            knobs=fixed,
            search=knobs.search(tables.search, fixed, report, crossed=bool(data.cross_domain)),
            data=data,
            sources=self._sources(data),
            targets=self._targets(),
            report=report,
            assessing=GraderSettings(**graders),
            budget=tables.budget,
            study=self.tables.study,
            prompts=dict(tables.prompts),
            grid=knobs.grid(tables.grid, tables.search),
            training_data=tables.training_data,
            base=self.base,
        )
        recipe = self._with_efforts(recipe)
        if not self.stored:
            self._check_needs(methods)
        self._check_players(recipe)
        self._check_files()
        return recipe

    def _written(self, *keys: str) -> Mapping[str, Any]:
        """Returns the table at `keys` as written; empty if there is none."""
        table: object = self.values
        for key in keys:
            table = table.get(key) if isinstance(table, Mapping) else None
        return table if isinstance(table, Mapping) else {}

    def _methods(self) -> Methods:
        if self.problems.inside(("program",)):
            return ()
        own = self.tables.program
        if ":" in own and not self._has_imported(own):
            return ()
        others = [name for name in self.tables.search.programs if name in PROGRAMS]
        return tuple({entry.id: entry for entry in map(method, (own, *others))}.values())

    def _has_imported(self, reference: str) -> bool:
        """Returns whether the user's own program was imported, here if allowed; else adds a problem."""
        from ragc.programs.own import own_method, registered

        try:
            (own_method if self.code else registered)(reference, self.base)
        except UsageError as error:
            if self.code:
                self.problems.add(("program",), str(error).rstrip("."))
            return False
        return True

    def _unimported_program(self) -> str:
        """Returns the name of the author's own program that was not imported; its knobs are unknown."""
        if self.code or self.problems.inside(("program",)):
            return ""
        return self.tables.program

    def _data(self) -> Data:
        written = self._written("data")
        data = self.tables.data
        if data.where:
            data = data.replace(where=self._where())
        hosted = is_address(data.dataset)
        if data.fields.explicit.keys() - {GROUP} and not hosted and data.dataset != "jsonl":
            text = f"data set {data.dataset!r} knows its own fields; leave data.fields out, but for group"
            self.problems.add(("data", "fields"), text)
        brings = hosted or data.dataset in datasets.BUILT_IN or self.problems.inside(("data", "dataset"))
        if not brings and "questions" not in written:
            sizes = [name for name in ("train", "dev", "test") if isinstance(getattr(data, name), int)]
            if sizes:
                keys = ("data", sizes[0])
                self.problems.add(keys, f"{dotted(keys)} is drawn from a question file; add data.questions")
            elif not self.stored and "dataset" in written and not any((data.train, data.dev, data.test)):
                text = f"data set {data.dataset!r} needs a question file; add data.questions"
                self.problems.add(("data", "dataset"), text)
        return data

    def _where(self) -> dict[str, tuple[Value, ...]]:
        """Returns one or several values for every path; nested tables are paths too."""
        from ragc.corpora.files.filters import Where, flat

        conditions: dict[str, tuple[Value, ...]] = {}
        for path, value in flat(self.tables.data.where).items():
            values = tuple(value) if isinstance(value, list) else (value,)
            try:
                Where({path: cast(tuple[Value, ...], values)})
            except UsageError as error:
                keys = ("data", "where", path.partition(".")[0])
                self.problems.add(keys, f"data.where.{path}: {error}")
            else:
                conditions[path] = cast(tuple[Value, ...], values)
        return conditions

    def _sources(self, data: Data) -> dict[str, SourceSpec]:
        brings = data.dataset in datasets.BUILT_IN or data.dataset in datasets.FILES
        specs = {}
        for name, table in self.tables.sources.items():
            written = self._written("sources", name)
            corpus, record = table.corpus, SOURCES.loaded(table.kind)
            if record is not None and record.corpus == "passages":
                corpus = corpus or data.corpus
                if not corpus and "corpus" not in written and not brings:
                    where = ("sources", name)
                    text = f"a source of kind {table.kind!r} needs a corpus; add {dotted((*where, 'corpus'))}"
                    self.problems.add((*where, "kind"), text)
            options = dict(self._written("sources", name, "options"))
            spec = SourceSpec().replace(kind=table.kind, corpus=corpus, options=options, fields=table.fields)
            specs[name] = spec
        return specs

    def _targets(self) -> dict[str, TargetSpec]:
        """Returns the targets by name: a role, a target that may take a role, or a fallback."""
        names = [*self._written("targets")]
        fallbacks = {name: self._fallbacks(name) for name in names}
        players = {player for role in self._written("search", "targets").values() for player in _texts(role)}
        allowed = {*ROLES, *players, *(other for listed in fallbacks.values() for other in listed)}
        for name in names:
            keys = ("targets", name)
            if name not in allowed:
                self.problems.add(keys, str(UnknownName("target role", name, ROLES)))
                continue
            for other in fallbacks[name]:
                if other not in names:
                    text = f"{dotted(keys)} falls back on [targets.{other}], which is not there; add it"
                    self.problems.add(keys, text)
                elif other == name:
                    text = f"{dotted(keys)} lists itself in fallbacks; name other targets there"
                    self.problems.add(keys, text)
        return {name: self._target(name) for name in self.tables.targets}

    def _fallbacks(self, name: str) -> list[str]:
        return _texts(self._written("targets", name, "options").get("fallbacks"))

    def _target(self, name: str) -> TargetSpec:
        table, keys = self.tables.targets[name], ("targets", name)
        written = self._written("targets", name, "options").items()
        options = {option: value for option, value in written if (option, value) != ("api_key_env", "")}
        spec = TargetSpec().replace(
            kind=table.kind, model=table.model, base_url=table.base_url, options=options
        )
        if TARGETS.loaded(table.kind) is None:  # of another package, whose code is not allowed
            return spec
        secret = any(spoiled[:2] == keys for spoiled in self.spoiled)  # an error may repeat the secret
        judged = [(*keys, "model"), (*keys, "base_url")]
        if not (secret or (*keys, "options") in self.problems.keys or any(map(self.problems.inside, judged))):
            valid = cast(Options, table.options).model_dump(exclude_unset=True)
            for option in [name for name in valid if self.problems.inside((*keys, "options", name))]:
                del valid[option]
            self._try_build(keys, spec.replace(options=valid))
        return spec

    def _try_build(self, keys: Location, spec: TargetSpec) -> None:
        """Reports the problems that only the target's constructor finds; no weights are looked up."""
        try:
            TARGETS.get(spec.kind).build(spec.replace(model="") if _names_file(spec.kind) else spec)
        except UsageError as error:
            self.problems.add(keys, f"[{dotted(keys)}]: {error}")
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("ragc"):
                raise
            # The extra is not installed: opening says so, and a recipe may be checked elsewhere.

    def _check_needs(self, methods: Methods) -> None:
        for program in methods:
            for part in lacking_parts(program, self._written("targets"), self._written("sources")):
                example = _EXAMPLES[part.partition(".")[0]]
                text = f"program {program.id!r} needs [{part}]; add [{part}] {example}"
                self.problems.add(("program",), text)

    def _with_efforts(self, recipe: Recipe) -> Recipe:
        """Returns `recipe` with a target for each effort of `search.efforts`, which may play its role too."""
        targets, players = dict(recipe.targets), dict(recipe.search.targets)
        for role, efforts in self.tables.search.efforts.items():
            keys = ("search", "efforts", role)
            if role not in recipe.targets:
                text = f"{dotted(keys)} varies the effort of [targets.{role}], which is not there; add it"
                self.problems.add(keys, text)
                continue
            own = recipe.targets[role]
            others = [effort for effort in efforts if effort != own.options.get("reasoning_effort")]
            for effort in others:
                options = {**own.options, "reasoning_effort": effort}
                targets.setdefault(f"{role}-{effort}", own.replace(options=options))
                self._try_build(keys, targets[f"{role}-{effort}"])
            names = (*players.get(role, (role,)), *(f"{role}-{effort}" for effort in others))
            players[role] = tuple(dict.fromkeys(names))
        search = recipe.search.replace(targets=players, efforts={})
        return replace(recipe, targets=targets, search=search)

    def _check_players(self, recipe: Recipe) -> None:
        for role, names in recipe.search.targets.items():
            for index, name in enumerate(names):
                if name not in self._written("targets") and name not in recipe.targets:
                    text = f"there is no [targets.{name}] for the role {role!r}; add it"
                    self.problems.add(("search", "targets", role, index), text)

    def _check_files(self) -> None:
        """Reports invalid addresses and missing files."""
        for keys, value in self._named_files():
            if not isinstance(value, str) or not value.strip():
                continue
            if is_address(value) and keys[0] in ("data", "sources"):
                from ragc.corpora.files import hub

                try:
                    hub.parse(value)
                except UsageError as error:
                    self.problems.add(keys, f"{dotted(keys)}: {error}")
            elif self.files and not exists(self.base / value):
                what = f"{dotted(keys)} = {value!r}"
                self.problems.add(keys, missing_file(what, value, self.base))

    def _named_files(self) -> Iterator[tuple[Location, object]]:
        """Yields every file named in the recipe, with its keys."""
        for key in _DATA_FILES:
            yield ("data", key), self._written("data").get(key)
        for name in self._written("sources"):
            yield ("sources", name, "corpus"), self._written("sources", name).get("corpus")
        for name in self._written("targets"):
            target = self._written("targets", name)
            if _names_file(target.get("kind")) and not is_hub_file(str(target.get("model"))):
                yield ("targets", name, "model"), target.get("model")
        for predictor, file in self._written("prompts").items():
            yield ("prompts", predictor), file


def _names_file(kind: object) -> bool:
    """Returns whether the model of a target of that kind is a file."""
    record = TARGETS.loaded(kind) if isinstance(kind, str) else None
    return record is not None and record.model_file


def lacking_parts(program: Method, targets: Collection[str], sources: Collection[str]) -> list[str]:
    """Returns the tables that `program` needs and that are not among the names, such as `targets.main`."""
    return [
        *(f"targets.{role}" for role in program.roles if role not in targets),
        *(f"sources.{name}" for name in program.sources if name not in sources),
    ]


def _callers_metric(values: Mapping[str, object]) -> list[Location]:
    """Returns the keys whose metric was a function in Python."""
    return [
        (table, key)
        for table, key in (("search", "objectives"), ("search", "pick"), ("metrics", "report"))
        if isinstance(held := values.get(table), Mapping)
        and _named(held.get(key)) in (CALLERS_METRIC, [CALLERS_METRIC])
    ]


def _named(value: object) -> object:
    """Returns the name of a metric that `value` is, or the objective of a table `search.pick`."""
    return value.get("objective") if isinstance(value, Mapping) else value


def _with_callers_metric(values: Mapping[str, object]) -> str | PickRule:
    """Returns `search.pick` of a stored recipe whose metric was a function in Python."""
    search = values["search"]
    pick = search["pick"] if isinstance(search, Mapping) else ""
    return validate(PickRule, pick)[0] if isinstance(pick, Mapping) else CALLERS_METRIC


def _without(values: Mapping[str, object], keys: Collection[Location]) -> Mapping[str, object]:
    """Returns `values` without the `keys` of its tables."""
    return {
        table: {name: one for name, one in held.items() if (table, name) not in keys}
        if isinstance(held, Mapping)
        else held
        for table, held in values.items()
    }


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list | tuple) else []
