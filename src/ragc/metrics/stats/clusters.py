"""Questions in groups: how many independent questions they are worth, and sums over groups for tests.

Questions about one document share what makes it easy or hard, so ten of them tell less than ten questions
about ten documents. Groups, not questions, are taken as independent, and all groups as alike: a score is the
sum of a level, an effect of its group and a rest, and the size of a group is unrelated to its effect.

`effective_share` is the number of independent questions with the same uncertainty, divided by the number of
questions. With it the intervals for independent questions hold for groups (Korn and Graubard 1998 do so for
the interval of Clopper and Pearson in surveys): they draw as many weights, and keep their unseen question.
The intraclass correlation is unknown: the likelihood of the group means and the rest within groups (REML) is
evaluated on a grid, with a uniform prior on correlations from 0 to 1, and the half width of the mean is that
of the mixture of Student's t distributions. So few groups widen the interval instead of a count of degrees of
freedom. If every group has one question the share is 1, and nothing changes.

Tests flip the signs of group sums (`resampling.sign_flip`): exact when the two systems are exchangeable
within groups, whatever the sizes. With fewer than `MIN_GROUPS` groups no p is below .05.

`experiments/benchmarks/scoring/groups.py` measures coverage, widths and false claims, and those of
alternatives. numpy and scipy are imported on first use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Codes = NDArray[np.intp]

MIN_GROUPS = 6
"""With fewer groups no difference can be shown: of five, all in one direction, p is 2/32."""

ASSUMED_CORRELATION = 0.2
"""The intraclass correlation assumed before anything is measured."""

MAX_CORRELATION = 0.98
"""The greatest correlation for which the likelihood is evaluated."""

GRID_SIZE = 33
"""Correlations for which the likelihood is evaluated, denser near 0."""

BISECTIONS = 50
"""Halvings in the search for the half width."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of some questions: `codes` has the group of each question, 0 to the number of groups - 1."""

    codes: Codes
    sizes: Array

    @classmethod
    def of(cls, labels: Sequence[str] | None) -> Groups | None:
        """Returns the groups named by `labels`, one a question; "" is a group of its own.

        None without labels, and when every group has one question: such questions are independent.
        """
        if not labels or not any(labels):
            return None
        import numpy as np

        numbers: dict[str, int] = {}
        codes = [
            numbers.setdefault(label or f"\0{index}", len(numbers)) for index, label in enumerate(labels)
        ]
        if len(numbers) == len(codes):
            return None
        array = np.array(codes, dtype=np.intp)
        return cls(array, np.bincount(array).astype(np.float64))

    def __len__(self) -> int:
        return len(self.sizes)

    def sums(self, values: Array) -> Array:
        """Returns the sum of `values` (questions, or questions x columns) over each group."""
        import numpy as np

        totals = np.zeros((len(self.sizes), *values.shape[1:]))
        np.add.at(totals, self.codes, values)
        return totals


def count_groups(labels: Iterable[str]) -> int:
    """Returns the number of groups that `labels` name; every "" is one of its own."""
    listed = list(labels)
    return len(set(filter(None, listed))) + listed.count("")


def run_lengths(labels: Sequence[str]) -> tuple[int, ...]:
    """Returns the sizes of runs of equal `labels`, in order; () when every group has one question.

    Questions of a group follow each other in the order of a study.
    """
    lengths: list[int] = []
    before = ""
    for label in labels:
        if label and label == before:
            lengths[-1] += 1
        else:
            lengths.append(1)
        before = label
    return tuple(lengths) if any(length > 1 for length in lengths) else ()


def assumed_questions(sizes: Collection[int]) -> int:
    """Returns how many independent questions groups of these `sizes` are worth, before any measurement.

    Computed at `ASSUMED_CORRELATION`. At least the number of groups that would be worth as much if questions
    of a group were all alike, at most the number of questions.
    """
    total = sum(sizes)
    if not total:
        return 0
    inflation = 1 + ASSUMED_CORRELATION * (sum(size * size for size in sizes) / total - 1)
    return max(1, round(total / inflation))


def effective_share(values: Array, groups: Groups, confidence: float = 0.95) -> float:
    """Returns the share, above 0 and at most 1, of independent questions among `values`, one a question.

    The mean of so many independent questions with the same spread has an interval as wide. If all values are
    equal the correlation is unknown, and questions of a group count as alike. The result does not depend on
    the order of questions and groups.
    """
    import numpy as np

    n = len(values)
    alike = n / float((groups.sizes**2).sum())
    centred = values - float(np.sort(values).sum()) / n
    greatest = float(np.abs(centred).max())
    if greatest <= 1e-12 * float(np.abs(values).max()):
        return alike
    centred /= greatest
    by_value = np.argsort(values, kind="stable")
    sums = Groups(groups.codes[by_value], groups.sizes).sums(centred[by_value]).round(9)
    order = np.lexsort((sums, groups.sizes))
    sums, sizes = sums[order], groups.sizes[order]
    means = sums / sizes
    total = float((np.sort(centred) ** 2).sum())
    within = max(0.0, total - float((sizes * means**2).sum()))
    half_width, alone = _half_widths(means, sizes, within, total, confidence)
    return float(min(1.0, max((alone / half_width) ** 2, 1 / n)))


def _half_widths(
    means: Array, sizes: Array, within: float, total: float, confidence: float
) -> tuple[float, float]:
    """Returns the half width of the mean's interval with groups, and that for independent questions."""
    import numpy as np
    from scipy.special import stdtr, stdtrit

    n = float(sizes.sum())
    rho = MAX_CORRELATION * np.linspace(0, 1, GRID_SIZE) ** 2
    # Less variance within groups than the grid can explain would be taken for less variance in all.
    least = (1 - MAX_CORRELATION) / MAX_CORRELATION * float(((means - means.mean()) ** 2).sum())
    within = max(within, (n - len(sizes)) / max(1, len(sizes) - 1) * least)
    spread = rho[:, None] + (1 - rho[:, None]) / sizes
    precision = 1 / spread
    centres = (precision @ means) / precision.sum(axis=1)
    squares = within / (1 - rho) + (precision * (means - centres[:, None]) ** 2).sum(axis=1)
    likelihood = -0.5 * (
        (n - 1) * np.log(np.maximum(squares, 1e-300))
        + np.log(spread).sum(axis=1)
        + (n - len(sizes)) * np.log1p(-rho)
        + np.log(precision.sum(axis=1))
    )
    weights = np.exp(likelihood - likelihood.max()) * np.gradient(rho)
    weights /= weights.sum()
    errors = np.sqrt(squares / (n - 1) * (1 + rho * ((sizes**2).sum() / n - 1)) / n)
    level = (1 + confidence) / 2
    low, high = 0.0, float(errors.max() * stdtrit(n - 1, level))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        covered = float((weights * stdtr(n - 1, middle / errors)).sum())
        low, high = (middle, high) if covered < level else (low, middle)
    return high, float(np.sqrt(total / (n - 1) / n) * stdtrit(n - 1, level))
