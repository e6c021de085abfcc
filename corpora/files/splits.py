"""Draws disjoint train, dev and test questions.

Two questions are the same if their ids or their normalised texts are equal. Questions are taken in the order
of a hash of the seed and their id, so a draw does not depend on the order of the file. Questions that name a
group are taken with all of their group, or not at all.

A column names the group of a question; where it holds a list, questions that share any of its values belong
together. Without a column the ids of gold passages do: groups are the connected components over these ids.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from ragc.corpora.files.records import data_error
from ragc.corpora.files.values import NOWHERE, as_list, as_text, is_nothing, value_at
from ragc.errors import UsageError
from ragc.records import Question

Group = tuple[Question, ...]
"""Questions with one normalised text or one group, in hash order; they are never in two splits."""

MIN_FILLED_SHARE = 0.8
"""A split that whole groups fill to this share of its size is accepted."""

MAX_SUMS = 100_000_000
"""The most pairs of a group and a size for which sums of sizes are looked up."""

_CHUNK = re.compile(r"(.+)#\d+")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_HELD_OUT_FIRST = ("test", "dev", "train")


@lru_cache(maxsize=16_384)  # a draw and the check after it normalise the same texts
def normalise(text: str) -> str:
    """Returns `text` in lower case, without punctuation and articles, white space collapsed.

    If nothing would be left, only the white space is collapsed.
    """
    plain = unicodedata.normalize("NFKC", text).lower()
    unpunctuated = "".join(char for char in plain if not unicodedata.category(char).startswith("P"))
    return " ".join(_ARTICLES.sub(" ", unpunctuated).split()) or " ".join(plain.split())


def draw(
    questions: Iterable[Question], sizes: Mapping[str, int], seed: int
) -> dict[str, tuple[Question, ...]]:
    """Draws `sizes[name]` questions for every name, no two splits sharing an id or a normalised text.

    A split that some question names is drawn from the questions that name it. The others are drawn from the
    rest, test before dev before train: first from questions that name no split, then from the rest of the
    named splits, last from splits that are not wanted. So a larger train changes neither dev nor test. A
    question that repeats the text of a drawn one goes to the same split or to none. Each question is returned
    as it is, whatever split it names.

    A group that does not fit the rest of a split is left out of it; the next groups are taken instead. If
    groups cannot make up a size, the split is the largest below it.

    The same questions and seed give the same splits in the same order. Raises DataError when there are fewer
    questions than wanted, whole groups fill less than `MIN_FILLED_SHARE` of a split, an id appears twice, or
    splits named in the file share a question or a group; UsageError for a negative size.
    """
    return draw_groups(questions, sizes, seed)[0]


def draw_groups(
    questions: Iterable[Question], sizes: Mapping[str, int], seed: int
) -> tuple[dict[str, tuple[Question, ...]], dict[str, int]]:
    """Returns the splits of `draw`, and the number of groups that did not fit each, by split."""
    for name, size in sizes.items():
        if size < 0:
            raise UsageError(f"A split has at least 0 questions, got {name} = {size}.")
    split_sizes = {name: sizes[name] for name in (*_HELD_OUT_FIRST, *sorted(sizes)) if sizes.get(name)}
    groups = group_questions(questions, seed)
    named, unnamed, others = _pools(groups, split_sizes)
    drawn: dict[str, Group] = {}
    unfit: dict[str, int] = {}
    problems: list[str] = []
    left: list[Group] = []
    for name in named:
        drawn[name], rest, unfit[name] = _take(named[name], split_sizes[name])
        left += rest
        free = sum(map(len, named[name]))
        if len(drawn[name]) < split_sizes[name]:
            few = f"{name} asks for {split_sizes[name]} questions, {len(drawn[name])} are named {name!r}"
            problems += _shortfall(name, split_sizes[name], drawn[name], free, few)
    # From the far end: a named split that grows takes from the near one.
    pool = [*unnamed, *sorted(left, key=lambda group: _shuffle_key(group[0], seed), reverse=True), *others]
    for name in [name for name in split_sizes if name not in named]:
        free = sum(map(len, pool))
        drawn[name], pool, unfit[name] = _take(pool, split_sizes[name])
        if len(drawn[name]) < split_sizes[name]:
            whole = sum(map(len, groups))
            few = f"{name} asks for {split_sizes[name]} questions, {free} of {whole} are left for it"
            problems += _shortfall(name, split_sizes[name], drawn[name], free, few)
    if problems:
        raise data_error("questions", problems)
    return {name: drawn.get(name, ()) for name in sizes}, {name: n for name, n in unfit.items() if n}


def _shortfall(name: str, size: int, drawn: Group, free: int, few: str) -> list[str]:
    """Returns the problem of a split that got less than its `size`: `few` if fewer were `free`."""
    if free < size:
        return [few]
    if len(drawn) >= MIN_FILLED_SHARE * size:
        return []
    text = (
        f"{name} asks for {size} questions, and groups of questions that stay together fill {len(drawn)} of "
        'them; ask for other numbers, or divide groups with data.fields.group = ""'
    )
    return [text]


def check_disjoint(splits: Mapping[str, Sequence[Question]]) -> None:
    """Raises DataError, naming each, if two splits share an id, a normalised question text or a group."""
    problems: list[str] = []
    groups: dict[str, tuple[str, Question]] = {}
    divided: set[str] = set()
    ids: dict[str, tuple[str, Question]] = {}
    texts: dict[str, tuple[str, Question]] = {}
    for name, questions in splits.items():
        for question in questions:
            for seen, key in ((ids, question.id), (texts, normalise(question.whole_text))):
                other, twin = seen.setdefault(key, (name, question))
                if other != name:
                    problems.append(_describe_overlap(other, twin, name, question))
                    break
            if question.group:
                other, twin = groups.setdefault(question.group, (name, question))
                if other != name and question.group not in divided:
                    divided.add(question.group)
                    problems.append(_describe_group(other, twin, name, question))
    if problems:
        raise data_error("splits", problems)


def _describe_group(name: str, question: Question, other: str, mate: Question) -> str:
    return (
        f"{name} and {other} share the group {question.group!r}, such as {question.id!r} and {mate.id!r}; "
        'name splits that keep groups whole, or divide them with data.fields.group = ""'
    )


def _describe_overlap(name: str, question: Question, other: str, twin: Question) -> str:
    if question.id == twin.id:
        return f"{name} and {other} share the id {question.id!r}"
    return f"{name} and {other} share a question: {question.id!r} and {twin.id!r} ask {twin.question!r}"


def group_questions(questions: Iterable[Question], seed: int) -> list[Group]:
    """Returns all questions in hash order, by text and by named group, where the first of each stands."""
    ids: set[str] = set()
    together: dict[str, list[Question]] = {}
    twice: list[str] = []
    for question in sorted(questions, key=lambda q: _shuffle_key(q, seed)):
        if question.id in ids:
            twice.append(f"the id {question.id!r} belongs to two questions")
        ids.add(question.id)
        together.setdefault(normalise(question.whole_text), []).append(question)
    if twice:
        raise data_error("questions", twice)
    if not any(question.group for group in together.values() for question in group):
        return [tuple(group) for group in together.values()]
    keys = {
        question.id: (f"text {text}", *([f"group {question.group}"] if question.group else ()))
        for text, group in together.items()
        for question in group
    }
    labels = connected(keys)
    united: dict[str, list[Question]] = {}
    for group in together.values():
        for question in group:
            united.setdefault(labels[question.id] or f"id {question.id}", []).append(question)
    return [tuple(sorted(group, key=lambda q: _shuffle_key(q, seed))) for group in united.values()]


def _pools(
    groups: Iterable[Group], sizes: Mapping[str, int]
) -> tuple[dict[str, list[Group]], list[Group], list[Group]]:
    """Returns the groups of each wanted split that questions name, of no split, and of other splits."""
    named: dict[str, list[Group]] = {}
    unnamed: list[Group] = []
    others: list[Group] = []
    problems: list[str] = []
    for group in groups:
        ours = {q.split: q for q in group if q.split in sizes}
        if len(ours) > 1:
            (name, question), (other, twin) = sorted(ours.items())[:2]
            same = normalise(question.whole_text) == normalise(twin.whole_text)
            describe = _describe_overlap if same or not question.group else _describe_group
            problems.append(describe(name, question, other, twin))
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


def _take(groups: Sequence[Group], n: int) -> tuple[Group, list[Group], int]:
    """Takes the first `n` questions; returns them, the unused groups, and how many groups did not fit.

    Only if no question names a group is the last one divided: equal questions are not used twice.
    """
    if any(question.group for group in groups for question in group):
        return _take_whole(groups, n)
    taken: list[Question] = []
    for at, group in enumerate(groups):
        if len(taken) == n:
            return tuple(taken), list(groups[at:]), 0
        taken += group[: n - len(taken)]
    return tuple(taken), [], 0


def _take_whole(groups: Sequence[Group], n: int) -> tuple[Group, list[Group], int]:
    """Takes whole groups: the first that fit, else the first whose sizes come nearest to `n`."""
    sizes = [len(group) for group in groups]
    chosen = _first_fit(sizes, n)
    if sum(sizes[at] for at in chosen) < min(n, sum(sizes)) and len(sizes) * n <= MAX_SUMS:
        chosen = _nearest_sum(sizes, n)
    used = set(chosen)
    unfit = sum(at not in used for at in range(max(chosen, default=len(groups) - 1) + 1))
    if sum(sizes[at] for at in chosen) < n:
        unfit = len(groups) - len(chosen)
    taken = tuple(question for at in chosen for question in groups[at])
    return taken, [group for at, group in enumerate(groups) if at not in used], unfit


def _first_fit(sizes: Sequence[int], n: int) -> list[int]:
    chosen = []
    for at, size in enumerate(sizes):
        if size <= n:
            chosen.append(at)
            n -= size
    return chosen


def _nearest_sum(sizes: Sequence[int], n: int) -> list[int]:
    """Returns the choice with the largest sum up to `n`; of equal ones, that with the earliest groups."""
    mask = (1 << n + 1) - 1
    reachable = [1]  # bit s of the k-th: the last k sizes have a choice that adds up to s
    for size in reversed(sizes):
        reachable.append(reachable[-1] | (reachable[-1] << size & mask))
    left, chosen = reachable[-1].bit_length() - 1, []
    for at, size in enumerate(sizes):
        if size <= left and reachable[len(sizes) - at - 1] >> (left - size) & 1:
            chosen.append(at)
            left -= size
    return chosen


def _shuffle_key(question: Question, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{question.id}".encode("utf-8", "surrogatepass")).digest()


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
