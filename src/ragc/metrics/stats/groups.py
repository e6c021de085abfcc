"""Questions in groups: how many independent questions they are worth, and sums over groups for tests.

Questions about one document share what makes it easy or hard, so ten of them tell less than ten questions
about ten documents. Groups, not questions, are taken as independent, and their size as unrelated to their
scores.

Intervals treat the questions as fewer independent ones (`effective_share`), as Korn and Graubard (1998) do
for the interval of Clopper and Pearson. Tests flip the signs of group sums, which is exact when two systems
are exchangeable within groups. `experiments/benchmarks/scoring/groups.py` measures coverage, widths and false
claims.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MIN_GROUPS = 6
"""With fewer groups no difference can be shown: of five, all in one direction, p is 2/32."""

ASSUMED_CORRELATION = 0.2
"""The intraclass correlation assumed before anything is measured."""

Labels = Sequence[str]
"""The label of each question's group, "" for a group of its own."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of some questions: `codes` has the group of each question, 0 to the number of groups - 1."""

    codes: NDArray[np.intp]
    sizes: Array

    @classmethod
    def of(cls, labels: Labels | None) -> Groups | None:
        """Returns the groups named by `labels`, one a question; "" is a group of its own.

        None without labels, and when every group has one question: such questions are independent.
        """
        if not labels or not any(labels):
            return None
        import numpy as np

        distinct = [label or f"\0{index}" for index, label in enumerate(labels)]
        _, codes, sizes = np.unique(distinct, return_inverse=True, return_counts=True)
        return cls(codes, sizes.astype(np.float64)) if sizes.max() > 1 else None

    def __len__(self) -> int:
        return len(self.sizes)

    def sums(self, values: Array) -> Array:
        """Returns the sum of `values` (questions, or questions x columns) over each group."""
        import numpy as np

        totals = np.zeros((len(self.sizes), *values.shape[1:]))
        np.add.at(totals, self.codes, values)
        return totals


def size_of(groups: Groups | None) -> int | None:
    """Returns the number of `groups`; None for independent questions."""
    return None if groups is None else len(groups)


def too_few(groups: int | None) -> bool:
    """Returns whether so few groups of questions cannot show any difference."""
    return groups is not None and groups < MIN_GROUPS


def in_groups(groups: int | None) -> str:
    """Returns the suffix of a number of questions, such as " in 12 groups"; "" for independent ones."""
    return "" if groups is None else f" in {groups} group{'' if groups == 1 else 's'}"


def groups_json(groups: int | None) -> dict[str, int]:
    """Returns the entry of the number of groups in JSON; {} for independent questions."""
    return {} if groups is None else {"groups": groups}


def labels_where(groups: Labels | None, scores: Sequence[float | None]) -> list[str] | None:
    """Returns the labels of the questions that have a score."""
    if groups is None:
        return None
    return [label for label, score in zip(groups, scores, strict=True) if score is not None]


def count_groups(labels: Iterable[str]) -> int:
    """Returns the number of groups that `labels` name; every "" is one of its own."""
    listed = list(labels)
    return len(set(filter(None, listed))) + listed.count("")


def run_lengths(labels: Labels) -> tuple[int, ...]:
    """Returns the sizes of runs of equal `labels`, in order; () when every group has one question.

    Questions of a group follow each other in the order of a study.
    """
    runs = groupby(enumerate(labels), key=lambda place: place[1] or place[0])
    lengths = tuple(len(list(run)) for _, run in runs)
    return lengths if any(length > 1 for length in lengths) else ()


def assumed_questions(sizes: Collection[int]) -> int:
    """Returns how many independent questions groups of these `sizes` are worth, at `ASSUMED_CORRELATION`."""
    total = sum(sizes)
    if not total:
        return 0
    inflation = 1 + ASSUMED_CORRELATION * (sum(size * size for size in sizes) / total - 1)
    return max(1, round(total / inflation))


def effective_share(values: Array, groups: Groups | None) -> float:
    """Returns the share, above 0 and at most 1, of independent questions among `values`, one a question.

    The mean of so many independent questions with the same spread has an interval as wide. 1 without groups.
    The intraclass correlation is that of the analysis of variance, 0 or more, and the design effect follows
    from it and the sizes. Student's t with a degree of freedom a group widens the interval for few groups. If
    all values are equal the correlation is unknown, and questions of a group count as alike.
    """
    if groups is None:
        return 1.0
    from scipy.special import stdtrit

    n, number = len(values), len(groups)
    crowding = float((groups.sizes**2).sum()) / n
    centred = values - np.sort(values).mean()
    total = float(np.sort(centred**2).sum())
    if number == 1 or total <= 1e-24 * float((values**2).max()):
        return 1 / crowding
    between = float(np.sort(groups.sums(centred) ** 2 / groups.sizes).sum())
    within = max(0.0, total - between) / (n - number)
    effect = max(0.0, between / (number - 1) - within) * (number - 1) / (n - crowding)
    inflation = 1 + effect / (effect + within) * (crowding - 1) if effect else 1.0
    few = float(stdtrit(n - 1, 0.975) / stdtrit(number - 1, 0.975)) ** 2
    return min(1.0, max(few / inflation, 1 / n))
