"""The gate: whether a program is shown to lose less than allowed against another one, or to drop.

    0    shown to lose less than `allow`, and each least mean shown to be reached
    10   a drop is shown, or a least mean is shown to be missed
    11   these questions cannot tell

Each of 0 and 10 is wrong in at most 5% of runs. For 0 every part is shown at 5%. The claims of which any one
ends a run with 10 share the 5% (Bonferroni). A run that shows a drop below the allowed loss ends with 0. The
tests are in `ragc.metrics.stats.gate`, the two runs and their questions those of `ragc eval A B`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ragc.compiled import comparison
from ragc.compiled.access import Access
from ragc.compiled.evaluate import Evaluation, score
from ragc.compiled.opened import open_program
from ragc.core.digest import digest
from ragc.core.display import describe, quantity
from ragc.core.progress import SILENT, Progress
from ragc.errors import UsageError
from ragc.metrics import Metric, get
from ragc.metrics.compare import RunComparison
from ragc.metrics.runs import ScoredRun
from ragc.metrics.stats.gate import (
    ALPHA,
    Margin,
    margin,
    p_mean_above,
    questions_for_bound,
    questions_needed,
)
from ragc.metrics.stats.groups import groups_json, in_groups
from ragc.metrics.stats.resample import match
from ragc.store.used_questions import ShownScores, TestUse, question_digest

PASSED, DROPPED, UNCLEAR = 0, 10, 11
"""The exit codes."""

State = Literal["reached", "missed", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Asking:
    """How programs are opened and scored; the arguments are those of `ragc.evaluate`."""

    split: str = "test"
    sets: tuple[str, ...] = ()
    access: Access = Access()
    include_seen: bool = False
    progress: Progress = SILENT

    def evaluate(self, path: Path, rows: ScoredRun | None = None) -> Evaluation:
        """Scores the program at `path` for a comparison with `rows`, without counting the look."""
        opened = open_program(path, self.sets, access=self.access)
        return score(
            opened,
            self.split,
            progress=self.progress,
            include_seen=self.include_seen,
            count=False,
            beside=rows,
        )


@dataclass(frozen=True, slots=True)
class Minimum:
    """A least mean of a metric, and whether it is shown to be reached or missed by `mean`.

    `p_reached` is the one-sided p of "the mean is at most `least`", `p_missed` that of "at least". `needed`
    estimates the number of questions that would show it; None if it is shown, or unknown.
    """

    metric: str
    least: float
    mean: float
    p_reached: float
    p_missed: float
    state: State
    needed: int | None


@dataclass(frozen=True, slots=True)
class Gate:
    """The outcome of a gate: `exit_code` 0, 10 or 11, and its evidence.

    `margin` compares the program with the other one by `metric`, in the direction in which higher is better.
    `alpha` is the share of the 5% that a drop has. `needed` estimates the number of questions that would let
    most equal programs pass; None if it is shown.
    """

    name: str
    against: str
    metric: str
    allow: float
    margin: Margin
    minimums: tuple[Minimum, ...]
    alpha: float
    needed: int | None
    comparison: RunComparison = field(repr=False)
    look: TestUse | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return describe("Gate", repr(self.name), repr(self.against), exit_code=self.exit_code)

    @property
    def exit_code(self) -> int:
        """0, 10 or 11."""
        states = {minimum.state for minimum in self.minimums}
        if self.margin.small_loss() and states <= {"reached"}:
            return PASSED
        if "missed" in states or (self.margin.drop(self.alpha) and not self.margin.small_loss()):
            return DROPPED
        return UNCLEAR

    @property
    def headline(self) -> str:
        """The outcome in a sentence."""
        difference = f"{self.metric} {self.margin.diff:+.3f} against {self.against}"
        match self.exit_code:
            case 0:
                small = ", though a smaller drop is shown" if self.margin.drop(self.alpha) else ""
                return f"Passed: {difference}, shown to lose less than {self.allow:g}{small}."
            case 10:
                missed = [one.metric for one in self.minimums if one.state == "missed"]
                why = f"the least {' and '.join(missed)} is missed" if missed else "a drop is shown"
                return f"Failed: {difference}; {why}."
            case _:
                return f"Unclear: {difference}; these questions cannot tell."

    def lines(self) -> list[str]:
        """Returns sentences for people, the outcome first."""
        m = self.margin
        sentences = [
            self.headline,
            (
                f"{quantity(m.n, 'question')}{in_groups(m.groups)}: {m.worse} worse, {m.better} better; p of "
                f"a loss of {self.allow:g} or more {m.p_loss:.4f}, p without a drop {m.p_drop:.4f}."
            ),
        ]
        sentences += [
            f"{one.metric} {one.mean:.3f}, at least {one.least:g}: {one.state}."
            + (f" About {one.needed:,} questions would show it." if one.needed else "")
            for one in self.minimums
        ]
        if self.needed:
            sentences.append(
                f"About {self.needed:,} questions like these let 80% of runs of equal programs pass; there "
                f"were {m.n:,}."
            )
        compared = next(row for row in self.comparison.rows if row.metric == self.metric)
        left_out = compared.matching.note(self.against, self.name)
        return [*sentences, *([left_out] if left_out else []), *self.comparison.remarks, self.runs_sentence]

    @property
    def runs_sentence(self) -> str:
        """How many runs these questions have seen."""
        if self.look is None:
            return "Runs on these questions are not counted: they are no test questions."
        if self.look.number is None:
            return self.look.warning
        return (
            f"Run {self.look.number} on these questions on this machine: {self.look.text}. Each run is wrong "
            "in at most 5%; of many runs some are wrong by chance."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc gate --json`."""
        return {
            "exit_code": self.exit_code,
            "headline": self.headline,
            "program": self.name,
            "against": self.against,
            "metric": self.metric,
            "allow": self.allow,
            "alpha_drop": self.alpha,
            **_margin_json(self.margin),
            "minimums": [
                {"metric": one.metric, "least": one.least, "mean": one.mean, "state": one.state}
                | {"p_reached": one.p_reached, "p_missed": one.p_missed, "needed": one.needed}
                for one in self.minimums
            ],
            "needed": self.needed,
            **({"look": self.look.to_json()} if self.look else {}),
            "comparison": self.comparison.to_json(),
        }


def _margin_json(value: Margin) -> dict[str, Any]:
    numbers = {"difference": value.diff, "n": value.n, "worse": value.worse, "better": value.better}
    return numbers | {"p_loss": value.p_loss, "p_drop": value.p_drop} | groups_json(value.groups)


def gate(
    path: Path,
    against: Path,
    asking: Asking,
    *,
    metric: str = "",
    allow: float = 0.05,
    least: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Gate:
    """Runs the program at `path` against the one, or the rows, at `against`.

    `metric` decides, by default the first of both. `least` has least means by metric. Raises UsageError for a
    metric without a greatest score, and what `ragc.compare` raises.
    """
    if not 0 < allow < 1:
        raise UsageError(f"--allow must lie above 0 and below 1, found {allow:g}.")
    compared = comparison.compare(against, path, asking.evaluate, by=metric, seed=seed)
    decisive, alpha = get(compared.by), ALPHA / (1 + len(least or {}))
    result, differences = _margin(compared.a, compared.b, decisive, allow, seed)
    span = _bounds(decisive)[1] - _bounds(decisive)[0]
    needed = None
    if not result.small_loss():
        estimate = questions_needed(differences, allow, span) * result.n / result.effective
        needed = max(result.n + 1, round(estimate))
    return Gate(
        compared.b.name,
        compared.a.name,
        decisive.id,
        allow,
        result,
        tuple(_minimum(compared, name, value, alpha) for name, value in (least or {}).items()),
        alpha,
        needed,
        compared,
        compared.look or _look_at_rows(path, against, compared),
    )


def _bounds(metric: Metric) -> tuple[float, float]:
    """Returns the least and greatest score, negated if lower is better. Raises UsageError without them."""
    if metric.bounds is None or metric.combine is not None:
        raise UsageError(
            f"The gate needs a metric with a least and a greatest score for each question, and {metric.id!r} "
            "has none; name another one with --metric."
        )
    low, high = metric.bounds
    return (low, high) if metric.higher_is_better else (-high, -low)


def _scores(run: ScoredRun, metric: Metric, ids: Sequence[str]) -> list[float]:
    """Returns the scores of `ids`, with higher ones better; every one of `ids` has a score."""
    sign = 1 if metric.higher_is_better else -1
    column = run.scores(metric.id)
    return [sign * value for key in ids if (value := column[key]) is not None]


def _margin(
    before: ScoredRun, after: ScoredRun, metric: Metric, allow: float, seed: int
) -> tuple[Margin, Any]:
    """Returns the margin of the questions scored in both runs, and the paired differences."""
    import numpy as np

    bounds = _bounds(metric)
    ids, _ = match(before.scores(metric.id), after.scores(metric.id))
    if not ids:
        raise UsageError(f"No question of both runs has a score of {metric.id!r}; name another metric.")
    a, b = (_scores(run, metric, ids) for run in (before, after))
    labels = [before.groups[key] or after.groups[key] for key in ids]
    result = margin(a, b, allow, seed=seed, bounds=bounds, groups=labels)
    return result, np.array(b) - np.array(a)


def _minimum(compared: RunComparison, name: str, least: float, alpha: float) -> Minimum:
    if name not in compared.b.metrics:
        raise UsageError(
            f"--min names {name!r}, which is not scored; scored: {', '.join(compared.b.metrics)}."
        )
    metric = get(name)
    low, high = _bounds(metric)
    if not metric.higher_is_better:
        raise UsageError(f"--min is for metrics where higher is better, and of {name!r} lower is.")
    run = compared.b
    shared = [key for key in run.answered if key in compared.a.answered]
    column = run.scores(name)
    ids = [key for key in shared if column[key] is not None]
    if not ids:
        raise UsageError(f"No question has a score of {name!r}, which --min names.")
    values, labels = _scores(run, metric, ids), [run.groups[key] for key in ids]
    reached = p_mean_above(values, least, bounds=(low, high), groups=labels)
    missed = p_mean_above([-value for value in values], -least, bounds=(-high, -low), groups=labels)
    state: State = "reached" if reached <= ALPHA else "missed" if missed <= alpha else "cannot tell"
    needed = questions_for_bound(values, least, groups=labels) if state == "cannot tell" else None
    return Minimum(name, least, sum(values) / len(values), reached, missed, state, needed)


def _look_at_rows(path: Path, against: Path, compared: RunComparison) -> TestUse | None:
    """Counts the test use by two files of rows; None if a program was asked on another split."""
    if {path.suffix, against.suffix} != {comparison.ROWS}:
        return None
    shared = [row for key, row in compared.b.answered.items() if key in compared.a.answered]
    questions = [question_digest(row.question or row.id) for row in shared]
    programs = [
        digest([[key, row.prediction, dict(row.scores)] for key, row in run.answered.items()])[:32]
        for run in (compared.a, compared.b)
    ]
    shown = (frozenset((question, program) for question in questions) for program in programs)
    return ShownScores(tuple(shown)).count()
