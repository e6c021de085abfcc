"""Intervals as pictures: differences with their intervals against zero, as shares of a width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ragc.reports.report import Difference

MARGIN_SHARE = 0.06
"""The share of the width that stays free beyond the outermost end, on each side."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The positions of the parts of an interval, each a number of 0 to 100 from left to right.

    `tone` is "better", "worse" or "open": whether the whole interval lies on one side of zero, and which.
    """

    metric: str
    split: str
    zero: float
    low: float
    mean: float
    high: float
    tone: str


def pictures(
    differences: Iterable[Difference], about: Mapping[str, Mapping[str, Any]]
) -> dict[tuple[str, str], Picture]:
    """Returns a picture for each difference, by split and metric.

    Those whose intervals lie within -1 to 1 share a scale in each split; any other has its own, from zero.
    """
    listed = list(differences)
    out = {}
    for split in dict.fromkeys(one.split for one in listed):
        held = [one for one in listed if one.split == split]
        shares = [one for one in held if one.low >= -1 and one.high <= 1]
        shared = _ends(shares)
        for one in held:
            low, high = shared if one in shares else _ends([one])
            out[split, one.metric] = Picture(
                metric=one.metric,
                split=split,
                zero=_position(0.0, low, high),
                low=_position(one.low, low, high),
                mean=_position(one.mean, low, high),
                high=_position(one.high, low, high),
                tone=one.verdict if one.verdict in ("better", "worse") else "open",
            )
    return out


def _ends(gaps: Iterable[Difference]) -> tuple[float, float]:
    """Returns the ends of a scale that holds zero and every interval, with margin beyond."""
    ends = [0.0, *(end for one in gaps for end in (one.low, one.high))]
    low, high = min(ends), max(ends)
    margin = MARGIN_SHARE * (high - low or 1.0)
    return low - margin, high + margin


def _position(value: float, low: float, high: float) -> float:
    return round(100 * (value - low) / (high - low), 2)
