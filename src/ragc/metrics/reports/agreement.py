"""Agreement of judged scores with a person's labels: `ragc eval PROGRAM --labels FILE.jsonl`.

The labels are those of `ragc questions label`: correct or wrong, of a question and its answer. A score of
`THRESHOLD` or more says "correct" ("wrong" where less is better), fixed beforehand, as a threshold fitted to
the labels would flatter. Cohen's kappa compares both (`ragc.metrics.stats.agreement`). Of scores with more
than two values the area under the ROC curve is told too, which needs no threshold: how often a right answer
scores above a wrong one, as in Honovich et al. 2022, arXiv:2204.04991.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.core.display import quantity
from ragc.core.files import missing_file
from ragc.errors import RagcError, UsageError
from ragc.metrics import Metric, get
from ragc.metrics.base import ANY
from ragc.metrics.judged import labels as labelled
from ragc.metrics.reports.labels import MIN_LABELS
from ragc.metrics.reports.runs import RunRow, ScoredRun
from ragc.metrics.stats.agreement import JudgedAnswer, agreement
from ragc.metrics.stats.intervals import Interval
from ragc.metrics.stats.separation import separation

THRESHOLD = 0.5
"""The score from which an answer counts as correct."""


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """Cohen's kappa of a metric with labels, and for scores of more than two values the area under the ROC
    curve.
    """

    kappa: Interval
    area: Interval | None = None

    @property
    def text(self) -> str:
        """What stands beside the metric's mean."""
        area = f", area {_shown(self.area)}" if self.area else ""
        return f"kappa {_shown(self.kappa)}{area} with {quantity(self.kappa.n, 'label')}"

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "kappa": self.kappa.mean,
            "ci": [self.kappa.low, self.kappa.high],
            "n": self.kappa.n,
            "threshold": THRESHOLD,
            **({"area": self.area.mean, "area_ci": [self.area.low, self.area.high]} if self.area else {}),
        }


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """The agreement of every judged metric of a run with a person's labels.

    `labels` is the number of labels of answers of the run. `remarks` are sentences on metrics without an
    agreement, and on labels of other answers.
    """

    labels: int
    metrics: Mapping[str, MetricAgreement] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def beside(self, metric: str) -> str:
        """Returns what stands beside the mean of `metric`; "" for nothing."""
        return self.metrics[metric].text if metric in self.metrics else ""

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "labels": self.labels,
            "metrics": {name: one.to_json() for name, one in self.metrics.items()},
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True)
class AnswerLabels:
    """The labels of a file: whether an answer is right, and its question, by the digest of both."""

    path: Path
    correct: Mapping[str, bool]
    questions: Mapping[str, str]

    @classmethod
    def read(cls, path: str | Path) -> AnswerLabels:
        """Reads the file `path`. Raises UsageError where it is not there or empty, DataError for damage."""
        where = Path(path)
        if not where.is_file():
            raise UsageError(missing_file(f"the labels {where}", str(where), Path()))
        held = labelled.read(where)
        if not held:
            raise UsageError(f"{where} holds no label; `ragc questions label ROWS.jsonl` writes them.")
        return cls(
            where,
            {key: one["label"] == labelled.CORRECT for key, one in held.items()},
            {key: str(one.get("question", "")) for key, one in held.items()},
        )

    def check_asked(self, questions: Iterable[str]) -> None:
        """Raises UsageError where no label is of one of `questions`."""
        if not set(self.questions.values()) & set(questions):
            raise UsageError(
                f"None of the {quantity(len(self.correct), 'label')} in {self.path} is of a question that is "
                "asked here; name the split that was labelled, or label these answers."
            )

    def agreement(self, run: ScoredRun) -> LabelAgreement:
        """Returns the agreement of each judged metric of `run` with these labels."""
        answers = {key: labelled.digest(_answer(row)) for key, row in run.answered.items()}
        known = {key: self.correct[mark] for key, mark in answers.items() if mark in self.correct}
        agreements: dict[str, MetricAgreement] = {}
        reasons: dict[str, list[str]] = {}
        for metric in judged_metrics(run):
            outcome = _agreement(run, metric, known)
            if isinstance(outcome, str):
                reasons.setdefault(outcome, []).append(metric.id)
            else:
                agreements[metric.id] = outcome
        remarks = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
        return LabelAgreement(len(known), agreements, (*remarks, *self._others(run, set(answers.values()))))

    def _others(self, run: ScoredRun, marks: set[str]) -> Iterator[str]:
        """Yields a sentence on labels that are not of answers with these `marks`."""
        others = self.questions.keys() - marks
        questions = {row.question for row in run.answered.values()}
        other_answers = sum(self.questions[key] in questions for key in others)
        parts = {
            "of questions that were not asked": len(others) - other_answers,
            "of other answers to the questions": other_answers,
        }
        if others:
            listed = ", ".join(f"{n} {what}" for what, n in parts.items() if n)
            all_labels = quantity(len(self.correct), "label")
            yield f"{len(others)} of the {all_labels} in {self.path.name} do not count: {listed}."


def agreement_beside(rows: Path, run: ScoredRun) -> LabelAgreement | None:
    """Returns the agreement of `run` with the labels beside its file of rows; None without labels or judged
    metrics. Raises what `AnswerLabels.read` raises.
    """
    path = labelled.beside(rows)
    return AnswerLabels.read(path).agreement(run) if path.is_file() and judged_metrics(run) else None


def no_judged_metric() -> UsageError:
    """Returns the error of labels for scores that no judge gave."""
    return UsageError(
        "Labels stand beside judged scores, and no metric of this run asks a judge or an entailment backend; "
        "report one such as judge_acc, or leave them out."
    )


def judged_metrics(run: ScoredRun) -> list[Metric]:
    """Returns the metrics of `run` that score each answer by a finding of a judge or another backend."""
    backends = {name for row in run.answered.values() for name in row.backends}
    known = (metric for name in run.metrics if (metric := known_metric(name)) is not None)
    return [
        one
        for one in known
        if {one.id, one.reads} & backends
        and one.bounds_of(run.scores(one.id).values()) not in (None, ANY)
        and not one.combine
    ]


def _agreement(run: ScoredRun, metric: Metric, known: Mapping[str, bool]) -> MetricAgreement | str:
    """Returns the agreement of `metric` with the labels `known` by question id, or why there is none."""
    scores = run.scores(metric.id)
    held = {key: score for key in known if (score := scores[key]) is not None}
    verdicts = [known[key] for key in held]
    unscored = len(known) - len(held)
    if len(held) < MIN_LABELS:
        without = f" ({unscored} of them without a score left out)" if unscored else ""
        return (
            f"no agreement with people, which needs {MIN_LABELS} labels of these answers; there are "
            f"{len(held)}{without}, so {MIN_LABELS - len(held)} are lacking."
        )
    sign = 1 if metric.higher_is_better else -1
    rows = [
        JudgedAnswer(right, (score >= THRESHOLD) is metric.higher_is_better)
        for right, score in zip(verdicts, held.values(), strict=True)
    ]
    groups = [run.answered[key].group for key in held]
    kappa = agreement(rows, seed=run.seed, groups=groups).kappa
    if kappa is None or len(set(verdicts)) == 1:
        verdict = labelled.CORRECT if verdicts[0] else labelled.WRONG
        return (
            f"kappa is undefined, as all {len(held)} labels say {verdict}; label answers of the other kind "
            "too."
        )
    several = len(set(held.values())) > 2
    ranked = [sign * score for score in held.values()]
    return MetricAgreement(kappa, separation(ranked, verdicts, seed=run.seed) if several else None)


def _answer(row: RunRow) -> dict[str, Any]:
    return {"question": row.question, "prediction": row.prediction}


def known_metric(name: str) -> Metric | None:
    """Returns the metric of that id; None for one of another version, or from elsewhere."""
    try:
        return get(name)
    except RagcError:
        return None


def _shown(value: Interval) -> str:
    return f"{value.mean:.2f} [{value.low:.2f}, {value.high:.2f}]"
