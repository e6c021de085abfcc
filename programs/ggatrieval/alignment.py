"""Alignment of documents with the parts of a question: checks of the model's claims, labels, order, choice.

Paper: GGatrieval, section 3.1 (the labels), section 3.2 with equations 1 to 3 (alignment), sections 4.3 and
4.4 with Tables 3 and 4 (documents of a label left out, conversion rates).
A component counts only if it stands in the question, a segment only if it stands in the document, both up to
case, white space, the shape of quotes and dashes, and punctuation around them.
Documents are ordered by how much of the question they align with; the order decides which are chosen in the
end, and how many of each label those are is counted.
Differs: both checks are ours, computed on the text; an occurrence that begins or ends inside a Latin word or
number does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ragc.core import counters
from ragc.programs.base import format_passage
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
    remaining = [c for c in chosen if c.label != label]
    others = [c for c in best_first(seen) if c.label != label and c not in remaining]
    return remaining + others[: len(chosen) - len(remaining)]


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
    per_question = list(tallies)
    names = [label.lower() for label in LABELS]
    every = {name: sum(tally[name] for tally in per_question) for name in names}
    final = {name: sum(tally[f"{name}_final"] for tally in per_question) for name in names}
    return {f"{name}_rate": final[name] / every[name] for name in names if every[name]}


def labels_of(candidates: Sequence[Candidate]) -> str:
    """The labels with how many of `candidates` have each, in words."""
    return ", ".join(f"{_count(candidates, label)} {label}" for label in LABELS)


def names_of(candidates: Sequence[Candidate]) -> str:
    """Each document by id and label, in words."""
    return ", ".join(f"{candidate.passage.id} {candidate.label}" for candidate in candidates) or "none"


def _count(candidates: Sequence[Candidate], label: Label) -> int:
    return sum(candidate.label == label for candidate in candidates)


SLOTS = (
    "subject", "predicate", "object", "predicative", "attributive", "adverbial", "complement", "apposition",
)  # fmt: skip
_TYPED = str.maketrans("‘’“”‐‑–—", "''\"\"----")
_AROUND = " \t\r\n.,;:!?…\"'"


def components_of(reply: Any, question: str) -> tuple[str, ...]:
    """The filled slots of a SyntacticParse that stand in `question`, each once; else the whole question."""
    parts = [part for slot in SLOTS if (part := str(getattr(reply, slot, "")).strip())]
    components = [part for part in parts if stands_in(part, question)]
    counters.count(dropped=len(parts) - len(components))
    return tuple({_plain(part): part for part in components}.values()) or (question,)


def to_candidate(reply: Any, components: Sequence[str], passage: Passage, query: str) -> Candidate:
    """What an AlignComponent reply says of `passage`, less what does not hold; that is counted.

    Without the output `reflected` every alignment counts, without `synonyms` nothing is reworded.
    """
    n = len(components)
    text = format_passage(passage)
    claims = [match for match in reply.aligned if match.segment.strip()]
    real = {m.component for m in claims if m.component <= n and stands_in(m.segment, text)}
    wrong = sum(m.component > n or not stands_in(m.segment, text) for m in claims)
    if "reflected" in reply:
        claimed = {match.component for match in claims}
        wrong += sum(i not in claimed for i in reply.reflected)
        real &= set(reply.reflected)
    others = reply.synonyms if "synonyms" in reply else ()
    wrong += sum(other.component > n for other in others)
    counters.count(dropped=wrong)
    wordings = {
        components[o.component - 1]: o.wording.strip()
        for o in others
        if o.component <= n and o.component not in real and o.wording.strip()
    }
    return Candidate(passage, query, len(real) / n, wordings)


def stands_in(part: str, text: str) -> bool:
    """Whether `part` occurs in `text` as whole words."""
    return bool(_bare(part)) and re.search(_loose(part), text.translate(_TYPED), re.IGNORECASE) is not None


def reword(query: str, wordings: Mapping[str, str]) -> str:
    """`query` with every component that `wordings` names replaced, longest first, in one pass."""
    parts = sorted((part for part in wordings if _bare(part)), key=len, reverse=True)
    if not parts:
        return query
    pattern = re.compile("|".join(f"({_loose(part)})" for part in parts), re.IGNORECASE)
    return pattern.sub(lambda match: wordings[parts[(match.lastindex or 1) - 1]], query.translate(_TYPED))


def _bare(part: str) -> str:
    return part.translate(_TYPED).strip(_AROUND)


def _plain(text: str) -> str:
    return " ".join(_bare(text).split()).casefold()


def _loose(part: str) -> str:
    """A pattern of `part` with any white space; its ends may not cut a Latin word or number in two."""
    words = _bare(part).split()
    before = "(?<![a-z0-9])" if words[0][0].isascii() and words[0][0].isalnum() else ""
    after = "(?![a-z0-9])" if words[-1][-1].isascii() and words[-1][-1].isalnum() else ""
    return before + r"\s+".join(map(re.escape, words)) + after
