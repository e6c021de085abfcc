"""The order of ids, for corpora whose ids are bytes on disk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def order(text: NDArray[np.uint8], starts: Ints, ends: Ints) -> Ints:
    """The positions of the ids `text[start:end]`, UTF-8, sorted as Python sorts them as strings.

    Equal ids keep their order. Takes as many bytes of memory as there are ids, times the longest.
    """
    if not len(starts):
        return np.empty(0, dtype=np.int64)
    lengths = ends - starts
    width = max(1, int(lengths.max()))
    table = np.zeros((len(starts), width), dtype=np.uint8)
    for at in range(width):
        longer = np.flatnonzero(lengths > at)
        table[longer, at] = text[starts[longer] + at]
    # UTF-8 sorts as code points do. Zeros at the end do not count, and no id has any there.
    return np.argsort(table.view(f"S{width}").ravel(), kind="stable")


def ranks(sorted_positions: Ints) -> NDArray[np.int32]:
    """The place of each position in an order."""
    out = np.empty(len(sorted_positions), dtype=np.int32)
    out[sorted_positions] = np.arange(len(sorted_positions), dtype=np.int32)
    return out
