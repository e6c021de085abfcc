"""Statistical power before a study: the smallest gain that a number of questions can show.

The test is the one of `resample.paired` and `resample.verdict`. A gain is shown when the verdict is
"better". Some questions get better and some get worse, all by the same amount. For such differences the
sign-flip test is the exact test of McNemar (1947, doi:10.1007/BF02295996), so its power is a sum over the
number of questions that change. Where amounts vary, `headroom.changes` replaces them by one amount and a
share of questions with the same mean of sizes and of squares. scipy is imported on first use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from ragc.metrics.stats.groups import assumed_questions

Counts = NDArray[np.int64]

ALPHA, POWER = 0.05, 0.8

LARGE_GAIN = 0.2
"""No warning is needed when the questions can show a gain below this."""

MOST = 1_000_000
"""The most questions that `questions_needed` looks at."""

STEPS = 2**20
"""Steps from no gain to the greatest one, in which `smallest_gain` searches."""


@dataclass(frozen=True, slots=True)
class Changes:
    """How two settings differ question by question: a share of questions that get worse, and by how much.

    `lost` is the share of questions that get worse under the setting with the higher mean, 0..0.5; those that
    get better are more by the gain. A question changes by `size`: 1 for exact match.
    """

    lost: float
    size: float = 1.0

    def gained(self, gain: float) -> float:
        """Returns the share of questions that get better if the mean rises by `gain`."""
        return self.lost + gain / self.size

    @property
    def most(self) -> float:
        """The greatest gain in the mean: all questions change."""
        return max(0.0, (1 - 2 * self.lost) * self.size)


ASSUMED_CHANGES = Changes(0.1)
"""Assumed before anything is known: one question in ten gets worse."""


MIN_MEASURED = 30
"""The questions from which on a measured share of questions that get worse replaces the usual one."""


def careful_changes(measured: Changes | None, questions: int) -> Changes:
    """Returns the changes to assume after those of `questions` questions were `measured`; else
    `ASSUMED_CHANGES`.

    Few questions may show few losses by luck. Below `MIN_MEASURED` questions at least the usual share of
    losses is therefore assumed.
    """
    if measured is None:
        return ASSUMED_CHANGES
    lost = measured.lost if questions >= MIN_MEASURED else max(measured.lost, ASSUMED_CHANGES.lost)
    return Changes(lost, measured.size)


def least_changes(alpha: float = ALPHA) -> int:
    """Returns the number of questions that must change, all in one direction, for a sign-flip p < `alpha`."""
    return ceil(1 - log2(alpha) + 1e-9)


def power(n: int, gain: float, changes: Changes = ASSUMED_CHANGES, *, alpha: float = ALPHA) -> float:
    """Returns the probability that `n` questions show a true `gain` in the mean: that the verdict is
    "better".

    Exact for 0/1 scores. Returns 0 for a gain above `changes.most`, which cannot occur.
    """
    from scipy.special import bdtrc, gammaln, xlog1py, xlogy

    gained = changes.gained(gain)
    changed = gained + changes.lost
    if n < 1 or not 0 < changed <= 1 + 1e-9:
        return 0.0
    changed = min(changed, 1.0)
    reach = 8 * sqrt(n * changed * (1 - changed)) + 8
    numbers = np.arange(max(0, int(n * changed - reach)), min(n, int(n * changed + reach)) + 1)
    ways = gammaln(n + 1) - gammaln(numbers + 1) - gammaln(n - numbers + 1)
    chances = np.exp(ways + xlogy(numbers, changed) + xlog1py(n - numbers, -changed))
    shown = bdtrc(_not_enough(numbers, alpha), numbers, min(1.0, gained / changed))
    return float((chances * shown).sum())


def smallest_gain(
    n: int, changes: Changes = ASSUMED_CHANGES, *, chance: float = POWER, alpha: float = ALPHA
) -> float | None:
    """Returns the true gain that `n` questions show with probability `chance`; None if no gain is shown so
    often.
    """

    def shown(step: int) -> float:
        return power(n, changes.most * step / STEPS, changes, alpha=alpha)

    step = bisect_left(range(STEPS + 1), chance, key=shown)
    return changes.most * step / STEPS if step <= STEPS else None


def questions_needed(
    gain: float, changes: Changes = ASSUMED_CHANGES, *, chance: float = POWER, alpha: float = ALPHA
) -> int | None:
    """Returns the number of questions that show a true `gain` with probability `chance`; None above `MOST`.

    The test moves in steps, so a few questions more or less may do as well.
    """
    if gain <= 0 or gain > changes.most:
        return None
    n = bisect_left(
        range(MOST), chance, lo=least_changes(alpha), key=lambda n: power(n, gain, changes, alpha=alpha)
    )
    return n if n < MOST else None


def _not_enough(changed: Counts, alpha: float) -> Counts:
    """Returns for each number of `changed` questions how many may get better with p still at least `alpha`.

    For few changed questions that is all of them.
    """
    from scipy.special import bdtrc, ndtri

    near = changed / 2 - ndtri(alpha / 2) * changed**0.5 / 2
    tried = np.clip(near.astype(int)[:, None] + np.arange(-4, 5), 0, changed[:, None])
    enough = bdtrc(tried, changed[:, None], 0.5) < alpha / 2  # p is twice the chance of getting more
    return np.take_along_axis(tried, enough.argmax(axis=1)[:, None], axis=1)[:, 0]


def small_data_note(dev: int | Sequence[int], test: int | Sequence[int], *, folded: bool = False) -> str:
    """Returns a note on what so few dev and test questions cannot show; "" when they are enough.

    The gains are in exact match, if one question in ten gets worse (`ASSUMED_CHANGES`). Questions in groups
    are given by the sizes of their groups, and count as if groups differed as much as
    `groups.ASSUMED_CORRELATION`. Questions that are `folded`, given as dev, are the test too.
    """
    least = least_changes()
    none, weak, some, notes = list[str](), list[str](), list[str](), list[str]()
    for split, questions in (("dev", dev), ("test", test)):
        sizes = [1] * questions if isinstance(questions, int) else list(questions)
        n = sum(sizes)
        apart = "" if n == len(sizes) else f" ({len(sizes)} groups)"
        if not n:
            notes += [] if folded else [f"Without {split} questions nothing is proven."]
        elif len(sizes) < least:
            none.append(f"{n} {split}{apart}")
        elif (gain := smallest_gain(assumed_questions(sizes))) is None:
            weak.append(f"{n} {split}{apart}")
        elif gain > LARGE_GAIN:
            some.append(f"{gain:.2f} with {n} {split} questions{apart}")
    listed = {
        f"{' and '.join(none)} questions cannot show anything: {least} must get better, and none worse, for "
        f"p < {ALPHA:g}.": none,
        f"If one question in ten gets worse, {' and '.join(weak)} questions show no gain in exact match with "
        f"{POWER:.0%} probability, however large.": weak,
        f"The smallest gain in exact match that shows with {POWER:.0%} probability, if one question in ten "
        f"gets worse: {', '.join(some)}.": some,
    }
    return " ".join([*(text for text, named in listed.items() if named), *notes])
