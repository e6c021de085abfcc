"""Groups of questions that are not independent: those with a value in common, directly or through others.

A column names the group of a question; where it holds a list, questions that share any of its values belong
together. Without a column the ids of gold passages do: they are the connected components over these ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ragc.corpora.files.values import NOWHERE, as_list, as_text, is_nothing, value_at
from ragc.records import Question

_CHUNK = re.compile(r"(.+)#\d+")


def connected(keys: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Returns the group of each question, by id: the least of all `keys` of its connected component.

    `keys` has the values of each question by id. "" for a question that shares no value with another.
    """
    parents: dict[str, str] = {}

    def root(key: str) -> str:
        while (above := parents.setdefault(key, key)) != key:
            parents[key] = key = parents[above]
        return key

    first: dict[str, str] = {}
    for name, values in keys.items():
        for value in values:
            least, other = sorted((root(value), root(first.setdefault(name, value))))
            parents[other] = least
    labels = {name: root(first[name]) if name in first else "" for name in keys}
    counts: dict[str, int] = {}
    for label in labels.values():
        counts[label] = counts.get(label, 0) + 1
    return {name: label if counts[label] > 1 else "" for name, label in labels.items()}


def gold_documents(gold_ids: Iterable[str], *, whole: bool) -> tuple[str, ...]:
    """Returns the ids of the gold documents, by which questions are grouped.

    The `gold_ids` are those of `whole` passages where a corpus is there; without one `p#3` is a chunk of `p`.
    """
    if whole:
        return tuple(gold_ids)
    return tuple(match[1] if (match := _CHUNK.fullmatch(name)) else name for name in gold_ids)


def group_values(
    values: object, path: str, *, cells: bool = False, separator: str = ""
) -> tuple[str, ...] | None:
    """Returns the values at `path` of a row as texts, () for null and blank ones; None if the row has no such
    path.

    `cells` and `separator` say how a text may spell a list (`values.as_list`).
    """
    value = value_at(values, path)
    if value is NOWHERE:
        return None
    items = as_list(value, cells=cells, separator=separator)
    texts = (as_text(item) for item in items if not is_nothing(item))
    return tuple(text for text in texts if text and text.strip())


def question_values(question: Question) -> dict[str, object]:
    """Returns the values that a group path may name, for a data set with a reader of its own."""
    own = {
        "id": question.id,
        "split": question.split,
        "query_time": question.query_time,
        "gold_ids": list(question.gold_ids),
        "context_ids": list(question.context_ids),
    }
    return {**own, **question.extra}
