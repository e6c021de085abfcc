"""Metrics of short answers: exact match, token F1 and containment, each the best over the golds.

SQuAD's `em` and `f1` (Rajpurkar et al. 2016, arXiv:1606.05250; the rule for empty sides is that of its
version 2.0 script), HotpotQA's `hotpot_em` and `hotpot_f1` (Yang et al. 2018, arXiv:1809.09600), RQ-RAG's
`rqrag_f1` (Chan et al. 2024, arXiv:2404.00610). One function, `token_f1`, computes all F1; flags tell them
apart.

A prediction of None scores 0. So does a question without golds, whatever the prediction: data readers
refuse such a question, so one that arrives here matched nothing. A prediction or a gold that is no text
raises UsageError.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from ragc.errors import UsageError
from ragc.metrics.outcome import Metric, Outcome

TextScore = Callable[[str | None, Sequence[str]], float]

_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_VERDICTS = frozenset({"yes", "no", "noanswer"})


def normalise(text: str) -> str:
    """Lower-case, delete ASCII punctuation, drop a|an|the as words, collapse white space: in this order.

    The order shows: "a-b" becomes "ab" (the hyphen is deleted, not spaced, and the article is never
    seen), and "a." becomes "". Typographic quotes, dashes and other Unicode punctuation stay.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DELETE_PUNCTUATION)).split())


def token_f1(
    prediction: str, gold: str, *, yesno_rule: bool = False, empty_rule: bool = True, ftfy: bool = False
) -> float:
    """F1 of the two bags of normalised tokens, 0..1.

    `yesno_rule`: yes, no and noanswer on either side score 0 unless both sides are equal.
    `empty_rule`: when a side has no tokens the score is 1 iff neither has any; without it, 0.
    `ftfy`: both sides are repaired by that library before anything else, which also straightens
    typographic quotes; raises UsageError when it is not installed.
    """
    if ftfy:
        prediction, gold = _repaired(prediction), _repaired(gold)
    mine, theirs = normalise(prediction), normalise(gold)
    if yesno_rule and mine != theirs and (mine in _VERDICTS or theirs in _VERDICTS):
        return 0.0
    if not mine or not theirs:
        return float(empty_rule and mine == theirs)
    tokens, wanted = mine.split(), theirs.split()
    if set(tokens).isdisjoint(wanted):
        return 0.0
    shared = sum((Counter(tokens) & Counter(wanted)).values())
    return 2 * shared / (len(tokens) + len(wanted))


def em(prediction: str | None, golds: Sequence[str]) -> float:
    """1 when the normalised prediction equals a normalised gold, else 0."""
    if prediction is None:
        return 0.0
    mine = normalise(prediction)
    return float(any(mine == normalise(gold) for gold in golds))


def f1(prediction: str | None, golds: Sequence[str]) -> float:
    """SQuAD's token F1; both sides empty after normalisation is 1, one side empty is 0."""
    return _best(prediction, golds)


def hotpot_f1(prediction: str | None, golds: Sequence[str]) -> float:
    """HotpotQA's token F1: yes, no and noanswer count only when equal, and empty sides score 0."""
    return _best(prediction, golds, yesno_rule=True, empty_rule=False)


def rqrag_f1(prediction: str | None, golds: Sequence[str]) -> float:
    """RQ-RAG's token F1: SQuAD's after ftfy, and a prediction of "" scores 0 against any gold."""
    return _best(prediction, golds, ftfy=True) if prediction else 0.0


def acc(prediction: str | None, golds: Sequence[str]) -> float:
    """1 when a normalised gold stands in the normalised prediction as a substring, else 0.

    Characters count, not words: "no" stands in "known". A gold that normalises to nothing never hits.
    """
    if prediction is None:
        return 0.0
    mine = normalise(prediction)
    return float(any(wanted in mine for gold in golds if (wanted := normalise(gold))))


def text_metric(id: str, about: str, score: TextScore) -> Metric:
    """The metric that `score` makes of an outcome's prediction and answers: a share, higher is better.

    It raises UsageError when the prediction is neither a text nor None, or when a gold is no text.
    """

    def of_outcome(outcome: Outcome) -> float:
        check_text(id, outcome)
        return score(outcome.prediction, outcome.answers)

    return Metric(id, about, "share", True, of_outcome)


def check_text(id: str, outcome: Outcome) -> None:
    """Raise UsageError, naming the metric `id`, when a prediction or a gold is no text."""
    texts: tuple[object, ...] = outcome.answers
    for text in texts if outcome.prediction is None else (outcome.prediction, *texts):
        if not isinstance(text, str):
            found = f"{type(text).__name__} {text!r:.60}"
            raise UsageError(f"{id} compares texts, but got {found}. Pass each answer as a string.")


def _best(
    prediction: str | None,
    golds: Sequence[str],
    *,
    yesno_rule: bool = False,
    empty_rule: bool = True,
    ftfy: bool = False,
) -> float:
    if prediction is None:
        return 0.0
    return max(
        (token_f1(prediction, g, yesno_rule=yesno_rule, empty_rule=empty_rule, ftfy=ftfy) for g in golds),
        default=0.0,
    )


def _repaired(text: str) -> str:
    fix_text = _ftfy().fix_text
    plain = text.isascii() and text.isprintable() and "&" not in text  # ftfy leaves such a text alone
    return text if plain else str(fix_text(text))


@cache
def _ftfy() -> Any:
    try:
        return import_module("ftfy")
    except ImportError as error:
        raise UsageError(
            "RQ-RAG's F1 needs ftfy, which is not installed; run: pip install 'ragc[metrics]'"
        ) from error


METRICS = (
    text_metric("em", "exact match after SQuAD normalisation, best gold", em),
    text_metric("f1", "SQuAD token F1, best gold", f1),
    text_metric("acc", "a normalised gold stands in the normalised prediction", acc),
    text_metric("hotpot_em", "HotpotQA exact match", em),
    text_metric("hotpot_f1", "HotpotQA token F1: yes and no count only when equal", hotpot_f1),
    text_metric("rqrag_f1", "RQ-RAG token F1: as f1, after repairing both texts with ftfy", rqrag_f1),
)
