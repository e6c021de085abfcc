"""BioASQ task B, phase B: exact answers, with the challenge's metrics for each type of question.

    type       metrics                                        a prediction is read as
    list       bioasq_list_p, bioasq_list_r, bioasq_list_f    its items: lines, or parts between ; or ,
    factoid    bioasq_sacc, bioasq_lacc, bioasq_mrr           candidates, best first, five at most
    yesno      bioasq_macro_f1                                its first word that is yes or no

A gold item is a group of synonyms, and any of them matches it. A second match counts as wrong. Items are
compared without case, repeated white space, and outer marks, which is slightly more lenient than equality. A
metric of one type does not apply to questions of another.

`bioasq_macro_f1` is the mean of the F1 of yes and of no over all questions, so it is not a mean over
questions: a single question scores 1 if it is right, else 0.

Reference: Balikas et al. 2013, "Evaluation Framework Specifications" of BioASQ (deliverable D4.1).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ragc.metrics.base import Metric, Outcome

CANDIDATES = 5
"""Maximum number of candidates of a factoid."""

MAX_ITEMS = 100
"""Maximum number of items of a list, as in the challenge."""

_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.):])\s+")
_MARK = re.compile(r"\s*\[\d+(?:\s*,\s*\d+)*\]")
_ENDS = re.compile(r"^[\W_]+|[\W_]+$")
_YES_NO = re.compile(r"\b(yes|no)\b", re.IGNORECASE)


def split_items(text: str) -> list[str]:
    """Returns the items in `text`: its lines, else its parts between semicolons, else between commas.

    Bullets, numbers, citation marks such as [1], and "and" before the last item are removed.
    """
    parts = [_BULLET.sub("", line) for line in _MARK.sub("", text).splitlines() if line.strip()]
    if len(parts) == 1:
        parts = parts[0].split(";" if ";" in parts[0] else ",")
        last = re.sub(r"^\s*(?:and|or)\s+", "", parts[-1]) if len(parts) > 1 else parts[-1]
        parts[-1] = last
    return [item for item in (part.strip().rstrip(".").strip() for part in parts) if item]


def fold(item: str) -> str:
    """Returns `item` without case, repeated white space and outer marks; unchanged if nothing else would
    remain.
    """
    plain = " ".join(item.casefold().split())
    return _ENDS.sub("", plain) or plain


def list_score(prediction: str | None, groups: Sequence[Sequence[str]]) -> tuple[float, float, float]:
    """Returns the precision, recall and F1 of the items of `prediction` against `groups` of synonyms.

    Each group counts once.
    """
    items = split_items(prediction or "")[:MAX_ITEMS]
    left = [{fold(synonym) for synonym in group} for group in groups]
    right = 0
    for item in map(fold, items):
        match = next((index for index, synonyms in enumerate(left) if item in synonyms), None)
        if match is not None:
            del left[match]
            right += 1
    if not right:
        return 0.0, 0.0, 0.0
    precision, recall = right / len(items), right / len(groups)
    return precision, recall, 2 * precision * recall / (precision + recall)


def first_right(prediction: str | None, groups: Sequence[Sequence[str]]) -> int:
    """Returns the rank (1 to 5) of the first correct candidate of a factoid, 0 if none is."""
    synonyms = {fold(synonym) for group in groups for synonym in group}
    text = fold(_MARK.sub("", prediction or ""))
    if text in synonyms:  # a name may contain a comma
        return 1
    candidates = map(fold, split_items(prediction or "")[:CANDIDATES])
    return next((rank for rank, item in enumerate(candidates, 1) if item in synonyms), 0)


def read_yes_no(prediction: str | None) -> str:
    """Returns `yes` or `no`, whichever word comes first in `prediction`; "" without either."""
    match = _YES_NO.search(prediction or "")
    return match[1].lower() if match else ""


def groups_of(outcome: Outcome) -> list[list[str]]:
    """Returns the synonyms of each gold item, from `exact_answer`: a text, a list of texts, or a list of
    lists.
    """
    exact = outcome.extra.get("exact_answer")
    listed = exact if isinstance(exact, list) else [exact]
    groups = [list(item) if isinstance(item, list) else [item] for item in listed]
    if outcome.extra.get("type") == "factoid":  # a flat list holds synonyms of one answer
        groups = [[text for group in groups for text in group]]
    texts = [[text for text in group if isinstance(text, str) and text.strip()] for group in groups]
    return [group for group in texts if group] or [[answer] for answer in outcome.answers]


def macro_f1_of(
    yes_right: float, no_right: float, yes_avoided: float, no_avoided: float, gold_no: float, gold_yes: float
) -> float:
    """Returns mean of the F1 of yes and of no, from shares of questions; an absent class has F1 0."""

    def f1(right: float, avoided: float, absent: float) -> float:
        total = (1 - avoided) + (1 - absent)
        if right <= 0:
            return 0.0
        return min(1.0, 2 * right / total) if total > 0 else 1.0

    return (f1(yes_right, yes_avoided, gold_no) + f1(no_right, no_avoided, gold_yes)) / 2


def _metric(
    type: str, id: str, about: str, of: Callable[[str | None, list[list[str]]], float | None]
) -> Metric:
    """Returns a metric of questions of one `type`: `of(prediction, groups)`, of at least one group."""

    def score(outcome: Outcome) -> float | None:
        groups = groups_of(outcome) if outcome.extra.get("type") == type else []
        return of(outcome.prediction, groups) if groups else None

    return Metric(id, about, "share", True, score)


def _of_list(part: int, id: str, about: str) -> Metric:
    return _metric("list", id, about, lambda prediction, groups: list_score(prediction, groups)[part])


def _of_factoid(id: str, about: str, score_rank: Callable[[int], float]) -> Metric:
    return _metric(
        "factoid", id, about, lambda prediction, groups: score_rank(first_right(prediction, groups))
    )


def _of_yes_no(id: str, about: str, holds: Callable[[str, str], bool]) -> Metric:
    """Returns a metric of `holds(prediction, gold)`; both are "yes", "no", or "" for neither."""

    def score(outcome: Outcome) -> float | None:
        gold = read_yes_no(" ".join(outcome.answers[:1]))
        if outcome.extra.get("type") != "yesno" or not gold:
            return None
        return float(holds(read_yes_no(outcome.prediction), gold))

    return Metric(id, about, "share", True, score)


COLUMNS: tuple[Metric, ...] = (
    _of_yes_no("bioasq_yes_right", "yes, rightly", lambda answer, gold: answer == gold == "yes"),
    _of_yes_no("bioasq_no_right", "no, rightly", lambda answer, gold: answer == gold == "no"),
    _of_yes_no("bioasq_yes_avoided", "not yes", lambda answer, _: answer != "yes"),
    _of_yes_no("bioasq_no_avoided", "not no", lambda answer, _: answer != "no"),
    _of_yes_no("bioasq_gold_no", "the gold answer is not yes", lambda _, gold: gold != "yes"),
    _of_yes_no("bioasq_gold_yes", "the gold answer is not no", lambda _, gold: gold != "no"),
)
"""The columns from which `bioasq_macro_f1` is computed; it is non-decreasing in each of their means."""


METRICS: tuple[Metric, ...] = (
    _of_list(2, "bioasq_list_f", "BioASQ list questions: F1 of the items, synonyms counted once"),
    _of_list(0, "bioasq_list_p", "BioASQ list questions: share of the items named that are right"),
    _of_list(1, "bioasq_list_r", "BioASQ list questions: share of the right items that are named"),
    _of_factoid(
        "bioasq_mrr", "BioASQ factoids: 1 / rank of the first right of five", lambda r: 1 / r if r else 0.0
    ),
    _of_factoid(
        "bioasq_sacc", "BioASQ factoids: the first candidate is right (strict)", lambda r: float(r == 1)
    ),
    _of_factoid(
        "bioasq_lacc", "BioASQ factoids: one of five candidates is right (lenient)", lambda r: float(r > 0)
    ),
    replace(
        _of_yes_no(
            "bioasq_macro_f1",
            "BioASQ yes/no questions: mean of the F1 of yes and of no",
            lambda answer, gold: answer == gold,
        ),
        pools=tuple(column.id for column in COLUMNS),
        combine=macro_f1_of,
    ),
)
