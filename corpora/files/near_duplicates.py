"""Near duplicates: questions whose texts differ by a respelling or a word.

Two texts, in lower case and without punctuation, are near duplicates if they have the same numbers and the
sets of their character trigrams overlap by `THRESHOLD` or more (Jaccard).
How often that is wrong was measured, see experiments/LOG.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from ragc.corpora.files.splits import normalise
from ragc.records import Question

THRESHOLD = 0.75
"""The least overlap of the trigrams of near duplicates, from 0 to 1."""


def near_duplicates(questions: Sequence[Question], others: Sequence[Question]) -> dict[str, str]:
    """Returns the id of the most similar near duplicate among `others`, by the ids of `questions` that have
    one.
    """
    grams_of = [trigrams(second.whole_text) for second in others]
    numbers_of = [re.findall(r"\d+", second.whole_text) for second in others]
    positions: dict[str, list[int]] = {}
    for position, grams in enumerate(grams_of):
        for gram in grams:
            positions.setdefault(gram, []).append(position)
    nearest_ids = {}
    for question in questions:
        grams = trigrams(question.whole_text)
        numbers = re.findall(r"\d+", question.whole_text)  # with other years or counts they are others
        shared = Counter(chain.from_iterable(positions.get(gram, ()) for gram in grams))
        similar = [
            (n / (len(grams) + len(grams_of[position]) - n), -position)
            for position, n in shared.items()
            if n >= THRESHOLD * len(grams) and numbers_of[position] == numbers
        ]
        if similar and (nearest := max(similar))[0] >= THRESHOLD:
            nearest_ids[question.id] = others[-nearest[1]].id
    return nearest_ids


def trigrams(text: str) -> frozenset[str]:
    """Returns the character trigrams of the normalised `text`, with two spaces before it and one behind."""
    padded = f"  {normalise(text)} "
    return frozenset(padded[position : position + 3] for position in range(len(padded) - 2))
