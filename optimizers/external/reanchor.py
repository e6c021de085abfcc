"""ReAnchor: fits one number at a time, accepted only if the gain holds on held-out questions.

`dspy.experimental.ReAnchor` (DSPy 3.4.1) fits the thresholds of decision outputs that `dspy.Predict` reads.
ragc's thresholds are knobs, so its search runs on them, with its own code for the candidates (midpoints of
neighbouring values), the tie-break (the widest gap, then the nearest to the start) and the fold check.
Differs: a knob's values are spread evenly over its range, whereas ReAnchor takes observed probabilities.
Switches and choices are not changed, because ReAnchor cannot fit them.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from dspy.teleprompt.reanchor.calibrate import _fit_threshold

from ragc.core import event_loop
from ragc.errors import UsageError
from ragc.optimizers.candidates.space import search_space
from ragc.optimizers.harness.base import Harness
from ragc.optimizers.harness.monitor import SearchMonitor
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Knob, Value
from ragc.task.base import Task


def numbers(task: Task) -> tuple[Knob, ...]:
    """Returns the searched knobs that ReAnchor can fit, in the order of declaration. Raises UsageError if
    there are none.
    """
    space, values = search_space(task.recipe, task.runtime).first, task.baseline_knobs
    knobs = tuple(k for k in space.knobs if _is_number(k) and space.kind.matters(k, values))
    if not knobs:
        listed = ", ".join(knob.name for knob in space.knobs) or "none"
        raise UsageError(
            "The optimizer 'reanchor' fits numbers, and no searched knob is one that matters under the "
            f"defaults (searched: {listed}); name some in search.knobs."
        )
    return knobs


def _values_per_knob(trials: int, knobs: int) -> int:
    """Returns the number of values tried for each of `knobs` knobs."""
    return max(3, trials // knobs)


def settings_most(task: Task) -> int:
    """Returns the most settings with which a search of `task` answers the train questions. Raises
    UsageError.
    """
    knobs = len(numbers(task))
    return 1 + knobs * _values_per_knob(task.trials, knobs)


def search(bench: Harness, student: RagProgram, watch: SearchMonitor) -> RagProgram:
    """Returns `student` with numeric knobs fitted by ReAnchor on the train questions, one after another.
    Blocks.

    About `search.trials` settings are tried, divided among the knobs, at least three a knob.
    """
    knobs = numbers(bench.task)
    each = _values_per_knob(bench.task.trials, len(knobs))
    program = student
    scores = _scores(bench, program)
    watch.keep(program, scores)
    for knob in knobs:
        better = _fit(bench, knob, each, program, scores)
        if better is not None:
            program, scores = better
            watch.keep(program, scores)
    return program


def _scores(bench: Harness, program: RagProgram) -> list[float]:
    rows = event_loop.run(bench.rows(program, bench.task.train))
    return [bench.value(row) for row in rows]


def _fit(
    bench: Harness, knob: Knob, each: int, program: RagProgram, base: list[float]
) -> tuple[RagProgram, list[float]] | None:
    """Returns `program` with a better value of `knob`, and its scores; None if ReAnchor keeps the present
    value.
    """
    present = program.knobs.to_json()
    start = _share(knob, present[knob.name])
    entry = {"threshold": start}
    tried: dict[Value, tuple[RagProgram, list[float]]] = {present[knob.name]: (program, base)}

    def attempt(share: float) -> tuple[RagProgram, list[float]]:
        value = present[knob.name] if share == start else _value(knob, share)
        if value not in tried:
            values = type(program.knobs).settle({**present, knob.name: value}, ())
            variant = event_loop.run(bench.build(values))
            tried[value] = (variant, _scores(bench, variant))
        return tried[value]

    spread = [{"noul": (step + 1) / each} for step in range(each - 1)]
    holder: Any = SimpleNamespace(fields={knob.name: entry})
    share, scores, _, _ = _fit_threshold(
        holder, knob.name, bool, spread, lambda: attempt(entry["threshold"])[1], base
    )
    return None if share == start else (attempt(share)[0], scores)


def _is_number(knob: Knob) -> bool:
    return knob.kind in ("int", "float") and all(map(math.isfinite, knob.bounds))


def _share(knob: Knob, value: Any) -> float:
    """Returns the position of `value` in the knob's range: 0 at its low end, 1 at its high end."""
    low, high = knob.bounds
    return (float(value) - low) / (high - low) if high > low else 0.0


def _value(knob: Knob, share: float) -> Value:
    """Returns the knob's value at the position `share` of its range, rounded to its grid."""
    low, high = knob.bounds
    value = low + share * (high - low)
    if knob.step:
        value = low + round((value - low) / knob.step) * knob.step
    value = min(high, max(low, round(value, 10)))
    return knob.check(int(value) if knob.kind == "int" else value)
