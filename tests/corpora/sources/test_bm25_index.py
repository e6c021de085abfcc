"""The best of many scores, against putting all of them in order."""

from __future__ import annotations

import numpy as np
import pytest

from ragc.corpora.sources.bm25.index import PLACES, nearly_best


@pytest.mark.parametrize("size", [0, 1, 4, 255, 3000, 8192, 8193, 50_000])
@pytest.mark.parametrize("kinds", [2, 30, 10**9])
def test_the_best_and_all_that_tie_with_the_last_are_found(size: int, kinds: int) -> None:
    rng = np.random.default_rng(size + kinds)
    for k in (1, 3, 20):
        scores = rng.integers(0, kinds, size) / kinds * (rng.random(size) < 0.6)
        positions = set(nearly_best(scores, k).tolist())
        above = np.sort(scores[scores > 0])[::-1]
        least = above[k - 1] - 10.0**-PLACES if len(above) >= k else 0.0
        assert positions == set(np.flatnonzero((scores > 0) & (scores >= least)).tolist())
