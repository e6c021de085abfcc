"""Metrics that look for a gold in the prediction, each by the rule of its paper.

They differ from `acc`, and from each other, in what is normalised and what an empty gold does:

    prefrag_acc   nothing but case       an empty gold always hits
    bioasq_acc    case; whole words      an empty gold hits any prediction with a word in it
    popqa_match   case                   as prefrag_acc
    slim_em hit1  SQuAD normalisation    an empty gold always hits
    choice_acc    equality               never

PrefRAG: Zhao et al. 2024, arXiv:2411.00689. RQ-RAG: Chan et al. 2024, arXiv:2404.00610. SlimPLM: Tan et al.
2024, arXiv:2402.12052. In all of them a prediction of None and a question without golds score 0.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragc.metrics.short import normalise, text_metric

_LETTERS = dict(zip("12345", "ABCDE", strict=True))


def prefrag_acc(prediction: str | None, golds: Sequence[str]) -> float:
    """PrefRAG's Acc: 1 when a gold stands in the prediction, both in lower case and otherwise as given."""
    return _contains(prediction, golds, cased=False)


def popqa_match(prediction: str | None, golds: Sequence[str], *, cased: bool = False) -> float:
    """RQ-RAG's match: 1 when a gold stands in the prediction, in lower case.

    The authors' inference script compares with `cased`, the script behind their table without.
    """
    return _contains(prediction, golds, cased=cased)


def bioasq_acc(prediction: str | None, golds: Sequence[str]) -> float:
    """PrefRAG's Acc on BioASQ: 1 when a gold stands in the prediction as words, in lower case.

    So "no, although some say yes" hits both `yes` and `no`. Where the gold starts or ends in a mark, such
    as the bracket of "IL-2 (p40)", a letter or digit must follow or precede that mark: the word boundary
    of the authors' pattern asks it. Marks of the gold stand for themselves.
    """
    if prediction is None:
        return 0.0
    text = prediction.lower()
    inside = (wanted for gold in golds if (wanted := gold.lower()) in text)
    return float(any(re.search(rf"\b{re.escape(wanted)}\b", text) for wanted in inside))


def choice_acc(prediction: str | None, golds: Sequence[str]) -> float:
    """1 when the prediction is exactly the letter of the right option, white space around it aside.

    "B." and "b" are wrong, as in RQ-RAG. A gold counted from 1 to 5 is also answered by its letter.
    """
    if prediction is None:
        return 0.0
    said, right = prediction.strip(), [gold.strip() for gold in golds]
    return float(any(said in (gold, _LETTERS.get(gold, gold)) for gold in right if gold))


def slim_em(prediction: str | None, golds: Sequence[str]) -> float:
    """SlimPLM's EM: the share of the golds whose normalised form stands in the normalised prediction.

    Every alias is a gold of its own, so a question with many aliases can hardly score 1: on TriviaQA a right
    answer scores about .3.
    """
    if prediction is None or not golds:
        return 0.0
    mine = normalise(prediction)
    return sum(normalise(gold) in mine for gold in golds) / len(golds)


def hit1(prediction: str | None, golds: Sequence[str]) -> float:
    """SlimPLM's Hit@1: 1 when `slim_em` is above 0."""
    return float(slim_em(prediction, golds) > 0)


def _contains(prediction: str | None, golds: Sequence[str], *, cased: bool) -> float:
    if prediction is None:
        return 0.0
    if cased:
        return float(any(gold in prediction for gold in golds))
    text = prediction.lower()
    return float(any(gold.lower() in text for gold in golds))


METRICS = (
    text_metric("prefrag_acc", "PrefRAG Acc: a gold stands in the prediction, case aside", prefrag_acc),
    text_metric("bioasq_acc", "PrefRAG Acc on BioASQ: a gold stands in the prediction as words", bioasq_acc),
    text_metric("choice_acc", "the prediction is exactly the letter of the right option", choice_acc),
    text_metric("popqa_match", "RQ-RAG match: a gold stands in the prediction, case aside", popqa_match),
    text_metric("slim_em", "SlimPLM EM: share of the golds that stand in the prediction", slim_em),
    text_metric("hit1", "SlimPLM Hit@1: a gold stands in the prediction", hit1),
)
