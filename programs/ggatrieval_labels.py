"""Documents by how much of the question they align with: labels, order, and how many are chosen in the end.

Paper: GGatrieval, section 3.1 (the labels), sections 4.3 and 4.4 with Tables 3 and 4 (documents of a label
left out, conversion rates).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragc.records import Passage

Label = Literal["FULL", "PARTIAL", "NONE"]
LABELS: tuple[Label, ...] = ("FULL", "PARTIAL", "NONE")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document, the query that found it, and how much of the question it aligns with.

    `share` is r, the aligned part of all components. `wordings` gives other words for components that
    are not aligned. `text` is what choosing and verifying calls see of it, empty when it is irrelevant.
    """

    passage: Passage
    query: str
    share: float = 0.0
    wordings: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    @property
    def label(self) -> Label:
        """FULL when every component is aligned, NONE when none is."""
        return "FULL" if self.share == 1 else "PARTIAL" if self.share else "NONE"


def best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """`candidates` by label and share, ties in the order given."""
    return sorted(candidates, key=lambda candidate: -candidate.share)


def without_label(chosen: Sequence[Candidate], seen: Iterable[Candidate], label: str) -> list[Candidate]:
    """`chosen` with the documents of `label` replaced by the best aligned others of `seen`."""
    kept = [c for c in chosen if c.label != label]
    others = [c for c in best_first(seen) if c.label != label and c not in kept]
    return kept + others[: len(chosen) - len(kept)]


def tally(seen: Sequence[Candidate], final: Sequence[Candidate]) -> dict[str, float]:
    """How many documents have each label, of all and of the final ones, and the conversion rates.

    The names are `full`, `full_final`, `full_rate` and so on.
    """
    every = {label.lower(): _count(seen, label) for label in LABELS}
    counts = {**every, **{f"{label.lower()}_final": _count(final, label) for label in LABELS}}
    return {**counts, **conversion([counts])}


def conversion(tallies: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The share of all documents of each label that is among the final ones: `full_rate` and so on.

    `tallies` are those of any number of questions; the rate of a label that no document has is absent.
    """
    given = list(tallies)
    names = [label.lower() for label in LABELS]
    every = {name: sum(tally[name] for tally in given) for name in names}
    final = {name: sum(tally[f"{name}_final"] for tally in given) for name in names}
    return {f"{name}_rate": final[name] / every[name] for name in names if every[name]}


def labels_of(candidates: Sequence[Candidate]) -> str:
    """The labels with how many of `candidates` have each, in words."""
    return ", ".join(f"{_count(candidates, label)} {label}" for label in LABELS)


def names_of(candidates: Sequence[Candidate]) -> str:
    """Each document by id and label, in words."""
    return ", ".join(f"{candidate.passage.id} {candidate.label}" for candidate in candidates) or "none"


def _count(candidates: Sequence[Candidate], label: Label) -> int:
    return sum(candidate.label == label for candidate in candidates)
