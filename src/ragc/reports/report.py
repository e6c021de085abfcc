"""What a report holds, as typed records; each becomes one line of the JSONL beside the page.

    report, verdict, changes, score, difference, trial, importance, slice, threshold, cost, budget, group,
    question, fact

A line has the name of its record as `row`. Scores are those of a metric as it is written, not signed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Tone = Literal["better", "worse", "open", "none"]
"""How a verdict reads: "open" is "not shown to be better" or unfinished, "none" has no comparison."""

Change = Literal["gained", "lost", "unchanged", "only once"]
"""A question in two runs: its score rose, fell, stayed, or one of them does not have it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first thing that is read: a headline, and sentences that qualify it."""

    headline: str
    tone: Tone = "none"
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """How many questions changed by `metric` from the first run to the last, by kind of change."""

    metric: str
    before: str
    after: str
    gained: int
    lost: int
    unchanged: int
    only_once: int


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of `metric` over the `n` questions of a `run`, with its 95% interval."""

    run: str
    split: str
    metric: str
    mean: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean difference of `metric` between two runs on `n` common questions, with its 95% interval.

    `p` and the interval are adjusted where `adjusted` says so. `decides` marks the metric of the verdict.
    """

    metric: str
    split: str
    before: str
    after: str
    mean: float
    low: float
    high: float
    p: float
    n: int
    adjusted: bool = False
    decides: bool = False
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial of a study on dev questions.

    `values` and `expected` are by objective. `best` is the best complete value of the deciding objective up
    to this trial. `of` counts the questions of a complete trial, `seen` those of this one. `params` are its
    choices by dimension of the search.
    """

    number: int
    choices: str
    values: Mapping[str, float]
    seen: int
    of: int
    complete: bool
    best: float | None = None
    expected: float | None = None
    front: bool = False
    chosen: bool = False
    failed: int = 0
    failures: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Importance:
    """The share of a dimension of the search in the spread of `metric` over the `trials` trials."""

    dimension: str
    metric: str
    share: float
    trials: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The complete trials with one `value` of a dimension: how many, and their mean and best `metric`."""

    dimension: str
    value: str
    metric: str
    trials: int
    mean: float
    best: float


@dataclass(frozen=True, slots=True)
class GroupCount:
    """How many questions of a `run` belong to a group of outcomes."""

    run: str
    group: str
    title: str
    about: str
    n: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """The mean of `metric` over the values of a threshold, by dev questions.

    `chosen` is the best value, `validated` its cross-validated mean; `left_out` says why there is no curve.
    """

    program: str
    knob: str
    metric: str
    points: tuple[float, ...] = ()
    means: tuple[float, ...] = ()
    present: float | None = None
    chosen: float | None = None
    before: float | None = None
    after: float | None = None
    validated: float | None = None
    n: int = 0
    reached: int = 0
    exact: bool = False
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a part of the work or a run cost, replayed calls included unless `amounts` say otherwise."""

    part: str
    amounts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """The amount of one kind that was spent, and its limit; None for no limit."""

    kind: str
    spent: float
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A question in one run: prediction, scores, group of outcome, trace.

    `prediction` is None where there is none, and where only scores were kept: then `answered` is False.
    """

    scores: Mapping[str, float | None]
    prediction: str | None = None
    answered: bool = True
    failure: str = ""
    group: str = ""
    group_title: str = ""
    passages: tuple[str, ...] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    trace: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class QuestionLine:
    """A question with its answers by run, and its change from the first run to the last."""

    id: str
    question: str
    answers: tuple[str, ...]
    gold_ids: tuple[str, ...]
    runs: Mapping[str, Answer]
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """Something about where the report comes from: a name and its value, under a heading."""

    section: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Report:
    """All of a report. `runs` are the names of the runs with questions, the one to compare with first.

    `metric` decides; `objectives` are those of the search, each with whether more is better. `gaps` are
    sentences on what the report lacks and why, `remarks` on what its figures cannot show.
    """

    title: str
    subject: str
    verdict: Verdict
    metric: str = ""
    split: str = ""
    runs: tuple[str, ...] = ()
    objectives: Mapping[str, bool] = field(default_factory=dict)
    changes: tuple[Changes, ...] = ()
    scores: tuple[Score, ...] = ()
    differences: tuple[Difference, ...] = ()
    trials: tuple[Trial, ...] = ()
    importances: tuple[Importance, ...] = ()
    slices: tuple[Slice, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    costs: tuple[Cost, ...] = ()
    budget: tuple[BudgetLine, ...] = ()
    groups: tuple[GroupCount, ...] = ()
    questions: tuple[QuestionLine, ...] = ()
    facts: tuple[Fact, ...] = ()
    remarks: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()

    def lines(self) -> Iterator[dict[str, Any]]:
        """The lines of the JSONL: first the report itself, then its records in the order of the page."""
        about = {
            name: getattr(self, name)
            for name in ("title", "subject", "metric", "split", "runs", "objectives", "remarks", "gaps")
        }
        yield {"row": "report", **about}
        yield {"row": "verdict", **asdict(self.verdict)}
        for name, records in (
            ("changes", self.changes),
            ("score", self.scores),
            ("difference", self.differences),
            ("trial", self.trials),
            ("importance", self.importances),
            ("slice", self.slices),
            ("threshold", self.thresholds),
            ("cost", self.costs),
            ("budget", self.budget),
            ("group", self.groups),
            ("question", self.questions),
            ("fact", self.facts),
        ):
            yield from ({"row": name, **_fields(record)} for record in records)


def _fields(record: Any) -> dict[str, Any]:
    """The fields of a record; traces are not copied, as `asdict` would."""
    if isinstance(record, QuestionLine):
        runs = {name: _fields(answer) for name, answer in record.runs.items()}
        return {name: getattr(record, name) for name in record.__slots__} | {"runs": runs}
    return {name: getattr(record, name) for name in record.__slots__}
