"""Comparison of two runs, question by question, for `ragc eval A B`.

The report lists the metrics and the changed questions, as JSON and as text tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.core.display import describe, quantity
from ragc.errors import UnknownName, UsageError
from ragc.metrics import Metric, get
from ragc.metrics.base import AS_JUDGED, is_judge
from ragc.metrics.reports import labels as label_files
from ragc.metrics.reports.labels import Correction
from ragc.metrics.reports.runs import RunRow, ScoredRun
from ragc.metrics.stats.intervals import (
    Interval,
    Verdict,
    groups_json,
    in_groups,
    mean_ci,
    power_note,
    too_few,
)
from ragc.metrics.stats.multiple import Contrast, ContrastResult, Matching, Method, adjust_family, match
from ragc.metrics.stats.prediction_powered import Corrected
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
        metric = get(self.metric)
        judged = self.judged and self.judged.after_looks(factor, metric.bounds)
        return replace(self, judged=judged, verdict=_decided(judged, metric.higher_is_better))

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
        sides = {name: _interval(side) for name, side in (("a", self.a), ("b", self.b)) if side}
        numbers = self.judged.to_json() if self.judged else {"n": 0}
        note = power_note(self.judged.result) if self.judged else ""
        left = {"unscored": self.matching.unscored}
        return {"backend": self.backend, **sides, **numbers, **left, "verdict": self.verdict, "power": note}


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


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Run `b` compared with run `a`.

    `changed` holds the questions whose score of the metric `by` changed most, largest change first; `rose`
    and `fell` count all questions whose score did. `skipped` names metrics that only one run has. `look` says
    how often the test questions were looked at, if they were answered for this comparison; `remarks` are
    sentences on what the scores cannot show.
    """

    a: ScoredRun
    b: ScoredRun
    rows: tuple[MetricRow, ...]
    method: Method
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
        `names` are further names of both runs in the file. Raises what `ragc.metrics.reports.labels` raises.
        """
        metric = get(self.by)
        held = label_files.read(labels, self.a, self.b, metric, names=names)
        correction = label_files.corrected(held, self.a, self.b, metric)
        rows = tuple(row.corrected(correction.result) if row.metric == self.by else row for row in self.rows)
        return replace(self, rows=rows, correction=correction)

    def at(self, look: TestUse | None) -> RunComparison:
        """Returns the comparison as a `look` at test questions: p and intervals adjusted for those before."""
        if look is None or look.adjustment == 1:
            return replace(self, look=look)
        correction = self.correction and self.correction.after_looks(look.adjustment)
        rows = [row.after_looks(look.adjustment) for row in self.rows]
        if correction:
            rows = [row.corrected(correction.result) if row.metric == self.by else row for row in rows]
        return replace(self, look=look, rows=tuple(rows), correction=correction)

    def __repr__(self) -> str:
        shown = {"rose": self.rose, "fell": self.fell, "by": self.by}
        verdicts = {row.metric: row.verdict_text for row in self.rows}
        return describe("RunComparison", repr(self.a.name), repr(self.b.name), **{**shown, **verdicts})

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc eval A B --json`."""
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
            **({"look": self.look.to_json()} if self.look else {}),
            **({"corrected": self.correction.to_json()} if self.correction else {}),
            "remarks": list(self.remarks),
        }

    def table(self) -> tuple[tuple[str, ...], ...]:
        """Returns rows of text for printing, the header first; one row per metric."""
        gap = "difference (simultaneous interval)"
        head = ("metric", self.a.name, self.b.name, gap, "p adjusted", "n", "verdict")
        return head, *(_table_row(row) for row in self.rows)

    def changes_table(self) -> tuple[tuple[str, ...], ...]:
        """Returns rows of text for printing, the header first; one row per changed question, texts cut."""
        head = ("id", "question", "gold", f"{self.a.name} ({self.by})", f"{self.b.name} ({self.by})")
        return head, *(
            (
                change.a.id,
                _shorten(change.a.question),
                _shorten(" | ".join(change.a.answers)),
                _format_answer(change.a, change.before),
                _format_answer(change.b, change.after),
            )
            for change in self.changed
        )

    def notes(self) -> tuple[str, ...]:
        """Returns sentences to print below the tables: omitted questions, failures, and statistical power."""
        notes = [f"{row.metric}: {row.matching.note(self.a.name, self.b.name)}" for row in self.rows]
        sentences = [note for note in notes if not note.endswith(": ")]
        sentences += [f"{name}: no metric of both runs, not compared." for name in self.skipped]
        for run in (self.a, self.b):
            if run.failures.n:
                sentences.append(f"{run.name}: {run.failures.text}.")
        sentences += self.remarks
        if self.correction:
            sentences += self.correction.sentences
        if self.look:
            sentences += filter(None, [self.look.sentence, self.look.warning])
        rose = quantity(self.rose, "question")
        sentences.append(f"{self.by}: {rose} rose and {self.fell} fell from {self.a.name}.")
        first = next((row.judged for row in self.rows if row.metric == self.by and row.judged), None)
        return (*sentences, f"{self.by}: {power_note(first.result)}") if first else tuple(sentences)


def _run(run: ScoredRun) -> dict[str, Any]:
    return {"name": run.name, "n": len(run.answered), **run.failures.table_json()}


def _interval(value: Interval) -> dict[str, Any]:
    return {"mean": value.mean, "ci": [value.low, value.high]} | groups_json(value.groups)


def _table_row(row: MetricRow) -> tuple[str, ...]:
    name = f"{row.metric} ({row.backend})" if row.backend else row.metric
    if row.judged is None or row.a is None or row.b is None:
        return name, "", "", "", "", "0", "no common question"
    sides = (f"{side.mean:.3f} [{side.low:.3f}, {side.high:.3f}]" for side in (row.a, row.b))
    contrast = row.judged
    gap = f"{contrast.result.diff:+.3f} [{contrast.low:+.3f}, {contrast.high:+.3f}]"
    n = f"{contrast.result.n}{in_groups(contrast.result.groups)}"
    return name, *sides, gap, f"{contrast.adjusted:.4f}", n, row.verdict_text


def _format_answer(row: RunRow, score: float) -> str:
    answer = row.prediction if row.prediction is not None else f"none ({row.failure})"
    return f"{score:.3f} {_shorten(answer)}"


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_CELL_CHARS else text[: MAX_CELL_CHARS - 1] + "…"


def compare(
    a: ScoredRun,
    b: ScoredRun,
    *,
    seed: int,
    by: str = "",
    changed: int = 10,
    method: Method = "max-t",
    confidence: float = 0.95,
) -> RunComparison:
    """Runs `b` compared with run `a`, on the questions that both answered.

    Metrics are those scored in both runs, in a's order; p is adjusted over all of them. `by` is the metric
    whose largest changes are listed, at most `changed` of them; by default the first. Raises UsageError when
    the runs share no question or no metric, when a shared id has another question or other gold answers, when
    a metric was judged by different backends, and for an unknown metric.
    """
    _same_data(a, b)
    theirs = set(b.metrics)
    names = [name for name in a.metrics if name in theirs]
    if not names:
        raise UsageError(f"{a.name} and {b.name} share no metric; score both with the same metrics.")
    if (by := by or names[0]) not in names:
        raise UnknownName("metric of both runs", by, names)
    skipped = tuple(name for name in (*a.metrics, *b.metrics) if name not in names)
    a, b = _distinct_names(a, b)
    metrics = [get(name) for name in names]
    columns = [(m, a.scores(m.id), b.scores(m.id)) for m in metrics]
    contrasts = [
        Contrast(before, after, m.bounds_of((*before.values(), *after.values())))
        for m, before, after in columns
    ]
    groups = {**b.groups, **{key: label for key, label in a.groups.items() if label}}
    results = adjust_family(contrasts, seed=seed, method=method, confidence=confidence, groups=groups)
    rows = tuple(
        _row(metric, contrast, one, _backend(a, b, metric), (a.seed, b.seed), confidence, groups)
        for metric, contrast, one in zip(metrics, contrasts, results, strict=True)
    )
    changes = _changes(a, b, by)
    rose = sum(change.after > change.before for change in changes)
    listed = changes[: max(0, changed)]
    return RunComparison(
        a, b, rows, method, by, rose, len(changes) - rose, listed, skipped, remarks=_remarks(a, b)
    )


def _remarks(a: ScoredRun, b: ScoredRun) -> tuple[str, ...]:
    """Returns what the scores of both runs cannot show, and so their difference."""
    sentences = [f"{run.name}: {remark}" for run in (a, b) for remark in run.remarks]
    flattered = [run.name for run in (a, b) if any("flatter" in remark for remark in run.remarks)]
    return (*sentences, *([f"The difference flatters {flattered[0]} too."] if len(flattered) == 1 else []))


def _same_data(a: ScoredRun, b: ScoredRun) -> None:
    shared = [key for key in a.answered if key in b.answered]
    if not shared:
        raise UsageError(f"{a.name} and {b.name} share no question id; score both on the same split.")
    other = [
        key for key in shared if _question_and_golds(a.answered[key]) != _question_and_golds(b.answered[key])
    ]
    if other:
        raise UsageError(
            f"{a.name} and {b.name} are not over the same data: {len(other)} of {len(shared)} shared ids, "
            f"such as {other[0]!r}, have another question or other gold answers; score both on one file."
        )


def _question_and_golds(row: RunRow) -> tuple[str, frozenset[str]]:
    return row.question, frozenset(row.answers)


def _distinct_names(a: ScoredRun, b: ScoredRun) -> tuple[ScoredRun, ScoredRun]:
    if a.name != b.name:
        return a, b
    return ScoredRun(f"{a.name} (A)", a.answered), ScoredRun(f"{b.name} (B)", b.answered)


def _backend(a: ScoredRun, b: ScoredRun, metric: Metric) -> str:
    first, second = (run.backend(metric.id, metric.reads) for run in (a, b))
    if first != second:
        raise UsageError(
            f"{metric.id!r} was judged by {first or 'nothing'!r} in {a.name} and by {second or 'nothing'!r} "
            f"in {b.name}, which cannot be compared; score both with one backend."
        )
    return first


def _row(
    metric: Metric,
    contrast: Contrast,
    result: ContrastResult | None,
    backend: str,
    seeds: tuple[int, int],
    confidence: float,
    groups: Mapping[str, str],
) -> MetricRow:
    ids, matching = match(contrast.a, contrast.b)
    sides = [
        mean_ci(
            [score for key in ids if (score := side[key]) is not None],
            confidence=confidence,
            seed=seed,
            bounds=contrast.bounds,
            groups=[groups[key] for key in ids],
        )
        if ids
        else None
        for side, seed in zip((contrast.a, contrast.b), seeds, strict=True)
    ]
    verdict = _decided(result, metric.higher_is_better)
    return MetricRow(metric.id, backend, sides[0], sides[1], result, matching, verdict)


def _changes(a: ScoredRun, b: ScoredRun, by: str) -> tuple[Change, ...]:
    before, after = a.scores(by), b.scores(by)
    ids: Sequence[str] = match(before, after)[0]
    pairs = ((key, _number(before, key), _number(after, key)) for key in ids)
    changes = [Change(a.answered[key], b.answered[key], old, new) for key, old, new in pairs if old != new]
    return tuple(sorted(changes, key=lambda change: (-abs(change.after - change.before), change.a.id)))


def _number(scores: Mapping[str, float | None], key: str) -> float:
    value = scores[key]
    return 0.0 if value is None else value


def _decided(judged: ContrastResult | None, higher_is_better: bool) -> Verdict:
    """Returns the verdict on b by the adjusted p; no difference is shown if nothing was compared."""
    return judged.verdict(higher_is_better=higher_is_better) if judged else "not shown to be better"
