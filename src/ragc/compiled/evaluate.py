"""Scores an open program on a split.

If roles have other targets than at the compile, the change of the score is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.compiled.base import program_digest
from ragc.compiled.contamination import (
    CLEAN,
    Contamination,
    check_evaluation,
    recipe_digest,
    record,
)
from ragc.compiled.opened import OpenProgram
from ragc.compiled.replicates import (
    SecondVerdicts,
    check_repeats,
    judge_again,
    replicates_json,
    variances_of,
)
from ragc.compiled.verdict import intervals_to_json
from ragc.core import event_loop
from ragc.core.counters import Counters
from ragc.core.digest import digest
from ragc.core.display import describe, interval, quantity
from ragc.core.progress import SILENT, Progress
from ragc.errors import UsageError
from ragc.metrics import runs
from ragc.metrics.failures import Failures
from ragc.metrics.labels import AnswerLabels, LabelAgreement, no_judged_metric
from ragc.metrics.stats.replicates import VarianceShares
from ragc.metrics.stats.resample import Interval
from ragc.metrics.without_gold import unscored
from ragc.programs.base import RagProgram
from ragc.programs.trace import by_call
from ragc.records import Question
from ragc.store.used_questions import EVALUATION, ShownScores, TestUse, question_digest
from ragc.task.answering import Row, failures_of, groups_of
from ragc.task.base import Task
from ragc.task.run import MeasuredRun, Measurement, measure


def _table(held: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Returns the table `name` of a file's content; empty if it is missing or something else."""
    value = held.get(name)
    return value if isinstance(value, dict) else {}


OPTIMISM_NOTE = "The program was chosen by its scores on these questions, so they flatter it."
"""The remark on the scores of a compiled program on its dev questions."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A program scored on a split: rows in the order of the questions, means with intervals.

    `look` says how often these test questions were used on this machine; None for other splits. `remark` is a
    sentence on what the scores cannot show, "" for none. `contamination` says which test questions taught or
    chose the program, and whether they were left out. `seed` is that of the resampling of `metrics`.
    `showing` is a test use that is not counted yet. `variances` say by metric how much of the
    scores' variance is the model's own, where the questions were answered several times; the rest is of the
    first answers. `second_verdicts` say by metric how often the judge scored a sample otherwise, where it was
    asked again. `agreement` is that of judged metrics with a person's labels, None without labels.
    """

    rows: tuple[Row, ...]
    metrics: Mapping[str, Interval]
    counters: Mapping[str, float]
    backends: Mapping[str, str] = field(default_factory=dict)
    look: TestUse | None = field(default=None, compare=False)
    remark: str = ""
    contamination: Contamination = CLEAN
    seed: int = 0
    variances: Mapping[str, VarianceShares] = field(default_factory=dict)
    second_verdicts: Mapping[str, SecondVerdicts] = field(default_factory=dict)
    agreement: LabelAgreement | None = None
    showing: ShownScores | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        failures = quantity(self.failures.n, "failure") if self.failures.n else None
        means = {name: interval(name, i.mean, i.low, i.high) for name, i in self.metrics.items()}
        return describe("Evaluation", quantity(len(self.rows), "question"), failures, **means)

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc eval --json`."""
        return {
            "n": len(self.rows),
            "metrics": intervals_to_json(self.metrics),
            **self.failures.table_json(),
            "counters": dict(self.counters),
            **self._judging_json(),
            **({"look": self.look.to_json()} if self.look else {}),
            **({"remark": self.remark} if self.remark else {}),
            **({"contamination": self.contamination.to_json()} if self.contamination else {}),
            **({"judged_again": self._judged_again_json()} if self.second_verdicts else {}),
            **({"agreement": self.agreement.to_json()} if self.agreement else {}),
            **({"replicates": replicates_json(self.variances)} if self.variances else {}),
            "calls": [spent.to_json() for spent in by_call(e for row in self.rows for e in row.trace)],
        }

    def row_values(self, *, prompts: bool = False) -> Iterator[dict[str, Any]]:
        """Yields the rows of `ragc eval --out`, as JSON values; `prompts` are those of `Row.to_json`."""
        more = {"seed": self.seed, **({"remark": self.remark} if self.remark else {})}
        yield from ({**row.to_json(prompts=prompts), **more} for row in self.rows)

    @property
    def failures(self) -> Failures:
        """The questions without an answer."""
        return failures_of(self.rows)

    def _judging_json(self) -> dict[str, Any]:
        if not self.backends:
            return {}
        return {"backends": dict(self.backends), "judging": self.judging, "decided": self.decided}

    def _judged_again_json(self) -> dict[str, Any]:
        return {name: verdicts.to_json() for name, verdicts in self.second_verdicts.items()}

    @property
    def decided(self) -> dict[str, dict[str, int]]:
        """The number of questions that each rule decided (exact, judge, unreadable and so on), by metric
        family.
        """
        tallies: dict[str, dict[str, int]] = {}
        for row in self.rows:
            for family, finding in row.findings.items():
                if isinstance(finding.value, dict) and "by" in finding.value:
                    tally = tallies.setdefault(family, {})
                    tally[finding.value["by"]] = tally.get(finding.value["by"], 0) + 1
        return tallies

    @property
    def judging(self) -> dict[str, float]:
        """Returns the cost of judging, which is part of the total cost."""
        total = Counters()
        for row in self.rows:
            total.add(**row.judging)
        return {name: amount for name, amount in total.to_json().items() if amount}


def score(
    opened: OpenProgram,
    split: str = "test",
    *,
    progress: Progress = SILENT,
    include_seen: bool = False,
    count: bool = True,
    replicates: int = 1,
    again: int = 0,
    labels: Path | None = None,
    beside: runs.ScoredRun | None = None,
) -> Evaluation:
    """Scores the program on `split` with the metrics of its recipe, answering `replicates` times.

    The judge is asked a second time about `again` of the answers. `labels` is the file of a person's labels,
    with which judged scores are compared. `beside` is a run that these rows are compared with.

    Test questions that taught or chose the compiled program are left out, or with `include_seen` scored and
    marked. Raises UsageError for an empty split, if no test question is left, or if `beside` has none of the
    questions.
    """
    check_repeats(replicates, again, opened.program, opened.task)
    provenance = opened.compiled.provenance if opened.compiled else None
    task, contamination = check_evaluation(opened.task, provenance, split, include_seen=include_seen)
    questions = task.splits.get(split, ())
    if not questions:
        available = ", ".join(name for name, held in task.splits.items() if held) or "none"
        raise UsageError(f"Split {split!r} is empty; this data has: {available}.{_untested(task, split)}")
    if beside is not None and not any(question.id in beside.answered for question in questions):
        raise UsageError(
            f"{beside.name} and split {split!r} share no question id; score both on the same split."
        )
    answer_labels = _labels(labels, task, questions)

    drawn, second, measured = event_loop.run(
        _draw(opened, task, questions, split, progress, replicates=replicates, again=again)
    )
    progress.close()
    rows = contamination.marked(drawn[0])
    cost = measured.to_json()
    means = task.summarize([row.scores for row in rows], groups_of(rows))
    home = opened.compiled.path if opened.compiled else None
    showing = showing_of(task, [(opened.program, rows)], home) if split == "test" else None
    look = _look(showing, task, split, progress, count=count)
    graded = [row.findings for row in rows if row.findings]
    remark = " ".join([*_remarks(opened, split, contamination), *(unscored(graded) if graded else ())])
    evaluation = Evaluation(
        rows,
        means,
        cost,
        backends=task.scorer.backends,
        look=look,
        remark=remark,
        contamination=contamination if split == "test" else CLEAN,
        seed=task.seed,
        variances=variances_of(drawn, task) if replicates > 1 else {},
        second_verdicts=second,
        showing=None if look else showing,
    )
    if answer_labels is None:
        return evaluation
    run = runs.of_rows(split, evaluation.row_values())
    return replace(evaluation, agreement=answer_labels.agreement(run))


def _look(
    showing: ShownScores | None, task: Task, split: str, progress: Progress, *, count: bool
) -> TestUse | None:
    """Counts the test use, or records the use of other questions; notes what is to be said of it."""
    look = showing.count() if showing and count else None
    warning = look.warning if look else "" if showing else record(task, EVALUATION, [split])
    if warning:
        progress.note(warning)
    return look


def _labels(path: Path | None, task: Task, questions: Sequence[Question]) -> AnswerLabels | None:
    """Returns the labels in `path`, before anything is sent. Raises UsageError where they cannot apply."""
    if path is None:
        return None
    if not task.scorer.backends:
        raise no_judged_metric()
    labels = AnswerLabels.read(path)
    labels.check_asked(question.question for question in questions)
    return labels


async def _draw(
    opened: OpenProgram,
    task: Task,
    questions: Sequence[Question],
    split: str,
    progress: Progress,
    *,
    replicates: int,
    again: int,
) -> tuple[list[tuple[Row, ...]], dict[str, SecondVerdicts], Measurement]:
    """Returns the answers to `questions` drawn `replicates` times, second verdicts on them, and the cost."""
    run = MeasuredRun(task, progress)
    await run.open()
    progress.phase(f"answering {split}", len(questions))
    with measure() as measured:
        if opened.compiled is None:
            await task.fit(opened.program)
        drawn = [await run.answer(opened.program, questions)]
        for number in range(1, replicates):
            program = await asyncio.to_thread(opened.repeated, number)
            progress.phase(f"answering {split}, draw {number + 1} of {replicates}", len(questions))
            drawn.append(await run.answer(program, questions))
        second = await judge_again(drawn[0], again, task) if again else {}
    return drawn, second, measured


def showing_of(
    task: Task,
    answered: Iterable[tuple[RagProgram, Sequence[Row]]],
    home: Path | None = None,
    *,
    work: str = EVALUATION,
) -> ShownScores:
    """Returns the use of test questions by programs and their rows, whose scores are about to be shown.

    `home` is the directory of the compiled program. `work` is what shows them: a compile or an evaluation.
    """
    shown = tuple(_shown_by(program_digest(program, task.facts), rows) for program, rows in answered)
    return ShownScores(shown, recipe_digest(task), work, home)


def _shown_by(program: str, rows: Iterable[Row]) -> frozenset[tuple[str, str]]:
    """Returns the answers of `program`, and those with a finding, each as a digest beside its question's."""
    shown = set()
    for row in rows:
        question = question_digest(row.question.whole_text)
        found = [[family, finding.value] for family, finding in row.findings.items()]
        shown |= {(question, digest([program, row.prediction, each])[:32]) for each in [None, *found]}
    return frozenset(shown)


def _untested(task: Task, split: str) -> str:
    """Returns what to do where all questions choose the program, so that none is left in `split`."""
    if split != "test" or not task.folds:
        return ""
    return (
        " A recipe that names no splits chooses a program by all of its questions (cross-validation), so "
        "name new ones: --set data.test=FILE."
    )


def _remarks(opened: OpenProgram, split: str, contamination: Contamination) -> list[str]:
    """Returns sentences on what the scores on the questions of `split` cannot show."""
    if split == "test":
        return list(contamination.sentences)
    if opened.compiled is None or _table(opened.compiled.provenance, "search").get("trials") == 0:
        return []
    provenance, facts = opened.compiled.provenance, opened.task.facts
    data = [_table(held, "data").get(split) for held in (provenance, facts)]
    if split == "dev" and (data[0] == data[1] or len(contamination.used) == contamination.questions > 0):
        return [OPTIMISM_NOTE]
    if not contamination.used:
        return []
    part = f"{len(contamination.used):,} of these {contamination.questions:,} questions"
    return [f"{part} taught or chose the program, so they flatter it."]
