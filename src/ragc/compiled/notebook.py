"""HTML of a compiled program and of an evaluation in notebooks: the verdict, then a table of scores.

The provenance of a compiled program from elsewhere may hold anything; unreadable parts are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ragc.compiled.verdict import intervals_to_json, judge_of
from ragc.core import notebook
from ragc.core.display import figure, quantity, signed
from ragc.metrics.base import AS_JUDGED
from ragc.metrics.stats.intervals import in_groups

if TYPE_CHECKING:
    from ragc.compiled.base import CompiledProgram
    from ragc.compiled.evaluate import Evaluation
    from ragc.optimizers.compile import Compiled

_HEAD = ("metric", "baseline", "compiled", "difference (95% interval)", "p", "questions")


def of_compiled(compiled: Compiled) -> str:
    """Returns the result of a compile: its verdict, and both programs on the test split."""
    test = {
        "baseline": intervals_to_json(compiled.baseline),
        "winner": intervals_to_json(compiled.test),
        "differences": compiled.differences,
    }
    look = compiled.look.sentence if compiled.look and compiled.look.number else ""
    cost = compiled.counters
    spent = ", ".join(
        f"{cost[name]:,.0f} {text}"
        for name, text in (("sent", "requests sent"), ("replayed", "replayed"), ("tokens", "tokens"))
        if name in cost
    )
    notes = [compiled.note, look, *compiled.failure_lines, spent, f"Compiled program: {compiled.path}"]
    primary = next((name for name, one in compiled.differences.items() if "p_adjusted" not in one), "")
    judged = f", {AS_JUDGED}" if judge_of(compiled.program.provenance, primary) else ""
    return notebook.table(f"{_verdict(compiled.verdict)}{judged}", _HEAD, _before_and_after(test), notes)


def of_program(program: CompiledProgram) -> str:
    """Returns a compiled program: its verdict, its scores on the test split, and what was chosen."""
    state = program.state
    settings = ", ".join(f"{name} = {value}" for name, value in state.knobs.items())
    demos = sum(len(predictor.demos) for predictor in state.predictors.values())
    shown = quantity(demos, "demonstration") if demos else ""
    notes = [
        f"Program: {state.method}{f' with {shown}' if shown else ''}.",
        f"Settings: {settings}." if settings else "",
        f"Directory: {program.path}" if program.path else "",
    ]
    test = _mapping(program.provenance.get("test"))
    changes = _mapping(program.run.get("after_looks")).get("differences") or test.get("differences")
    rows = _before_and_after({**test, "differences": changes})
    return notebook.table(_verdict(program.judged.get("verdict")), _HEAD, rows, notes)


def of_evaluation(evaluation: Evaluation) -> str:
    """Returns a scored split: its first metric, then all with their intervals."""
    values = intervals_to_json(evaluation.metrics)
    first = next(iter(values), "")
    scores = f": {first} {_interval(values[first], first)}" if first else ""
    look = f"{evaluation.look.text.capitalize()}." if evaluation.look and evaluation.look.number else ""
    return notebook.table(
        f"{quantity(len(evaluation.rows), 'question')}{scores}",
        ("metric", "mean (95% interval)", "questions"),
        [(name, _interval(value, name), _questions(value)) for name, value in values.items()],
        [evaluation.failures.text, evaluation.remark, look, *_agreement(evaluation)],
    )


def _agreement(evaluation: Evaluation) -> Iterable[str]:
    """Yields the agreement of each judged metric with people, and what is to be said of the labels."""
    if evaluation.agreement:
        yield from (f"{name}: {one.text}" for name, one in evaluation.agreement.metrics.items())
        yield from evaluation.agreement.remarks


def _verdict(text: object) -> str:
    return f"Verdict: {text}" if isinstance(text, str) and text else "No verdict"


def _before_and_after(test: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    """Yields a row a metric of a compiled program's scores on test."""
    before, after, changes = (_mapping(test.get(name)) for name in ("baseline", "winner", "differences"))
    for name, value in after.items():
        change = _mapping(changes.get(name))
        alone = change.get("ci_front", change.get("ci"))
        low, high = _ends(change.get("ci_looks", change.get("ci_simultaneous", alone)))
        gap = (
            f"{_signed(change.get('mean'), name)} [{_signed(low, name)}, {_signed(high, name)}]"
            if change
            else ""
        )
        p = change.get("p_looks", change.get("p_adjusted", change.get("p_front", change.get("p"))))
        yield (
            str(name),
            _interval(before.get(name), str(name)),
            _interval(value, str(name)),
            gap,
            f"{p:.4f}" if isinstance(p, int | float) else "",
            _questions(_mapping(value)),
        )


def _questions(value: Mapping[str, Any]) -> str:
    """Returns the number of questions, and of their groups if they are in groups."""
    groups = value.get("groups")
    return f"{value.get('n', '')}{in_groups(groups if isinstance(groups, int) else None)}"


def _interval(value: Any, metric: str) -> str:
    """Returns `0.500 [0.400, 0.600]`, "" without a mean."""
    mean, (low, high) = _mapping(value).get("mean"), _ends(_mapping(value).get("ci"))
    return (
        f"{_plain(mean, metric)} [{_plain(low, metric)}, {_plain(high, metric)}]"
        if isinstance(mean, int | float)
        else ""
    )


def _ends(value: Any) -> tuple[Any, Any]:
    return (value[0], value[1]) if isinstance(value, list | tuple) and len(value) == 2 else (None, None)


def _plain(value: Any, metric: str) -> str:
    return figure(metric, value) if isinstance(value, int | float) else "?"


def _signed(value: Any, metric: str) -> str:
    return signed(metric, value) if isinstance(value, int | float) else "?"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
