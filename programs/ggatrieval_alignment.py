"""Labels of documents, and the checks on what a model says about alignment (GGatrieval, METHODS section 3).

A component counts only if it stands in the question, a segment only if it stands in the document, both
up to case and white space.
Differs: both checks are ours, made on the text; an occurrence that begins or ends inside a Latin word or
number does not count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ragc import counters
from ragc.programs.base import shown
from ragc.records import Passage

Label = Literal["FULL", "PARTIAL", "NONE"]
LABELS: tuple[Label, ...] = ("FULL", "PARTIAL", "NONE")
SLOTS = (
    "subject", "predicate", "object", "predicative", "attributive", "adverbial", "complement", "apposition",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document, the query that found it, and how much of the question it aligns with.

    `share` is r, the aligned part of all components. `wordings` gives other words for components
    that are not aligned.
    """

    passage: Passage
    query: str
    share: float = 0.0
    wordings: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> Label:
        """FULL when every component is aligned, NONE when none is."""
        return "FULL" if self.share == 1 else "PARTIAL" if self.share else "NONE"


def components_of(said: Any, question: str) -> tuple[str, ...]:
    """The filled slots of a SyntacticParse that stand in `question`, each once; else the whole question."""
    parts = [part for slot in SLOTS if (part := str(getattr(said, slot, "")).strip())]
    found = [part for part in parts if stands_in(part, question)]
    counters.count(dropped=len(parts) - len(found))
    return tuple({_plain(part): part for part in found}.values()) or (question,)


def judged(said: Any, components: Sequence[str], passage: Passage, query: str) -> Candidate:
    """What an AlignComponent reply says of `passage`, less what does not hold; that is counted.

    Without the output `reflected` every alignment counts, without `synonyms` nothing is reworded.
    """
    n = len(components)
    text = shown(passage)
    claims = [match for match in said.aligned if match.segment.strip()]
    real = {m.component for m in claims if m.component <= n and stands_in(m.segment, text)}
    wrong = sum(m.component > n or not stands_in(m.segment, text) for m in claims)
    if "reflected" in said:
        claimed = {match.component for match in claims}
        wrong += sum(i not in claimed for i in said.reflected)
        real &= set(said.reflected)
    others = said.synonyms if "synonyms" in said else ()
    wrong += sum(other.component > n for other in others)
    counters.count(dropped=wrong)
    wordings = {
        components[o.component - 1]: o.wording.strip()
        for o in others
        if o.component <= n and o.component not in real and o.wording.strip()
    }
    return Candidate(passage, query, len(real) / n, wordings)


def stands_in(part: str, text: str) -> bool:
    """Whether `part` occurs in `text` as whole words, up to case and white space."""
    return bool(part.strip()) and re.search(_loose(part), text, re.IGNORECASE) is not None


def reworded(query: str, wordings: Mapping[str, str]) -> str:
    """`query` with every component that `wordings` names replaced, longest first, in one pass."""
    parts = sorted(wordings, key=len, reverse=True)
    if not parts:
        return query
    pattern = re.compile("|".join(f"({_loose(part)})" for part in parts), re.IGNORECASE)
    return pattern.sub(lambda found: wordings[parts[(found.lastindex or 1) - 1]], query)


def tally(seen: Sequence[Candidate], final: Sequence[Candidate]) -> dict[str, float]:
    """How many documents have each label, of all and of the final ones (`full`, `full_final`, ...)."""
    every = {label.lower(): sum(c.label == label for c in seen) for label in LABELS}
    return {**every, **{f"{label.lower()}_final": sum(c.label == label for c in final) for label in LABELS}}


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _loose(part: str) -> str:
    """A pattern of `part` with any white space; its ends may not cut a Latin word or number in two."""
    words = part.split()
    before = "(?<![a-z0-9])" if words[0][0].isascii() and words[0][0].isalnum() else ""
    after = "(?![a-z0-9])" if words[-1][-1].isascii() and words[-1][-1].isalnum() else ""
    return before + r"\s+".join(map(re.escape, words)) + after
