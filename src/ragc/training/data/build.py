"""Builds training data from the train questions of a recipe, through the store and within the budget.

Questions are collected concurrently; each is complete or does not count. All replies are in the store, so a
killed process loses nothing: the same command continues, and the rows are the same bytes. They are written
when all questions are done. A spent budget ends the collection: the rows of the complete questions are
written, and the error says how many those are.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import dspy

from ragc.compiled import contamination
from ragc.core import event_loop
from ragc.core.digest import digest
from ragc.core.display import describe, quantity
from ragc.core.extras import __version__
from ragc.core.files import put_file, read_bytes
from ragc.core.progress import SILENT, Progress
from ragc.errors import OF_ONE_QUESTION, BudgetExhausted, NothingAnswered, UnknownName, UsageError
from ragc.metrics.short_answer import normalise
from ragc.optimizers.grids.provenance import describe_model, origin_of
from ragc.recipe import Budget, GridSpec, Recipe
from ragc.records import Question
from ragc.store.calls import CallStore
from ragc.targets.base import Target
from ragc.targets.prices import most_context, most_usd
from ragc.targets.reasoning import reasoning_of
from ragc.task import base as tasks
from ragc.task.answering import kind_of, outage_of
from ragc.task.base import Task
from ragc.task.budget import BudgetFile
from ragc.task.prompts import fingerprints
from ragc.task.requirements import require
from ragc.task.run import MeasuredRun, measure, open_run, open_state
from ragc.training import FORMATS, KINDS
from ragc.training.data import card
from ragc.training.data.base import Collector, Gathered, Item, Row
from ragc.training.data.files import DataFiles
from ragc.training.data.prefrag import PairsOfSources
from ragc.training.data.rqrag import Trajectories
from ragc.training.data.slimplm import JudgeLabels, Rewrites

REPEATED_QUESTION = "a repeated question"

COLLECTORS: Mapping[str, tuple[str, Callable[[Task], Collector]]] = {
    "prefrag-dpo": ("prefrag", PairsOfSources),
    "rqrag-sft": ("rqrag", Trajectories),
    "slimplm-labels": ("slimplm", JudgeLabels),
    "slimplm-judge": ("slimplm", partial(JudgeLabels, judge=True)),
    "slimplm-rewrites": ("slimplm", Rewrites),
}
"""By kind: the program whose calls the data is for, and what collects it."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Training data on disk: rows, card, counts, and the requests of this run.

    `classes` and `drops` are numbers of rows by class, and of dropped items by reason. `counters` are
    requests sent and replayed, tokens, US dollars and seconds.
    """

    kind: str
    path: Path
    rows: Sequence[Row]
    classes: Mapping[str, int]
    drops: Mapping[str, int]
    counters: Mapping[str, float]

    @property
    def card(self) -> Path:
        """The file of the card."""
        return self.path.with_suffix(".md")

    def __repr__(self) -> str:
        return describe("TrainingData", repr(str(self.path)), **{"rows": len(self.rows), **self.classes})

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc data --json`."""
        return {
            "kind": self.kind,
            "out": str(self.path),
            "card": str(self.card),
            "rows": len(self.rows),
            "classes": dict(self.classes),
            "drops": dict(self.drops),
            "counters": dict(self.counters),
        }


def build(
    kind: str,
    recipe: Recipe,
    out: str | Path,
    *,
    format: str = "trl",
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
    progress: Progress = SILENT,
) -> TrainingData:
    """Makes training data of a `kind` from the train questions of `recipe`, and writes it to `out`.

    `targets` replace those of the recipe. Raises UsageError and its subclasses before anything is sent, for
    an `out` with something else too. Raises BudgetExhausted, with the rows of complete questions written, and
    NothingAnswered if no question gave a row.
    """
    _check_names(kind, format)
    files = DataFiles(out)
    with _open_state(files.rows, kind, recipe) as state:
        budget = BudgetFile(state.charges, recipe.budget)
        with open_run(recipe, budget, store=store, targets=targets, progress=progress) as run:
            collector = collector_of(kind, run.task)
            if problem := contamination.record(run.task, "training data", ["train"]):
                progress.note(problem)
            return event_loop.run(_Build(kind, run, collector, files, state.begun, format).run())


def estimate(kind: str, recipe: Recipe, out: str | Path | None = None) -> dict[str, Any]:
    """Returns estimates of the cost of `build`, with everything checked and nothing sent.

    `lm_calls_about` is for readable replies and the longest way through each question; `tokens` and `usd` are
    for as many calls whose prompts fill the context. Unknown amounts are None.
    """
    _check_names(kind, "trl")
    if out is not None:
        DataFiles(out)
    require(recipe, study=False)
    task = tasks.prepare(recipe, store=CallStore(None))
    collector = collector_of(kind, task)
    questions = len(_unique(task.train))
    limit = recipe.budget.lm_calls
    about = questions * collector.calls
    calls = about if limit is None else min(about, limit)
    reply = collector.longest_reply
    asked = [task.runtime.target(role) for role in collector.roles]
    tokens = [most_context(target) for target in asked]
    usd = [most_usd(target, most_context(target), reply + reasoning_of(target)) for target in asked]
    return {
        "kind": kind,
        "program": recipe.program,
        "out": None if out is None else str(out),
        "questions": questions,
        "calls_a_question": collector.calls,
        "lm_calls_about": calls,
        "tokens": None if None in tokens else calls * max(one or 0 for one in tokens),
        "usd": None if None in usd else round(calls * max(one or 0.0 for one in usd), 2),
        "budget": recipe.budget.model_dump(exclude_none=True, exclude={"trials"}),
        "targets": {role: task.runtime.target(role).name for role in collector.roles},
    }


def _check_names(kind: str, format: str) -> None:
    if kind not in COLLECTORS:
        raise UnknownName("kind of training data", kind, KINDS)
    if format not in FORMATS:
        raise UnknownName("format of training data", format, FORMATS)


def collector_of(kind: str, task: Task) -> Collector:
    """Returns the collector of a `kind` over `task`.

    Raises UsageError for what the recipe lacks, in one sentence.
    """
    program, make = COLLECTORS[kind]
    if task.method.id != program:
        raise UsageError(
            f"{kind} is training data for the program {program!r}, and the recipe's is {task.method.id!r}; "
            f"set program = {json.dumps(program)}."
        )
    if not task.train:
        raise UsageError(f"{kind} needs train questions, found none; set data.train to a number or a file.")
    collector = make(task)
    for role in collector.roles:
        task.runtime.target(role)
    bare = [question.id for question in task.train if not any(map(str.strip, question.answers))]
    if collector.needs_gold and bare:
        raise UsageError(
            f"{kind} needs gold answers, and {quantity(len(bare), 'train question')} of {len(task.train)} "
            f"have none, such as {bare[0]!r}; add answers, or leave them out."
        )
    return collector


def _unique(questions: Sequence[Question]) -> list[Question]:
    """Returns `questions` in order, only the first of those with the same words."""
    unique: dict[str, Question] = {}
    for question in questions:
        unique.setdefault(normalise(question.question) or question.question, question)
    return list(unique.values())


@dataclass(frozen=True, slots=True)
class _OutputState:
    """The stored state of an output: the file of its charges, and the day on which it was begun."""

    charges: Path
    begun: str


def identity(kind: str, recipe: Recipe) -> str:
    """Returns a digest of the recipe without limits, its prompt files, and the kind."""
    same = recipe.replace(budget=Budget(), concurrency=None, grid=GridSpec())
    return digest([kind, same.to_toml(), fingerprints(recipe)])


@contextmanager
def _open_state(out: Path, kind: str, recipe: Recipe) -> Iterator[_OutputState]:
    """Locks `out`; the state of what is being made there. Another recipe begins anew, with its own budget.

    Raises UsageError where another process writes to `out`.
    """
    today = datetime.now(UTC).date().isoformat()
    with open_state("training_data", out, "writing") as folder:
        mark, charges, about = identity(kind, recipe), folder / "charges.sqlite3", folder / "begun.json"
        begun = _begun(about, mark)
        if not begun:
            charges.unlink(missing_ok=True)
            put_file(about, json.dumps({"identity": mark, "begun": today}).encode())
        yield _OutputState(charges, begun or today)


def _begun(path: Path, mark: str) -> str:
    """Returns the day on which the work with the digest `mark` was begun; "" for other or no work."""
    try:
        state = json.loads(read_bytes(path))
        return str(state["begun"]) if state["identity"] == mark else ""
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""


class _Build:
    """Collects the train questions of a task and writes what is selected."""

    def __init__(
        self,
        kind: str,
        run: MeasuredRun,
        collector: Collector,
        files: DataFiles,
        begun: str,
        format: str,
    ) -> None:
        self.kind, self.task, self.collector, self.files = kind, run.task, collector, files
        self.begun, self.format, self._run = begun, format, run
        self._questions = _unique(run.task.train)
        self._spent: BudgetExhausted | None = None

    async def run(self) -> TrainingData:
        """Collects and writes. Raises what `build` raises."""
        await self._run.open()
        self._run.progress.phase("collecting training data", len(self._questions))
        with measure() as measured:
            gathered = await self._collect()
        self._run.progress.close()
        data = self._write(gathered)
        if self._spent is not None:
            raise self._cut_off(len(gathered), len(data.rows))
        return replace(data, counters=measured.brief())

    async def _collect(self) -> list[Gathered]:
        """Collects from each question, in their order; without those that the budget cut off."""
        with outage_of(self._run.limit) as outage:
            results = await event_loop.gather_or_cancel(map(self._collect_one, self._questions))
            outage.finish(len(results))
        return [one for one in results if one is not None]

    async def _collect_one(self, question: Question) -> Gathered | None:
        outage = outage_of(self._run.limit)
        async with self._run.limit:
            outage.check()
            if self._spent is not None:
                return None
            try:
                # A history of every prompt would grow without end.
                with dspy.context(disable_history=True):
                    gathered = await self.collector.collect(question)
                outage.take(None)
            except BudgetExhausted as error:
                self._spent = error
                return None
            except OF_ONE_QUESTION as error:
                gathered = Gathered(
                    question, drops=Counter({f"a question that failed ({kind_of(error)})": 1})
                )
                outage.take(error)
        self._run.progress.step()
        return gathered

    def _write(self, gathered: Sequence[Gathered]) -> TrainingData:
        """Writes the rows. Raises NothingAnswered without any, and what `select` raises."""
        drops = Counter({REPEATED_QUESTION: len(self.task.train) - len(self._questions)})
        for one in gathered:
            drops.update(one.drops)
        selection = self.collector.select(gathered)
        drops.update(selection.drops)
        if not selection.items:
            raise self._no_rows_error(len(gathered), +drops)
        classes = Counter(item.label for item in selection.items)
        rows = [self._row(item) for item in selection.items]
        shown = {label: classes[label] for label in sorted(classes)}
        left_out = dict(sorted((+drops).items(), key=lambda one: (-one[1], one[0])))
        done = f"{len(gathered)} of {len(self._questions)} questions"
        cut = [f"The budget ended the collection after {done}."] if self._spent is not None else []
        name = self.files.rows.name
        text = card.text_of(name, self.kind, self._facts(), shown, left_out, cut, self.format)
        self.files.write(rows, text)
        return TrainingData(self.kind, self.files.rows, rows, shown, left_out, {})

    def _row(self, item: Item) -> Row:
        """Returns the row of `item`; LLaMA-Factory wants one message where TRL wants a list of one."""
        if self.format == "llamafactory" and self.kind in card.PAIRS:
            one = {name: item.row[name][0] for name in ("chosen", "rejected")}
            return {**item.row, **one}
        return item.row

    def _facts(self) -> dict[str, Any]:
        """Returns the origin of the rows, for the card."""
        task, data = self.task, self.task.recipe.data
        origin = origin_of(data.dataset)
        roles = dict.fromkeys((*self.collector.roles, *task.method.roles))
        models = {role: _described(task.runtime.target(role)) for role in roles}
        return {
            "data set": data.dataset,
            "split": f"train, {quantity(len(task.train), 'question')}",
            "questions": task.facts["data"]["train"]["fingerprint"],
            **{
                f"passages of {name}": source["fingerprint"] for name, source in task.facts["sources"].items()
            },
            "licence of the source": card.licence_of(origin),
            **({"home of the source": origin["home"]} if origin.get("home") else {}),
            **{f"model of the role {role}": text for role, text in models.items()},
            "begun": self.begun,
            "program": task.method.id,
            **self.collector.facts,
            "recipe": identity(self.kind, task.recipe),
            "seed": task.seed,
            "ragc": __version__,
        }

    def _cut_off(self, complete: int, rows: int) -> BudgetExhausted:
        return BudgetExhausted(
            f"{self._spent} {complete} of {len(self._questions)} questions are complete, and their "
            f"{quantity(rows, 'row')} are in {self.files.rows}; the same command goes on."
        )

    def _no_rows_error(self, complete: int, drops: Mapping[str, int]) -> Exception:
        """Returns the error of a collection without a row."""
        if self._spent is not None:
            return BudgetExhausted(
                f"{self._spent} {complete} of {len(self._questions)} questions are complete and gave no row, "
                "so nothing was written; the same command goes on."
            )
        reasons = ", ".join(f"{reason} ({number})" for reason, number in drops.items())
        return NothingAnswered(
            f"None of {quantity(complete, 'question')} gave a row, so nothing was written: {reasons}."
        )


def _described(target: Target) -> str:
    """Returns the name of a model, and the digest of its weights or of its identity."""
    facts = describe_model(target)
    mark = f"SHA-256 {facts['sha256']}" if "sha256" in facts else f"identity {facts['identity']}"
    return f"{facts['name']}, {mark}"
