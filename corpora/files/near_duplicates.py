"""Near duplicates: questions whose texts differ by a respelling or a word.

Two texts, in lower case and without punctuation, are near duplicates if they have the same numbers and the
sets of their character trigrams overlap by `THRESHOLD` or more (Jaccard).
How often that is wrong was measured, see experiments/LOG.md.

Candidates are found by their rarest trigrams: of two sets with that overlap, the rarest ones share one.
Paper: Chaudhuri, Ganti and Kaushik 2006, A Primitive Operator for Similarity Joins in Data Cleaning (ICDE).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from ragc.corpora.files.splits import normalise
from ragc.records import Question

THRESHOLD = 0.75
"""The least overlap of the trigrams of near duplicates, from 0 to 1."""

Trigrams = frozenset[str]


def near_duplicates(questions: Sequence[Question], others: Sequence[Question]) -> dict[str, str]:
    """Returns the id of the most similar near duplicate among `others`, by the ids of `questions` that have
    one.
    """
    grams_of = [trigrams(second.whole_text) for second in others]
    numbers_of = [re.findall(r"\d+", second.whole_text) for second in others]
    counts = Counter(gram for grams in grams_of for gram in grams)
    postings: dict[str, list[int]] = {}
    for position, grams in enumerate(grams_of):
        for gram in _rarest(grams, counts):
            postings.setdefault(gram, []).append(position)
    nearest_ids = {}
    for question in questions:
        grams = trigrams(question.whole_text)
        candidates = {position for gram in _rarest(grams, counts) for position in postings.get(gram, ())}
        numbers = re.findall(r"\d+", question.whole_text)  # with other years or counts they are others
        similar = [
            (overlap(grams, grams_of[position]), -position)
            for position in candidates
            if numbers_of[position] == numbers
        ]
        if similar and (nearest := max(similar))[0] >= THRESHOLD:
            nearest_ids[question.id] = others[-nearest[1]].id
    return nearest_ids


def trigrams(text: str) -> Trigrams:
    """Returns the character trigrams of the normalised `text`, with two spaces before it and one behind."""
    padded = f"  {normalise(text)} "
    return frozenset(padded[position : position + 3] for position in range(len(padded) - 2))


def overlap(first: Trigrams, second: Trigrams) -> float:
    """Returns the Jaccard similarity of two sets, from 0 to 1."""
    return len(first & second) / len(first | second)


def _rarest(grams: Trigrams, counts: Mapping[str, int]) -> list[str]:
    """Returns enough of the rarest `grams` that every set with the required overlap contains one of them."""
    needed = -int(-THRESHOLD * len(grams) // 1)
    return sorted(grams, key=lambda gram: (counts.get(gram, 0), gram))[: len(grams) - needed + 1]
