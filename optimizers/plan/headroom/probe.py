"""Headroom: what a study of a recipe can show, from a few settings on a few dev questions.

    dev questions, in the study's order ─► baseline, twice ─► settings far apart ─► estimates ─► a verdict

The requests are those of a compile, so a compile replays the answers from here, and a repeated or interrupted
headroom replays itself. Only the second run of the baseline is stored apart. No test question is used. The
budget is never exceeded. The baseline's first questions show how many calls one takes. From this follow the
number of questions and the settings that are begun: those expected to end within the remaining budget.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ragc.compiled import contamination
from ragc.core import event_loop
from ragc.core.progress import SILENT, Progress
from ragc.errors import BudgetExhausted, NothingAnswered, UsageError
from ragc.metrics.base import UNMEASURED, Objective
from ragc.metrics.failures import Failures
from ragc.metrics.stats import headroom as estimates
from ragc.metrics.stats.groups import assumed_questions, count_groups, too_few
from ragc.metrics.stats.power import questions_needed, smallest_gain
from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.dev_order import group_sizes, shuffle_dev
from ragc.optimizers.candidates.space import Candidate, describe_difference, search_space
from ragc.optimizers.plan.budget_share import BudgetShare
from ragc.optimizers.plan.estimate import budget_pays
from ragc.optimizers.plan.headroom.design import GREEDY_REPEATS, Design, Needs, make_design, questions_for
from ragc.optimizers.plan.headroom.result import Headroom, ProbedSetting
from ragc.optimizers.search.allocation import whole_groups
from ragc.optimizers.search.storage import InMemoryAttributes
from ragc.programs.base import RagProgram
from ragc.recipe import Recipe
from ragc.store.calls import CallStore
from ragc.targets.base import Target
from ragc.task.answering import Row, failures_of
from ragc.task.base import Task
from ragc.task.budget import BudgetFile
from ragc.task.prompts import check_programs, give_prompts
from ragc.task.requirements import require
from ragc.task.run import MeasuredRun, cost_so_far, measure, open_run

CALLS = 300
"""LM calls to spend if nothing else is said."""

GAIN = 0.05
"""The gain to show if nothing else is said."""


def headroom(
    recipe: Recipe,
    *,
    calls: int = CALLS,
    gain: float = GAIN,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
    progress: Progress = SILENT,
) -> Headroom:
    """Measures with at most `calls` LM calls what a study of `recipe` can show.

    `gain` is the gain that the user wants shown. `targets` replace those of the recipe. Raises UsageError
    before anything is sent if nothing can be said: without dev questions, for a recipe that searches nothing,
    or if the calls are too few; NothingAnswered if no question was answered.
    """
    with _open(recipe, calls, gain, store, targets, progress) as run:
        try:
            probe = _Probe(run, design := make_design(run.task, calls), gain)
            used = ["train", "dev"] if design.learns else ["dev"]
            if problem := contamination.record(run.task, "headroom", used):
                progress.note(problem)
            return event_loop.run(probe.run())
        finally:
            progress.close()


def plan(
    recipe: Recipe,
    *,
    calls: int = CALLS,
    gain: float = GAIN,
    targets: Mapping[str, Target] | None = None,
) -> dict[str, Any]:
    """Returns what `headroom` would do, as a JSON object; sends nothing. Raises its errors before sending.

    `calls` are LM calls at most. `questions` of the dev questions would be answered by each setting,
    `repeats` of them twice by the baseline, and by about `settings_about` settings, the first of
    `settings` (in words). `dev` and `test` have the number of questions and the smallest gain in exact match
    that they show, `needed` the questions that `gain` needs, both if one question in ten gets worse.
    """
    with _open(recipe, calls, gain, CallStore(None), targets) as run:
        task, design = run.task, make_design(run.task, calls)
    return {
        "program": recipe.program,
        "calls": design.calls,
        "questions": design.questions,
        "repeats": design.repeats,
        "settings_about": design.settings,
        "settings": [describe_difference(candidate, task.recipe) for candidate in design.candidates],
        "left_out": design.left_out,
        **{
            name: {
                "n": len(held),
                "shows": None
                if too_few(_groups(task).get(name))
                else smallest_gain(assumed_questions(_group_sizes(_labels(task, name)))),
            }
            for name, held in (("dev", task.dev), ("test", task.test))
        },
        "needed": {"gain": gain, "n": questions_needed(gain)},
        "targets": {role: target.name for role, target in task.runtime.targets.items()},
    }


@contextmanager
def _open(
    recipe: Recipe,
    calls: int,
    gain: float,
    store: CallStore | None,
    targets: Mapping[str, Target] | None,
    progress: Progress = SILENT,
) -> Iterator[MeasuredRun]:
    """Opens a run of `recipe` with a budget of `calls`. Raises UsageError if it leaves nothing to measure."""
    if calls < 1:
        raise UsageError(f"--calls must be 1 or more, found {calls}.")
    if not (math.isfinite(gain) and gain > 0):
        raise UsageError(f"--gain must be above 0, found {gain:g}; write 0.05 for five hundredths.")
    require(recipe, targets=targets is None, metrics=targets is None)
    known = recipe.budget.lm_calls
    budget = recipe.budget.replace(lm_calls=calls if known is None else min(calls, known), trials=None)
    spending = BudgetFile(None, budget)
    with open_run(recipe, spending, store=store, targets=targets, progress=progress) as run:
        _check_measurable(run.task)
        yield run


def _check_measurable(task: Task) -> None:
    """Raises UsageError if settings of `task` cannot be told apart, or if it has only one."""
    if len(task.dev) < estimates.MIN_QUESTIONS:
        raise UsageError(
            f"Headroom needs at least {estimates.MIN_QUESTIONS} dev questions to tell settings apart, "
            f"found {len(task.dev)}; raise data.dev."
        )
    metric = task.objectives[0].metric
    if metric.combine is not None:
        raise UsageError(
            f"Headroom compares settings question by question, and {metric.id!r} is no mean over questions; "
            "name another metric first in search.objectives."
        )
    if not search_space(task.recipe, task.runtime).size:
        what = (
            "only instructions, which are proposed during the study"
            if task.recipe.search.instructions
            else "nothing: there is one setting"
        )
        raise UsageError(
            f"The recipe searches {what}; name knobs, or a number of demos, under [search] for headroom to "
            "try."
        )
    check_programs(task)


class _Probe:
    """Answers dev questions with the settings of a design, and estimates."""

    def __init__(self, run: MeasuredRun, design: Design, goal: float) -> None:
        self._run, self._task, self._progress = run, run.task, run.progress
        self._design, self._goal = design, goal
        self._builder = ProgramBuilder(run.task, InMemoryAttributes(), run.limit, run.progress)
        self._order = shuffle_dev(run.task)
        self._questions = self._order[: self._whole(design.questions)]
        self._each = 1.0
        self._begun: tuple[Row, ...] = ()
        self._needs = design.needs or Needs(run.task, self._builder.space)
        self._failures: list[Failures] = []
        self._budget = ""

    async def run(self) -> Headroom:
        """Runs the design. Raises NothingAnswered, TargetError and SourceError."""
        await self._run.open()
        with measure() as measured:
            tried, noise = await self._try_all()
        if all(failures.all for failures in self._failures):
            raise NothingAnswered(
                f"Headroom has nothing to compare, because no dev question was answered by the "
                f"{len(tried)} settings tried: {self._failures[0].text}. See with `ragc ask RECIPE QUESTION "
                "--trace` what is asked."
            )
        return await asyncio.to_thread(self._result, tried, noise, measured.to_json())

    async def _try_all(self) -> tuple[list[tuple[Candidate, list[float]]], estimates.Noise | None]:
        """Returns the scores of each setting that the budget allows, and the noise of the baseline."""
        design, pools = self._design, set[str]()
        tried: list[tuple[Candidate, list[float]]] = []
        noise = None
        try:
            await self._measure()
            for candidate in design.candidates:
                with_pool = set(pools)
                needed = self._expected(candidate, len(self._questions))
                needed += self._needs.new_pool(candidate, with_pool)
                if self._task.budget.spent.calls + needed > design.calls:
                    continue
                pools = with_pool
                program = await self._builder.program(candidate)
                scores = await self._answer(program, candidate, len(self._questions))
                tried.append((candidate, scores))
                self._show(tried)
                if len(tried) == 1:
                    noise = await self._repeat(program, scores)
        except BudgetExhausted as error:
            self._budget = str(error)
            self._progress.note(self._budget)
        if not tried:
            raise BudgetExhausted(
                f"The baseline could not answer {len(self._questions)} dev questions: {self._budget}"
            )
        return tried, noise

    async def _measure(self) -> None:
        """Answers the first questions with the baseline and sets the number of questions by their calls.

        Raises UsageError if a question takes so many calls that too few questions remain.
        """
        task, design = self._task, self._design
        first = self._order[: self._whole(estimates.MIN_QUESTIONS)]
        self._progress.phase("baseline, its first questions", len(first))
        program = await self._builder.program(design.candidates[0])
        rows = await self._run.answer(program, first)
        self._note_calls(rows)
        self._begun = rows
        least = math.ceil(estimates.MIN_SETTINGS * len(first) * self._each)
        if least > design.calls:
            raise UsageError(
                f"{design.calls} LM calls are too few: the baseline takes {self._each:.3g} a question, so "
                f"that {estimates.MIN_SETTINGS} settings on {len(first)} dev questions take {least}; raise "
                "--calls."
            )
        size = questions_for(design.calls - design.pool, self._each, len(task.dev))
        self._questions = self._order[: max(len(first), self._whole(size))]

    def _note_calls(self, rows: Sequence[Row]) -> None:
        """Notes the calls of a question, the judge's too: the greatest mean of any setting so far."""
        calls = sum(row.total_cost.lm_calls for row in rows) / max(1, len(rows))
        self._each = max(self._each, calls)

    def _expected(self, candidate: Candidate, questions: int) -> int:
        """Returns the LM calls expected of `candidate`: as the dearest setting so far, or as rehearsed."""
        return min(self._needs.most(candidate, questions), math.ceil(questions * self._each))

    async def _answer(self, program: RagProgram, candidate: Candidate, questions: int) -> list[float]:
        """Returns the signed scores of the first `questions` questions under the first objective."""
        begun = self._begun if candidate == self._design.candidates[0] else ()
        self._progress.phase(describe_difference(candidate, self._task.recipe), questions - len(begun))
        rows = (*begun, *await self._run.answer(program, self._questions[len(begun) : questions]))
        self._note_calls(rows)
        self._failures.append(failures_of(rows))
        return self._scores(rows)

    async def _repeat(self, program: RagProgram, scores: Sequence[float]) -> estimates.Noise | None:
        """Returns the noise between `scores` and a second run of the baseline; None if it does not fit the
        budget.
        """
        repeats = min(len(self._questions), len(self._questions) if self._needs.sampled else GREEDY_REPEATS)
        baseline = self._design.candidates[0]
        if self._task.budget.spent.calls + self._expected(baseline, repeats) > self._design.calls:
            return None
        again = await asyncio.to_thread(_rebuilt_baseline, self._task, program)
        self._progress.phase("baseline, a second time", repeats)
        rows = await self._run.answer(again, self._questions[:repeats])
        labels = [question.group for question in self._questions[:repeats]]
        return estimates.noise(scores[:repeats], self._scores(rows), labels)

    def _whole(self, questions: int) -> int:
        """Returns the number of questions in the first groups that hold at least `questions`."""
        return whole_groups(questions, group_sizes(self._order), len(self._order))

    def _paid(self) -> BudgetShare | None:
        """Returns what the recipe's budget pays for of its study, at the measured cost of a call."""
        each = cost_so_far(self._task)
        known = {} if each is None else {"tokens": each.tokens, "usd": each.usd}
        return budget_pays(self._task, {what: cost for what, cost in known.items() if cost is not None})

    def _scores(self, rows: Sequence[Row]) -> list[float]:
        return [self._objective.of(row.scores) for row in rows]

    @property
    def _objective(self) -> Objective:
        return self._task.objectives[0]

    def _show(self, tried: Sequence[tuple[Candidate, list[float]]]) -> None:
        means = [self._objective.to_metric(sum(scores) / len(scores)) for _, scores in tried]
        best = max(means, key=lambda mean: self._objective.sign * mean)
        what = describe_difference(tried[-1][0], self._task.recipe)
        self._progress.trial(len(tried) - 1, len(self._design.candidates) - 1, means[-1], best, what)

    def _result(
        self,
        tried: Sequence[tuple[Candidate, list[float]]],
        noise: estimates.Noise | None,
        counters: Mapping[str, float],
    ) -> Headroom:
        """Returns the estimates from the scores of the settings."""
        task, objective = self._task, self._objective
        measured = [
            at for at in range(len(self._questions)) if all(abs(row[at]) < UNMEASURED for _, row in tried)
        ]
        scores = [[row[at] for at in measured] for _, row in tried]
        best = objective.best_of(score for row in scores for score in row)
        changes = estimates.changes(scores) if measured else None
        labels = [self._questions[at].group for at in measured]
        share = estimates.independent_share(scores, labels) if changes is not None else 1.0
        spread = gain = None
        enough = len(scores) >= estimates.MIN_SETTINGS and len(measured) >= estimates.MIN_QUESTIONS
        if changes is not None and enough and count_groups(labels) > 1:
            spread = estimates.spread(scores, labels)
            flat = [score for row in scores for score in row]
            bounds = objective.metric.bounds_of(flat) if objective.sign > 0 else (-math.inf, math.inf)
            gain = estimates.gain(scores, bounds=bounds, seed=task.seed, groups=labels)
        bounded = objective.sign > 0 and best is not None
        return Headroom(
            program=task.recipe.program,
            objective=objective.name,
            full=best if bounded else None,
            trials=task.trials,
            dev=len(task.dev),
            test=len(task.test),
            questions=len(measured),
            settings=tuple(
                ProbedSetting(
                    describe_difference(candidate, task.recipe), objective.to_metric(sum(row) / len(row))
                )
                for (candidate, _), row in zip(tried, scores, strict=True)
                if row
            ),
            noise=noise,
            sampled=self._needs.sampled,
            solved=estimates.solved(scores, best or 1.0, labels) if bounded and measured else None,
            changes=changes,
            spread=spread,
            gain=gain,
            goal=self._goal,
            left_out=self._design.left_out,
            budget=self._budget,
            paid=self._paid(),
            counters=dict(counters),
            groups=_groups(task),
            independent=_independent(task, labels, share),
        )


def _groups(task: Task) -> dict[str, int]:
    """Returns the number of groups of each split whose questions are in groups."""
    labels = {name: _labels(task, name) for name in ("dev", "test")}
    return {name: count_groups(held) for name, held in labels.items() if count_groups(held) < len(held)}


def _independent(task: Task, labels: Sequence[str], share: float) -> dict[str, int]:
    """Returns the effective number of independent questions in each split with groups.

    `share` is the effective share of the questions with `labels`. The intraclass correlation that it implies
    is applied to the splits.
    """
    sizes = {name: _group_sizes(_labels(task, name)) for name in _groups(task)}
    seen = _inflation(_group_sizes(labels))
    rho = min(1.0, max(0.0, (1 / share - 1) / seen)) if seen else 0.0
    return {name: max(1, round(sum(held) / (1 + rho * _inflation(held)))) for name, held in sizes.items()}


def _labels(task: Task, split: str) -> list[str]:
    return [question.group for question in task.splits.get(split, ())]


def _group_sizes(labels: Sequence[str]) -> list[int]:
    """Returns the sizes of the groups that `labels` name; every "" is one of its own."""
    return list(Counter(label or f"\0{index}" for index, label in enumerate(labels)).values())


def _inflation(sizes: Sequence[int]) -> float:
    """Returns the growth of the variance of a mean over groups of `sizes` whose questions are alike."""
    return sum(size * size for size in sizes) / sum(sizes) - 1 if sizes else 0.0


def _rebuilt_baseline(task: Task, program: RagProgram) -> RagProgram:
    """Builds the baseline of `task` for a second run, with what `program`, its first run, learned."""
    built = task.method.build(task.runtime.repeated(), task.baseline_knobs)
    built = give_prompts(built, task.recipe)
    built.learned = program.learned
    return built
