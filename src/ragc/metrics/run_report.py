"""What two runs say of each other: rows of metrics, changed questions, JSON and tables of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragc.metrics.contrasts import Judged, Matching, Method
from ragc.metrics.runs import Answered, Run
from ragc.metrics.significance import Interval, Verdict, power_note

WIDEST = 60
"""Characters of a question or prediction that a table shows."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of both runs, over the questions that both scored; all three are None when there is none."""

    metric: str
    backend: str
    a: Interval | None
    b: Interval | None
    judged: Judged | None
    matching: Matching
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """JSON values; the difference is b - a, `p_adjusted` over all metrics of the comparison."""
        sides = {name: _interval(side) for name, side in (("a", self.a), ("b", self.b)) if side}
        numbers = self.judged.to_json() if self.judged else {"n": 0}
        note = power_note(self.judged.result) if self.judged else ""
        left = {"unscored": self.matching.unscored}
        return {"backend": self.backend, **sides, **numbers, **left, "verdict": self.verdict, "power": note}


@dataclass(frozen=True, slots=True)
class Change:
    """A question that the runs answered with different scores."""

    a: Answered
    b: Answered
    before: float
    after: float

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        return {
            "id": self.a.id,
            "question": self.a.question,
            "answers": list(self.a.answers),
            "a": {"prediction": self.a.prediction, "score": self.before, "failure": self.a.failure},
            "b": {"prediction": self.b.prediction, "score": self.after, "failure": self.b.failure},
        }


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Run `b` against run `a`.

    `changed` holds the questions whose score of the metric `by` changed most, greatest change first;
    `rose` and `fell` count all questions whose score did. `skipped` names metrics that one run alone has.
    """

    a: Run
    b: Run
    rows: tuple[MetricRow, ...]
    method: Method
    by: str
    rose: int
    fell: int
    changed: tuple[Change, ...]
    skipped: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """What `ragc eval A B --json` prints."""
        shared = self.a.answered.keys() & self.b.answered.keys()
        return {
            "a": _run(self.a),
            "b": _run(self.b),
            "n": len(shared),
            "only_a": [key for key in self.a.answered if key not in shared],
            "only_b": [key for key in self.b.answered if key not in shared],
            "adjustment": self.method,
            "metrics": {row.metric: row.to_json() for row in self.rows},
            "skipped_metrics": list(self.skipped),
            "by": self.by,
            "rose": self.rose,
            "fell": self.fell,
            "changed": [change.to_json() for change in self.changed],
        }

    def table(self) -> tuple[tuple[str, ...], ...]:
        """Rows of text for printing, the header first; one row a metric."""
        gap = "difference (simultaneous interval)"
        head = ("metric", self.a.name, self.b.name, gap, "p adjusted", "n", "verdict")
        return head, *(_printed(row) for row in self.rows)

    def changes_table(self) -> tuple[tuple[str, ...], ...]:
        """Rows of text for printing, the header first; one row a changed question, texts cut."""
        head = ("id", "question", "gold", f"{self.a.name} ({self.by})", f"{self.b.name} ({self.by})")
        return head, *(
            (
                change.a.id,
                _cut(change.a.question),
                _cut(" | ".join(change.a.answers)),
                _said(change.a, change.before),
                _said(change.b, change.after),
            )
            for change in self.changed
        )

    def notes(self) -> tuple[str, ...]:
        """Sentences for below the tables: what was left out, what failed, what could have been shown."""
        notes = [f"{row.metric}: {row.matching.note(self.a.name, self.b.name)}" for row in self.rows]
        found = [note for note in notes if not note.endswith(": ")]
        found += [f"{name}: no metric of both runs, not compared." for name in self.skipped]
        for run in (self.a, self.b):
            if run.failures.n:
                found.append(f"{run.name}: {run.failures.text}.")
        found.append(f"{self.by}: {self.rose} questions rose and {self.fell} fell from {self.a.name}.")
        first = next((row.judged for row in self.rows if row.metric == self.by and row.judged), None)
        return (*found, f"{self.by}: {power_note(first.result)}") if first else tuple(found)


def _run(run: Run) -> dict[str, Any]:
    failures = run.failures
    reasons = failures.reasons_json()
    return {"name": run.name, "n": len(run.answered), "failures": failures.n, "failure_reasons": reasons}


def _interval(value: Interval) -> dict[str, Any]:
    return {"mean": value.mean, "ci": [value.low, value.high]}


def _printed(row: MetricRow) -> tuple[str, ...]:
    name = f"{row.metric} ({row.backend})" if row.backend else row.metric
    if row.judged is None or row.a is None or row.b is None:
        return name, "", "", "", "", "0", "no common question"
    sides = (f"{side.mean:.3f} [{side.low:.3f}, {side.high:.3f}]" for side in (row.a, row.b))
    found = row.judged
    gap = f"{found.result.diff:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    return name, *sides, gap, f"{found.adjusted:.4f}", str(found.result.n), row.verdict


def _said(row: Answered, score: float) -> str:
    said = row.prediction if row.prediction is not None else f"none ({row.failure})"
    return f"{score:.3f} {_cut(said)}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
