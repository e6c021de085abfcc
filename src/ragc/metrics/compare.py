"""Comparison of two runs, question by question, for `ragc eval A B`.

The report lists the metrics and the changed questions, as JSON and as text tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.core.display import describe, quantity
from ragc.core.redact import shorten
from ragc.errors import UnknownName, UsageError
from ragc.metrics import Metric, get
from ragc.metrics.base import AS_JUDGED, is_judge
from ragc.metrics.labels import Correction, correct_by
from ragc.metrics.runs import RunRow, ScoredRun
from ragc.metrics.stats.groups import groups_json, in_groups, too_few
from ragc.metrics.stats.labels import Corrected
from ragc.metrics.stats.resample import (
    Contrast,
    ContrastResult,
    Interval,
    Matching,
    Verdict,
    adjust_family,
    match,
    mean_ci,
    power_note,
)
from ragc.store.used_questions import TestUse

MAX_CELL_CHARS = 60
"""Maximum characters of a question or prediction in a table."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric of both runs, over the questions scored in both; all three are None without any."""

    metric: str
    backend: str
    a: Interval | None
    b: Interval | None
    judged: ContrastResult | None
    matching: Matching
    verdict: Verdict
    labelled: bool = False

    def after_looks(self, factor: int) -> MetricRow:
        """Returns the row with p, interval and verdict adjusted by the `factor` of a look."""
        judged = self.judged and self.judged.after_looks(factor)
        return replace(self, judged=judged, verdict=_verdict_of(judged, get(self.metric)))

    def corrected(self, result: Corrected) -> MetricRow:
        """Returns the row with the verdict of a `result` that labels corrected."""
        few = self.judged is not None and too_few(self.judged.result.groups)
        outcome: Verdict = "cannot tell" if few else "not shown to be better"
        if result.p < 1 - result.confidence:
            outcome = "better" if (result.diff > 0) == get(self.metric).higher_is_better else "worse"
        return replace(self, verdict=outcome, labelled=True)

    @property
    def verdict_text(self) -> str:
        """The verdict for people; that of a judge without labels says whose it is."""
        if self.labelled:
            return f"{self.verdict}, corrected by labels"
        return f"{self.verdict}, {AS_JUDGED}" if is_judge(self.backend) else self.verdict

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values; the difference is b - a, `p_adjusted` over all metrics and for earlier
        looks.
        """
        sides = {
            name: {"mean": side.mean, "ci": [side.low, side.high]} | groups_json(side.groups)
            for name, side in (("a", self.a), ("b", self.b))
            if side
        }
        return {
            "backend": self.backend,
            **sides,
            **(self.judged.to_json() if self.judged else {"n": 0}),
            "unscored": self.matching.unscored,
            "verdict": self.verdict,
            "power": power_note(self.judged.result) if self.judged else "",
        }

    def cells(self) -> tuple[str, ...]:
        """Returns the row of a printed table."""
        name = f"{self.metric} ({self.backend})" if self.backend else self.metric
        if self.judged is None or self.a is None or self.b is None:
            return name, "", "", "", "", "0", "no common question"
        sides = (f"{side.mean:.3f} [{side.low:.3f}, {side.high:.3f}]" for side in (self.a, self.b))
        alone = self.judged.result
        gap = f"{alone.diff:+.3f} [{self.judged.low:+.3f}, {self.judged.high:+.3f}]"
        n = f"{alone.n}{in_groups(alone.groups)}"
        return name, *sides, gap, f"{self.judged.adjusted:.4f}", n, self.verdict_text


@dataclass(frozen=True, slots=True)
class Change:
    """A question with different scores in the two runs."""

    a: RunRow
    b: RunRow
    before: float
    after: float

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "id": self.a.id,
            "question": self.a.question,
            "answers": list(self.a.answers),
            "a": {"prediction": self.a.prediction, "score": self.before, "failure": self.a.failure},
            "b": {"prediction": self.b.prediction, "score": self.after, "failure": self.b.failure},
        }

    def cells(self) -> tuple[str, ...]:
        """Returns the row of a printed table, texts cut."""
        texts = [self.a.question, " | ".join(self.a.answers)]
        texts += [
            f"none ({row.failure})" if row.prediction is None else row.prediction for row in (self.a, self.b)
        ]
        question, gold, *answers = (shorten(text, MAX_CELL_CHARS) for text in texts)
        scores = (self.before, self.after)
        shown = (f"{score:.3f} {answer}" for score, answer in zip(scores, answers, strict=True))
        return self.a.id, question, gold, *shown


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Run `b` compared with run `a`: what the terminal, JSON, the gate and reports show.

    `changed` holds the questions whose score of the metric `by` changed most, largest change first; `rose`
    and `fell` count all questions whose score did. `skipped` names metrics that only one run has. `look` says
    how often the test questions were looked at, if they were answered for this comparison; `remarks` are
    sentences on what the scores cannot show.
    """

    a: ScoredRun
    b: ScoredRun
    rows: tuple[MetricRow, ...]
    by: str
    rose: int
    fell: int
    changed: tuple[Change, ...]
    skipped: tuple[str, ...]
    look: TestUse | None = field(default=None, compare=False)
    remarks: tuple[str, ...] = ()
    correction: Correction | None = None

    def corrected(self, labels: Path, *, names: Sequence[str] = ("", "")) -> RunComparison:
        """Returns the comparison with the metric `by` corrected by the `labels` of a person.

        The verdict on that metric is the corrected one, before any adjustment for earlier looks (`at`).
        `names` are further names of both runs in the file. Raises what `labels.correct_by` raises.
        """
        return self._with(self.rows, correct_by(labels, self.a, self.b, get(self.by), names=names))

    def at(self, look: TestUse | None) -> RunComparison:
        """Returns the comparison as a `look` at test questions: p and intervals adjusted for those before."""
        if look is None or look.adjustment == 1:
            return replace(self, look=look)
        correction = self.correction and self.correction.after_looks(look.adjustment)
        rows = [row.after_looks(look.adjustment) for row in self.rows]
        return replace(self._with(rows, correction), look=look)

    def _with(self, rows: Iterable[MetricRow], correction: Correction | None) -> RunComparison:
        corrected = (
            row.corrected(correction.result) if correction and row.metric == self.by else row for row in rows
        )
        return replace(self, rows=tuple(corrected), correction=correction)

    def __repr__(self) -> str:
        shown = {"rose": self.rose, "fell": self.fell, "by": self.by}
        shown |= {row.metric: row.verdict_text for row in self.rows}
        return describe("RunComparison", repr(self.a.name), repr(self.b.name), **shown)

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc eval A B --json`."""
        shared = self.a.answered.keys() & self.b.answered.keys()
        return {
            **{
                side: {"name": run.name, "n": len(run.answered), **run.failures.table_json()}
                for side, run in (("a", self.a), ("b", self.b))
            },
            "n": len(shared),
            "only_a": [key for key in self.a.answered if key not in shared],
            "only_b": [key for key in self.b.answered if key not in shared],
            "adjustment": "max-t",
            "metrics": {row.metric: row.to_json() for row in self.rows},
            "skipped_metrics": list(self.skipped),
            "by": self.by,
            "rose": self.rose,
            "fell": self.fell,
            "changed": [change.to_json() for change in self.changed],
            **({"look": self.look.to_json()} if self.look else {}),
            **({"corrected": self.correction.to_json()} if self.correction else {}),
            "remarks": list(self.remarks),
        }

    def table(self) -> tuple[tuple[str, ...], ...]:
        """Returns rows of text for printing, the header first; one row per metric."""
        return (
            (
                "metric",
                self.a.name,
                self.b.name,
                "difference (simultaneous interval)",
                "p adjusted",
                "n",
                "verdict",
            ),
            *(row.cells() for row in self.rows),
        )

    def changes_table(self) -> tuple[tuple[str, ...], ...]:
        """Returns rows of text for printing, the header first; one row per changed question, texts cut."""
        return (
            ("id", "question", "gold", f"{self.a.name} ({self.by})", f"{self.b.name} ({self.by})"),
            *(change.cells() for change in self.changed),
        )

    def notes(self) -> tuple[str, ...]:
        """Returns sentences to print below the tables: omitted questions, failures, and statistical power."""
        left_out = ((row.metric, row.matching.note(self.a.name, self.b.name)) for row in self.rows)
        sentences = [f"{metric}: {note}" for metric, note in left_out if note]
        sentences += [f"{name}: no metric of both runs, not compared." for name in self.skipped]
        sentences += [f"{run.name}: {run.failures.text}." for run in (self.a, self.b) if run.failures.n]
        sentences += self.remarks
        if self.correction:
            sentences += self.correction.sentences
        if self.look:
            sentences += filter(None, [self.look.sentence, self.look.warning])
        sentences.append(
            f"{self.by}: {quantity(self.rose, 'question')} rose and {self.fell} fell from {self.a.name}."
        )
        first = next((row.judged for row in self.rows if row.metric == self.by and row.judged), None)
        return (*sentences, f"{self.by}: {power_note(first.result)}") if first else tuple(sentences)


def compare(a: ScoredRun, b: ScoredRun, *, seed: int, by: str = "", changed: int = 10) -> RunComparison:
    """Compares run `b` with run `a`, on the questions that both answered.

    Metrics are those scored in both runs, in a's order; p is adjusted over all of them. `by` is the metric
    whose largest changes are listed, at most `changed` of them; by default the first. Raises UsageError when
    the runs share no question or no metric, when a shared id has another question or other gold answers, when
    a metric was judged by different backends, and for an unknown metric.
    """
    shared = [key for key in a.answered if key in b.answered]
    if not shared:
        raise UsageError(f"{a.name} and {b.name} share no question id; score both on the same split.")
    contents = [
        {key: (run.answered[key].question, set(run.answered[key].answers)) for key in shared}
        for run in (a, b)
    ]
    differing = [key for key in shared if contents[0][key] != contents[1][key]]
    if differing:
        raise UsageError(
            f"{a.name} and {b.name} are not over the same data: {len(differing)} of {len(shared)} shared "
            f"ids, such as {differing[0]!r}, have another question or other gold answers; score both on one "
            "file."
        )
    names = [name for name in a.metrics if name in b.metrics]
    if not names:
        raise UsageError(f"{a.name} and {b.name} share no metric; score both with the same metrics.")
    if (by := by or names[0]) not in names:
        raise UnknownName("metric of both runs", by, names)
    if a.name == b.name:
        a, b = ScoredRun(f"{a.name} (A)", a.answered), ScoredRun(f"{b.name} (B)", b.answered)
    groups = {**b.groups, **{key: label for key, label in a.groups.items() if label}}
    metrics = [get(name) for name in names]
    contrasts = []
    for metric in metrics:
        sides = a.scores(metric.id), b.scores(metric.id)
        bounds = metric.bounds_of(score for side in sides for score in side.values())
        contrasts.append(Contrast(*sides, bounds))
    results = adjust_family(contrasts, seed=seed, groups=groups)
    rows = []
    for metric, contrast, result in zip(metrics, contrasts, results, strict=True):
        ids, matching = match(contrast.a, contrast.b)
        labels = [groups[key] for key in ids]
        means = [
            mean_ci(
                [scores[key] or 0.0 for key in ids],
                seed=run.seed,
                bounds=contrast.bounds,
                groups=labels,
            )
            if ids
            else None
            for run, scores in ((a, contrast.a), (b, contrast.b))
        ]
        first, second = (run.backend(metric.id, metric.reads) for run in (a, b))
        if first != second:
            raise UsageError(
                f"{metric.id!r} was judged by {first or 'nothing'!r} in {a.name} and by "
                f"{second or 'nothing'!r} in {b.name}, which cannot be compared; score both with one backend."
            )
        verdict = _verdict_of(result, metric)
        rows.append(MetricRow(metric.id, first, means[0], means[1], result, matching, verdict))
    before, after = a.scores(by), b.scores(by)
    both = ((key, before[key] or 0.0, after[key] or 0.0) for key in match(before, after)[0])
    changes = [Change(a.answered[key], b.answered[key], old, new) for key, old, new in both if old != new]
    changes.sort(key=lambda change: (-abs(change.after - change.before), change.a.id))
    rose = sum(change.after > change.before for change in changes)
    remarks = [f"{run.name}: {remark}" for run in (a, b) for remark in run.remarks]
    flattered = [run.name for run in (a, b) if any("flatter" in remark for remark in run.remarks)]
    if len(flattered) == 1:
        remarks.append(f"The difference flatters {flattered[0]} too.")
    return RunComparison(
        a,
        b,
        tuple(rows),
        by,
        rose,
        len(changes) - rose,
        tuple(changes[: max(0, changed)]),
        tuple(name for name in (*a.metrics, *b.metrics) if name not in names),
        remarks=tuple(remarks),
    )


def _verdict_of(judged: ContrastResult | None, metric: Metric) -> Verdict:
    """Returns the verdict on b by the adjusted p; no difference is shown if nothing was compared."""
    return judged.verdict(higher_is_better=metric.higher_is_better) if judged else "not shown to be better"
