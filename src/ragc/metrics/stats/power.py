"""What so many questions can show at all, to be said before any of them is asked."""

from __future__ import annotations

from math import ceil, comb, log2

ALPHA, POWER = 0.05, 0.8

LARGE = 0.2
"""Questions that show smaller gains than this are enough to say nothing about."""


def least_changes(alpha: float = ALPHA) -> int:
    """How many questions must change, all in one direction, before a sign-flip test has p < `alpha`."""
    return ceil(1 - log2(alpha) + 1e-9)


def smallest_gain(n: int, *, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """The true gain in a 0/1 score that `n` questions show with probability `power`; None for no gain at all.

    At best: where no question gets worse, each gains with the same probability. It is exact for that case.
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
    """What so many dev and test questions cannot show, on one line; "" when they are enough."""
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
