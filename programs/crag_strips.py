"""Strips: a passage cut into short parts, and the parts worth keeping put together again.

Paper: Corrective RAG, section 4.4 (knowledge refinement); the three kinds are those of the authors' code.
Differs: a sentence ends at a full stop, question mark or exclamation mark, and short ones count as others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ragc.records import Passage

KINDS = ("whole", "three_sentences", "fifty_words")

_SENTENCES, _WORDS, _TAIL = 3, 50, 10
"""Sentences of a strip, words of one, and the fewest words that are a strip at the end of a passage."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def strips(passage: Passage, kind: str) -> tuple[Passage, ...]:
    """`passage` cut into strips of a `kind`, in reading order; each keeps its id, title and start."""
    if kind == "whole":
        return (passage,)
    if kind == "three_sentences":
        parts = _grouped(_SENTENCE_END.split(passage.text.strip()), _SENTENCES)
    else:
        parts = _grouped(passage.text.split(), _WORDS)
        if len(parts) > 1 and len(parts[-1]) < _TAIL:
            parts = [*parts[:-2], parts[-2] + parts[-1]]
    texts = [" ".join(part) for part in parts]
    return tuple(replace(passage, text=text) for text in dict.fromkeys(texts) if text)


def _grouped(units: list[str], size: int) -> list[list[str]]:
    return [units[i : i + size] for i in range(0, len(units), size)]


def recomposed(best: Sequence[Passage], order: Iterable[Passage]) -> tuple[Passage, ...]:
    """The strips in `best` joined into one passage for each id.

    Passages come in the order of `best`, the strips of one in reading order, which is that of `order`.
    """
    texts: dict[str, list[str]] = {strip.id: [] for strip in best}
    chosen = set(best)
    for strip in dict.fromkeys(order):
        if strip in chosen:
            texts[strip.id].append(strip.text)
    first = {strip.id: strip for strip in reversed(best)}
    return tuple(replace(first[id], text=" ".join(parts)) for id, parts in texts.items())
