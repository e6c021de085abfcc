"""What people see of results, on stdout. rich is imported when something is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ragc.terminal import rich_console, visible

if TYPE_CHECKING:
    from ragc.doctor import Check
    from ragc.exports.base import Exported
    from ragc.metrics.run_report import RunComparison
    from ragc.metrics.significance import Interval
    from ragc.optimizers.compile import Compiled
    from ragc.optimizers.evaluation import Row
    from ragc.optimizers.opened import Evaluation
    from ragc.programs.trace import Event


def error(text: str) -> None:
    """One clear sentence on stderr."""
    sys.stderr.write(f"ragc: {text}\n")


def _out() -> Any:
    return rich_console(highlight=False, soft_wrap=True)


def table(rows: Sequence[dict[str, Any]]) -> None:
    """Rows as aligned columns: id, then what is said of it."""
    width = max((len(str(row["id"])) for row in rows), default=0)
    for row in rows:
        sys.stdout.write(f"{row['id']:<{width}}  {row.get('about', '')}{_range(row)}\n")


def _range(row: dict[str, Any]) -> str:
    if "default" not in row:
        return ""
    values = row["options"] or f"{row['low']:g} to {row['high']:g}"
    when = row["when"]
    condition = (
        f"; if {when['knob']} " + (f"is {when['is']}" if "is" in when else f"> {when['above']:g}")
        if when
        else ""
    )
    return f" [{values}; default {row['default']!r}{condition}]"


def plan(found: dict[str, Any]) -> None:
    """The dry run."""
    asked = ", ".join(f"{name} {n}" for name, n in found["questions"].items())
    sys.stdout.write(
        f"{found['program']} on {', '.join(found['targets'].values())}: {found['trials']} trials\n"
        f"at most {found['lm_calls']} LM calls and {found['tokens']:,} tokens (questions: {asked})\n"
    )


def compiled(result: Compiled) -> None:
    """The before/after table, the verdict, the fitted thresholds, and one answered question."""
    from rich.table import Table

    from ragc.calibration_view import lines as calibrated

    out = _out()
    if result.test:
        grid = Table("metric", "baseline", "compiled", "difference (95% interval)", "p")
        for name, before in result.baseline.items():
            after, change = result.test[name], result.differences.get(name)
            if change is None:
                continue
            low, high = change["ci"]
            grid.add_row(
                name, _interval(before), _interval(after), f"{change['mean']:+.3f} [{low:+.3f}, {high:+.3f}]",
                f"{change['p']:.4f}",
            )  # fmt: skip
        out.print(grid)
        asked = next(iter(result.test.values())).n
        out.print(f"Verdict on test ({asked} questions): {result.verdict}. {result.note}")
    else:
        out.print("There was no look at a test split; the dev scores are in provenance.json.")
    lines(calibrated(result.program.provenance.get("search") or {}))
    cost = result.counters
    out.print(
        f"{cost['sent']:.0f} requests sent, {cost['replayed']:.0f} replayed, {cost['tokens']:,.0f} tokens, "
        f"${cost['usd']:.2f}, {cost['seconds']:.1f} s"
    )
    _cached(cost)
    out.print(f"Compiled program: {result.path}")
    if result.example is not None:
        out.print("\nOne question of the test split, answered by the compiled program:")
        answered(result.example, trace=False)


def exported(found: Exported) -> None:
    """What an export wrote, and which formats cannot say the program."""
    for id, path in found.written.items():
        sys.stdout.write(f"{id:<14} {path}\n")
    for id, why in found.refused.items():
        sys.stdout.write(f"{id:<14} left out: {why}\n")


def lines(found: Iterable[str]) -> None:
    """Lines as they are."""
    sys.stdout.writelines(f"{line}\n" for line in found)


def checked(path: str, formats: str) -> None:
    """An export that was found to be what the compiled program gives."""
    sys.stdout.write(f"{path} is what the compiled program gives ({formats}).\n")


def _interval(value: Interval) -> str:
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


def answered(row: Row, *, trace: bool) -> None:
    """A question, its passages and the answer; every event with `trace`."""
    sys.stdout.write(f"Q: {row.question.question}\n")
    if trace:
        from ragc.trace_view import lines

        sys.stdout.write("".join(f"{line}\n" for line in lines(row.trace)))
        _spent(row.trace, 1)
    for number, passage in enumerate(row.passages, 1):
        text = " ".join(passage.text.split())
        sys.stdout.write(
            f"[{number}] {passage.title} ({passage.id})\n    {text[:240]}{'…' if len(text) > 240 else ''}\n"
        )
    sys.stdout.write(f"A: {row.prediction if row.prediction is not None else f'none ({row.failure})'}\n")
    if row.question.answers:
        sys.stdout.write(f"   gold: {' | '.join(row.question.answers)}\n")


def _spent(events: Iterable[Event], questions: int) -> None:
    """The calls of each name and their tokens, for one question."""
    from ragc.programs.trace import by_call

    sys.stdout.write(f"{'call':<16} {'calls':>8} {'prompt':>8} {'reply':>8}  a question\n")
    for spent in by_call(events):
        amounts = (spent.calls, spent.prompt_tokens, spent.completion_tokens)
        shares = "".join(f" {amount / questions:>8.1f}" for amount in amounts)
        sys.stdout.write(f"{spent.name:<16}{shares}\n")


def evaluated(found: Evaluation) -> None:
    """Every metric with its interval, what each call took, and what all cost."""
    for name, value in found.metrics.items():
        sys.stdout.write(f"{name:<12} {_interval(value)}  n={value.n}\n")
    for family, backend in found.backends.items():
        tally = ", ".join(f"{n} {by}" for by, n in found.decided.get(family, {}).items())
        sys.stdout.write(f"{family}: {backend}" + (f" ({tally})" if tally else "") + "\n")
    sys.stdout.write("".join(f"{line}\n" for line in (found.moved.lines() if found.moved else ())))
    cost = found.counters
    _spent((event for row in found.rows for event in row.trace), len(found.rows) or 1)
    sys.stdout.write(
        f"{cost['sent']:.0f} requests sent, {cost['replayed']:.0f} replayed, {cost['tokens']:,.0f} tokens, "
        f"{cost['seconds']:.1f} s\n"
    )
    _cached(cost)


def _cached(cost: Mapping[str, float]) -> None:
    """The share of prompt tokens from the server's prefix cache, where it told."""
    if looked_up := cost.get("prefix_tokens"):
        share = cost["prefix_cached_tokens"] / looked_up
        told = f"{share:.1%} of {looked_up:,.0f} prompt tokens came from the server's prefix cache"
        sys.stdout.write(f"{told}\n")


def compared(found: RunComparison) -> None:
    """Two runs side by side: every metric, then the questions that changed most."""
    for rows in (found.table(), found.changes_table()):
        if len(rows) > 1:
            _grid(rows)
    sys.stdout.write("".join(f"{note}\n" for note in found.notes()))


def _grid(rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text  # what models said is no markup

    grid = Table(*rows[0])
    for row in rows[1:]:
        grid.add_row(*(Text(visible(cell)) for cell in row))
    _out().print(grid)


def checks(found: Sequence[Check]) -> None:
    """One line a check."""
    for check in found:
        mark = "ok  " if check.ok else "FAIL" if check.needed else "-   "
        sys.stdout.write(f"{mark} {check.id:<10} {check.found}\n")
