"""The outcomes to expect of a gate on questions in groups, by simulated runs.

A question follows a draw of its group so often that the changes of two questions of a group have the assumed
correlation. The formula for independent questions misses these shares by up to .4: few questions' worth of
changes are coarser than many questions' changes in groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from ragc.metrics.stats.clusters import (
    ASSUMED_CORRELATION,
    MIN_GROUPS,
    Groups,
    assumed_questions,
    effective_share,
)
from ragc.metrics.stats.noninferiority import ALPHA, Outcome, Shares, expected_shares, p_above
from ragc.metrics.stats.resampling import sign_flip

if TYPE_CHECKING:
    from ragc.metrics.stats.clusters import Array

RUNS = 2_000
"""Simulated runs for the shares of one row."""

MOST_GROUPS = 60
"""Groups beyond which the formula takes their place: simulated runs would take minutes."""


def shares_in_groups(
    sizes: Sequence[int], loss: float, changed: float, allowed: float, alpha: float = ALPHA
) -> Shares | None:
    """Returns the shares of outcomes for groups of these `sizes`, as `expected_shares` does."""
    if max(sizes, default=1) == 1 or len(sizes) > MOST_GROUPS:
        return expected_shares(assumed_questions(sizes), loss, changed, allowed, alpha)
    return simulated_shares(sizes, loss, changed, allowed, alpha, runs=RUNS)


def simulated_shares(
    sizes: Sequence[int],
    loss: float,
    changed: float,
    allowed: float,
    alpha: float = ALPHA,
    *,
    runs: int,
    correlation: float = ASSUMED_CORRELATION,
    seed: int = 0,
) -> Shares | None:
    """Returns the shares of `runs` with each outcome, where changes in a group have the `correlation`.

    None if fewer questions change than the loss takes.
    """
    import numpy as np

    if not loss <= changed <= 1:
        return None
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    outcome = _outcomes(Groups(codes, np.array(sizes, dtype=np.float64)), allowed, alpha)
    kinds, chances = [-1.0, 0.0, 1.0], [(changed + loss) / 2, 1 - changed, (changed - loss) / 2]
    counts = {"no loss": 0, "drop": 0, "cannot tell": 0}
    for _ in range(runs):
        own, shared = rng.choice(kinds, len(codes), p=chances), rng.choice(kinds, len(sizes), p=chances)
        follows = rng.random(len(codes)) < correlation**0.5
        counts[outcome(np.where(follows, shared[codes], own))] += 1
    no_loss, drop, cannot_tell = (count / runs for count in counts.values())
    return Shares(loss, changed, no_loss, drop, cannot_tell)


def _outcomes(groups: Groups, allowed: float, alpha: float) -> Callable[[Array], Outcome]:
    """Returns what tells the outcome of changes of -1, 0 and 1, as `margin` does; faster over many runs."""
    import numpy as np

    n = len(groups.codes)
    assumed = assumed_questions([int(size) for size in groups.sizes])

    @cache
    def p_loss(worse: int, better: int, effective: int) -> float:
        changes = np.array([-1.0] * worse + [1.0] * better + [0.0] * (n - worse - better))
        return p_above(changes, -allowed, -1.0, effective)

    @cache
    def p_drop(sums: tuple[float, ...]) -> float:
        return sign_flip(np.array(sums), 0) / 2

    def outcome(changes: Array) -> Outcome:
        worse, better = int((changes < 0).sum()), int((changes > 0).sum())
        if len(groups) < MIN_GROUPS:
            return "cannot tell"
        if p_loss(worse, better, assumed) <= ALPHA:  # fewer questions than are assumed show less
            effective = min(assumed, int(effective_share(changes, groups) * n + 1e-9))
            if p_loss(worse, better, effective) <= ALPHA:
                return "no loss"
        if worse > better and p_drop(tuple(np.sort(groups.sums(changes)).tolist())) <= alpha:
            return "drop"
        return "cannot tell"

    return outcome
