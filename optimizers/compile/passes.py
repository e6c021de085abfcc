"""Compile: the passes from a recipe to a compiled program with a verdict.

    prepare ────► open_models ─► baseline ─► search ───► select ───► verify ───► write
    Recipe        Prepared       DevSearch   Baseline    Searched    Selected    Verified
    to Prepared                  to Baseline to Searched to Selected to Verified to Compiled

1. `prepare` reads and checks all inputs; nothing is sent.
2. `baseline` answers the dev questions with the recipe's program.
3. `search` tries candidates on the dev questions.
4. `select` chooses the program to compile.
5. `verify` answers the test questions, once, with both programs, and compares them.
6. `write` writes the compiled program with its provenance to a directory.

`compile` is their composition. Each pass can be called alone.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragc.compiled.base import CompiledProgram, refuse_foreign, state_of
from ragc.compiled.contamination import CLEAN, Contamination, check_compile
from ragc.compiled.evaluate import showing_of
from ragc.compiled.study_rows import write_questions, write_results, write_trials
from ragc.compiled.verdict import (
    FOR_TRYING,
    adjust_for_looks,
    after_looks_json,
    choose_example,
    compare,
    intervals_to_json,
    on_procedure,
    trying_note,
)
from ragc.core import event_loop
from ragc.core.counters import Counters
from ragc.core.display import describe, figure
from ragc.core.progress import SILENT, Progress, Silent, listening
from ragc.errors import BudgetExhausted
from ragc.metrics.failures import Failures
from ragc.metrics.stats.resample import Interval
from ragc.optimizers.candidates.dev_order import dev_groups, shuffle_dev
from ragc.optimizers.compile.cross_validation import FoldAnswers, answer_folds
from ragc.optimizers.compile.front import (
    TestedMember,
    answer_front,
    front_json,
    front_programs,
    limit_note,
    limits_of,
    of_front,
    qualified,
)
from ragc.optimizers.compile.replacement import replacement_note
from ragc.optimizers.compile.searches import open_search
from ragc.optimizers.compile.searches.base import Baseline, DevSearch, Searched, Selected, no_answer_error
from ragc.optimizers.external.optimize import check_optimizer
from ragc.optimizers.plan.estimate import budget_pays
from ragc.optimizers.search.directory import (
    forget_earlier,
    open_directory,
    salt_of,
    write_fold_number,
)
from ragc.optimizers.search.storage import (
    close_study,
    name_objectives,
    study_in,
    translate_storage_errors,
)
from ragc.recipe import Recipe
from ragc.recipe.values import OWN_OPTIMIZER
from ragc.store.calls import CallStore
from ragc.store.used_questions import TestUse
from ragc.targets.base import Target
from ragc.task.answering import Row, failures_of, groups_of
from ragc.task.base import Task
from ragc.task.budget import BudgetFile, Spent
from ragc.task.folds import held_calls, share_until
from ragc.task.prompts import check_programs, small_model_note
from ragc.task.requirements import require
from ragc.task.run import MeasuredRun, Measurement, measure, open_run

FLATTERED = "The winner was chosen by its scores on dev, so they flatter it; those on test do not."
"""The remark on dev scores in `provenance.json`."""


@dataclass(frozen=True, kw_only=True)
class Prepared(MeasuredRun):
    """A run with all inputs read and checked, and its output directories; nothing has been sent.

    `out` is the directory of the compiled program, `directory` that of the study. `contamination` says which
    test questions were used before; the task is without those that are left out.
    """

    out: Path
    directory: Path
    contamination: Contamination = CLEAN


@dataclass(frozen=True, slots=True)
class Verified:
    """Baseline and winner on the same test questions.

    `rows`, `scores` (an interval a metric) and `failures` are by program, "baseline" and "winner". Without a
    test split, or if the budget ran out, all are empty and the verdict says so. `differences` are paired, by
    metric; `note` is a remark on the verdict. `look` counts how often the test questions were looked at.
    `folds` is the cross-validation in place of a test split. `front` are the tested members of a front, and
    `limits` says how the winner stands to the limits of the recipe.
    """

    rows: Mapping[str, tuple[Row, ...]]
    scores: Mapping[str, Mapping[str, Interval]]
    differences: Mapping[str, Mapping[str, Any]]
    failures: Mapping[str, Failures]
    verdict: str
    note: str = ""
    look: TestUse | None = None
    folds: FoldAnswers | None = None
    front: Sequence[TestedMember] = ()
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of search and test: requests sent and replayed, tokens, US dollars, wall-clock seconds.

    Tokens and dollars are what the run charged to its study, each distinct request once. `study` are all
    charges of the study, by earlier processes too, and `stored` the part of them for stored replies.
    """

    sent: float
    replayed: float
    tokens: float
    usd: float
    seconds: float
    study: Spent = field(default_factory=Spent)
    stored: Spent = field(default_factory=Spent)

    def to_json(self) -> dict[str, float]:
        """Returns the cost part of the output of `ragc compile --json`."""
        return {
            "sent": self.sent,
            "replayed": self.replayed,
            "tokens": self.tokens,
            "usd": self.usd,
            "seconds": self.seconds,
            **{f"study_{name}": value for name, value in self.study.to_json().items()},
            **{f"stored_{name}": value for name, value in self.stored.to_json().items()},
        }


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of `compile`.

    `baseline` and `test` hold an interval a metric on the test split. Without a test split, or if the budget
    ran out, both are empty and the verdict says so. `failures` are the unanswered questions, by split ("dev",
    "test") and program ("baseline", "winner"). Verdict and differences are adjusted for earlier uses of the
    test questions; provenance has those of one use. `example` is one question of the test split as the
    baseline and as the winner answered it. `look` says how often the test questions were used on this
    machine; None if they were not. `contamination` says which test questions were used before as train or
    dev, and whether they were left out. `replacement` is a sentence on another program that was at `path`
    before, with both scores where the questions are the same; "" for none.
    """

    path: Path
    program: CompiledProgram
    verdict: str
    baseline: Mapping[str, Interval]
    test: Mapping[str, Interval]
    differences: Mapping[str, Mapping[str, Any]]
    note: str
    counters: Mapping[str, float]
    example: tuple[Row, Row] | None = field(default=None, compare=False)
    failures: Mapping[str, Mapping[str, Failures]] = field(default_factory=dict)
    look: TestUse | None = field(default=None, compare=False)
    contamination: Contamination = CLEAN
    replacement: str = field(default="", compare=False)

    def __repr__(self) -> str:
        means = {
            name: f"{figure(name, self.baseline[name].mean)} to {figure(name, after.mean)}"
            for name, after in self.test.items()
            if name in self.baseline
        }
        shown = {"program": self.program.state.method, "verdict": self.verdict, **means}
        return describe("Compiled", repr(str(self.path)), **shown)

    @property
    def cross_validated(self) -> bool:
        """Whether the scores are those of programs chosen without the questions, in place of a test split."""
        return "cross_validation" in self.program.provenance

    @property
    def failure_lines(self) -> list[str]:
        """A line for each program with failures on a split, for people."""
        return [
            f"{program} on {split}: {failures.text}"
            for split, programs in self.failures.items()
            for program, failures in programs.items()
            if failures.n
        ]

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc compile --json`."""
        return {
            "compiled": str(self.path),
            "verdict": self.verdict,
            "baseline": intervals_to_json(self.baseline),
            "test": intervals_to_json(self.test),
            "differences": {name: dict(value) for name, value in self.differences.items()},
            "failures": failures_json(self.failures),
            "note": self.note,
            "counters": dict(self.counters),
            **({"look": self.look.to_json()} if self.look else {}),
            **({"contamination": self.contamination.to_json()} if self.contamination else {}),
            **({"replacement": self.replacement} if self.replacement else {}),
        }


def compile(
    recipe: Recipe,
    out: str | Path,
    *,
    resume: bool = False,
    again: bool = False,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
    progress: Progress = SILENT,
    include_seen: bool = False,
) -> Compiled:
    """Searches, measures and writes the compiled program of `recipe` to the directory `out`.

    `resume` continues a study that was cut off, or starts one if there is none. Otherwise an earlier study of
    `out` is restarted, with its calls replayed from the store; with `again` every reply is requested again,
    and the earlier replies stay stored. `targets` replace those of the recipe. Test questions that an earlier
    search used as train or dev are left out, or with `include_seen` scored and marked. Raises RagcError;
    nothing is written to `out` before the end.
    """
    opened = prepare(
        recipe,
        out,
        resume=resume,
        again=again,
        store=store,
        targets=targets,
        progress=progress,
        include_seen=include_seen,
    )
    with opened as prepared:
        return event_loop.run(run_passes(prepared))


async def run_passes(prepared: Prepared) -> Compiled:
    """Runs all passes after `prepare`, on the process's event loop. Raises RagcError."""
    await open_models(prepared)
    charged = prepared.task.budget.spent
    with measure() as measured:
        name_study(prepared)
        opened = open_search(prepared.task, prepared.directory, prepared.limit, prepared.progress)
        async with opened as dev_search:
            first = await baseline(dev_search, prepared.progress)
            searched = await search(dev_search, first)
        selected = await select(dev_search, searched)
        verified = await verify(prepared, selected)
    return write(prepared, selected, verified, _cost_since(charged, prepared.task.budget, measured))


def _cost_since(before: Spent, budget: BudgetFile, measured: Measurement) -> Cost:
    """Returns the cost of what was measured; `before` are the charges of the study until then."""
    spent, study = measured.spent, budget.spent
    tokens, usd = study.tokens - before.tokens, study.usd - before.usd
    return Cost(spent.sent, spent.replayed, tokens, usd, measured.seconds, study, budget.cached)


def name_study(prepared: Prepared) -> None:
    """Names the objectives in Optuna's storage of the study, for programs that show it. Raises StoreError.

    Does nothing for external optimizers, which have no such study.
    """
    recipe = prepared.task.recipe
    if recipe.search.optimizer == OWN_OPTIMIZER:
        names = recipe.search.objectives
        study = study_in(prepared.directory, recipe.study, len(names))
        name_objectives(study, names)
        close_study(study)


@contextmanager
def prepare(
    recipe: Recipe,
    out: str | Path,
    *,
    resume: bool = False,
    again: bool = False,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
    progress: Progress = SILENT,
    include_seen: bool = False,
) -> Iterator[Prepared]:
    """Reads and checks the inputs of `recipe`. The study's directory is locked, and its budget open, until
    exit. Its train and dev questions are recorded as used.

    Nothing is sent, and an earlier study of `out` comes back where `open_models` does not follow. Raises
    UsageError and its subclasses: for an `out` that holds something else, for missing libraries or keys, for
    files that cannot be read, on `resume` for a changed recipe, and where no test question is left. Raises
    StoreError if the record of used questions cannot be read or written.
    """
    refuse_foreign(Path(out))
    require(recipe, targets=targets is None, metrics=targets is None)
    with open_directory(Path(out), recipe, resume, again) as directory:
        opened = open_run(
            recipe,
            BudgetFile(directory / "charges.sqlite3", recipe.budget),
            store=store,
            targets=targets,
            progress=progress,
        )
        with opened as run:
            run.task.runtime.gateway.salt = salt_of(directory)
            with translate_storage_errors(directory):
                task, contamination = check_compile(run.task, directory, include_seen=include_seen)
                task = replace(task, until=share_until(0, len(task.folds)))
                write_fold_number(directory, len(task.folds))
                for sentence in contamination.sentences:
                    progress.note(sentence)
                write_questions(directory, shuffle_dev(task))
                yield Prepared(
                    task, progress, out=Path(out), directory=directory, contamination=contamination
                )


async def open_models(prepared: Prepared) -> None:
    """Loads models and connects to servers, after building all programs once to check their requirements.

    Then the study begins: an earlier one of the same `out`, which `prepare` set aside, is deleted.

    Raises UsageError for an unmet requirement, and TargetUnavailable.
    """
    task, progress = prepared.task, prepared.progress
    with nullcontext() if isinstance(progress, Silent) else listening(progress.note):
        await asyncio.to_thread(check_programs, task)
    check_optimizer(task)
    if task.note:
        progress.note(task.note)
    await prepared.open()
    if hint := small_model_note(task):
        progress.note(hint)
    forget_earlier(prepared.directory)


async def baseline(dev_search: DevSearch, progress: Progress = SILENT) -> Baseline:
    """Answers the dev questions with the recipe's program, and reserves the budget that `verify` needs.

    `progress` is told how much of the study the budget pays for.

    Raises BudgetExhausted if the budget is too small even for that. Raises NothingAnswered if the program
    answered no question, unless other programs or targets are tried: all other candidates would fail alike.
    """
    task = dev_search.task
    first = await dev_search.baseline()
    if first.failures.all and len(task.recipe.methods) == 1 and not task.recipe.search.targets:
        raise no_answer_error(first.failures, 0, task)
    each = task.price_calls(round(first.lm_calls * len(first.scores)))
    held = held_calls(task, each) if task.folds else first.calls_on(len(task.test), task.tested)
    task.budget.hold(held)
    await asyncio.to_thread(_report_budget, task, each, progress)
    return replace(first, held=held)


def _report_budget(task: Task, each: Mapping[str, float], progress: Progress) -> None:
    """Says how much of the study the budget pays for, if a call takes `each`."""
    budget = task.recipe.budget
    if (budget.lm_calls, budget.tokens, budget.usd) == (None, None, None):
        return
    paid = budget_pays(task, each)
    if paid is not None and not paid.is_whole:
        progress.note(f"{paid.text[0].upper()}{paid.text[1:]}.")


async def search(dev_search: DevSearch, first: Baseline) -> Searched:
    """Tries candidates on the dev questions until the trials or the budget are spent."""
    return await dev_search.search(first.held)


async def select(dev_search: DevSearch, searched: Searched) -> Selected:
    """Chooses the program to compile, by its dev scores alone.

    Raises NothingAnswered if no program answered any dev question.
    """
    return await dev_search.select(searched)


async def verify(prepared: Prepared, selected: Selected) -> Verified:
    """Answers the test questions with baseline and winner, and compares the two question by question.

    The verdict is "not measured" without a test split, or if the budget runs out, and none is given on
    questions for trying only.
    """
    task, progress = prepared.task, prepared.progress
    programs = {"baseline": selected.baseline, "winner": selected.best}
    rows: dict[str, tuple[Row, ...]] = {}
    folds: FoldAnswers | None = None
    try:
        if task.folds:
            folds = await answer_folds(prepared, prepared.directory)
            rows = dict(folds.rows)
        for name, program in programs.items() if task.test else ():
            progress.phase(f"{name} on test", len(task.test))
            rows[name] = await prepared.answer(program, task.test)
    except BudgetExhausted as error:
        progress.note(f"{'folds' if task.folds else 'test'} not measured: {error}")
        rows = {}
    measured = bool(rows)
    seen = prepared.contamination
    front = await answer_front(prepared, selected.front, {} if folds else rows)
    rows = {name: seen.marked(answered) for name, answered in rows.items()}
    rows = {name: rows.get(name, ()) for name in programs}
    scores = {
        name: task.summarize([row.scores for row in answered], groups_of(answered))
        for name, answered in rows.items()
    }
    failures = {name: failures_of(answered) for name, answered in rows.items()} if measured else {}
    differences, verdict, note = compare(task, rows["baseline"], rows["winner"])
    differences, verdict = of_front(front, task.objectives[0], differences, verdict)
    if measured and all(program.all for program in failures.values()):
        verdict = f"nothing answered: {failures['winner'].reason}"
    if measured and state_of(selected.best) == state_of(selected.baseline):
        why = selected.leader_note or "on the dev questions no trial promised to be better"
        note = f"The baseline is kept: {why}."
    note = " ".join(filter(None, (note, limit_note(selected.facts.get("limits") or {}))))
    if folds is not None:
        verdict, note = on_procedure(verdict, note, len(task.folds))
    if measured and (trying := trying_note(rows["winner"])):
        verdict, note = FOR_TRYING, trying
    if measured and seen.mark:
        verdict = f"{verdict} ({seen.mark})"
    front = qualified(front, seen.mark)
    answered = [(program, rows[name]) for name, program in programs.items()]
    answered += [(one.member.program, one.rows) for one in front if one.rows and not one.member.is_winner]
    limits = next((one.limits for one in front if one.member.is_winner), {})
    if measured and not folds and not front:
        limits = limits_of(task.rule, [rows["winner"]])[0]
    showing = showing_of(task, answered, prepared.out, work="compile") if measured else None
    look = await asyncio.to_thread(showing.count) if showing else None
    if look and look.warning:
        progress.note(look.warning)
    return Verified(rows, scores, differences, failures, verdict, note, look, folds, front, limits)


def write(prepared: Prepared, selected: Selected, verified: Verified, cost: Cost) -> Compiled:
    """Writes the compiled program to `prepared.out`, and all trials to the study's directory.

    `program.json`, `provenance.json`, `recipe.toml` and `prompts/` do not depend on `cost`. Raises OSError,
    and ArtefactError if `out` was changed by another program meanwhile.
    """
    task = prepared.task
    rows = [row for answered in verified.rows.values() for row in answered]
    rows += [row for one in verified.front if not one.member.is_winner for row in one.rows]
    failures = {"dev": selected.failures} | ({"test": verified.failures} if verified.failures else {})
    test = {name: intervals_to_json(scores) for name, scores in verified.scores.items()}
    groups, folds = dev_groups(task), verified.folds
    provenance = {
        **task.facts,
        "dev": {
            name: intervals_to_json(task.summarize(scores, groups[: len(scores)]))
            for name, scores in selected.dev.items()
        },
        "remarks": [FLATTERED, *prepared.contamination.sentences],
        "test": test | {"differences": verified.differences},
        "failures": failures_json(failures),
        "verdict": verified.verdict,
        "search": dict(selected.facts),
        "counters": total_cost([*selected.costs, *(folds.costs if folds else ())], rows),
        **({"cross_validation": list(folds.facts)} if folds else {}),
        **({"limits": verified.limits} if verified.limits else {}),
        **front_json(task, verified.front),
    }
    primary = task.objectives[0].metric.id
    differences, verdict = adjust_for_looks(verified.look, verified.differences, verified.verdict, primary)
    run = _run_facts(task, cost, verified.look)
    run |= after_looks_json(verified.look, verified.differences, verified.verdict, primary)
    compiled = CompiledProgram.of(selected.best, provenance=provenance, recipe=task.recipe.to_toml(), run=run)
    replacement = replacement_note(prepared.out, compiled, primary)
    front = front_programs(verified.front, compiled, look=verified.look, primary=primary)
    compiled.save(prepared.out, selected.best, front=front)
    write_results(prepared.directory, provenance, verified.rows)
    write_trials(prepared.directory, selected.trials)
    prepared.progress.close()
    return Compiled(
        path=prepared.out,
        program=compiled,
        verdict=verdict,
        baseline=verified.scores["baseline"],
        test=verified.scores["winner"],
        differences=differences,
        note=verified.note,
        counters=cost.to_json(),
        example=choose_example(task.objectives[0], verified.rows["baseline"], verified.rows["winner"]),
        failures=failures,
        look=verified.look,
        contamination=prepared.contamination,
        replacement=replacement,
    )


def _run_facts(task: Task, cost: Cost, look: TestUse | None) -> dict[str, Any]:
    """Returns the facts for `run.json`, which differ from run to run."""
    return {
        "sent": cost.sent,
        "replayed": cost.replayed,
        "seconds": round(cost.seconds, 3),
        "charged": {**cost.study.to_json(), "stored": cost.stored.to_json()},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()} {platform.system()}, Python {platform.python_version()}",
        "base": str(task.recipe.base.resolve()),
        **({"salt": task.runtime.gateway.salt} if task.runtime.gateway.salt else {}),
        **({"look": look.to_json()} if look else {}),
    }


def total_cost(parts: Sequence[Mapping[str, float]], rows: Sequence[Row]) -> dict[str, float]:
    """Returns the counters of the `parts` of a search and of the test `rows`, replayed calls included."""
    total = Counters()
    for part in parts:
        total.add(**part)
    for row in rows:
        total.merge(row.total_cost)
    return total.invariant()


def failures_json(failures: Mapping[str, Mapping[str, Failures]]) -> dict[str, dict[str, Any]]:
    """Returns the failures by split and program, as JSON values."""
    return {
        split: {program: counted.to_json() for program, counted in programs.items()}
        for split, programs in failures.items()
    }
