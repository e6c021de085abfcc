"""Statistical power before a study: the smallest gain that a number of questions can show."""

from __future__ import annotations

from math import ceil, comb, log2

ALPHA, POWER = 0.05, 0.8

LARGE = 0.2
"""No warning is needed when the questions can show a gain below this."""


def least_changes(alpha: float = ALPHA) -> int:
    """The number of questions that must change, all in one direction, for a sign-flip p < `alpha`."""
    return ceil(1 - log2(alpha) + 1e-9)


def smallest_gain(n: int, *, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """The true gain in a 0/1 score that `n` questions show with probability `power`; None if there is none.

    This is the best case, for which it is exact: no question gets worse, and each gains with the same
    probability.
    """
    least = least_changes(alpha)
    if n < least:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if _at_least(least, n, middle) >= power else (middle, high)
    return high


def small_data_note(dev: int, test: int) -> str:
    """A one-line warning on what so many dev and test questions cannot show; "" when they are enough."""
    sizes = {"dev": dev, "test": test}
    gains = {split: smallest_gain(n) for split, n in sizes.items()}
    none = [f"{n} {split}" for split, n in sizes.items() if n and gains[split] is None]
    some = [(f"{sizes[split]} {split}", gain) for split, gain in gains.items() if gain and gain > LARGE]
    notes = []
    if none:
        notes.append(
            f"{' and '.join(none)} questions cannot show anything: {least_changes()} must get better, and "
            f"none worse, for p < {ALPHA:g}."
        )
    if some:
        named = ", ".join(f"{gain:.2f} with {questions} questions" for questions, gain in some)
        notes.append(
            f"The smallest gain in exact match that shows with {POWER:.0%} probability, if none gets worse: "
            f"{named}."
        )
    notes += [f"Without {split} questions nothing is proven." for split, n in sizes.items() if not n]
    return " ".join(notes)


def _at_least(k: int, n: int, chance: float) -> float:
    """The probability of `k` or more successes in `n` draws."""
    return 1 - sum(comb(n, i) * chance**i * (1 - chance) ** (n - i) for i in range(k))
