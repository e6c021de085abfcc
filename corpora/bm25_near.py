"""The few best of many scores, found without putting all of them in order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PLACES = 9
"""Scores are rounded to so many decimals: the order of the terms of a query must not break a tie."""

_FEW = 8192  # up to so many, numpy sorts faster than it selects
_GROUP = 256  # scores whose greatest is found first, to skip most of them


def nearly_best(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """The positions of the `k` best scores above 0, and of those that round to the same as the last."""
    whole = len(scores) // _GROUP
    grouped = len(scores) > _FEW and whole > k
    # The k-th of the groups' greatest is at most the k-th score.
    least = _kth(scores[: whole * _GROUP].reshape(whole, _GROUP).max(axis=1) if grouped else scores, k)
    # A little below: what rounds to the same score takes part in the tie.
    near = np.flatnonzero(scores >= least - 10.0**-PLACES if least > 0 else scores > 0)
    if grouped and len(near) > k:
        close = scores[near]
        near = near[close >= _kth(close, k) - 10.0**-PLACES]
    return near


def _kth(scores: NDArray[np.float64], k: int) -> float:
    """The `k`-th best; 0 when there are fewer."""
    if len(scores) < k:
        return 0.0
    return float((np.sort(scores) if len(scores) <= _FEW else np.partition(scores, -k))[-k])
