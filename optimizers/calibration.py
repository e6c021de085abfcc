"""Fitting a threshold on its curve: which one is best, and how good it is beyond the questions that chose it.

The mean outcome over the questions that chose a threshold is too good. The cross-validated mean is not: the
questions are dealt into folds by their ids, and each fold is judged at the threshold that the others choose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.fingerprint import digest
from ragc.optimizers.calibration_curve import Curve

FOLDS = 5
"""Parts that the questions are dealt into; fewer where there are fewer questions."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The threshold that a curve chooses, and its mean outcome beside that of the `present` value.

    `points` and `means` are the curve, `exact` whether it holds between its points. `in_sample` is the mean
    of the `threshold` over the `n` questions that chose it, `validated` the cross-validated mean in `folds`
    folds, `before` the mean of the present value. `reached` is how many questions got to the gate. Means are
    signed: more is better. Where the present value is as good as any, it is the threshold.
    """

    points: tuple[float, ...]
    means: tuple[float, ...]
    exact: bool
    present: float
    threshold: float
    before: float
    in_sample: float
    validated: float
    n: int
    folds: int
    reached: int

    @property
    def offered(self) -> bool:
        """Whether it is worth a trial: not the present one, and no worse where others chose."""
        return self.threshold != self.present and self.validated >= self.before

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        made = {name: getattr(self, name) for name in self.__slots__}
        return made | {"points": list(self.points), "means": list(self.means)}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Fit:
        """The fit that `to_json` described."""
        return cls(**{**value, "points": tuple(value["points"]), "means": tuple(value["means"])})


def fit(curve: Curve, reached: int) -> Fit:
    """What `curve` chooses, where `reached` of its questions got to the gate.

    The order of the questions changes nothing.
    """
    means, place = curve.means(), curve.best()
    parts = dealt(list(curve.outcomes), FOLDS)
    return Fit(
        points=curve.points,
        means=tuple(round(mean, 9) for mean in means),
        exact=curve.exact,
        present=curve.present,
        threshold=curve.threshold(place),
        before=round(means[curve.points.index(curve.present)], 9),
        in_sample=round(means[place], 9),
        validated=round(_validated(curve, parts), 9),
        n=len(curve.outcomes),
        folds=len(parts),
        reached=reached,
    )


def dealt(ids: Sequence[str], parts: int) -> list[list[str]]:
    """`ids` dealt by their digests into `parts` of nearly one size, none of them empty."""
    order = sorted(ids, key=lambda id: (digest(id), id))
    return [order[at::parts] for at in range(min(parts, len(order)))]


def _validated(curve: Curve, parts: Sequence[Sequence[str]]) -> float:
    """The mean outcome of every part at the point that the other parts choose; the present one for none."""
    found = []
    for part in parts:
        others = [id for other in parts if other is not part for id in other]
        place = curve.best(others) if others else curve.points.index(curve.present)
        found += [curve.outcomes[id][place] for id in part]
    return math.fsum(found) / len(found)
