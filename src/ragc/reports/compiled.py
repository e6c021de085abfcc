"""What ragc wrote of a compile, `provenance.json` and `run.json`, as reports and the console show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import pydantic
from pydantic import AliasChoices, Field

from ragc.compiled.verdict import NOT_MEASURED, verdict_at
from ragc.core.display import figure, quantity
from ragc.errors import ArtefactError
from ragc.metrics.base import UNMEASURED
from ragc.metrics.stats.groups import too_few
from ragc.optimizers.candidates.space import Candidate, describe_candidate
from ragc.reports.questions import metric_of
from ragc.reports.report import Difference, varied
from ragc.store.used_questions import TestUse

RUNS = {"baseline": "baseline", "winner": "compiled"}
"""The names of the two runs in provenance, and in reports."""

Count = Annotated[int, Field(ge=0)]
Ends = tuple[float, float]


class Written(pydantic.BaseModel):
    """A table in a file that ragc wrote: values of other types are refused, further keys are not read."""

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class MeanScore(Written):
    """The mean of a metric with its 95% interval."""

    mean: float
    ci: Ends
    n: Count


class MeanDifference(Written):
    """The difference of a metric, with the p and the interval that people are shown."""

    mean: float
    n: Count
    groups: int | None = None
    p: float = Field(validation_alias=AliasChoices("p_looks", "p_adjusted", "p_front", "p"))
    ci: Ends = Field(validation_alias=AliasChoices("ci_looks", "ci_simultaneous", "ci_front", "ci"))
    p_adjusted: float | None = None


class Split(Written):
    """The scores of both programs by metric, and their differences."""

    baseline: dict[str, MeanScore] = {}
    winner: dict[str, MeanScore] = {}
    differences: dict[str, MeanDifference] = {}


class Judged(Written):
    """The verdict and the differences after the adjustment for earlier test uses."""

    verdict: str
    differences: dict[str, MeanDifference]


class Named(Written):
    """A data split, a source or a model."""

    name: str = ""
    kind: str = ""
    n: Count = 0
    fingerprint: str = ""


class Limit(Written):
    """How a program stands to one of its limits on test."""

    most: float
    standing: str
    test: float = UNMEASURED


class Member(Written):
    """A tested program of the front."""

    path: str
    trial: int
    winner: bool
    dev: dict[str, float]
    test: dict[str, MeanScore]
    differences: dict[str, MeanDifference]
    verdict: str
    limits: dict[str, Limit] = {}


class Threshold(Written):
    """The fit of a threshold on dev: its value and its mean before and after, or why it was left alone."""

    program: str
    knob: str
    metric: str = ""
    present: float | None = None
    chosen: float | None = Field(None, validation_alias="threshold")
    before: float | None = None
    after: float | None = Field(None, validation_alias="in_sample")
    validated: float | None = None
    n: Count = 0
    reached: Count = 0
    left_out: str = ""


class ParetoTrial(Written):
    """A trial that no other beats in all objectives, with its means on dev."""

    trial: int
    candidate: Candidate
    values: dict[str, float]


class SearchFacts(Written):
    """What a search chose, and the trials of its front."""

    candidate: Candidate | None = None
    calibration: list[Threshold] = []
    remarks: list[str] = []
    front: list[ParetoTrial] = []


class RunFacts(Written):
    """The content of `run.json`: what differs between runs."""

    sent: float | None = None
    replayed: float | None = None
    seconds: float | None = None
    finished: str = ""
    machine: str = ""
    look: TestUse | None = None
    after_looks: Judged | None = None


class Measured(Written):
    """The content of `provenance.json`, and of `run.json` as `run`."""

    verdict: str = NOT_MEASURED
    test: Split = Split()
    dev: Split = Split()
    data: dict[str, Named] = {}
    sources: dict[str, Named] = {}
    targets: dict[str, Named] = {}
    versions: dict[str, str] = {}
    backends: dict[str, str] = {}
    counters: dict[str, float] = {}
    seed: int | None = None
    search: SearchFacts = SearchFacts()
    remarks: list[str] = []
    cross_validation: list[Any] = []
    limits: dict[str, Limit] = {}
    front: list[Member] = []
    run: RunFacts = RunFacts()

    @classmethod
    def of(cls, provenance: Mapping[str, Any], run: Mapping[str, Any], where: object) -> Measured:
        """Returns the content of both files in the folder `where`. Raises ArtefactError."""
        try:
            return cls.model_validate({**provenance, "run": dict(run)})
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            file, *place = first["loc"] if first["loc"][0] == "run" else ("provenance", *first["loc"])
            raise ArtefactError(
                f"{where}/{file}.json is damaged ({'.'.join(map(str, place))}: {first['msg']}); copy the "
                "folder again, or compile again, which sends no answered request again."
            ) from None

    @property
    def judged(self) -> Judged:
        """The verdict and the differences that people are shown."""
        return self.run.after_looks or Judged(verdict=self.verdict, differences=self.test.differences)


def scores(measured: Measured) -> Iterator[dict[str, Any]]:
    """Yields the scores of both programs on test and dev, by metric."""
    for name, split in (("test", measured.test), ("dev", measured.dev)):
        for metric in dict.fromkeys((*split.baseline, *split.winner)):
            for run, side in zip(RUNS.values(), (split.baseline, split.winner), strict=True):
                if score := side.get(metric):
                    low, high = score.ci
                    ends = {"mean": score.mean, "low": low, "high": high, "n": score.n}
                    yield {"run": run, "split": name, "metric": metric, **ends, "agreement": {}}


def differences(measured: Measured, metric: str) -> Iterator[Difference]:
    """Yields the differences on test, that of `metric`, which decides, first."""
    for name, gap in sorted(measured.judged.differences.items(), key=lambda item: item[0] != metric):
        is_better = (gap.mean > 0) == metric_of(name)[0]
        verdict = "not shown to be better" if gap.p >= 0.05 else "better" if is_better else "worse"
        yield Difference(
            metric=name,
            split="test",
            before=RUNS["baseline"],
            after=RUNS["winner"],
            mean=gap.mean,
            low=gap.ci[0],
            high=gap.ci[1],
            p=gap.p,
            n=gap.n,
            adjusted=gap.p_adjusted is not None,
            decides=name == metric,
            verdict="cannot tell" if too_few(gap.groups) else verdict,
        )


def front(measured: Measured) -> list[dict[str, Any]]:
    """Returns the tested programs of the front, in order; their p are adjusted for earlier test uses."""
    decisive = next((name for name, gap in measured.test.differences.items() if gap.p_adjusted is None), "")
    factor = measured.run.look.adjustment if measured.run.look else 1
    rows = []
    for member in measured.front:
        p = min(1.0, member.differences[decisive].p * factor) if decisive in member.differences else None
        rows.append(
            {
                "path": member.path,
                "trial": member.trial,
                "winner": member.winner,
                "means": {name: score.mean for name, score in member.test.items()},
                "objectives": sorted(member.dev, key=lambda name: name != decisive),
                "verdict": member.verdict if p is None else verdict_at(member.verdict, p),
                "p": p,
                "limits": _standings(member.limits),
            }
        )
    return rows


def front_lines(measured: Measured) -> Iterator[str]:
    """Yields the lines on the tested front, or else on the Pareto front on dev; none for one objective."""
    if not (rows := front(measured)):
        yield from _dev_lines(measured.search)
        return
    yield f"The front on test, with one correction for its {quantity(len(rows), 'program')}, best first:"
    for row in rows:
        means = [(name, row["means"][name]) for name in row["objectives"] if name in row["means"]]
        shown = ", ".join(f"{name} {figure(name, mean)}" for name, mean in means) or "no score"
        p = "" if row["p"] is None else f" (p {row['p']:.4f})"
        line = f"  {row['path']}{', the winner' if row['winner'] else ''}: {shown}; {row['verdict']}{p}"
        yield f"{line}; {row['limits']}" if row["limits"] else line


def limit_lines(measured: Measured) -> Iterator[str]:
    """Yields the line on how the winner stands to the limits of its recipe; none without limits."""
    if standings := _standings(measured.limits):
        yield f"Limits, on new questions: {standings}."


def _standings(limits: Mapping[str, Limit]) -> str:
    """Returns how a program stands to `limits`, such as `tokens within (760 on test, at most 800)`."""
    standings = []
    for name, limit in limits.items():
        cost = f"{limit.test:.4g} on test" if limit.test < UNMEASURED else "not measured on test"
        more = "; it takes more questions to tell" if limit.standing == "unclear" else ""
        standings.append(f"{name} {limit.standing} ({cost}, at most {limit.most:g}{more})")
    return ", ".join(standings)


def _dev_lines(search: SearchFacts) -> Iterator[str]:
    """Yields the lines on the trials of the front, with the knobs in which they differ."""
    names = varied([trial.candidate.knobs for trial in search.front])
    if search.front:
        yield (
            "The front: no trial is better than one of these in one objective and as good in the others "
            "(dev)."
        )
    for trial in search.front:
        candidate, knobs = trial.candidate, trial.candidate.knobs
        means = ", ".join(f"{name} {value:.4g}" for name, value in trial.values.items())
        shown = {name: knobs[name] for name in names if name in knobs}
        choices = describe_candidate(candidate, shown, program=candidate.program)
        mark = ", compiled" if candidate == search.candidate else ""
        yield f"  trial {trial.trial}{mark}: {means}" + (f" ({choices})" if choices else "")
