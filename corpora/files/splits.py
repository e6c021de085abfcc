"""Draws disjoint train, dev and test questions, and divides few questions for cross-validation.

Two questions are the same if their ids or their normalised texts are equal. Questions are taken in the order
of a hash of the seed and their id, so a draw does not depend on the order of the file. Questions that name a
group are taken with all of their group, or not at all.

A column names the group of a question; where it holds a list, questions that share any of its values belong
together. Without a column the ids of gold passages do: groups are the connected components over these ids.

For cross-validation few questions are divided into train and dev, and both of them into folds. Larger groups
are placed first, each in the fold with the fewest questions so far. Where programs learn from questions, two
of every five groups are train, in an order that spreads them over the folds.

Questions are near duplicates if their texts, in lower case and without punctuation, have the same numbers and
the sets of their character trigrams overlap by `THRESHOLD` or more (Jaccard): they differ by a respelling or
a word. How often that is wrong was measured, see experiments/LOG.md.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from ragc.core.display import quantity
from ragc.corpora.files.records import data_error
from ragc.errors import UsageError
from ragc.records import Question

Group = tuple[Question, ...]
"""Questions with one normalised text or one group, in hash order; they are never in two splits."""

MIN_FILLED_SHARE = 0.8
"""A split that whole groups fill to this share of its size is accepted."""

FOLDS = 5
"""The most folds; fewer where there are fewer groups."""

MIN_QUESTIONS = 6
"""The fewest questions for cross-validation: of five, all changed in one direction, p is 2/32."""

MAX_QUESTIONS = 59
"""The most questions for cross-validation; more are enough for a test split."""

THRESHOLD = 0.75
"""The least overlap of the trigrams of near duplicates, from 0 to 1."""

_WAY_OUT = 'divide groups with data.fields.group = ""'
_ARTICLES = re.compile(r"\b(a|an|the)\b")


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
) -> tuple[dict[str, Group], dict[str, int]]:
    """Draws `sizes[name]` questions for every name, no two splits sharing a normalised text or a group;
    returns the splits, and the number of groups that did not fit each.

    A split that some question names is drawn from the questions that name it. The others are drawn from the
    rest, test before dev before train: first from questions that name no split, then from the rest of the
    named splits, last from splits that are not wanted. So a larger train changes neither dev nor test. A
    question that repeats the text of a drawn one goes to the same split or to none. A group that does not fit
    the rest of a split is left out of it, and the next groups are taken instead, so that a split may be
    smaller than its size.

    The same questions and seed give the same splits in the same order. Raises DataError when there are fewer
    questions than wanted, whole groups fill less than `MIN_FILLED_SHARE` of a split, or splits named in the
    file share a question or a group; UsageError for a negative size.
    """
    if negative := [f"{name} = {size}" for name, size in sizes.items() if size < 0]:
        raise UsageError(f"A split has at least 0 questions, got {negative[0]}.")
    wanted = {name: sizes[name] for name in ("test", "dev", "train", *sorted(sizes)) if sizes.get(name)}
    groups = group_questions(questions, seed)
    named: dict[str, list[Group]] = {}
    unnamed, rest, others, problems = list[Group](), list[Group](), list[Group](), list[str]()
    for group in groups:
        ours = {question.split: question for question in group if question.split in wanted}
        if len(ours) > 1:
            problems.append(_overlap(*sorted(ours.items())[:2]))
        elif ours:
            named.setdefault(next(iter(ours)), []).append(tuple(q for q in group if q.split in ours))
        else:
            (others if all(question.split for question in group) else unnamed).append(group)
    drawn: dict[str, Group] = dict.fromkeys(sizes, ())
    unfit: dict[str, int] = {}
    for name in sorted(wanted, key=lambda name: name not in named):
        # From the far end: a named split that grows takes from the near one.
        rest.sort(key=lambda group: _shuffle_key(group[0], seed), reverse=True)
        pool = named.get(name, [*unnamed, *rest, *others])
        drawn[name], left, unfit[name] = _take(pool, wanted[name])
        unnamed, rest, others = (unnamed, rest + left, others) if name in named else (left, [], [])
        size, most = wanted[name], sum(map(len, pool))
        request = f"{name} asks for {size} questions, "
        if most < size:
            of = f"of {sum(map(len, groups))} are left for it"
            problems.append(f"{request}{most} {f'are named {name!r}' if name in named else of}")
            break  # those after it get too few because of it
        if len(drawn[name]) < MIN_FILLED_SHARE * size:
            fill = f"groups of questions that stay together fill {len(drawn[name])} of them"
            problems.append(f"{request}and {fill}; ask for other numbers, or {_WAY_OUT}")
    if problems:
        raise data_error("questions", problems)
    return drawn, {name: n for name, n in unfit.items() if n}


def _take(groups: Sequence[Group], n: int) -> tuple[Group, list[Group], int]:
    """Takes up to `n` questions; returns them, the unused groups, and how many groups did not fit.

    Groups are taken whole in their order, or the largest first where that gives more questions. Only if no
    question names a group is the last one divided: equal questions are not used twice.
    """
    is_grouped = any(question.group for group in groups for question in group)

    def fill(groups: Sequence[Group]) -> tuple[Group, list[Group], int]:
        taken, left, unfit = list[Question](), list[Group](), 0
        for group in groups:
            if len(taken) < n and (len(taken) + len(group) <= n or not is_grouped):
                taken += group
            else:
                left.append(group)
                unfit += len(taken) < n
        return tuple(taken[:n]), left, unfit

    return max(fill(groups), fill(sorted(groups, key=len, reverse=True)), key=lambda filled: len(filled[0]))


def check_disjoint(splits: Mapping[str, Sequence[Question]]) -> None:
    """Raises DataError, naming each, if two splits share an id, a normalised question text or a group."""
    seen: dict[tuple[str, str], tuple[str, Question]] = {}
    problems: dict[str, str] = {}
    for name, question in ((name, question) for name, questions in splits.items() for question in questions):
        keys = [("id", question.id), ("text", normalise(question.whole_text)), ("group", question.group)]
        firsts = [seen.setdefault(key, (name, question)) for key in keys if key[1]]
        if second := next((first for first in firsts if first[0] != name), None):
            problems.setdefault(question.group or question.id, _overlap(second, (name, question)))
    if problems:
        raise data_error("splits", [*problems.values()])


def _overlap(first: tuple[str, Question], second: tuple[str, Question]) -> str:
    """Returns the problem of two questions, each with its split, that belong together."""
    (name, question), (twin_split, twin) = first, second
    shared = (
        f"the group {question.group!r}, such as {question.id!r} and {twin.id!r}; "
        f"name splits that keep groups whole, or {_WAY_OUT}"
    )
    if question.id == twin.id:
        shared = f"the id {question.id!r}"
    elif normalise(question.whole_text) == normalise(twin.whole_text):
        shared = f"a question: {question.id!r} and {twin.id!r} ask {twin.question!r}"
    return f"{name} and {twin_split} share {shared}"


def group_questions(questions: Iterable[Question], seed: int) -> list[Group]:
    """Returns all questions in hash order, by text and by named group, where the first of each is."""
    ordered = sorted(questions, key=lambda question: _shuffle_key(question, seed))
    texts = {question.id: f"text {normalise(question.whole_text)}" for question in ordered}
    labels = connected({q.id: [texts[q.id], *[f"group {q.group}"] * bool(q.group)] for q in ordered})
    groups: dict[str, list[Question]] = {}
    for question in ordered:
        groups.setdefault(labels[question.id] or f"id {question.id}", []).append(question)
    return [tuple(group) for group in groups.values()]


def divide(questions: Iterable[Question], seed: int, *, taught: bool) -> dict[str, Group]:
    """Returns all `questions` as train and dev; without `taught` all are dev."""
    groups = sorted(group_questions(questions, seed), key=len, reverse=True)
    splits: dict[str, Group] = {"train": (), "dev": ()}
    for position, group in enumerate(groups):
        splits["train" if taught and (position + position // FOLDS) % FOLDS in (1, 3) else "dev"] += group
    return {name: split for name, split in splits.items() if split}


def fold(questions: Iterable[Question], seed: int, *, taught: bool) -> tuple[frozenset[str], ...]:
    """Returns the ids of the `questions` of each fold.

    Raises DataError for fewer than `MIN_QUESTIONS` questions, and for so few groups that nothing is left to
    choose by without one of them, nor to be `taught` by.
    """
    groups = sorted(group_questions(questions, seed), key=len, reverse=True)
    n, needed = sum(map(len, groups)), 4 if taught else 2
    if n < MIN_QUESTIONS:
        few = f"{quantity(n, 'question')} {'is' if n == 1 else 'are'} too few to compile"
        raise data_error("data", [f"{few}, which needs {MIN_QUESTIONS}; add some"])
    if len(groups) < needed:
        why = " where train questions are needed for demonstrations, instructions or optimizers" * taught
        text = (
            f"the {n} questions are {quantity(len(groups), 'group')} that must stay whole, such as those "
            f"about one document, and cross-validation needs {needed}{why}; add questions about other "
            f"documents, {'search none of these, ' * taught}or name the splits"
        )
        raise data_error("data", [text])
    folds: list[list[str]] = [[] for _ in range(min(FOLDS, len(groups)))]
    for group in groups:
        min(folds, key=len).extend(question.id for question in group)
    return tuple(map(frozenset, folds))


def _shuffle_key(question: Question, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{question.id}".encode("utf-8", "surrogatepass")).digest()


def connected(keys: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns the group of each question, by id: the least of all `keys` of its connected component.

    `keys` has the values of each question by id. "" for a question that shares no value with another.
    """
    from scipy.cluster.hierarchy import DisjointSet

    components, first = DisjointSet(keys), dict[str, str]()
    for name, values in keys.items():
        for value in values:
            components.merge(first.setdefault(value, name), name)
    labels = dict.fromkeys(keys, "")
    for names in components.subsets():
        if len(names) > 1:
            labels.update(dict.fromkeys(names, min(value for name in names for value in keys[name])))
    return labels


def gold_documents(gold_ids: Iterable[str], *, whole: bool) -> tuple[str, ...]:
    """Returns the ids of the gold documents, by which questions are grouped.

    The `gold_ids` are those of `whole` passages where a corpus is there; without one `p#3` is a chunk of `p`.
    """
    return tuple(name if whole else re.sub(r"(?<=.)#\d+$", "", name) for name in gold_ids)


def near_duplicates(questions: Sequence[Question], others: Sequence[Question]) -> dict[str, str]:
    """Returns the id of the most similar near duplicate among `others`, by the ids of `questions` that have
    one.
    """
    grams_of = [trigrams(second.whole_text) for second in others]
    numbers_of = [re.findall(r"\d+", second.whole_text) for second in others]
    positions: dict[str, list[int]] = {}
    for position, grams in enumerate(grams_of):
        for gram in grams:
            positions.setdefault(gram, []).append(position)
    nearest_ids = {}
    for question in questions:
        grams = trigrams(question.whole_text)
        numbers = re.findall(r"\d+", question.whole_text)  # with other years or counts they are others
        shared = Counter(chain.from_iterable(positions.get(gram, ()) for gram in grams))
        similar = [
            (n / (len(grams) + len(grams_of[position]) - n), -position)
            for position, n in shared.items()
            if n >= THRESHOLD * len(grams) and numbers_of[position] == numbers
        ]
        if similar and (nearest := max(similar))[0] >= THRESHOLD:
            nearest_ids[question.id] = others[-nearest[1]].id
    return nearest_ids


def trigrams(text: str) -> frozenset[str]:
    """Returns the character trigrams of the normalised `text`, with two spaces before it and one behind."""
    padded = f"  {normalise(text)} "
    return frozenset(padded[position : position + 3] for position in range(len(padded) - 2))
