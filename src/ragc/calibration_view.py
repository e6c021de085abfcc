"""What a study found out about its thresholds, in lines: before and after, and the curve in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LEVELS = "▁▂▃▄▅▆▇█"
_COLUMNS = 40


def lines(search: Mapping[str, Any]) -> Iterator[str]:
    """The lines for what `provenance.json` says of a search; none where nothing was calibrated."""
    found: Sequence[Mapping[str, Any]] = search.get("calibration") or ()
    if not found:
        return
    several = len({made["program"] for made in found}) > 1
    yield "Thresholds fitted to the scores of dev questions, and raced as trials:"
    for made in found:
        name = f"{made['program']} {made['knob']}" if several else made["knob"]
        if "left_out" in made:
            yield f"  {name}: left alone, because {made['left_out']}"
            continue
        yield f"  {name}: {_outcome(made)} ({made['reached']} of {made['n']} questions reached it)"
        yield f"    {made['points'][0]:g} {curve(made['points'], made['means'])} {made['points'][-1]:g}"


def _outcome(made: Mapping[str, Any]) -> str:
    before = f"{made['metric']} {made['before']:.3f} at {made['present']:g}"
    if made["threshold"] == made["present"]:
        return f"{before}, and nowhere better"
    after = f"{made['in_sample']:.3f} at {made['threshold']:g}"
    return f"{before}, {after}, {made['validated']:.3f} cross-validated"


def curve(points: Sequence[float], means: Sequence[float], columns: int = _COLUMNS) -> str:
    """`means` over the range of the rising `points` in `columns` characters, the lowest mean the lowest bar.

    A column stands for the mean of the point next to it.
    """
    low, high = points[0], points[-1]
    least, most = min(means), max(means)

    def bar(column: int) -> str:
        place = low + (column + 0.5) / columns * (high - low)
        near = min(range(len(points)), key=lambda at: abs(points[at] - place))
        share = (means[near] - least) / (most - least) if most > least else 0.0
        return _LEVELS[round(share * (len(_LEVELS) - 1))]

    return "".join(map(bar, range(columns)))
