"""Strips: a passage cut into short parts, and the parts worth keeping put together again.

Paper: Corrective RAG, knowledge refinement (section 4.4; METHODS section 6).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ragc.records import Passage

KINDS = ("whole", "three_sentences", "fifty_words")

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def strips(passage: Passage, kind: str) -> tuple[Passage, ...]:
    """`passage` cut into strips of a `kind`, in reading order; each keeps its id, title and start."""
    if kind == "whole":
        return (passage,)
    units = _SENTENCE_END.split(passage.text.strip()) if kind == "three_sentences" else passage.text.split()
    size = 3 if kind == "three_sentences" else 50
    texts = [" ".join(units[i : i + size]) for i in range(0, len(units), size)]
    return tuple(replace(passage, text=text) for text in dict.fromkeys(texts) if text)


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
