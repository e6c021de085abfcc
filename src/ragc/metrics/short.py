"""Metrics of short answers: exact match, token F1 and containment, each the best over the golds.

SQuAD's `em` and `f1` (Rajpurkar et al. 2016, arXiv:1606.05250; the rule for empty sides is that of its
version 2.0 script), HotpotQA's `hotpot_em` and `hotpot_f1` (Yang et al. 2018, arXiv:1809.09600).

A prediction of None scores 0. So does a question without golds, whatever the prediction: data readers
refuse such a question, so one that arrives here matched nothing.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

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


def token_f1(prediction: str, gold: str, *, yesno_rule: bool = False, empty_rule: bool = True) -> float:
    """F1 of the two bags of normalised tokens.

    `yesno_rule`: yes, no and noanswer on either side score 0 unless both sides are equal.
    `empty_rule`: when a side has no tokens the score is 1 iff neither has any; without it, 0.
    """
    mine, theirs = normalise(prediction), normalise(gold)
    if yesno_rule and mine != theirs and (mine in _VERDICTS or theirs in _VERDICTS):
        return 0.0
    if not mine or not theirs:
        return float(empty_rule and mine == theirs)
    tokens, wanted = mine.split(), theirs.split()
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
    return _best(prediction, golds, yesno_rule=False, empty_rule=True)


def hotpot_f1(prediction: str | None, golds: Sequence[str]) -> float:
    """HotpotQA's token F1: yes, no and noanswer count only when equal, and empty sides score 0."""
    return _best(prediction, golds, yesno_rule=True, empty_rule=False)


def acc(prediction: str | None, golds: Sequence[str]) -> float:
    """1 when a normalised gold stands in the normalised prediction as a substring, else 0.

    Characters count, not words: "no" stands in "known". A gold that normalises to nothing never hits.
    """
    if prediction is None:
        return 0.0
    mine = normalise(prediction)
    return float(any(wanted in mine for gold in golds if (wanted := normalise(gold))))


def _best(prediction: str | None, golds: Sequence[str], *, yesno_rule: bool, empty_rule: bool) -> float:
    if prediction is None:
        return 0.0
    scores = (token_f1(prediction, gold, yesno_rule=yesno_rule, empty_rule=empty_rule) for gold in golds)
    return max(scores, default=0.0)


def _metric(id: str, about: str, score: TextScore) -> Metric:
    def of_outcome(outcome: Outcome) -> float:
        return score(outcome.prediction, outcome.answers)

    return Metric(id, about, "share", True, of_outcome)


METRICS = (
    _metric("em", "exact match after SQuAD normalisation, best gold", em),
    _metric("f1", "SQuAD token F1, best gold", f1),
    _metric("acc", "a normalised gold stands in the normalised prediction", acc),
    _metric("hotpot_em", "HotpotQA exact match", em),
    _metric("hotpot_f1", "HotpotQA token F1: yes and no count only when equal", hotpot_f1),
)
