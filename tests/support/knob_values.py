"""Settings of knobs that a test of a program goes through."""

from __future__ import annotations

from collections.abc import Iterator

from ragc.programs.knobs import Knob, Knobs, Value


def settings(knobs: type[Knobs], most: int = 40) -> Iterator[dict[str, Value]]:
    """Yields the defaults, then each knob at each option or end of its range.

    The upper end is capped at `most` or twice the lower one. A knob that matters only under a value of
    another comes with that value.
    """
    yield {}
    for knob in knobs.list_knobs():
        needed = {knob.when.knob: knob.when.values[0]} if knob.when and knob.when.values else {}
        for value in ends(knob, most):
            yield {**needed, knob.name: value}


def ends(knob: Knob, most: int = 40) -> tuple[Value, ...]:
    """Returns the options of a knob, or the ends of its range, the upper one capped as in `settings`."""
    if knob.kind == "switch":
        return (False, True)
    if knob.kind == "choice":
        return knob.options
    low, high = knob.bounds
    cast = int if knob.kind == "int" else float
    return (cast(low), cast(min(high, max(most, 2 * low))))
