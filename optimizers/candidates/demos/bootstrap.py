"""Collects demonstrations: bootstrapped from train questions that score well, completed with labelled ones.

The train questions are answered concurrently, block by block, and DSPy's trace of a run that scores gives a
demonstration of each predictor. A weak model yields few such questions. A program of ragc is therefore run
again over the train questions with the gold answer in place of the model's (`ragc.programs.calls.demos`).
This sends nothing if the answer is the program's only call. Each question whose passages support the gold
answer gives a labelled demonstration. Of a user's own module an example labels each predictor that has some
of its fields, at least an input and an output, as DSPy's LabeledFewShot does.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from ragc.core.counters import Counters
from ragc.errors import BudgetExhausted
from ragc.metrics.base import ANY, Metric, Scorer
from ragc.optimizers.candidates.demos.pool import ByPredictor, Demo, Demonstration, DemoPool, label_of
from ragc.programs.base import RagProgram
from ragc.programs.calls.demos import plain
from ragc.programs.own.program import OwnProgram, saved_demo
from ragc.programs.trace import Call
from ragc.recipe.values import BALANCED, CALLERS_METRIC, LABELLED
from ragc.records import Question
from ragc.signatures.answer import INVALID
from ragc.task.answering import NOTHING, Row, evaluate
from ragc.task.baseline import label_field

BLOCK = 16
"""Train questions that are answered at once."""

Labelled = Sequence[tuple[str, Demo]]
"""The demonstrations of one train question with its gold answer, each with its predictor's name."""


async def collect(
    program: RagProgram,
    train: Sequence[Question],
    scorer: Scorer,
    *,
    n_demos: int,
    filled: int,
    threshold: float | None,
    limit: asyncio.Semaphore,
    block: int = BLOCK,
    done: Callable[[], None] = lambda: None,
    kinds: Container[str] = (),
    affordable: Callable[[Counters, int], bool] = lambda spent, answered: True,
) -> DemoPool:
    """Collects demonstrations from train questions that `program` answers well.

    A question qualifies if it scores at least `threshold` by the one metric of `scorer`, see `qualifying`.

    Questions are answered in blocks of `block` until `n_demos` qualify, the budget is spent, or another block
    is not `affordable` after what the first ones cost. If some are missing, labelled ones from the rest of
    `train` fill the pool up to `filled`. A pool may be smaller, or empty, when the questions run out. If
    `kinds` has "labelled", up to `filled` labelled ones of all train questions are stored too. If it has
    "balanced", up to `n_demos` are stored for each label of a judgement call in a qualifying question.
    """
    (metric,) = scorer.metrics
    answered: list[Row] = []
    scored: list[tuple[Row, float]] = []
    spent = Counters()
    while len(answered) < len(train) and len(scored) < n_demos and affordable(spent, len(answered)):
        questions = train[len(answered) : len(answered) + block]
        try:
            rows = await evaluate(program, questions, scorer, limit=limit, done=done, traced=True)
        except BudgetExhausted:
            if not answered:
                raise
            break
        answered += rows
        _add(spent, rows)
        scored = qualifying(answered, metric, threshold)
    judged = _collect_judgements(program, scored, n_demos) if BALANCED in kinds else {}
    earned = scored[:n_demos]
    demos = _bootstrapped(program, earned)
    taken = {row.question.id for row, _ in earned}
    fill, labelled = list[Labelled](), list[Labelled]()
    if len(earned) < n_demos or LABELLED in kinds:
        of = [q for q in train if LABELLED in kinds or q.id not in taken]
        if isinstance(program, OwnProgram):
            every = [(question, _labels_by_field(program, question)) for question in of]
            labelled = [shown for _, shown in every if shown]
            rest = [shown for question, shown in every if shown and question.id not in taken]
        else:
            gold = [question for question in of if question.answers]
            rows = await evaluate(program, gold, NOTHING, limit=limit, taught=True)
            _add(spent, rows)
            rows = tuple(row for row in rows if not row.failure)
            labels = _common_answers(gold)
            others = [row for row in rows if row.question.id not in taken]
            labelled = _supported(rows, labels, n_demos)
            rest = _supported(others, labels, n_demos - len(earned))
        fill = rest[: filled - len(earned)] if len(earned) < n_demos else []
    for name, more in _by_predictor(program, fill).items():
        demos[name] = (*demos.get(name, ()), *more)
    return DemoPool(
        demos,
        tuple(score for _, score in earned),
        len(answered),
        len(fill),
        spent.invariant(),
        _by_predictor(program, labelled[:filled]) if LABELLED in kinds else {},
        judged,
    )


def qualifying(rows: Sequence[Row], metric: Metric, threshold: float | None) -> list[tuple[Row, float]]:
    """Returns the `rows` whose runs may be demonstrations, with their scores by `metric`.

    They score at least `threshold`; without one, more than the least of all, or where all score the same,
    more than 0. That of a recipe is for shares, and does not count for scores that lie outside 0..1.
    """
    scores = [
        (row, score) for row in rows if not row.failure and (score := row.scores[metric.id]) is not None
    ]
    values = [score for _, score in scores]
    if metric.id != CALLERS_METRIC and metric.bounds_of(values) == ANY:
        threshold = None
    if threshold is not None:
        return [(row, score) for row, score in scores if score >= threshold]
    least = min(values) if len(set(values)) > 1 else 0.0
    return [(row, score) for row, score in scores if score > least]


def _bootstrapped(
    program: RagProgram, earned: Sequence[tuple[Row, float]]
) -> dict[str, tuple[Demonstration, ...]]:
    """Returns a demonstration of each predictor that a question asked: of several calls the last, or by half
    a chance an earlier one, as DSPy's BootstrapFewShot.
    """
    predictors = dict(program.named_predictors())
    stages = Counter(predictor.stage for predictor in predictors.values())
    # A copy that a module makes in a call, as BestOfN does, has the stage of its original.
    names: dict[Any, str] = {p.stage: name for name, p in predictors.items() if stages[p.stage] == 1}
    names |= {id(predictor): name for name, predictor in predictors.items()}
    demos: dict[str, tuple[Demonstration, ...]] = dict.fromkeys(predictors, ())
    for row, score in earned:
        by_name: dict[str, list[Demo]] = {}
        for predictor, inputs, outputs in row.steps:
            name = names.get(id(predictor)) or names.get(predictor.stage)
            if name and (demo := _saved(program, predictors[name], {**inputs, **outputs})) is not None:
                by_name.setdefault(name, []).append(demo)
        rng = random.Random(f"steps {row.question.id}")
        for name, calls in by_name.items():
            demo = calls[-1] if len(calls) == 1 or rng.random() < 0.5 else rng.choice(calls[:-1])
            demos[name] += (Demonstration(demo, score, label_of(predictors[name].signature, demo)),)
    return demos


def _saved(program: RagProgram, predictor: Any, values: Mapping[str, Any]) -> Demo | None:
    """Returns the fields of the signature in `values` as a file gives them back; None where none can.

    DSPy keeps everything a prediction carried, such as log probabilities.
    """
    fields = {name: value for name, value in values.items() if name in predictor.signature.fields}
    return saved_demo(predictor, fields) if isinstance(program, OwnProgram) else plain(fields)


def _labels_by_field(program: RagProgram, question: Question) -> Labelled:
    """Returns the demonstrations that the example of `question` is to the predictors of a user's module."""
    example = question.example
    if example is None:
        example = {**question.extra, "question": question.question, **question.context()}
        example |= {"answer": question.answers[0]} if question.answers else {}
    shown = []
    for name, predictor in program.named_predictors():
        signature = predictor.signature
        values = {field: example[field] for field in signature.fields if field in example}
        if values.keys() & signature.input_fields.keys() and values.keys() & signature.output_fields.keys():
            demo = saved_demo(predictor, values)
            shown += [] if demo is None else [(name, demo)]
    return shown


def _by_predictor(program: RagProgram, labelled: Iterable[Labelled]) -> dict[str, tuple[Demonstration, ...]]:
    signatures = {name: call.signature for name, call in program.named_predictors()}
    demos: dict[str, tuple[Demonstration, ...]] = {}
    for name, demo in (pair for shown in labelled for pair in shown):
        demonstration = Demonstration(demo, label=label_of(signatures[name], demo))
        demos[name] = (*demos.get(name, ()), demonstration)
    return demos


def _collect_judgements(program: RagProgram, scored: Sequence[tuple[Row, float]], most: int) -> ByPredictor:
    """Returns demonstrations of judgement calls in qualifying questions, at most `most` of each label,
    without duplicates.

    Calls whose reply was truncated or had to be repaired are left out, as poor examples.
    """
    signatures = {n: call.signature for n, call in program.named_predictors() if label_field(call.signature)}
    demos: dict[str, list[Demonstration]] = {name: [] for name in signatures}
    counts = Counter[tuple[str, str]]()
    for row, score in scored:
        calls = (event for event in row.trace if isinstance(event, Call) and event.name in signatures)
        for call in calls:
            values = {**call.inputs, **call.outputs}
            label = label_of(signatures[call.name], values)
            demonstration = Demonstration(values, score, label)
            known = call.truncated or call.repaired or demonstration in demos[call.name]
            if label and not known and counts[call.name, label] < most:
                counts[call.name, label] += 1
                demos[call.name].append(demonstration)
    return {name: tuple(ones) for name, ones in demos.items() if ones}


def _add(spent: Counters, rows: Sequence[Row]) -> None:
    for row in rows:
        spent.merge(row.total_cost)


def _supported(rows: Sequence[Row], labels: frozenset[str], n_demos: int) -> list[Labelled]:
    """Returns labelled demonstrations from runs with the gold answer.

    Uses runs for which all supporting passages were shown. If these give fewer than `n_demos`, also uses runs
    that showed one supporting passage with the answer in it, such as one of the two that a question needs.
    """
    demos = [demo for row in rows if _is_supported(row, labels, whole=True) and (demo := _last_demo(row))]
    if len(demos) < n_demos:
        demos = [
            demo for row in rows if _is_supported(row, labels, whole=False) and (demo := _last_demo(row))
        ]
    return [[demo] for demo in demos]


def _is_supported(row: Row, labels: frozenset[str], *, whole: bool) -> bool:
    """Returns whether the passages shown support the gold answer: they contain it, or it is one of `labels`.

    The answer that a question is invalid needs no supporting passage.
    """
    gold = frozenset(row.question.gold_ids)
    all_shown = bool(gold) and gold <= {passage.parent for passage in row.passages}
    answer = row.question.answers[0].casefold()
    if (all_shown and answer in labels) or (not gold and answer == INVALID):
        return True
    if whole:
        return all_shown and any(answer in passage.text.casefold() for passage in row.passages)
    near = [passage for passage in row.passages if not gold or passage.parent in gold]
    return any(answer in passage.text.casefold() for passage in near)


def _last_demo(row: Row) -> tuple[str, Demo] | None:
    """Returns the last call of a run, with its predictor's name; None unless its only output is the
    answer.
    """
    calls = [event for event in row.trace if isinstance(event, Call)]
    if not calls or set(calls[-1].outputs) != {"answer"}:
        return None
    return calls[-1].name, {**calls[-1].inputs, **calls[-1].outputs}


def _common_answers(questions: Sequence[Question]) -> frozenset[str]:
    """Answers that several questions share, such as "yes"; passages need not contain them."""
    counts = Counter(question.answers[0].casefold() for question in questions)
    return frozenset(answer for answer, count in counts.items() if count > 1)


def set_demos(program: RagProgram, demos: Mapping[str, Sequence[Demo]]) -> RagProgram:
    """Sets the `demos` of `program`'s predictors by name; other predictors get none.

    What the program learned from train questions is applied again, because it may replace demonstrations.
    """
    for name, predictor in program.named_predictors():
        predictor.demos = [dict(demo) for demo in demos.get(name, ())]
    program.learned = program.learned
    return program
