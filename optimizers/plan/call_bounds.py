"""Upper bounds on the LM calls of a question, over all that a recipe lets vary.

    values of each knob that counts calls ──► every combination, built ──► the greatest `most_calls`

A number of calls is greatest at an end of a knob's range (`RagProgram.call_knobs`), so the ends, and the
value that the baseline has, stand for all of it. Demonstrations, instructions and who plays a role change
no number.
A typed call takes two requests where its first reply cannot be read, so requests are twice the calls.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import cast

from ragc.errors import UsageError
from ragc.optimizers.space import ProgramSpace
from ragc.optimizers.task import Task
from ragc.programs import Method
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Knob, Value
from ragc.programs.runtime import Runtime

REQUESTS = 2
"""Requests of one typed call at most: it is sent, and once more for a reply that cannot be read."""


@dataclass(frozen=True, slots=True)
class PartBound:
    """What one program of a space takes at most.

    `baseline` and `most` are typed calls a question, of its baseline and of any candidate; `fit` those that
    learning from one train question takes. `pools` has, for each collection of demonstrations that candidates
    may need, the typed calls of one of its questions, the greatest first; `taught` says whether a question
    that is given its answer may still take calls. `reply` is the longest reply in tokens.
    """

    program: str
    baseline: int
    most: int
    fit: int
    pools: tuple[int, ...]
    taught: bool
    reply: int
    predictors: int


def part_bound(task: Task, part: ProgramSpace) -> PartBound:
    """The bounds of `part`. Raises UsageError where not even its baseline can be built."""
    chosen, runtimes = task.method_of(part.program), list(_runtimes(task))
    start = dict(part.baseline().knobs)
    counting = _class_of(chosen).call_knobs
    baseline = chosen.build(task.runtime, start)
    programs = [baseline, *_corners(chosen, runtimes, start, part.knobs, counting)]
    shown = {**start, **chosen.demo_knobs}
    shaping = [knob for knob in part.knobs if knob.name in chosen.call_shaping_knobs]
    narrow = chosen.narrow_demos or dict
    examples = list(_corners(chosen, runtimes, shown, shaping, chosen.call_shaping_knobs, narrow))
    pools = math.prod(_size(knob, start[knob.name]) for knob in shaping)
    # Any candidate may need the most expensive collection, so no more of them than trials need be counted.
    dearest = max((program.most_calls() for program in examples), default=0)
    return PartBound(
        chosen.id,
        baseline.most_calls(),
        max(program.most_calls() for program in programs),
        baseline.fit_calls,
        (dearest,) * min(pools, task.trials) if part.demos else (),
        any(
            not set(call.signature.output_fields) <= {"answer"}
            for program in examples
            for call in program.predictors()
        ),
        max(call.sampling.max_tokens for program in programs for call in program.predictors()),
        max(len(program.predictors()) for program in programs),
    )


def _corners(
    chosen: Method,
    runtimes: Sequence[Runtime],
    values: Mapping[str, Value],
    searched: Iterable[Knob],
    counting: Sequence[str],
    narrow: Callable[[Mapping[str, Value]], Mapping[str, Value]] = dict,
) -> Iterator[RagProgram]:
    """A program for each combination of what the `searched` knobs that are `counting` may be.

    `narrow` makes the settings that are built of those. The others have their `values`, and so has one that
    does not matter under those before it. A combination that no runtime can build is passed over, since no
    candidate can have it.
    """
    varying = {knob.name: knob for knob in searched}
    settings: list[dict[str, Value]] = [dict(values)]
    for knob in varying.values():
        if knob.name not in counting:
            continue
        points = _points(knob, values[knob.name])
        decisive = knob.when.knobs if knob.when else ()
        decided = all(name in counting or name not in varying for name in decisive)
        settings = [
            {**setting, knob.name: point}
            for setting in settings
            for point in (
                points if not decided or chosen.knobs.matters(knob, setting) else (values[knob.name],)
            )
        ]
    for setting in settings:
        for runtime in runtimes:
            try:
                program = chosen.build(runtime, narrow(setting))
            except UsageError:
                continue
            yield program
            break


def _points(knob: Knob, baseline: Value) -> tuple[Value, ...]:
    """The values of `knob` that stand for all of its range, and that of the baseline."""
    if knob.kind == "switch":
        return (False, True)
    if knob.kind == "choice":
        return tuple(dict.fromkeys((*knob.options, baseline)))
    number = int if knob.kind == "int" else float
    low, high = knob.bounds
    inside = low <= float(baseline) <= high
    return tuple(dict.fromkeys((number(low), number(high), *(() if inside else (baseline,)))))


def _size(knob: Knob, baseline: Value) -> int:
    """How many values a candidate may have there; a great number for one without steps."""
    if knob.kind in ("switch", "choice"):
        return len(_points(knob, baseline))
    low, high = knob.bounds
    if not knob.step or not math.isfinite(high - low):
        return 10**9
    return int((high - low) / knob.step) + 2


def _runtimes(task: Task) -> Iterator[Runtime]:
    """The runtime of the roles' own targets, then those of the other targets that may play them."""
    roles = task.space.targets
    for names in product(*roles.values()):
        yield task.runtime.with_targets(dict(zip(roles, names, strict=True)))


def _class_of(chosen: Method) -> type[RagProgram]:
    module, _, name = chosen.program.partition(":")
    return cast(type[RagProgram], getattr(importlib.import_module(module), name))
