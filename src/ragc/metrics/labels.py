"""Labels of people: how far a judge agrees with them, and its difference of two runs corrected by them.

    {"id": "q7", "question": "...", "prediction": "...", "label": "correct", "answer": "<digest>"}
    {"id": the question's, "arm": "a", "b" or the name of a run, "label": 0, 1 or a score}

One line a label. The first kind is what `ragc questions label` writes: `answer` is the digest of question and
prediction, so that the label of another prediction is not taken for this one's. The second kind is for
`ragc eval A B --labels` alone. No content is executed.

A score of `THRESHOLD` or more says "correct" ("wrong" where less is better), fixed beforehand, as a threshold
fitted to the labels would flatter. Cohen's kappa compares both (`ragc.metrics.stats.labels`). Of scores with
more than two values the area under the ROC curve, which needs no threshold, is given too: how often a right
answer scores above a wrong one, as in Honovich et al. 2022, arXiv:2204.04991.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.core.display import quantity
from ragc.core.files import missing_file, put_file
from ragc.core.text import json_text
from ragc.errors import RagcError, UsageError
from ragc.metrics import Metric, get
from ragc.metrics.base import ANY
from ragc.metrics.runs import RunRow, ScoredRun, json_lines, raise_problems
from ragc.metrics.stats.labels import Corrected, correct, kappa, separation
from ragc.metrics.stats.resample import Interval, after_looks

CORRECT, WRONG = VERDICTS = "correct", "wrong"

THRESHOLD = 0.5
"""The score from which an answer counts as correct."""

MIN_LABELS = 30
"""The fewest labels of a run: with fewer the intervals do not cover."""

MAX_BYTES = 64 * 2**20

Decide = Callable[[Mapping[str, Any]], str | None]
"""From a row of answers to "correct", "wrong", "skip", or None to stop."""


def beside(answers: Path) -> Path:
    """Returns the file of labels next to the file of answers, `rows.labels.jsonl` for `rows.jsonl`."""
    return answers.with_name(f"{answers.name.removesuffix('.jsonl')}.labels.jsonl")


def digest(row: Mapping[str, Any]) -> str:
    """Returns the digest of a row's question and prediction, 16 hexadecimal digits."""
    content = json.dumps([row.get("question"), row.get("prediction")], ensure_ascii=False)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def label(answers: Path, decide: Decide, out: Path) -> dict[str, int]:
    """Asks `decide` about each answer without a label, and adds its verdicts to `out` one by one.

    Returns the numbers of "correct", "wrong" and "open" ones. Raises DataError for rows without a question or
    prediction, and UsageError for another verdict.
    """
    labels, problems = read(out) if out.exists() else {}, list[str]()
    pending: list[Mapping[str, Any]] = []
    for place, row in json_lines(answers, "the rows to label", 4 * 2**30):
        if not isinstance(row, dict) or not isinstance(row.get("question"), str) or "prediction" not in row:
            problems.append(f"{place}: has no `question` and `prediction`; name rows of ragc eval --out")
        elif row["prediction"] and digest(row) not in labels:
            pending.append(row)
    raise_problems(answers, problems)
    added = 0
    for row in pending:
        verdict = decide(row)
        if verdict is None:
            break
        if verdict == "skip":
            continue
        if verdict not in VERDICTS:
            raise UsageError(f"A verdict is correct, wrong, skip or None, found {verdict!r}.")
        added += 1
        key = digest(row)
        shown = {"id": row.get("id", ""), "question": row["question"], "prediction": row["prediction"]}
        labels[key] = {**shown, "label": verdict, "answer": key}
        put_file(out, "".join(f"{json_text(value)}\n" for value in labels.values()).encode())
    counted = [value["label"] for value in labels.values()]
    return {CORRECT: counted.count(CORRECT), WRONG: counted.count(WRONG), "open": len(pending) - added}


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Returns the labels of answers in a file by the digest of each. Raises DataError for a row that is
    none.
    """
    labels, problems = dict[str, dict[str, Any]](), list[str]()
    for place, row in json_lines(path, "the labels", MAX_BYTES):
        if not isinstance(row, dict) or row.get("label") not in VERDICTS or not row.get("answer"):
            problems.append(f"{place}: is no label, which has `label` (correct or wrong) and `answer`")
        else:
            labels[str(row["answer"])] = row
    raise_problems(path, problems)
    return labels


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """Cohen's kappa of a metric with labels, and for scores of more than two values the area under the ROC
    curve.
    """

    kappa: Interval
    area: Interval | None = None

    @property
    def text(self) -> str:
        """What follows the metric's mean."""
        parts = {"kappa": self.kappa, "area": self.area}
        shown = [f"{name} {x.mean:.2f} [{x.low:.2f}, {x.high:.2f}]" for name, x in parts.items() if x]
        return f"{', '.join(shown)} with {quantity(self.kappa.n, 'label')}"

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
        """Returns what follows the mean of `metric`; "" for nothing."""
        return self.metrics[metric].text if metric in self.metrics else ""

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "labels": self.labels,
            "metrics": {name: agreement.to_json() for name, agreement in self.metrics.items()},
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True)
class AnswerLabels:
    """The `labels` of a file: the row of each answer, by the digest of question and answer."""

    path: Path
    labels: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, path: str | Path) -> AnswerLabels:
        """Reads the file `path`. Raises UsageError where it is not there or empty, DataError for damage."""
        where = Path(path)
        if not where.is_file():
            raise UsageError(missing_file(f"the labels {where}", str(where), Path()))
        labels = read(where)
        if not labels:
            raise UsageError(f"{where} holds no label; `ragc questions label ROWS.jsonl` writes them.")
        return cls(where, labels)

    def check_asked(self, questions: Iterable[str]) -> None:
        """Raises UsageError where no label is of one of `questions`."""
        if not {row.get("question") for row in self.labels.values()} & set(questions):
            raise UsageError(
                f"None of the {quantity(len(self.labels), 'label')} in {self.path} is of a question that is "
                "asked here; name the split that was labelled, or label these answers."
            )

    def agreement(self, run: ScoredRun) -> LabelAgreement:
        """Returns the agreement of each judged metric of `run` with these labels."""
        answers = {key: _digest_of(row) for key, row in run.answered.items()}
        verdicts = {
            key: self.labels[mark]["label"] == CORRECT for key, mark in answers.items() if mark in self.labels
        }
        agreements: dict[str, MetricAgreement] = {}
        reasons: dict[str, list[str]] = {}
        for metric in judged_metrics(run):
            outcome = _agreement(run, metric, verdicts)
            if isinstance(outcome, str):
                reasons.setdefault(outcome, []).append(metric.id)
            else:
                agreements[metric.id] = outcome
        remarks = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
        if unused := self.labels.keys() - set(answers.values()):
            questions = {row.question for row in run.answered.values()}
            other_answers = sum(self.labels[key].get("question") in questions for key in unused)
            parts = {
                "of questions that were not asked": len(unused) - other_answers,
                "of other answers to the questions": other_answers,
            }
            remarks.append(
                f"{len(unused)} of the {quantity(len(self.labels), 'label')} in {self.path.name} do not "
                f"count: {', '.join(f'{n} {what}' for what, n in parts.items() if n)}."
            )
        return LabelAgreement(len(verdicts), agreements, tuple(remarks))


def agreement_beside(rows: Path, run: ScoredRun) -> LabelAgreement | None:
    """Returns the agreement of `run` with the labels next to its file of rows; None without labels or judged
    metrics. Raises what `AnswerLabels.read` raises.
    """
    path = beside(rows)
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
    listed = (metric for name in run.metrics if (metric := known_metric(name)) is not None)
    return [
        metric
        for metric in listed
        if {metric.id, metric.reads} & backends
        and metric.bounds_of(run.scores(metric.id).values()) not in (None, ANY)
        and not metric.combine
    ]


def known_metric(name: str) -> Metric | None:
    """Returns the metric of that id; None for one of another version, or from elsewhere."""
    try:
        return get(name)
    except RagcError:
        return None


def _agreement(run: ScoredRun, metric: Metric, verdicts: Mapping[str, bool]) -> MetricAgreement | str:
    """Returns the agreement of `metric` with `verdicts` by question id, or why there is none."""
    run_scores = run.scores(metric.id).items()
    scores = {key: score for key, score in run_scores if key in verdicts and score is not None}
    human = [verdicts[key] for key in scores]
    if len(human) < MIN_LABELS:
        unscored = len(verdicts) - len(human)
        without = f" ({unscored} of them without a score left out)" if unscored else ""
        return (
            f"no agreement with people, which needs {MIN_LABELS} labels of these answers; there are "
            f"{len(human)}{without}, so {MIN_LABELS - len(human)} are lacking."
        )
    judge = [(score >= THRESHOLD) is metric.higher_is_better for score in scores.values()]
    agreed = kappa(human, judge, seed=run.seed, groups=[run.answered[key].group for key in scores])
    if agreed is None or len(set(human)) == 1:
        verdict = CORRECT if human[0] else WRONG
        return (
            f"kappa is undefined, as all {len(human)} labels say {verdict}; label answers of the other kind "
            "too."
        )
    if len(set(scores.values())) <= 2:
        return MetricAgreement(agreed)
    ranked = [score if metric.higher_is_better else -score for score in scores.values()]
    return MetricAgreement(agreed, separation(ranked, human, seed=run.seed))


def _digest_of(row: RunRow) -> str:
    return digest({"question": row.question, "prediction": row.prediction})


@dataclass(frozen=True, slots=True)
class Correction:
    """The difference of `metric` between the runs `a` and `b`, corrected by labels.

    `remarks` are sentences on what judge or labels cannot show.
    """

    metric: str
    a: str
    b: str
    result: Corrected
    remarks: tuple[str, ...] = ()

    def after_looks(self, factor: int) -> Correction:
        """Returns the correction, also adjusted by the `factor` of a look at test questions."""
        r = self.result
        p, low, high = after_looks(factor, r.diff, r.p, (r.low, r.high), confidence=r.confidence)
        return replace(self, result=replace(r, p=p, low=low, high=high))

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {"metric": self.metric, **self.result.to_json(), "remarks": list(self.remarks)}

    @property
    def sentences(self) -> tuple[str, ...]:
        """For people: the corrected difference, and how the judge erred on either run."""
        r = self.result
        erred = [
            f"{name} {abs(error):.3f} too {'much' if error >= 0 else 'little'}"
            for name, error in ((self.a, r.error_a), (self.b, r.error_b))
        ]
        difference = (
            f"{self.metric}, corrected by {r.labels[0]} and {r.labels[1]} labels: difference {r.diff:+.3f} "
            f"[{r.low:+.3f}, {r.high:+.3f}], p {r.p:.4f}; by the judge alone {r.judged:+.3f}."
        )
        return (
            difference,
            f"Where there are labels, the judge gave {' and '.join(erred)}.",
            *self.remarks,
        )


def correct_by(
    path: Path, a: ScoredRun, b: ScoredRun, metric: Metric, *, names: Sequence[str] = ("", "")
) -> Correction:
    """Returns the difference b - a of `metric` on the questions scored in both runs, corrected by the labels
    in `path`.

    An arm is "a" or "b", the name of the run, or the one in `names`. Raises DataError with every problem and
    its line, and UsageError for labels of one run only, for fewer than `MIN_LABELS` of one, and for a metric
    without a least and a greatest score.
    """
    bounds = metric.bounds
    if bounds is None or metric.combine is not None:
        raise UsageError(
            f"Labels correct a metric with a least and a greatest score for each question, and {metric.id!r} "
            "has none; name the judge's metric with --by."
        )
    runs = (a, b)
    columns = [
        {key: score for key, score in run.scores(metric.id).items() if score is not None} for run in runs
    ]
    position = {key: index for index, key in enumerate(key for key in columns[0] if key in columns[1])}
    arms = {
        name: index
        for index, run in enumerate(runs)
        for name in ("ab"[index], run.name, names[index])
        if name
    }
    labels = _labels_of(path, runs, arms, position, bounds)
    if min(map(len, labels)) < MIN_LABELS:
        counts = " and ".join(
            f"{len(side) or 'none'} of {run.name}" for side, run in zip(labels, runs, strict=True)
        )
        raise UsageError(
            f"{path} has labels of {counts}, and a correction needs at least {MIN_LABELS} of each, as "
            "nothing else shows whether the judge treats both alike; label more answers, drawn at random."
        )
    before, after = scores = [[column[key] for key in position] for column in columns]
    together = [a.groups[key] or b.groups[key] for key in position]
    result = correct(before, after, labels[0], labels[1], bounds=bounds, groups=together)
    remarks = []
    for run, column, labelled in zip(runs, scores, labels, strict=True):
        if min(column) == max(column):
            remarks.append(
                f"The judge gave every answer of {run.name} {column[0]:g}, so it tells none of them apart; "
                "what is known of them comes from the labels."
            )
        if all(column[index] == label for index, label in labelled.items()):
            remarks.append(
                f"The judge agreed with all {len(labelled)} labels of {run.name}; the interval counts one "
                "further error."
            )
    return Correction(metric.id, a.name, b.name, result, tuple(remarks))


def _labels_of(
    path: Path,
    runs: Sequence[ScoredRun],
    arms: Mapping[str, int],
    position: Mapping[str, int],
    bounds: tuple[float, float],
) -> tuple[dict[int, float], dict[int, float]]:
    """Returns the labels of each run by the `position` of their question. Raises DataError for wrong ones."""
    answers: dict[str, list[dict[str, Any]]] = {}  # the arms and ids of each answer, by its digest
    for arm, run in zip("ab", runs, strict=True):
        for key, row in run.answered.items():
            answers.setdefault(_digest_of(row), []).append({"id": key, "arm": arm})
    labels: tuple[dict[int, float], dict[int, float]] = ({}, {})
    problems: list[str] = []
    for place, row in json_lines(path, "the labels", MAX_BYTES):
        expanded = [row]
        if isinstance(row, dict) and "arm" not in row and isinstance(row.get("answer"), str):
            score = {CORRECT: 1.0, WRONG: 0.0}.get(str(row.get("label")), row.get("label"))
            absent = [{"id": row.get("id"), "arm": ""}]
            expanded = [{**arm, "label": score} for arm in answers.get(row["answer"], absent)]
        for value in expanded:
            if problem := _problem(value, arms, position, bounds):
                problems.append(f"{place}: {problem}")
                continue
            side, index = labels[arms[value["arm"]]], position[value["id"]]
            if index in side:
                problems.append(f"{place}: question {value['id']!r} has two labels of {value['arm']!r}")
            side[index] = float(value["label"])
    raise_problems(path, problems)
    return labels


def _problem(
    row: Any, arms: Mapping[str, int], shared: Mapping[str, int], bounds: tuple[float, float]
) -> str:
    if not isinstance(row, dict):
        return 'not a JSON object such as {"id": "q1", "arm": "a", "label": 1}'
    key, arm, label = row.get("id"), row.get("arm"), row.get("label")
    if arm == "":
        return f"its answer to {key!r} is in neither run"
    if not isinstance(arm, str) or arm not in arms:
        return f"'arm' is one of {', '.join(sorted(arms, key=len))}, but found {arm!r}"
    if not isinstance(key, str) or key not in shared:
        return f"'id' must be a question that both runs have a score of, but found {key!r}"
    if not isinstance(label, int | float) or not bounds[0] <= label <= bounds[1]:
        return f"'label' must be a number from {bounds[0]:g} to {bounds[1]:g}, but found {label!r}"
    return ""
