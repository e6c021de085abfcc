"""Upper bounds on the LM calls of a question, over the whole search space of a recipe.

    values of each knob that counts calls ──► every combination, built ──► the greatest `most_calls`

The number of calls is greatest at an end of a knob's range (`RagProgram.call_knobs`), so only the ends and
the baseline's value are built. Demonstrations, instructions and targets do not change it. A typed call takes
a second request if its first reply cannot be read, so requests are at most twice the calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from ragc.errors import UsageError
from ragc.metrics import most_judge_calls
from ragc.metrics.base import Metric, families
from ragc.optimizers.candidates.space import ProgramSpace
from ragc.programs import Method
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Knob, Value
from ragc.programs.runtime import Runtime
from ragc.records import HISTORY, Question
from ragc.task.base import Task

REQUESTS = 2
"""The most requests of one typed call: the first, and one retry for an unreadable reply."""


def judge_calls(task: Task, questions: Iterable[Question], metrics: Sequence[Metric] | None = None) -> float:
    """Returns the judge's calls to score one answer to each of `questions`, by default by all metrics."""
    if "judge" not in task.runtime.targets:
        return 0
    read = families(task.metrics if metrics is None else metrics)
    return sum(most_judge_calls(read, task.recipe.metrics, question) for question in questions)


def longest_chain(task: Task) -> int:
    """Returns the most targets that a request may be sent to: a role's own, and its fallbacks."""
    return 1 + max(map(len, task.runtime.gateway.fallbacks.values()), default=0)


@dataclass(frozen=True, slots=True)
class PartBound:
    """The upper bounds of one program of a space.

    `baseline` and `most` are typed calls a question, of its baseline and of any candidate; `fit` are those
    for learning from one train question. `pools` has the typed calls a question of each demonstration pool
    that candidates may need, in descending order. `taught` says whether a question with a given answer may
    still take calls. `reply` is the longest reply in tokens.
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
    """Returns the bounds of `part`. Raises UsageError if its baseline cannot be built."""
    chosen, runtimes = task.method_of(part.program), list(_runtimes(task))
    start = dict(part.baseline().knobs)
    counting = (*chosen.call_knobs, HISTORY)
    baseline = chosen.build(task.runtime, start)
    programs = [baseline, *_corners(chosen, runtimes, start, part.knobs, counting)]
    shown = {**start, **chosen.demo_knobs}
    shaping = [knob for knob in part.knobs if knob.name in chosen.call_shaping_knobs]
    narrow = chosen.narrow_demos or dict
    examples = list(_corners(chosen, runtimes, shown, shaping, chosen.call_shaping_knobs, narrow))
    pools = math.prod(_size(knob, start[knob.name]) for knob in shaping)
    # Any candidate may need the most expensive pool; there are at most as many pools as trials.
    dearest = max((program.most_calls_in_all() for program in examples), default=0)
    return PartBound(
        chosen.id,
        baseline.most_calls_in_all(),
        max(program.most_calls_in_all() for program in programs),
        baseline.fit_calls,
        (dearest,) * min(pools, task.trials) if part.demos else (),
        any(
            not set(call.signature.output_fields) <= {"answer"}
            for program in examples
            for _, call in program.named_calls()
        ),
        max(call.sampling.max_tokens for program in programs for _, call in program.named_calls()),
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
    """Yields a program for each combination of end values of the `searched` knobs that are in `counting`.

    `narrow` makes the built settings from those. The other knobs have their `values`, and so has a knob that
    does not matter under the previous ones. A combination that no runtime can build is skipped, since no
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
    """Returns the values of `knob` that bound its range, and the baseline's value."""
    if knob.kind == "switch":
        return (False, True)
    if knob.kind == "choice":
        return tuple(dict.fromkeys((*knob.options, baseline)))
    number = int if knob.kind == "int" else float
    low, high = knob.bounds
    inside = low <= float(baseline) <= high
    return tuple(dict.fromkeys((number(low), number(high), *(() if inside else (baseline,)))))


def _size(knob: Knob, baseline: Value) -> int:
    """Returns the number of values of a knob, at least; 10^9 for a knob without steps."""
    if knob.kind in ("switch", "choice"):
        return len(_points(knob, baseline))
    low, high = knob.bounds
    if not knob.step or not math.isfinite(high - low):
        return 10**9
    return int((high - low) / knob.step) + 2


def _runtimes(task: Task) -> Iterator[Runtime]:
    """Yields the runtime with the roles' own targets, then those with the other targets allowed for the
    roles.
    """
    roles = task.recipe.search.targets
    for names in product(*roles.values()):
        yield task.runtime.with_targets(dict(zip(roles, names, strict=True)))
