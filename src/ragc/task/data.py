"""The data of a recipe: passages of each source, questions of each split, and those of another domain.

A named data set is read from its official files. If the recipe names no corpus, the passages that come with
its questions are the corpus.

Splits are drawn in whole groups: questions with the same value of the column `fields.group`, or by default
those that share a gold passage, directly or through others. Named splits are not changed, and have groups
only if the recipe names the column.

A study may show demonstrations of another domain instead of its own. Paper: RAG-X shows examples of other
domains beside those of the question's own ("cross-domain", Table 5). Differs: in the paper each question
comes with its domain; here the other domain is a question file that the recipe names.

A recipe that names neither sizes nor splits and has few questions uses all of them to choose: as dev
questions, and as train questions where programs learn from some. In place of a test split it has folds.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ragc import metrics
from ragc.core.progress import Progress
from ragc.corpora import SOURCES, datasets
from ragc.corpora.files.field_maps import GROUP, PassageFields
from ragc.corpora.files.records import filter_questions, is_address, read_questions
from ragc.corpora.files.rows import as_list, as_text, value_at
from ragc.corpora.files.splits import (
    MAX_QUESTIONS,
    check_disjoint,
    connected,
    divide,
    draw,
    fold,
    gold_documents,
)
from ragc.corpora.sources.options import build as build_source
from ragc.errors import DataError, UsageError
from ragc.programs.runtime import Runtime
from ragc.recipe import Data, Recipe
from ragc.records import Passage, Question
from ragc.store.calls import CallStore
from ragc.task.passages import SPLITS, CorpusIds, OtherDomain, RecipePassages, hub_rows, searching
from ragc.task.study_address import storage_address

MOST = 60
"""The number of questions drawn from the other domain if the recipe draws no train questions."""


class RecipeData(RecipePassages):
    """Reads passages and questions that the table `[data]` of `recipe` names, each file once, on demand."""

    def __init__(self, recipe: Recipe, progress: Progress | None = None) -> None:
        super().__init__(recipe, progress)
        self._column = self.data.fields.explicit.get(GROUP)
        self._fields = {name: path for name, path in self.data.fields.explicit.items() if path}
        self._group_values: dict[str, tuple[str, ...]] = {}
        self._groups: dict[str, Any] = {}
        self._golds: dict[str, tuple[str, ...]] = {}

    @property
    def notes(self) -> dict[str, Any]:
        """Returns remarks on the data, those on passages first.

        `groups` says what groups are by, their number in each split, and how many did not fit; it is there
        only if a group has several questions. `folds` are the numbers of questions of each fold.
        """
        return (
            super().notes
            | ({"groups": self._groups} if self._groups else {})
            | ({"folds": [len(ids) for ids in self.folds]} if self.folds else {})
        )

    def splits(self, known: CorpusIds) -> dict[str, tuple[Question, ...]]:
        """Returns the questions of each split, drawn with the seed or read from a separate file.

        If `known` is not empty, gold and context ids must be in it. For a named data set, ids that are
        missing from another corpus are removed. Questions name their group, unless they are alone in it.
        """
        settings = {name: getattr(self.data, name) for name in SPLITS}
        files = {name: value for name, value in settings.items() if isinstance(value, str)}
        out = {name: self._questions(value, known, numbered=name) for name, value in files.items()}
        rest = {name: value for name, value in settings.items() if name not in files}
        pool = self.pool(known)
        named = {question.split for question in pool}
        sizes = {name: value for name, value in rest.items() if value is not None}
        whole = {
            name: sum(q.split == name for q in pool)
            for name, value in rest.items()
            if value is None and name in named
        }
        draws = {**sizes, **whole}
        labels = self._labels(out, pool, draws, known)
        out = {name: _in_groups(questions, labels) for name, questions in out.items()}
        unfit: dict[str, int] = {}
        if not draws and not {"train", "dev"} & files.keys() and 0 < len(pool) <= MAX_QUESTIONS:
            drawn = self._all_to_choose(_in_groups(pool, labels), tested="test" in files)
        else:
            drawn, unfit = draw(_in_groups(pool, labels), draws, self.recipe.seed)
        out |= drawn
        check_disjoint(out)
        self._note_groups(out, unfit)
        if not out.get("dev"):
            if not (files or pool or self.data.questions):
                how = "a CSV with the columns question and answer, or JSON lines"
                raise DataError("data", [f"the recipe names no questions; set data.questions to {how}"])
            raise DataError("data", ["no dev questions were named; set data.dev to a number or a file"])
        return {name: out[name] for name in SPLITS if name in out}

    def _all_to_choose(
        self, questions: tuple[Question, ...], *, tested: bool
    ) -> dict[str, tuple[Question, ...]]:
        """Returns all `questions` as dev, and as train where programs learn from some.

        Unless they are `tested` on others, decides on the folds of a cross-validation. Raises DataError for
        too few, and UsageError for a study that cannot be repeated for each fold.
        """
        recipe = self.recipe
        splits = divide(questions, recipe.seed, taught=recipe.needs_train)
        if tested:
            return splits
        if storage_address(recipe.study):
            raise UsageError(
                f"The recipe names no splits, so its {len(questions)} questions would be cross-validated, "
                "which keeps its state in a file; set data.train, data.dev and data.test, or leave "
                "study.storage out."
            )
        self.folds = fold(questions, recipe.seed, taught=recipe.needs_train)
        return splits

    def _labels(
        self,
        files: Mapping[str, tuple[Question, ...]],
        pool: tuple[Question, ...],
        sizes: Mapping[str, int],
        known: CorpusIds,
    ) -> dict[str, str]:
        """Returns the group of each question, by id; "" for one that is alone in its group.

        Raises DataError if no question has the column that the recipe names.
        """
        if self._column:
            questions = [*(q for split in files.values() for q in split), *pool]
            held = {q.id: self._group_values.get(q.id) or _values_at(q, self._column) for q in questions}
            if held and not any(held.values()):
                raise DataError("data", [f"no question has {self._column!r}, data.fields.group"])
            return connected(held)
        named = files or any(question.split and sizes.get(question.split) for question in pool)
        if self._column is not None or named:
            return {}
        golds = {q.id: self._golds.get(q.id, q.gold_ids) for q in pool}
        return connected({name: gold_documents(ids, whole=bool(known)) for name, ids in golds.items()})

    def _note_groups(self, splits: Mapping[str, tuple[Question, ...]], unfit: Mapping[str, int]) -> None:
        if unfit or any(q.group for questions in splits.values() for q in questions):
            from ragc.metrics.stats.groups import count_groups

            counts = {name: count_groups(q.group for q in questions) for name, questions in splits.items()}
            self._groups = {"by": self._column or "gold_ids", "n": counts, "unfit": dict(unfit)}

    def pool(self, known: CorpusIds) -> tuple[Question, ...]:
        """Returns all questions to draw splits from. Their ids must be in `known` unless it is empty."""
        if self.data.dataset in datasets.BUILT_IN:
            return self._filter(datasets.built_in(self.data.dataset).questions(), self.data.dataset)
        hosted = self.data.dataset if is_address(self.data.dataset) else ""
        path = self.data.questions or hosted
        return self._questions(path, known) if path else ()

    def _questions(self, path: str, known: CorpusIds, numbered: str = "row") -> tuple[Question, ...]:
        if self.data.dataset in datasets.FILES:
            read = self._read(path).questions
            self._golds |= {question.id: question.gold_ids for question in read}
            questions = tuple(_drop_unknown_ids(question, known) for question in read)
            return self._filter(questions, path)
        rows = hub_rows(path, self.recipe) if is_address(path) else None
        mapped = read_questions(
            self.recipe.path(path) if rows is None else rows,
            path if rows else "",
            fields=self._fields,
            where=self.data.where,
            corpus_ids=known or None,
            numbered=numbered,
            answered=self._answered,
        )
        self._skipped[path] = mapped.skipped
        self._group_values |= mapped.groups
        self._commits |= {path: rows.revision} if rows and rows.revision else {}
        return mapped.questions

    @property
    def _answered(self) -> bool:
        """Whether questions must have gold answers: some metric of the recipe compares with them."""
        objectives = (name.removeprefix("-") for name in self.recipe.search.objectives)
        return metrics.need_answers((*self.recipe.metrics.report, *objectives))

    def _filter(self, questions: tuple[Question, ...], name: str) -> tuple[Question, ...]:
        return filter_questions(questions, self.data.where, name) if self.data.where else questions

    def other_domain(
        self, runtime: Runtime, splits: Mapping[str, tuple[Question, ...]], store: CallStore
    ) -> OtherDomain | None:
        """Returns the data of `data.cross_domain`, with as many questions as there are train questions.

        None if the recipe names no other domain. The sources are those of `runtime`, or of the same kinds
        over `data.cross_domain_corpus`. Raises DataError for a file without questions or one that shares a
        question with `splits`.
        """
        path, corpus = self.data.cross_domain, self.data.cross_domain_corpus
        if not path:
            return None
        own = self.recipe.replace(data=Data().replace(questions=path, corpus=corpus))
        data = RecipeData(own, self._progress)
        specs = searching(self.recipe) if corpus else {}
        bare = {name: spec.replace(corpus="", fields=PassageFields()) for name, spec in specs.items()}
        corpora = {name: data.corpus(spec) for name, spec in bare.items()}
        questions = list(data.pool(CorpusIds(corpora.values())))
        if not questions:
            raise DataError(path, ["it holds no question of another domain"])
        random.Random(f"cross-domain {self.recipe.seed}").shuffle(questions)
        sample = tuple(questions[: len(splits.get("train", ())) or MOST])
        check_disjoint({**splits, "cross_domain": sample})
        sources = {
            name: build_source(SOURCES.get(spec.kind), spec.options, corpora[name], store, resolve=own.path)
            for name, spec in bare.items()
        }
        return OtherDomain(sample, runtime.with_sources(sources))


def searched_data(recipe: Recipe) -> tuple[dict[str, tuple[Question, ...]], Iterable[Passage]]:
    """Returns the splits of a recipe, and the passages of its first source that searches passages.

    Raises UsageError where there is no such source, and DataError as `RecipeData` does.
    """
    data = RecipeData(recipe)
    spec = next(iter(searching(recipe).values()), None)
    if spec is None:
        raise UsageError("The recipe has no source that searches passages; add one of kind bm25 or dense.")
    corpus = data.corpus(spec)
    return data.splits(CorpusIds([corpus])), corpus.passages


def _in_groups(questions: tuple[Question, ...], labels: Mapping[str, str]) -> tuple[Question, ...]:
    """Returns `questions` with the groups of `labels`, by id."""
    return tuple(replace(q, group=label) if (label := labels.get(q.id)) else q for q in questions)


def _values_at(question: Question, path: str) -> tuple[str, ...]:
    """Returns the texts at `path` of a question: a field of the record, or of its other values."""
    own = {name: getattr(question, name) for name in ("id", "split", "query_time", "gold_ids", "context_ids")}
    value = value_at({**own, **question.extra}, path)
    items = as_list(list(value) if isinstance(value, tuple) else value)
    return tuple(text for item in items if (text := as_text(item) or "").strip())


def _drop_unknown_ids(question: Question, known: CorpusIds) -> Question:
    """Returns `question` with only those gold and context ids that the corpus holds."""
    if not known or all(name in known for name in (*question.gold_ids, *question.context_ids)):
        return question
    gold = tuple(name for name in question.gold_ids if name in known)
    context = tuple(name for name in question.context_ids if name in known)
    return replace(question, gold_ids=gold, context_ids=context)
