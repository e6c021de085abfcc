"""Alignment of documents with the parts of a question: checks of the model's claims, labels, order, choice.

Paper: GGatrieval, section 3.1 (the labels), section 3.2 with equations 1 to 3 (alignment), sections 4.3 and
4.4 with Tables 3 and 4 (documents of a label left out, conversion rates).
A component counts only if it stands in the question, a segment only if it was copied from the document, both
as `ragc.programs.ggatrieval.copying` tells.
Documents are ordered by how much of the question they align with; the order decides which are chosen in the
end, and how many of each label those are is counted.
Differs: a question word, such as who or when, is aligned with what answers it, of which the paper says
nothing. Both checks are ours, computed on the text. With `align_form = "sentences"` the document comes first,
in numbered sentences, and every part gets an entry, of which the paper says nothing either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ragc.core import counters
from ragc.programs.base import format_passage
from ragc.programs.ggatrieval.copying import find_run, is_copied, parts_in, words_of
from ragc.records import Passage

Label = Literal["FULL", "PARTIAL", "NONE"]
LABELS: tuple[Label, ...] = ("FULL", "PARTIAL", "NONE")


@dataclass(frozen=True, slots=True)
class AlignedDocument:
    """A document, the query that found it, and its alignment with the question.

    `share` is r, the aligned part of all components. `wordings` are other words for components that are not
    aligned. `text` is shown to choosing and verifying calls, empty if the document is irrelevant or was
    `filtered` out.
    """

    passage: Passage
    query: str
    share: float = 0.0
    wordings: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    filtered: bool = False

    @property
    def label(self) -> Label:
        """FULL when every component is aligned, NONE when none is."""
        return "FULL" if self.share == 1 else "PARTIAL" if self.share else "NONE"


def best_first(candidates: Iterable[AlignedDocument]) -> list[AlignedDocument]:
    """Returns `candidates` by label and share, ties in the order given."""
    return sorted(candidates, key=lambda candidate: -candidate.share)


def without_label(
    chosen: Sequence[AlignedDocument], seen: Iterable[AlignedDocument], label: str
) -> list[AlignedDocument]:
    """Returns `chosen` with the documents of `label` replaced by the best aligned others of `seen`."""
    remaining = [c for c in chosen if c.label != label]
    others = [c for c in best_first(seen) if c.label != label and c not in remaining]
    return remaining + others[: len(chosen) - len(remaining)]


def tally(seen: Sequence[AlignedDocument], final: Sequence[AlignedDocument]) -> dict[str, float]:
    """Counts the documents with each label, of all and of the final ones, and the conversion rates.

    The names are `full`, `full_final`, `full_rate` and so on.
    """
    every = {label.lower(): _count(seen, label) for label in LABELS}
    counts = {**every, **{f"{label.lower()}_final": _count(final, label) for label in LABELS}}
    return {**counts, **conversion([counts])}


def conversion(tallies: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns for each label the final documents as a share of all with the label: `full_rate` and so on.

    `tallies` are those of any number of questions; the rate of a label that no document has is absent.
    """
    per_question = list(tallies)
    names = [label.lower() for label in LABELS]
    every = {name: sum(tally[name] for tally in per_question) for name in names}
    final = {name: sum(tally[f"{name}_final"] for tally in per_question) for name in names}
    return {f"{name}_rate": final[name] / every[name] for name in names if every[name]}


def labels_of(candidates: Sequence[AlignedDocument]) -> str:
    """Returns the labels in words, with the number of `candidates` of each."""
    return ", ".join(f"{_count(candidates, label)} {label}" for label in LABELS)


def names_of(candidates: Sequence[AlignedDocument]) -> str:
    """Returns each document in words, by id and label."""
    return ", ".join(f"{candidate.passage.id} {candidate.label}" for candidate in candidates) or "none"


def _count(candidates: Sequence[AlignedDocument], label: Label) -> int:
    return sum(candidate.label == label for candidate in candidates)


SLOTS = (
    "subject", "predicate", "object", "predicative", "attributive", "adverbial", "complement", "apposition",
)  # fmt: skip
MAX_PARTS = 8
"""Components of one question, as many as an alignment can name."""


def components_of(reply: Any, question: str) -> tuple[str, ...]:
    """Returns the parts of a SyntacticParse that occur in `question`, each once; else the whole question.

    At most `MAX_PARTS`; further ones, and parts that do not occur, are dropped and counted.
    """
    components: dict[tuple[str, ...], str] = {}
    dropped = 0
    for slot in SLOTS:
        if part := str(getattr(reply, slot, "")).strip():
            parts, wrong = parts_in(part, question)
            dropped += wrong
            components |= {words_of(name): name for name in parts}
    counters.count(dropped=dropped + max(0, len(components) - MAX_PARTS))
    return tuple(components.values())[:MAX_PARTS] or (question,)


def to_candidate(reply: Any, components: Sequence[str], passage: Passage, query: str) -> AlignedDocument:
    """Returns the candidate that an aligning call's reply describes; drops and counts invalid claims.

    A match without a verdict counts; one that names sentence 0 says that there is none. A piece copied from
    another sentence than the one named counts. Without the output `synonyms` nothing is reworded.
    """
    n = len(components)
    text = format_passage(passage)
    claims = [match for match in reply.aligned if match.segment.strip() and getattr(match, "sentence", 1)]
    sound = [m for m in claims if m.component <= n and is_copied(m.segment, text)]
    real = {match.component for match in sound if getattr(match, "same", True)}
    others = reply.synonyms if "synonyms" in reply else ()
    counters.count(dropped=len(claims) - len(sound) + sum(other.component > n for other in others))
    wordings = {
        components[o.component - 1]: o.wording.strip()
        for o in others
        if o.component <= n and o.component not in real and o.wording.strip()
    }
    return AlignedDocument(passage, query, len(real) / n, wordings)


def reword(query: str, wordings: Mapping[str, str]) -> str:
    """Replaces in `query` every component of `wordings` that occurs there in one piece.

    Longest first if two overlap.
    """
    spans = [(*run, wording) for part, wording in wordings.items() if (run := find_run(part, query))]
    chosen: list[tuple[int, int, str]] = []
    for start, end, wording in sorted(spans, key=lambda span: span[0] - span[1]):
        if all(end <= other[0] or start >= other[1] for other in chosen):
            chosen.append((start, end, wording))
    for start, end, wording in sorted(chosen, reverse=True):
        query = query[:start] + wording + query[end:]
    return query
