"""The passages that a recipe names, which its sources search, without the questions of its data."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragc.core.digest import digest
from ragc.core.files import cache_home
from ragc.core.progress import Progress, Silent
from ragc.corpora import SOURCES, datasets
from ragc.corpora.files import records
from ragc.corpora.files.records import files_named, is_address
from ragc.corpora.files.rows import warn_once
from ragc.corpora.storage.corpus import Corpus, corpus_of
from ragc.corpora.storage.corpus import read as read_corpus
from ragc.errors import UsageError
from ragc.programs.runtime import Runtime
from ragc.recipe import Recipe, SourceSpec
from ragc.records import Passage, Question
from ragc.store.calls import CallStore

if TYPE_CHECKING:
    from ragc.corpora.datasets.base import Dataset
    from ragc.corpora.files.hub import HubRows

SPLITS = ("train", "dev", "test")

_ROWS = frozenset((".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet"))


def searching(recipe: Recipe) -> dict[str, SourceSpec]:
    """Returns the sources of `recipe` that search the passages of a corpus, by name."""
    return {n: spec for n, spec in recipe.sources.items() if SOURCES.get(spec.kind).corpus == "passages"}


class CorpusIds(Container[str]):
    """The passage ids of some corpora. False if there is no corpus, so that ids cannot be checked."""

    def __init__(self, corpora: Iterable[Corpus]) -> None:
        self._corpora = tuple({id(corpus): corpus for corpus in corpora}.values())

    def __bool__(self) -> bool:
        return bool(self._corpora)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(c.find(name) is not None for c in self._corpora)


def hub_rows(address: str, recipe: Recipe) -> HubRows:
    """Returns the rows at an address of the Hub."""
    from ragc.corpora.files.hub import HubRows

    return HubRows(address, recipe.base)


@dataclass(frozen=True, slots=True)
class OtherDomain:
    """The questions of another domain, and a runtime whose sources hold their passages."""

    questions: tuple[Question, ...]
    runtime: Runtime


class RecipePassages:
    """Reads the passages that the table `[data]` of `recipe` names, each file once, on demand."""

    folds: tuple[frozenset[str], ...] = ()
    """The ids of the questions of each fold, once `splits` has decided on cross-validation."""

    def __init__(self, recipe: Recipe, progress: Progress | None = None) -> None:
        self.recipe, self.data, self._progress = recipe, recipe.data, progress
        self._corpora: dict[str, Corpus] = {}
        self._official: dict[str, Dataset] = {}
        self._skipped: dict[str, tuple[str, ...]] = {}
        self._commits: dict[str, str] = {}

    @property
    def notes(self) -> dict[str, Any]:
        """Returns remarks: `skipped` is the number of rows left out by a rule, `hub` the commit of each
        address read.
        """
        n = sum(len(loaded.skipped) for loaded in self._official.values())
        n += sum(map(len, self._skipped.values()))
        return ({"skipped": n} if n else {}) | ({"hub": dict(self._commits)} if self._commits else {})

    def splits(self, known: CorpusIds) -> dict[str, tuple[Question, ...]]:
        """Returns no questions; `RecipeData` reads them."""
        return {}

    def other_domain(
        self, runtime: Runtime, splits: Mapping[str, tuple[Question, ...]], store: CallStore
    ) -> OtherDomain | None:
        """Returns no data of another domain; `RecipeData` reads it."""
        return None

    def corpus(self, spec: SourceSpec) -> Corpus:
        """Returns the passages of a source. Raises UsageError if source and data set have none."""
        path = spec.corpus or self.data.corpus
        named = spec.fields.explicit or self.data.corpus_fields.explicit
        key = digest([path, dict(named)])
        if key not in self._corpora:
            self._corpora[key] = self.read_corpus(spec.kind, path, named)
        return self._corpora[key]

    def read_corpus(self, kind: str, path: str, named: Mapping[str, str]) -> Corpus:
        """Returns the passages at `path` with the field map `named`, for a source of that kind. Raises
        UsageError.
        """
        if is_address(path):
            read = hub_rows(path, self.recipe)
            passages = records.read_corpus(read, path, fields=named)
            self._commits |= {path: read.revision} if read.revision else {}
            return corpus_of(passages)
        if path:
            return self._read_files(path, named)
        if self.data.dataset in datasets.BUILT_IN:
            return corpus_of(datasets.built_in(self.data.dataset).passages())
        if self.data.dataset in datasets.FILES:
            own = {p.id: p for file in self._files() for p in self._read(file).passages}
            if own:
                return corpus_of(own.values())
            raise UsageError(
                f"Questions of {self.data.dataset!r} come without passages; name a corpus: data.corpus, or "
                "corpus in the source's table."
            )
        raise UsageError(f'A source of kind {kind!r} needs a corpus; add corpus = "FILE" to its table.')

    def _read_files(self, path: str, fields: Mapping[str, str]) -> Corpus:
        """Returns the passages of the files that `path` names: of rows, and of documents page by page.

        A table among documents is a document.
        """
        from ragc.corpora.documents.base import KINDS, kind_of
        from ragc.corpora.documents.folder import DocumentFile, files_in, read_files

        named, files, notes = files_named(self.recipe.base, path), list[DocumentFile](), list[str]()
        for place in named:
            below, outside = files_in(place, {}) if place.is_dir() else ([], [])
            alone = DocumentFile(place, os.path.relpath(place, self.recipe.base), kind_of(place))
            files += below if place.is_dir() else [alone]
            notes += outside
        table = KINDS[".csv"]
        tables = all(file.reader in ("", table) for file in files)
        rows = [file for file in files if not file.reader or (tables and file.reader == table)]
        if not files or (len(files) == 1 == len(rows) and not fields):
            return read_corpus(files[0].path if files else self.recipe.path(path), progress=self._progress)
        passages: list[Passage] = []
        for file in rows:
            if file.path in named or not _ROWS.isdisjoint(file.path.suffixes):
                ids = file.name if len(rows) > 1 else "row"
                passages += records.read_corpus(file.path, fields=fields, numbered=ids)
                files.remove(file)
        work = cache_home() / "documents" / digest([str(file.path) for file in files])[:32]
        for part in read_files(files, work, self._progress or Silent()) if files else ():
            notes += [f"{part.name} {part.reason}"] if part.reason else []
            notes += [f"{part.name}: {note}" for note in part.notes]
            passages += [Passage(row["id"], row["title"], row["text"]) for row in part.rows()]
        for note in notes:
            warn_once("%s", note)
        return corpus_of(passages)

    def _files(self) -> Iterable[str]:
        named = [self.data.questions, *(getattr(self.data, name) for name in SPLITS)]
        return dict.fromkeys(name for name in named if isinstance(name, str) and name)

    def _read(self, path: str) -> Dataset:
        if path not in self._official:
            self._official[path] = datasets.load(self.data.dataset, self.recipe.path(path))
        return self._official[path]
