"""The content of a report, as typed records; each becomes one line of the JSONL beside the page.

    report, verdict, setting, changes, score, difference, trial, prompt, importance, slice, threshold, cost,
    budget, group, question, fact

A line has the name of its record as `row`. Scores are those of a metric as it is written, not signed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

Tone = Literal["better", "worse", "open", "none"]
"""How a verdict reads: "open" is "not shown to be better" or unfinished, "none" has no comparison."""

Change = Literal["gained", "lost", "unchanged", "only once"]
"""A question in two runs: its score rose, fell, stayed, or one of them does not have it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first part of a report: a headline, a recommendation, and sentences that qualify it."""

    headline: str
    tone: Tone = "none"
    sentences: tuple[str, ...] = ()
    recommendation: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the program that changed from the baseline to the compiled program or the best trial.

    `before` is "" if the baseline's value is unknown.
    """

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """The messages of the first call of a predictor, as a run sent them for a `question`, given by its id."""

    run: str
    predictor: str
    question: str
    messages: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class ChangeCounts:
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
    """The mean of `metric` over the `n` questions of a `run`, with its 95% interval.

    `agreement` has Cohen's kappa of a judged metric with a person's labels, with its interval; it is empty
    without labels.
    """

    run: str
    split: str
    metric: str
    mean: float
    low: float
    high: float
    n: int
    agreement: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean difference of `metric` between two runs on `n` common questions, with its 95% interval.

    `p` and the interval are adjusted for earlier looks, and for all metrics where `adjusted` says so.
    `decides` marks the metric of the verdict.
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
    to this trial. `low` and `high` are the 95% interval of the deciding objective over the questions seen,
    None where that is no mean over questions. `of` counts the questions of a complete trial, `seen` those of
    this one. `params` are its choices by dimension of the search.
    """

    number: int
    choices: str
    values: Mapping[str, float]
    seen: int
    of: int
    complete: bool
    best: float | None = None
    low: float | None = None
    high: float | None = None
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
class FrontProgram:
    """A tested member of the front: its folder, the trial that tried it, and its mean of each metric on test.

    `objectives` are those of the search, the first decides. `verdict` and `p` compare it with the baseline,
    with one correction for all members and objectives; `limits` says how it stands to the limits.
    """

    path: str
    trial: int
    winner: bool
    means: Mapping[str, float]
    objectives: tuple[str, ...]
    verdict: str
    p: float | None
    limits: str = ""


@dataclass(frozen=True, slots=True)
class CostRow:
    """The cost of a part of the work or of a run, replayed calls included unless `amounts` say otherwise."""

    part: str
    amounts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """The amount of one kind that was spent, and its limit; None for no limit."""

    kind: str
    spent: float
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """A question in one run: prediction, scores, group of outcome, trace.

    `prediction` is None if there is none, or if only scores were stored: then `answered` is False.
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
    runs: Mapping[str, QuestionAnswer]
    change: Change | None = None


class QuestionLines(Protocol):
    """The questions of a report; whole rows are read while iterating."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[QuestionLine]: ...
    def select(self, places: Iterable[int]) -> Iterator[QuestionLine]:
        """Returns the questions at `places`, counted from 0."""
        ...


@dataclass(frozen=True, slots=True)
class ReportFact:
    """A fact on the origin of the report: a name and its value, under a heading."""

    section: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report. `runs` are the names of the runs with questions, the reference of comparisons first.

    `metric` decides; `objectives` are those of the search, each with whether more is better. `metrics` are
    the metrics by question that the page shows. `gaps` are sentences on what the report lacks and why,
    `search_gaps` on what its section on the search lacks, `remarks` on what its figures cannot show.
    """

    title: str
    subject: str
    verdict: Verdict
    questions: QuestionLines
    metric: str = ""
    split: str = ""
    runs: tuple[str, ...] = ()
    objectives: Mapping[str, bool] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    changes: tuple[ChangeCounts, ...] = ()
    scores: tuple[Score, ...] = ()
    differences: tuple[Difference, ...] = ()
    trials: tuple[Trial, ...] = ()
    prompts: tuple[ShownPrompt, ...] = ()
    importances: tuple[Importance, ...] = ()
    slices: tuple[Slice, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    front: tuple[FrontProgram, ...] = ()
    costs: tuple[CostRow, ...] = ()
    budget: tuple[BudgetLine, ...] = ()
    groups: tuple[GroupCount, ...] = ()
    facts: tuple[ReportFact, ...] = ()
    remarks: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    search_gaps: tuple[str, ...] = ()

    def lines_before_questions(self) -> Iterator[dict[str, Any]]:
        """Yields the lines of the JSONL up to the first question: the report itself, then its records."""
        about = {
            name: getattr(self, name)
            for name in (
                "title", "subject", "metric", "split", "runs", "objectives", "metrics", "remarks", "gaps",
                "search_gaps",
            )
        }  # fmt: skip
        yield {"row": "report", **about}
        yield {"row": "verdict", **asdict(self.verdict)}
        for name, records in (
            ("setting", self.settings),
            ("changes", self.changes),
            ("score", self.scores),
            ("difference", self.differences),
            ("trial", self.trials),
            ("prompt", self.prompts),
            ("importance", self.importances),
            ("slice", self.slices),
            ("threshold", self.thresholds),
            ("front", self.front),
            ("cost", self.costs),
            ("budget", self.budget),
            ("group", self.groups),
        ):
            yield from ({"row": name, **_fields(record)} for record in records)

    def lines_after_questions(self) -> Iterator[dict[str, Any]]:
        """Yields the lines that follow the last question."""
        yield from ({"row": "fact", **_fields(fact)} for fact in self.facts)


def question_fields(question: QuestionLine) -> dict[str, Any]:
    """Returns the line of a question; traces are not copied, as `asdict` would."""
    runs = {name: _fields(answer) for name, answer in question.runs.items()}
    return {"row": "question", **_fields(question), "runs": runs}


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}
