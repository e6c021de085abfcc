"""Builds training data from the train questions of a recipe, or from the demonstrations of a compiled
program.

Questions are collected concurrently, through the store and within the budget; each is complete or does not
count. All replies are in the store, so a killed process loses nothing: the same command continues, and the
rows are the same bytes. They are written when all questions are done. A spent budget ends the collection: the
rows of the complete questions are written, and the error says how many those are.

Demonstrations become conversations: each call's prompt with the wanted reply. The program's come first, then
those of its study's pools, if the study is on this machine. The pools hold demonstrations from train
questions that were answered well, or filled in with their gold answers. A prompt is the program's, with its
instructions and layout and without demonstrations. No model is called.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dspy

from ragc.compiled import base as compiled
from ragc.compiled import contamination
from ragc.compiled.resolve import Opening, import_program
from ragc.core import event_loop
from ragc.core.digest import digest
from ragc.core.display import quantity
from ragc.core.files import put_file
from ragc.core.progress import SILENT, Progress
from ragc.errors import OF_ONE_QUESTION, BudgetExhausted, NothingAnswered, RagcError, UnknownName, UsageError
from ragc.exports.derive import runtime, tables
from ragc.optimizers.candidates.demos.pool import Demo, DemoPool
from ragc.optimizers.grids.provenance import describe_model
from ragc.optimizers.search.storage import read_study, study_directory
from ragc.programs import method
from ragc.recipe import Budget, GridSpec, Recipe
from ragc.recipe.values import CROSS
from ragc.records import Question
from ragc.store.calls import CallStore
from ragc.targets.base import Target
from ragc.targets.prices import most_context, most_usd
from ragc.targets.reasoning import reasoning_of
from ragc.task.answering import kind_of, outage_of
from ragc.task.base import Task, prepare
from ragc.task.budget import BudgetFile
from ragc.task.prompts import fingerprints
from ragc.task.requirements import require
from ragc.task.run import MeasuredRun, measure, open_run, open_state
from ragc.training.data.base import (
    Collector,
    Gathered,
    Item,
    Output,
    TrainingData,
    conversation,
    first_of_each,
    reply,
)
from ragc.training.data.prefrag import PairsOfSources
from ragc.training.data.rqrag import Trajectories
from ragc.training.data.slimplm import Judgements, Labels, Rewrites

COLLECTORS: Mapping[str, tuple[str, type[Collector]]] = {
    "prefrag-dpo": ("prefrag", PairsOfSources),
    "rqrag-sft": ("rqrag", Trajectories),
    "slimplm-labels": ("slimplm", Labels),
    "slimplm-judge": ("slimplm", Judgements),
    "slimplm-rewrites": ("slimplm", Rewrites),
}
"""By kind: the program whose calls the data is for, and what collects it."""


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
    output = Output(out, kind, format)
    without_limits = recipe.replace(budget=Budget(), concurrency=None, grid=GridSpec())
    work = digest([kind, without_limits.to_toml(), fingerprints(recipe)])
    with open_state("training_data", output.rows, "writing") as folder:
        begun = folder / f"{work[:16]}.txt"  # another recipe has another budget
        if not begun.exists():
            put_file(begun, datetime.now(UTC).date().isoformat().encode())
        budget = BudgetFile(begun.with_suffix(".sqlite3"), recipe.budget)
        with open_run(recipe, budget, store=store, targets=targets, progress=progress) as run:
            collector = collector_of(kind, run.task)
            if problem := contamination.record(run.task, "training data", ["train"]):
                progress.note(problem)
            facts = {**_facts(collector), "begun": begun.read_text(), "recipe": work}
            return event_loop.run(_build(run, collector, output, facts))


def _facts(collector: Collector) -> dict[str, Any]:
    """Returns the origin of the rows, for the card."""
    task = collector.task
    models = {
        role: describe_model(task.runtime.target(role)) for role in (*collector.roles, *task.method.roles)
    }
    return {
        "split": f"train, {quantity(len(task.train), 'question')}",
        "questions": task.facts["data"]["train"]["fingerprint"],
        **{f"passages of {name}": source["fingerprint"] for name, source in task.facts["sources"].items()},
        **{
            f"model of the role {role}": ", ".join(
                f"{key} {value}" for key, value in model.items() if key != "model"
            )
            for role, model in models.items()
        },
        "program": task.method.id,
        **collector.facts,
        "seed": task.seed,
    }


def estimate(kind: str, recipe: Recipe, out: str | Path | None = None) -> dict[str, Any]:
    """Returns estimates of the cost of `build`, with everything checked and nothing sent.

    `lm_calls_about` is for readable replies and the longest way through each question; `tokens` and `usd` are
    for as many calls whose prompts fill the context. Unknown amounts are None.
    """
    if out is not None:
        Output(out, kind)
    require(recipe, study=False)
    task = prepare(recipe, store=CallStore(None))
    collector = collector_of(kind, task)
    questions, limit = len(collector.questions), recipe.budget.lm_calls
    calls = questions * collector.calls if limit is None else min(questions * collector.calls, limit)
    longest = max(int(call.sampling.max_tokens) for _, call in collector.program.named_calls())
    targets = {role: task.runtime.target(role) for role in collector.roles}
    tokens = [most_context(target) for target in targets.values()]
    usd = [
        most_usd(target, most_context(target), longest + reasoning_of(target)) for target in targets.values()
    ]
    return {
        "kind": kind,
        "program": recipe.program,
        "out": None if out is None else str(out),
        "questions": questions,
        "calls_a_question": collector.calls,
        "lm_calls_about": calls,
        "tokens": None if None in tokens else calls * max(filter(None, tokens)),
        "usd": None if None in usd else round(calls * max(amount or 0.0 for amount in usd), 2),
        "budget": recipe.budget.model_dump(exclude_none=True, exclude={"trials"}),
        "targets": {role: target.name for role, target in targets.items()},
    }


def collector_of(kind: str, task: Task) -> Collector:
    """Returns the collector of a `kind` over `task`. Raises UsageError for what the recipe lacks."""
    if kind not in COLLECTORS:
        raise UnknownName("kind of training data", kind, COLLECTORS)
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


async def _build(
    run: MeasuredRun, collector: Collector, output: Output, facts: Mapping[str, Any]
) -> TrainingData:
    """Collects and writes. Raises what `build` raises."""
    questions, spent = collector.questions, list[BudgetExhausted]()
    outage = outage_of(run.limit)

    async def collect(question: Question) -> Gathered | None:
        async with run.limit:
            outage.check()
            if spent:
                return None
            try:
                with dspy.context(disable_history=True):  # a history of every prompt would grow without end
                    gathered = await collector.collect(question)
                outage.take(None)
            except BudgetExhausted as error:
                spent.append(error)
                return None
            except OF_ONE_QUESTION as error:
                gathered = Gathered(
                    question, drops=Counter({f"a question that failed ({kind_of(error)})": 1})
                )
                outage.take(error)
        run.progress.step()
        return gathered

    await run.open()
    run.progress.phase("collecting training data", len(questions))
    with measure() as measured, outage:
        results = [
            gathered for gathered in await event_loop.gather_or_cancel(map(collect, questions)) if gathered
        ]
        outage.finish(len(questions))
    run.progress.close()
    drops = Counter({"a repeated question": len(run.task.train) - len(questions)})
    for gathered in results:
        drops.update(gathered.drops)
    items = collector.select([item for gathered in results for item in gathered.items], drops)
    done = f"{len(results)} of {len(questions)} questions"
    if not items and spent:
        raise BudgetExhausted(
            f"{spent[0]} {done} are complete and gave no row, so nothing was written; the same command goes "
            "on."
        )
    if not items:
        raise NothingAnswered(
            f"None of {quantity(len(results), 'question')} gave a row, so nothing was written: "
            f"{', '.join(f'{reason} ({number})' for reason, number in (+drops).items())}."
        )
    remarks = [f"The budget ended the collection after {done}."] if spent else []
    data = output.write(items, drops, facts, run.task.recipe.data.dataset, *remarks)
    if spent:
        raise BudgetExhausted(
            f"{spent[0]} {done} are complete, and their {quantity(len(data.rows), 'row')} are in "
            f"{data.path}; the same command goes on."
        )
    return replace(data, counters=measured.brief())


def demonstrations(
    path: str | Path, out: str | Path, *, format: str = "trl", how: Opening | None = None
) -> TrainingData:
    """Writes the demonstrations of the compiled program at `path`, and of its study, to `out`.

    Raises ArtefactError, Untrusted for the author's own program if that is not allowed, UsageError for an
    `out` with something else, and NothingAnswered without a demonstration.
    """
    output = Output(out, "demonstrations", format)
    loaded = compiled.load(path)
    import_program(loaded, how or Opening())
    recipe = tables(loaded.recipe)
    program = loaded.build(runtime(method(loaded.state.method), recipe))
    items, drops = list[Item](), Counter[str]()
    for name, call in program.named_calls():
        call.demos, call.nearest = [], 0
        inputs, outputs = call.signature.input_fields, call.signature.output_fields
        for demo in (*loaded.state.predictors[name].demos, *_of_study(Path(path), name)):
            if not {*inputs, *outputs} <= demo.keys():
                drops["a demonstration without all fields of its call"] += 1
                continue
            prompt = conversation(call, {field: demo[field] for field in inputs})
            items.append(Item({"messages": [*prompt, reply(call, demo)]}, name))
    unique = first_of_each(items, lambda item: digest(item.row))
    drops["a repeated row"] += len(items) - len(unique)
    if not unique:
        raise NothingAnswered(
            f"The compiled program at {path} shows no demonstrations, and its study on this machine has "
            "none; compile it with search.demos above 0."
        )
    targets = sorted((loaded.provenance.get("targets") or {}).items())
    facts = {
        "compiled program": loaded.fingerprint,
        "program": loaded.state.method,
        "split": "train",
        **{f"model of the role {role}": target.get("name", "") for role, target in targets},
        "seed": recipe.get("seed", 0),
    }
    return output.write(unique, drops, facts, (recipe.get("data") or {}).get("dataset", "jsonl"))


def _of_study(path: Path, predictor: str) -> Iterator[Demo]:
    """Yields a predictor's demonstrations in the pools of the study that compiled `path`, if it is here.

    Those of another domain are left out. An unreadable study has none.
    """
    try:
        study = read_study(study_directory(path))
    except RagcError:
        return
    attributes: Mapping[str, Any] = study.user_attrs if study is not None else {}
    for name in sorted(attributes):
        if name.startswith("pool:") and not name.startswith(f"pool:{CROSS}:"):
            pool = DemoPool.of(attributes[name])
            for part in (pool.filled, pool.labelled_demos, pool.by_label):
                yield from (demonstration.values for demonstration in part.get(predictor, ()))
