"""Draws disjoint train, dev and test questions.

Two questions are the same if their ids or their normalised texts are equal. Questions are taken in the order
of a hash of the seed and their id, so a draw does not depend on the order of the file.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from ragc.corpora.files.records import data_error
from ragc.errors import UsageError
from ragc.records import Question

Group = tuple[Question, ...]
"""Questions with one normalised text, in hash order; they are never in two splits."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_HELD_OUT_FIRST = ("test", "dev", "train")


@lru_cache(maxsize=16_384)  # a draw and the check after it normalise the same texts
def normalise(text: str) -> str:
    """`text` in lower case, without punctuation and articles, white space collapsed.

    If nothing would be left, only the white space is collapsed.
    """
    plain = unicodedata.normalize("NFKC", text).lower()
    unpunctuated = "".join(char for char in plain if not unicodedata.category(char).startswith("P"))
    return " ".join(_ARTICLES.sub(" ", unpunctuated).split()) or " ".join(plain.split())


def draw(
    questions: Iterable[Question], sizes: Mapping[str, int], seed: int
) -> dict[str, tuple[Question, ...]]:
    """`sizes[name]` questions for every name, no two splits sharing an id or a normalised text.

    A split that some question names is drawn from the questions that name it. The others are drawn from
    the rest, test before dev before train: first from questions that name no split, then from what the
    named splits left over, last from splits that were not asked for. So a larger train changes neither
    dev nor test. A question that repeats the text of a drawn one goes to the same split or to none. Each
    question is returned as it is, whatever split it names.

    The same questions and seed give the same splits in the same order. Raises DataError when there are
    fewer questions than asked for, an id appears twice, or splits named in the file share a question;
    UsageError for a negative size.
    """
    for name, size in sizes.items():
        if size < 0:
            raise UsageError(f"A split has at least 0 questions, got {name} = {size}.")
    split_sizes = {name: sizes[name] for name in (*_HELD_OUT_FIRST, *sorted(sizes)) if sizes.get(name)}
    groups = _groups(questions, seed)
    named, unnamed, others = _pools(groups, split_sizes)
    drawn: dict[str, Group] = {}
    problems: list[str] = []
    left: list[Group] = []
    for name in named:
        drawn[name], rest = _take(named[name], split_sizes[name])
        left += rest
        if len(drawn[name]) < split_sizes[name]:
            problems.append(
                f"{name} asks for {split_sizes[name]} questions, {len(drawn[name])} are named {name!r}"
            )
    # From the far end: a named split that grows takes from the near one.
    pool = [*unnamed, *sorted(left, key=lambda group: _shuffle_key(group[0], seed), reverse=True), *others]
    for name in [name for name in split_sizes if name not in named]:
        free = sum(map(len, pool))
        drawn[name], pool = _take(pool, split_sizes[name])
        if len(drawn[name]) < split_sizes[name]:
            whole = sum(map(len, groups))
            problems.append(
                f"{name} asks for {split_sizes[name]} questions, {free} of {whole} are left for it"
            )
    if problems:
        raise data_error("questions", problems)
    return {name: drawn.get(name, ()) for name in sizes}


def check_disjoint(splits: Mapping[str, Sequence[Question]]) -> None:
    """Raises DataError, naming each, if two splits share an id or a normalised question text."""
    problems: list[str] = []
    ids: dict[str, tuple[str, Question]] = {}
    texts: dict[str, tuple[str, Question]] = {}
    for name, questions in splits.items():
        for question in questions:
            for seen, key in ((ids, question.id), (texts, normalise(question.question))):
                other, twin = seen.setdefault(key, (name, question))
                if other != name:
                    problems.append(_describe_overlap(other, twin, name, question))
                    break
    if problems:
        raise data_error("splits", problems)


def _describe_overlap(name: str, question: Question, other: str, twin: Question) -> str:
    if question.id == twin.id:
        return f"{name} and {other} share the id {question.id!r}"
    return f"{name} and {other} share a question: {question.id!r} and {twin.id!r} ask {twin.question!r}"


def _groups(questions: Iterable[Question], seed: int) -> list[Group]:
    """All questions in hash order, grouped by text at the position of the first of each group."""
    ids: set[str] = set()
    texts: dict[str, list[Question]] = {}
    twice: list[str] = []
    for question in sorted(questions, key=lambda q: _shuffle_key(q, seed)):
        if question.id in ids:
            twice.append(f"the id {question.id!r} belongs to two questions")
        ids.add(question.id)
        texts.setdefault(normalise(question.question), []).append(question)
    if twice:
        raise data_error("questions", twice)
    return [tuple(group) for group in texts.values()]


def _pools(
    groups: Iterable[Group], sizes: Mapping[str, int]
) -> tuple[dict[str, list[Group]], list[Group], list[Group]]:
    """The groups of each wanted split that questions name, of no split, and of other splits."""
    named: dict[str, list[Group]] = {}
    unnamed: list[Group] = []
    others: list[Group] = []
    problems: list[str] = []
    for group in groups:
        ours = {q.split: q for q in group if q.split in sizes}
        if len(ours) > 1:
            (name, question), (other, twin) = sorted(ours.items())[:2]
            problems.append(_describe_overlap(name, question, other, twin))
        elif ours:
            (name,) = ours
            named.setdefault(name, []).append(tuple(q for q in group if q.split == name))
        elif any(not q.split for q in group):
            unnamed.append(group)
        else:
            others.append(group)
    if problems:
        raise data_error("questions", problems)
    return named, unnamed, others


def _take(groups: Sequence[Group], n: int) -> tuple[Group, list[Group]]:
    """The first `n` questions, and the unused groups."""
    taken: list[Question] = []
    for at, group in enumerate(groups):
        if len(taken) == n:
            return tuple(taken), list(groups[at:])
        taken += group[: n - len(taken)]
    return tuple(taken), []


def _shuffle_key(question: Question, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{question.id}".encode("utf-8", "surrogatepass")).digest()
