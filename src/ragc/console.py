"""What people see: progress on stderr, results on stdout. rich is imported when something is shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ragc.progress import Progress

if TYPE_CHECKING:
    from ragc.doctor import Check
    from ragc.metrics.significance import Interval
    from ragc.optimizers.compile import Compiled
    from ragc.optimizers.evaluation import Row
    from ragc.optimizers.opened import Evaluation
    from ragc.programs.trace import Event


def error(text: str) -> None:
    """One clear sentence on stderr."""
    sys.stderr.write(f"ragc: {text}\n")


@contextmanager
def watching() -> Iterator[Progress]:
    """Bars on a terminal; elsewhere one line a finished trial or phase."""
    watcher: Progress = Bars() if sys.stderr.isatty() else Lines()
    try:
        yield watcher
    finally:
        watcher.close()


class Lines:
    """Progress as plain lines on stderr."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._tenth = -1

    def _say(self, text: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - self._started:6.1f}s] {text}\n")
        sys.stderr.flush()

    def phase(self, name: str, total: int | None) -> None:
        """One line as the phase begins."""
        self._say(name if total is None else f"{name}: {total} questions")

    def step(self, n: int = 1) -> None:
        """Nothing is said of single steps."""

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """One line as the trial ends."""
        self._say(f"trial {index}/{of}  {score:.3f}  best {best:.3f}  {what}")

    def download(self, done: int, total: int) -> None:
        """One line at each tenth."""
        tenth = 10 * done // max(total, 1)
        if tenth != self._tenth:
            self._tenth = tenth
            self._say(f"downloaded {done >> 20} of {total >> 20} MiB")

    def note(self, text: str) -> None:
        """One line."""
        self._say(text)

    def close(self) -> None:
        """Nothing to put away."""


class Bars:
    """Progress as one live bar on stderr, with finished trials above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Live

        self._console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._live = Live(*columns, console=self._console, transient=True)
        self._task: Any = None
        self._best = ""
        self._live.start()

    def phase(self, name: str, total: int | None) -> None:
        """A new bar replaces the last one."""
        if self._task is not None:
            self._live.remove_task(self._task)
        self._task = self._live.add_task(f"{name}{self._best}", total=total)

    def step(self, n: int = 1) -> None:
        """The bar advances."""
        if self._task is not None:
            self._live.advance(self._task, n)

    def trial(self, index: int, of: int, score: float, best: float, what: str) -> None:
        """A line above the bar."""
        self._best = f"  best {best:.3f}"
        self._console.print(f"trial {index:>3}/{of}  {score:.3f}  best {best:.3f}  {what}", highlight=False)

    def download(self, done: int, total: int) -> None:
        """The bar counts MiB."""
        if self._task is not None:
            self._live.update(self._task, total=total >> 20, completed=done >> 20)

    def note(self, text: str) -> None:
        """A line above the bar."""
        self._console.print(text, highlight=False)

    def close(self) -> None:
        """The bar goes away."""
        self._live.stop()


def _out() -> Any:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


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
    """The before/after table, the verdict, and one answered question."""
    from rich.table import Table

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
    cost = result.counters
    out.print(
        f"{cost['sent']:.0f} requests sent, {cost['replayed']:.0f} replayed, {cost['tokens']:,.0f} tokens, "
        f"${cost['usd']:.2f}, {cost['seconds']:.1f} s"
    )
    out.print(f"Compiled program: {result.path}")
    if result.example is not None:
        out.print("\nOne question of the test split, answered by the compiled program:")
        answered(result.example, trace=False)


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
    cost = found.counters
    _spent((event for row in found.rows for event in row.trace), len(found.rows) or 1)
    sys.stdout.write(
        f"{cost['sent']:.0f} requests sent, {cost['replayed']:.0f} replayed, {cost['tokens']:,.0f} tokens, "
        f"{cost['seconds']:.1f} s\n"
    )


def checks(found: Sequence[Check]) -> None:
    """One line a check."""
    for check in found:
        mark = "ok  " if check.ok else "FAIL" if check.needed else "-   "
        sys.stdout.write(f"{mark} {check.id:<10} {check.found}\n")
