"""The draws behind intervals and tests: Bayesian bootstraps and sign flips, for one or many columns.

Columns that are compared together share one weight and one sign per question. That preserves their
correlation, and 50 programs cost little more than one. numpy is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

EXACT = 14
"""With at most this many differing questions every sign pattern is enumerated."""
FLIPS = 9999
"""Number of random sign patterns otherwise; p is then at least 1/(FLIPS + 1)."""
DRAWS = 10_000
"""Number of bootstrap draws of an interval; ends vary by about 2% of the width."""
FEWER_BEYOND = 10_000
"""Number of questions beyond which fewer are drawn, because a draw costs time by question."""
DRAWS_OF_MANY = 1_000
"""Number of bootstrap draws beyond `FEWER_BEYOND` questions; ends vary by about 5% of the width."""
FLIPS_OF_MANY = 999
"""Number of random sign patterns beyond `FEWER_BEYOND` questions; p is then at least 1/1000."""
TOLERANCE = 1e-9
"""Sums that differ by less than this share of all sizes are equal: the order of adding must not matter."""


class Draws(NamedTuple):
    """`draws_for(n)` reweighted sums: of scores times weights, of weights; weight of the unseen question."""

    weighted: Array
    total: Array
    unseen: Array


def draws_for(n: int) -> int:
    """Returns the number of bootstrap draws for `n` questions."""
    return DRAWS if n <= FEWER_BEYOND else DRAWS_OF_MANY


def flips_for(n: int) -> int:
    """Returns the number of random sign patterns for `n` questions, where not all are enumerated."""
    return FLIPS if n <= FEWER_BEYOND else FLIPS_OF_MANY


def joint_draws(values: Array, seen: Array, seed: int, share: float = 1.0) -> Draws:
    """Draws every column of `values` (questions x columns), with one weight per question for all of them.

    `share` is that of independent questions among them (`clusters.effective_share`).

    `seen` is 1 if the question counts in the column, otherwise 0; there `values` must be 0 too. `weighted`
    and `total` have the shape (draws, columns), `unseen` (draws,), with `draws_for` the questions.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    size = max(1, 2_000_000 // len(values))
    count = draws_for(len(values))
    weighted, total = np.empty((2, count, values.shape[1]))
    for start in range(0, count, size):
        shape = (min(size, count - start), len(values))
        weights = rng.standard_exponential(shape) if share == 1 else rng.standard_gamma(share, shape)
        weighted[start : start + size], total[start : start + size] = weights @ values, weights @ seen
    return Draws(weighted, total, rng.standard_exponential(count))


def sign_flip(differences: Array, seed: int) -> float:
    """Returns the two-sided p of the sum of `differences` under random signs, the same in any order.

    This is `scipy.stats.permutation_test` of one sample with `permutation_type="samples"`: equal to it when
    enumerated, and several times as fast when drawn.
    """
    import numpy as np

    sizes = np.sort(np.abs(differences[differences != 0]))
    observed = abs(float(differences.sum())) - TOLERANCE * float(sizes.sum())
    extreme = sum(int((np.abs(signs @ sizes) >= observed).sum()) for signs in signs_of(len(sizes), seed))
    return share(extreme, len(sizes))


def signs_of(n: int, seed: int, columns: int = 1) -> Iterator[Array]:
    """Yields sign patterns of `n` questions in blocks of rows: all 2**n up to `EXACT`, else `flips_for(n)`.

    Blocks are smaller for more `columns`, to bound the memory of what is computed from them.
    """
    import numpy as np

    if n <= EXACT:
        bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
        yield 2 * bits.astype(np.float64) - 1
        return
    rng = np.random.default_rng(seed)
    size = max(1, 4_000_000 // max(n, columns))
    count = flips_for(n)
    for start in range(0, count, size):
        bits = rng.integers(0, 2, (min(size, count - start), n), dtype=np.int8)
        yield 2 * bits.astype(np.float64) - 1


def share(extreme: int, n: int) -> float:
    """Returns the p-value when `extreme` patterns of `signs_of(n)` reach the observed sum."""
    return extreme / 2**n if n <= EXACT else (extreme + 1) / (flips_for(n) + 1)
