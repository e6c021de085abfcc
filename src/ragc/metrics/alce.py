"""ALCE's answer metrics: ASQA's `str_em` and `str_hit`, QAMPARI's precision, recall and F1.

Gao et al. 2023, arXiv:2305.14627; citations and claims are scored in `ragc.metrics.citations`. Only the first
line of an answer counts, without its citations. Texts are compared after SQuAD normalisation.

ASQA's metrics use `qa_pairs` of the outcome's `extra`, and are None for a question without them. A short
answer that normalises to nothing is contained in every text, as in ALCE's script; a reading without short
answers is a miss. QAMPARI's metrics use `answers` of `extra`, a list of lists of aliases. Without it, the
question's interchangeable answers are the aliases of one answer, as GGatrieval scores NQ. A prediction of
None scores 0 in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ragc.errors import UsageError
from ragc.metrics.base import Metric, Outcome
from ragc.metrics.short_answer import check_text, normalise

_CITATION = re.compile(r" ?\[\d+")
_RECALL_CAP = 5  # the cap of rec_5: five right answers count as all


def answer_line(prediction: str | None) -> str:
    """Returns the text that ALCE scores: the first line of the stripped prediction; "" for None."""
    return (prediction or "").strip().partition("\n")[0].replace("<|im_end|>", "")


def without_citations(text: str) -> str:
    """Returns `text` without marks such as " [1]", and without any other "]" and " |", by ALCE's rule."""
    return _CITATION.sub("", text).replace(" |", "").replace("]", "")


def items(text: str) -> list[str]:
    """Returns the items of a list in one line: split at commas, stripped, without a final mark; "" gives
    [""].
    """
    return [item.strip() for item in text.rstrip().rstrip(".").rstrip(",").split(",")]


def found_readings(outcome: Outcome) -> list[bool] | None:
    """Returns whether the prediction contains a short answer of each of ASQA's readings; None without
    readings.

    Raises UsageError when `qa_pairs` is no list of objects.
    """
    pairs = outcome.extra.get("qa_pairs")
    if not pairs:
        return None
    if not isinstance(pairs, list) or not all(isinstance(pair, dict) for pair in pairs):
        raise UsageError(
            f"`qa_pairs` of an ASQA question is a list of objects with `short_answers`; found {pairs!r:.80}."
        )
    if outcome.prediction is None:
        return [False] * len(pairs)
    prediction = normalise(without_citations(answer_line(outcome.prediction)))
    answer_lists = (_texts(pair.get("short_answers"), "short_answers") for pair in pairs)
    return [any(normalise(answer) in prediction for answer in answers) for answers in answer_lists]


def qampari(prediction: str | None, answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """Returns the scores of a comma-separated list against `answers`, the aliases of each.

    `rec_5` counts five right answers as all of them, and `f1_5` is its F1.

    A repeated item counts each time in the precision, once in the recall. Items that are empty after
    normalisation do not count; without any item, all scores are 0.
    """
    listed = items(without_citations(answer_line(prediction)))
    answer_items = [item for item in map(normalise, listed) if item]
    golds = [{normalise(alias) for alias in aliases} for aliases in answers]
    gold_items = set().union(*golds)
    hits = sum(not gold.isdisjoint(answer_items) for gold in golds)
    precision = sum(item in gold_items for item in answer_items) / len(answer_items) if answer_items else 0.0
    recall = hits / len(golds)
    recall_5 = min(_RECALL_CAP, hits) / min(_RECALL_CAP, len(golds))
    scores = {"prec": precision, "rec": recall, "rec_5": recall_5}
    return scores | {"f1": harmonic(precision, recall), "f1_5": harmonic(precision, recall_5)}


def harmonic(a: float, b: float) -> float:
    """Returns the harmonic mean of two non-negative numbers; 0 when both are 0."""
    return 2 * a * b / (a + b) if a + b > 0 else 0.0


def is_list(outcome: Outcome) -> bool:
    """Returns whether the answer should be a comma-separated list: `extra` has `answers`, as in QAMPARI."""
    return bool(outcome.extra.get("answers"))


def list_scores(outcome: Outcome) -> dict[str, float]:
    """Returns QAMPARI's scores of `outcome`; none when it has no gold answers."""
    listed = outcome.extra.get("answers") or [list(outcome.answers)]
    if not isinstance(listed, list):
        raise UsageError(f"`answers` of a QAMPARI question is a list of lists; found {listed!r:.80}.")
    golds = [_texts(aliases, "answers") for aliases in listed]
    return qampari(outcome.prediction, golds) if any(golds) else {}


def _texts(value: object, name: str) -> list[str]:
    """Returns the texts of a field that holds one text, a list of texts, or nothing."""
    texts: list[Any] = [] if value is None else value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"`{name}` holds texts, but here {text!r:.60}. Write each as a string.")
    return texts


def _metric(id: str, about: str, score: Callable[[Outcome], float | None]) -> Metric:
    def of_texts(outcome: Outcome) -> float | None:
        check_text(id, outcome)
        return score(outcome)

    return Metric(id, about, "share", True, of_texts)


def _of_list(name: str, about: str) -> Metric:
    return _metric(f"qampari_{name}", about, lambda outcome: list_scores(outcome).get(name))


METRICS = (
    _metric(
        "alce_str_em",
        "ALCE: share of a question's readings with a short answer in the prediction",
        lambda outcome: sum(hits) / len(hits) if (hits := found_readings(outcome)) else None,
    ),
    _metric(
        "alce_str_hit",
        "ALCE: every reading of the question has a short answer in the prediction",
        lambda outcome: float(all(hits)) if (hits := found_readings(outcome)) else None,
    ),
    _of_list("prec", "QAMPARI: share of the listed items that are gold answers"),
    _of_list("rec", "QAMPARI: share of the gold answers that are listed"),
    _of_list("rec_5", "QAMPARI: recall, where five answers are all that is wanted"),
    _of_list("f1", "QAMPARI: F1 of precision and recall"),
    _of_list("f1_5", "QAMPARI: F1 of precision and recall-5"),
)
