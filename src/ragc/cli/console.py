"""Terminal output of results: lines and tables on stdout that fit the terminal.

`calibration_lines` shows a study's thresholds, with the scores before and after.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ragc.cli import screen
from ragc.core.display import dollars, figure, interval, quantity, signed

if TYPE_CHECKING:
    from ragc.compiled.evaluate import Evaluation
    from ragc.doctor import Check
    from ragc.exports.write import Exported
    from ragc.metrics.compare import RunComparison
    from ragc.metrics.labels import LabelAgreement
    from ragc.metrics.stats.resample import Interval
    from ragc.optimizers.compile import Compiled
    from ragc.optimizers.grids.grid import Grid
    from ragc.programs.trace import Event
    from ragc.task.answering import Row


_ON_DEV = (
    "The dev scores are in provenance.json; those of the compiled program flatter it, because it was chosen "
    "by them."
)


def calibration_lines(search: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines on the calibration of a search in `provenance.json`; none without one."""
    calibrations: Sequence[Mapping[str, Any]] = search.get("calibration") or ()
    if not calibrations:
        return
    several = len({calibration["program"] for calibration in calibrations}) > 1
    yield "Thresholds fitted to the scores of dev questions, and evaluated as trials:"
    for calibration in calibrations:
        name = f"{calibration['program']} {calibration['knob']}" if several else calibration["knob"]
        if "left_out" in calibration:
            yield f"  {name}: left alone, because {calibration['left_out']}"
            continue
        reached = f"({calibration['reached']} of {quantity(calibration['n'], 'question')} reached it)"
        yield f"  {name}: {_outcome(calibration)} {reached}"
    yield from search.get("remarks", ())


def _outcome(calibration: Mapping[str, Any]) -> str:
    before = f"{calibration['metric']} {calibration['before']:.3f} at {calibration['present']:g}"
    if calibration["threshold"] == calibration["present"]:
        return f"{before}, and nowhere better"
    after = f"{calibration['in_sample']:.3f} at {calibration['threshold']:g}"
    return f"{before}, {after}, {calibration['validated']:.3f} cross-validated"


def error(text: str) -> None:
    """Prints one sentence on stderr."""
    with suppress(OSError):  # stderr may be full or closed
        screen.show(f"ragc: {text}".split("\n"), sys.stderr, hang=0)


def print_json(value: Any) -> None:
    """Prints `value` as one indented JSON document."""
    screen.results().write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def table(rows: Sequence[dict[str, Any]]) -> None:
    """Prints rows as aligned columns: the id, then the description."""
    width = max((len(str(row["id"])) for row in rows), default=0)
    listed = (f"{row['id']:<{width}}  {row.get('about', '')}{_range(row)}" for row in rows)
    screen.show(listed, hang=min(width, 28) + 2)


def print_indexes(rows: Sequence[dict[str, Any]]) -> None:
    """Prints the indexes of a recipe's program, or that there are none to build."""
    table(rows) if rows else lines(["There is nothing to build: no source of this recipe keeps an index."])


def _range(row: dict[str, Any]) -> str:
    if "default" not in row:
        return ""
    values = row["options"] or f"{row['low']:g} to {row['high']:g}"
    condition = f"; if {_condition(row['when'])}" if row["when"] else ""
    return f" [{values}; default {row['default']!r}{condition}]"


def _condition(when: dict[str, Any]) -> str:
    """Returns in words when a knob matters, with its alternatives."""
    word = next(word for word in ("is", "is not", "above") if word in when)
    value = f"> {when[word]:g}" if word == "above" else f"{word} {when[word]}"
    return " or ".join([f"{when['knob']} {value}", *map(_condition, when.get("or", ()))])


def plan(estimate: dict[str, Any]) -> None:
    """Prints the estimate of `ragc compile --dry-run`."""
    from ragc.cli import plan as plan_view

    lines(plan_view.lines(estimate))
    lines([estimate["note"]] if estimate["note"] else ())


def grid_plan(estimate: dict[str, Any]) -> None:
    """Prints the estimate of a grid."""
    from ragc.cli import plan as plan_view

    lines(plan_view.grid_lines(estimate))


def print_grid(result: Grid) -> None:
    """Prints what a grid holds, the spread of its settings by metric, and what was sent."""
    shown = result.to_json()
    settings, questions = quantity(shown["settings"], "setting"), quantity(shown["questions"], "question")
    lines([f"{settings} on {questions} in {shown['grid']}"])
    rows: list[tuple[str, ...]] = [("metric", "baseline", "least", "median", "greatest")]
    for name, spread in shown["metrics"].items():
        values = (spread.get(part) for part in ("baseline", "least", "median", "greatest"))
        rows.append((name, *("-" if value is None else figure(name, value) for value in values)))
    print_table(rows)
    lines(shown["remarks"])
    if cost := shown["counters"]:
        sent = f"{quantity(round(cost['sent']), 'request')} sent, {cost['replayed']:,.0f} replayed"
        lines([f"{sent}, {cost['tokens']:,.0f} tokens, {dollars(cost['usd'])}, {cost['seconds']:.1f} s"])


def headroom_plan(planned: dict[str, Any]) -> None:
    """Prints what `ragc headroom` would try."""
    from ragc.cli import plan as plan_view

    status(list(plan_view.headroom_lines(planned)))


def print_compiled(result: Compiled) -> None:
    """Prints the before/after table, the verdict, the fitted thresholds, and one answered question."""
    from ragc.compiled.verdict import judge_of, shown_ends, shown_p
    from ragc.metrics.base import AS_JUDGED
    from ragc.reports.compiled import Measured, front_lines, limit_lines

    if result.test:
        rows = [("metric", "baseline", "compiled", "difference (95% interval)", "p")]
        for name, before in result.baseline.items():
            after, change = result.test[name], result.differences.get(name)
            if change is None:
                continue
            low, high = shown_ends(change)
            gap = f"{signed(name, change['mean'])} [{signed(name, low)}, {signed(name, high)}]"
            rows.append(
                (
                    name,
                    _interval(name, before),
                    _interval(name, after),
                    gap,
                    f"{shown_p(change):.4f}",
                )
            )
        print_table(rows)
        lines(_adjustment_lines(result))
        scored = next(iter(result.test.values()))
        primary = next((name for name, one in result.differences.items() if "p_adjusted" not in one), "")
        judged = f", {AS_JUDGED}" if judge_of(result.program.provenance, primary) else ""
        on = "" if result.cross_validated else " on test"
        lines(["", f"Verdict{on} ({scored.questions}): {result.verdict}{judged}. {result.note}"])
        if result.look and result.look.number:
            lines([result.look.sentence])
        lines(result.contamination.sentences)
    else:
        lines([f"There was no look at a test split. {_ON_DEV}"])
    lines(result.failure_lines)
    searched = result.program.provenance.get("search") or {}
    measured = Measured.of(result.program.provenance, result.program.run, result.path)
    lines(limit_lines(measured))
    lines(front_lines(measured))
    lines(calibration_lines(searched))
    cost = result.counters
    sent = f"{quantity(round(cost['sent']), 'request')} sent, {cost['replayed']:.0f} replayed"
    lines([f"{sent}, {cost['tokens']:,.0f} tokens, {dollars(cost['usd'])}, {cost['seconds']:.1f} s"])
    lines(_charge_lines(cost))
    lines([f"Compiled program: {result.path}", *filter(None, [result.replacement])])
    if result.example is not None:
        answered = "a program chosen without it" if result.cross_validated else "the compiled program"
        held = "One question" if result.cross_validated else "One question of the test split"
        lines(["", f"{held}, answered by {answered}:"])
        old, new = result.example
        print_answer(new, trace=False)
        lines([f"   the baseline: {old.prediction if old.prediction is not None else 'none'}"])


def _charge_lines(cost: Mapping[str, float]) -> Iterator[str]:
    """Yields the line on all charges to a study, if they exceed those of this run."""
    if not cost.get("stored_calls") and cost["tokens"] == cost.get("study_tokens", cost["tokens"]):
        return
    charged = f"{cost['study_tokens']:,.0f} tokens, {dollars(cost['study_usd'])}"
    line = f"Charged to the study in all: {charged}"
    if cost["stored_calls"]:
        stored = f"{cost['stored_tokens']:,.0f} tokens, {dollars(cost['stored_usd'])}"
        line += f"; of it {stored} for stored replies, which count as if sent and cost nothing"
    yield f"{line}."


def _adjustment_lines(result: Compiled) -> Iterator[str]:
    """Yields the line on p-values that are adjusted for several metrics."""
    primary = [name for name, change in result.differences.items() if "p_adjusted" not in change]
    if len(result.differences) > 1:
        decides = f"{primary[0]} decides. " if primary else ""
        count = len(result.differences)
        yield f"{decides}Intervals and p of the other metrics are adjusted for all {count} metrics."


def print_export(result: Exported) -> None:
    """Prints the files of an export, how to load a single format, and the formats that were refused."""
    for id, path in result.written.items():
        sys.stdout.write(f"{id:<14} {path}\n")
        if len(result.written) == 1:
            sys.stdout.writelines(f"    {line}\n" for line in result.loading.get(id, ()))
        screen.show((f"{'':<14} {hint}" for hint in result.hints.get(id, ())), hang=0)
    if len(result.written) > 1:
        folder = next(iter(result.written.values())).parent
        sys.stdout.write(f"How each is loaded: {folder / 'README.md'}\n")
    for id, why in result.refused.items():
        screen.show([f"{id:<14} left out: {why}"], hang=15)


def lines(text_lines: Iterable[str]) -> None:
    """Prints lines, wrapped on a terminal."""
    screen.show(text_lines)


def status(rows: Sequence[str]) -> None:
    """Prints two columns of names and values, wrapped in the second."""
    screen.show(rows, hang=14)


def print_export_check(path: str, formats: str) -> None:
    """Prints that an export matches the compiled program."""
    lines([f"{path} is what the compiled program gives ({formats})."])


def _interval(metric: str, value: Interval) -> str:
    return interval(metric, value.mean, value.low, value.high)


def print_answer(row: Row, *, trace: bool) -> None:
    """Prints a question, its passages and the answer; every event with `trace`, which shows the passages."""
    lines([f"Q: {' '.join(row.question.question.split())}"])
    if trace:
        from ragc.cli.trace import lines as traced

        lines(traced(row.trace, screen.width()))
        _print_calls(row.trace, 1)
    if trace and row.passages:
        lines([f"passages: {', '.join(f'[{n}] {passage.id}' for n, passage in enumerate(row.passages, 1))}"])
    for number, passage in enumerate(() if trace else row.passages, 1):
        text = " ".join(passage.text.split())
        lines([f"[{number}] {passage.title} ({passage.id})"])
        screen.show([f"    {text[:240]}{'…' if len(text) > 240 else ''}"], hang=0)
    lines([f"A: {row.prediction if row.prediction is not None else 'none'}"])
    if row.question.answers:
        lines([f"   gold: {' | '.join(' '.join(answer.split()) for answer in row.question.answers)}"])


def _print_calls(events: Iterable[Event], questions: int) -> None:
    """Prints the calls by name with their tokens, per question."""
    from ragc.programs.trace import by_call

    sys.stdout.write(f"{'call':<16} {'calls':>8} {'prompt':>8} {'reply':>8}  a question\n")
    for spent in by_call(events):
        amounts = (spent.calls, spent.prompt_tokens, spent.completion_tokens)
        shares = "".join(f" {amount / questions:>8.1f}" for amount in amounts)
        sys.stdout.write(f"{spent.name:<16}{shares}\n")


def print_evaluation(evaluation: Evaluation) -> None:
    """Prints every metric with its interval, the calls by name, and the total cost."""
    size = max((len(name) for name in evaluation.metrics), default=0)
    lines(
        f"{name:<{size}}  {_interval(name, value)}  n={value.n_text}{beside(evaluation.agreement, name)}"
        for name, value in evaluation.metrics.items()
    )
    if any(row.failure for row in evaluation.rows):
        lines([evaluation.failures.text])
    if evaluation.look and evaluation.look.number:
        lines([f"{evaluation.look.text.capitalize()}."])
    lines([evaluation.remark] if evaluation.remark else ())
    lines(evaluation.agreement.remarks if evaluation.agreement else ())
    for family, backend in evaluation.backends.items():
        tally = ", ".join(f"{n} {by}" for by, n in evaluation.decided.get(family, {}).items())
        lines([f"{family}: {backend}" + (f" ({tally})" if tally else "")])
    lines(f"{name}: {verdicts.text}" for name, verdicts in evaluation.second_verdicts.items())
    lines(f"{name}: {shares.text}" for name, shares in evaluation.variances.items())
    cost = evaluation.counters
    _print_calls((event for row in evaluation.rows for event in row.trace), len(evaluation.rows) or 1)
    sent = f"{quantity(round(cost['sent']), 'request')} sent, {cost['replayed']:.0f} replayed"
    lines([f"{sent}, {cost['tokens']:,.0f} tokens, {cost['seconds']:.1f} s"])


def beside(agreement: LabelAgreement | None, metric: str) -> str:
    """Returns the agreement of `metric` with people as it follows its mean; "" without one."""
    text = agreement.beside(metric) if agreement else ""
    return f"  ({text})" if text else ""


def print_comparison(comparison: RunComparison) -> None:
    """Prints two runs side by side: every metric, then the questions that changed most."""
    if len(rows := comparison.table()) > 1:
        print_table(rows)
        lines([""])
    if len(rows := comparison.changes_table()) > 1:
        lines([*screen.records(rows, screen.width()), ""])
    lines(comparison.notes())


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Prints a header and rows as a table that fits the terminal."""
    sys.stdout.writelines(f"{line}\n" for line in screen.grid(rows, screen.width()))


def checks(results: Sequence[Check]) -> None:
    """Prints one line per check."""
    for check in results:
        mark = "ok  " if check.ok else "FAIL" if check.needed else "-   "
        screen.show([f"{mark} {check.id:<12} {check.found}"], hang=18)
