"""From the tables of a recipe to its records, section by section.

Every check that needs no network stands here or in the room that owns the thing: knobs check their own
values, targets their own options. What is wrong is noted, never raised.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import cast

from ragc import corpora
from ragc.corpora import datasets, hub
from ragc.corpora.fields import PASSAGE_FIELDS, PASSAGE_OPTIONS, QUESTION_FIELDS, QUESTION_OPTIONS
from ragc.corpora.where import Where, flat
from ragc.errors import UsageError
from ragc.programs import METHODS, Method, method
from ragc.programs.knobs import Value
from ragc.recipe_budget import read_budget
from ragc.recipe_search import named_players, read_knobs, read_metrics, read_programs, read_search
from ragc.recipe_secrets import note_secrets
from ragc.recipe_spec import Data, Recipe, SourceSpec
from ragc.recipe_study import read_study
from ragc.recipe_table import Table
from ragc.recipe_targets import read_kind, read_targets

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
