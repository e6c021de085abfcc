"""Validation of a recipe: from its tables to its records, section by section.

Every check that needs no network stands here or in the module that owns the thing: knobs check their own
values, targets their own options. What is wrong is noted, never raised.

Knobs: which are fixed, which are searched, and to what end.

Targets: each by its role or name, checked by the target itself, and its fallbacks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

from ragc import corpora, metrics, targets
from ragc.core.redact import holds_key
from ragc.corpora import datasets
from ragc.corpora.files import hub
from ragc.corpora.files.filters import Where, flat
from ragc.corpora.files.mapping import PASSAGE_FIELDS, PASSAGE_OPTIONS, QUESTION_FIELDS, QUESTION_OPTIONS
from ragc.errors import UnknownName, UsageError
from ragc.metrics.base import CRAG_JUDGES, Assessing
from ragc.programs import METHODS, Method, method
from ragc.programs.knobs import Knob, Value
from ragc.recipe.models import (
    CROSS,
    DEMO_KINDS,
    FILLED,
    Data,
    Recipe,
    Search,
    SourceSpec,
    read_budget,
    read_study,
)
from ragc.recipe.secrets import note_secrets
from ragc.recipe.table import Table
from ragc.targets.base import ROLES, TargetSpec

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


_VARIABLE = re.compile(r"([A-Za-z_]\w*)?", re.ASCII)
_REMEDY = "put it into an environment variable and name that in api_key_env"


def read_kind(table: Table, known: list[str], kind: str) -> str:
    """The kind of the source or target in `table`, one of `known`; "" is noted."""
    if "kind" not in table.values:
        table.note("kind", f"{table.name('kind')} is missing. Known: {', '.join(known)}.")
    return table.one_of("kind", known, kind)


def read_targets(table: Table, base: Path | None, players: Collection[str]) -> dict[str, TargetSpec]:
    """The targets by name: a role, one of the `players` that may stand in for a role, or a fallback."""
    found = {name: _target(inner, base) for name, inner in table.tables()}
    stand_ins = {other for spec in found.values() for other in _fallbacks(spec)}
    for name in [*found]:
        if name not in {*ROLES, *players, *stand_ins}:
            table.note(name, str(UnknownName("target role", name, ROLES)))
            del found[name]
    for name, spec in found.items():
        for other in _fallbacks(spec):
            if other not in found:
                table.note(
                    name, f"{table.name(name)} falls back on [targets.{other}], which is not there; add it"
                )
            elif other == name:
                table.note(name, f"{table.name(name)} lists itself in fallbacks; name other targets there")
    return found


def _fallbacks(spec: TargetSpec) -> list[str]:
    listed = spec.options.get("fallbacks")
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list | tuple) else []


def _target(table: Table, base: Path | None) -> TargetSpec:
    kind = read_kind(table, list(targets.TARGETS), "target kind")
    weights = kind == "embedded"  # a GGUF file, while the others name a model
    model = table.path("model", base) if weights else table.text("model")
    url = table.text("base_url")
    options = table.options("options")
    table.close(
        "What only one kind understands goes into an `options` table; keys come from the environment."
    )
    if "@" in url:
        name = table.name("base_url")
        table.note("base_url", f"{name} must not hold a name or password: recipes are passed on")
    else:
        note_secrets(table, "base_url", url, remedy=_REMEDY)
    note_secrets(table, "model", model, remedy=_REMEDY)
    variable = options.pop("api_key_env", "")
    secret = note_secrets(table, "options", options, remedy=_REMEDY)
    if holds_key(variable) or (isinstance(variable, str) and not _VARIABLE.fullmatch(variable)):
        name = f"{table.name('options')}.api_key_env"
        text = f"{name} must name an environment variable, such as OPENAI_API_KEY, not hold the key itself"
        table.notes.add((*table.keys, "options", "api_key_env"), text, hidden=True)
    elif variable != "":
        options["api_key_env"] = variable
    spec = TargetSpec(cast(Literal["embedded", "vllm", "hosted"], kind), model, url, options)
    if kind and not secret:  # what the target says may repeat a value
        _try_build(table, replace(spec, model="") if kind == "embedded" else spec)
    return spec


def _try_build(table: Table, spec: TargetSpec) -> None:
    """Note what the target itself says against `spec`; nothing is opened."""
    try:
        targets.build(spec)
    except UsageError as error:
        table.notes.add(table.keys, f"[{'.'.join(map(str, table.keys))}]: {error}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ragc"):
            raise
        # The extra is not installed: opening the target says so, and a recipe may be checked elsewhere.


NEED_CORPUS = frozenset({"bm25", "lucene", "dense", "hybrid", "given"})
"""Kinds of sources that search a corpus file."""
BUILT_IN = frozenset({"pydocs"})
"""Data sets that bring their own questions and passages."""

_PASSAGE = (*PASSAGE_FIELDS, *PASSAGE_OPTIONS)
_MAX_SEED = 2**32 - 1


def read(table: Table, base: Path, *, files: bool) -> Recipe:
    """The recipe in `table`; it can be used only when nothing was noted."""
    found = base if files else None
    chosen = _program(table)
    seed = table.integer("seed", 0, low=0, high=_MAX_SEED)
    concurrency = table.integer("concurrency", None, low=1)
    search = table.table("search")
    methods = read_programs(search, chosen)
    knobs = read_knobs(table.table("knobs"), methods)
    report, assessing = read_metrics(table.table("metrics"))
    data = _data(table.table("data"), found)
    recipe = Recipe(
        program=chosen.id if chosen else "",
        seed=seed,
        concurrency=concurrency,
        knobs=knobs,
        search=read_search(search, methods, knobs, report, crossed=bool(data.cross_domain)),
        data=data,
        sources={name: _source(inner, data, found) for name, inner in table.table("sources").tables()},
        targets=read_targets(table.table("targets"), found, named_players(search)),
        report=report,
        assessing=assessing,
        budget=read_budget(table.table("budget")),
        study=read_study(table.table("study")),
        prompts=_prompts(table.table("prompts"), found),
        base=base,
    )
    table.close()
    for needing in methods:
        _note_needs(table, needing)
    for role, names in recipe.search.targets.items():
        for index, name in enumerate(names):
            if name not in recipe.targets:
                search.note(
                    "targets", f"there is no [targets.{name}] for the role {role!r}; add it", role, index
                )
    return recipe


def _program(table: Table) -> Method | None:
    if "program" not in table.values:
        table.note("program", 'a recipe needs a program; add, for example, program = "vanilla"')
    name = table.one_of("program", [entry.id for entry in METHODS], "program")
    return method(name) if name else None


def _note_needs(table: Table, chosen: Method) -> None:
    """Note the target roles and sources that the program needs and the recipe does not have."""
    for family, names, example in (
        ("targets", chosen.roles, 'with kind = "embedded", "vllm" or "hosted"'),
        ("sources", chosen.sources, 'with kind = "bm25" and a corpus'),
    ):
        configured = table.values.get(family, {})
        for name in names:
            if not isinstance(configured, dict) or name not in configured:
                need = f"program {chosen.id!r} needs [{family}.{name}]; add [{family}.{name}] {example}"
                table.note("program", need)


def _data(table: Table, base: Path | None) -> Data:
    data = Data(
        dataset=_dataset(table),
        questions=_place(table, "questions", base),
        corpus=_place(table, "corpus", base),
        train=_split(table, "train", base),
        dev=_split(table, "dev", base),
        test=_split(table, "test", base),
        fields=_fields(table.table("fields"), (*QUESTION_FIELDS, *QUESTION_OPTIONS)),
        corpus_fields=_fields(table.table("corpus_fields"), _PASSAGE),
        where=_where(table.table("where")),
        cross_domain=_place(table, "cross_domain", base),
        cross_domain_corpus=_place(table, "cross_domain_corpus", base),
    )
    table.close()
    hosted = hub.is_address(data.dataset)
    if data.fields and not hosted and data.dataset != "jsonl":
        table.note("fields", f"data set {data.dataset!r} knows its own fields; leave data.fields out")
    if not hosted and data.dataset not in BUILT_IN and not data.questions and "questions" not in table.values:
        sizes = [name for name in ("train", "dev", "test") if isinstance(getattr(data, name), int)]
        if sizes:
            table.note(sizes[0], f"{table.name(sizes[0])} is drawn from a question file; add data.questions")
        elif "dataset" in table.values and not any((data.train, data.dev, data.test)):
            table.note("dataset", f"data set {data.dataset!r} needs a question file; add data.questions")
    return data


def _dataset(table: Table) -> str:
    """The id of a data set, or an address `hf:`."""
    if hub.is_address(str(table.values.get("dataset", ""))):
        return _place(table, "dataset", None)
    known = [*(entry.id for entry in corpora.DATASETS), *datasets.FILES]
    return table.one_of("dataset", known, "data set", "jsonl")


def _place(table: Table, key: str, base: Path | None) -> str:
    """The path of a file, or an address `hf:`; nothing is asked of the Hub."""
    if not hub.is_address(str(table.values.get(key, ""))):
        return table.path(key, base)
    address = table.text(key)
    try:
        hub.parse(address)
    except UsageError as error:
        table.note(key, f"{table.name(key)}: {error}")
    return address


def _fields(table: Table, known: Collection[str]) -> dict[str, str]:
    """A map from fields to paths; only what is written in it."""
    tab = table.get("delimiter") == "\t" if "delimiter" in known else False  # else a text that is empty
    read = {name: "tab" if tab and name == "delimiter" else table.text(name) for name in known}
    table.close()
    if "delimiter" in table.values and len(read.get("delimiter", "")) != 1 and read["delimiter"] != "tab":
        table.wrong("delimiter", 'one character, or "tab"')
    if any(path == "#" and name != "id" for name, path in read.items()):
        name = ".".join(map(str, table.keys))
        table.notes.add(table.keys, f'{name}: only an id can be "#", the number of its row')
    return {name: path for name, path in read.items() if path}


def _where(table: Table) -> dict[str, tuple[Value, ...]]:
    """A value, or several, for every path; tables inside are paths too."""
    read: dict[str, tuple[Value, ...]] = {}
    for path, value in flat(table.values).items():
        values = tuple(value) if isinstance(value, list) else (value,)
        try:
            Where({path: cast(tuple[Value, ...], values)})
        except UsageError as error:
            table.note(path.partition(".")[0], f"{table.name(path)}: {error}")
        else:
            read[path] = cast(tuple[Value, ...], values)
    return read


def _split(table: Table, key: str, base: Path | None) -> int | str | None:
    """A number of questions, or the path of a file."""
    if isinstance(table.values.get(key), str):
        return _place(table, key, base) or None
    return table.integer(key, None, low=0, wanted="a number of questions, 0 or more, or the path of a file")


def _source(table: Table, data: Data, base: Path | None) -> SourceSpec:
    kind = read_kind(table, [entry.id for entry in corpora.SOURCES], "source kind")
    corpus = _place(table, "corpus", base)
    options = table.options("options")
    note_secrets(table, "options", options, remedy="leave it out")
    fields = _fields(table.table("fields"), _PASSAGE)
    table.close("What one kind understands goes into an `options` table.")
    if kind in NEED_CORPUS:
        corpus = corpus or data.corpus
        brings = data.dataset in BUILT_IN or data.dataset in datasets.FILES
        if not corpus and "corpus" not in table.values and not brings:
            table.note("kind", f"a source of kind {kind!r} needs a corpus; add {table.name('corpus')}")
    return SourceSpec(kind, corpus, options, fields)


def _prompts(table: Table, base: Path | None) -> dict[str, str]:
    """Files by predictor; whether a predictor is one of the program's is seen when that is built."""
    return {name: file for name in table.values if (file := table.path(name, base))}
