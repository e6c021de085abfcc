"""A recipe's data: the passages of each source, and the questions of each split.

A data set with a name of its own is read from its official files. The passages that come with its
questions are the corpus where the recipe names none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ragc.corpora import datasets, pydocs
from ragc.corpora.datasets.base import Loaded
from ragc.corpora.readers import read_corpus, read_questions
from ragc.corpora.splits import check_disjoint, draw
from ragc.errors import DataError, UsageError
from ragc.recipe import Recipe, SourceSpec
from ragc.records import Passage, Question

SPLITS = ("train", "dev", "test")


class RecipeData:
    """What the table `[data]` of `recipe` names; every file is read once, when it is needed."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.data = recipe, recipe.data
        self._official: dict[str, Loaded] = {}

    @property
    def notes(self) -> dict[str, int]:
        """`skipped`: rows of official files that a rule of their data set left out, if there are any."""
        n = sum(len(loaded.skipped) for loaded in self._official.values())
        return {"skipped": n} if n else {}

    def passages(self, spec: SourceSpec) -> tuple[Passage, ...]:
        """The passages of a source. Raises UsageError when neither it nor the data set has any."""
        path = spec.corpus or self.data.corpus
        if path:
            return read_corpus(self.recipe.path(path))
        if self.data.dataset == "pydocs":
            return pydocs.passages()
        if self.data.dataset in datasets.FILES:
            own = {p.id: p for file in self._files() for p in self._read(file).passages}
            if own:
                return tuple(own.values())
            raise UsageError(
                f"Questions of {self.data.dataset!r} come without passages; name a corpus: data.corpus, or "
                "corpus in the source's table."
            )
        raise UsageError(f'A source of kind {spec.kind!r} needs a corpus; add corpus = "FILE" to its table.')

    def splits(self, corpus_ids: frozenset[str]) -> dict[str, tuple[Question, ...]]:
        """The questions of each split, drawn with the seed or read from a file of their own.

        Gold and context ids must be among `corpus_ids`, if there are any; those of a named data set that
        are not, because another corpus was named, are left out.
        """
        asked = {name: getattr(self.data, name) for name in SPLITS}
        files = {name: value for name, value in asked.items() if isinstance(value, str)}
        out = {name: self._questions(value, corpus_ids) for name, value in files.items()}
        rest = {name: value for name, value in asked.items() if name not in files}
        pool = self._pool(corpus_ids)
        named = {question.split for question in pool}
        sizes = {name: value for name, value in rest.items() if value is not None}
        whole = {
            name: sum(q.split == name for q in pool)
            for name, value in rest.items()
            if value is None and name in named
        }
        out |= draw(pool, {**sizes, **whole}, self.recipe.seed)
        check_disjoint(out)
        if not out.get("dev"):
            raise DataError("data", ["no dev questions were named; set data.dev to a number or a file"])
        return {name: out[name] for name in SPLITS if name in out}

    def _pool(self, corpus_ids: frozenset[str]) -> tuple[Question, ...]:
        if self.data.dataset == "pydocs":
            return pydocs.questions()
        return self._questions(self.data.questions, corpus_ids) if self.data.questions else ()

    def _questions(self, path: str, corpus_ids: frozenset[str]) -> tuple[Question, ...]:
        if self.data.dataset in datasets.FILES:
            return tuple(_known(question, corpus_ids) for question in self._read(path).questions)
        return read_questions(self.recipe.path(path), corpus_ids=corpus_ids or None)

    def _files(self) -> Iterable[str]:
        named = [self.data.questions, *(getattr(self.data, name) for name in SPLITS)]
        return dict.fromkeys(name for name in named if isinstance(name, str) and name)

    def _read(self, path: str) -> Loaded:
        if path not in self._official:
            self._official[path] = datasets.load(self.data.dataset, self.recipe.path(path))
        return self._official[path]


def _known(question: Question, corpus_ids: frozenset[str]) -> Question:
    """`question` with only those gold and context ids that the corpus holds."""
    if not corpus_ids or corpus_ids.issuperset((*question.gold_ids, *question.context_ids)):
        return question
    gold = tuple(name for name in question.gold_ids if name in corpus_ids)
    context = tuple(name for name in question.context_ids if name in corpus_ids)
    return replace(question, gold_ids=gold, context_ids=context)
