"""Collects demonstrations: bootstrapped from train questions that score well, completed with labelled ones.

The train questions are answered concurrently, block by block. DSPy's BootstrapFewShot then runs on the
questions that scored, replayed from the store without requests. A weak model yields few such questions. The
program is therefore run again over the train questions with the gold answer in place of the model's
(`ragc.programs.calls.demos`). This sends nothing if the answer is the program's only call. Each question
whose passages support the gold answer gives a labelled demonstration.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import dspy

from ragc.core import counters
from ragc.core.counters import Counters
from ragc.core.digest import canonical
from ragc.metrics.base import Scorer
from ragc.optimizers.candidates.demos.pool import Demo, Demonstration, DemoPool, label_of
from ragc.programs.base import RagProgram
from ragc.programs.calls.demos import plain
from ragc.programs.trace import Call
from ragc.recipe.values import BALANCED, LABELLED
from ragc.records import Question
from ragc.signatures.answer import INVALID
from ragc.task.answering import NOTHING, Row, evaluate
from ragc.task.baseline import label_field

LONGEST = 6_000
"""Characters of a demonstration at most, some 1,500 tokens: a dozen passages, and not a window of twenty."""


async def collect(
    program: RagProgram,
    train: Sequence[Question],
    scorer: Scorer,
    *,
    n_demos: int,
    filled: int,
    threshold: float,
    limit: asyncio.Semaphore,
    block: int = 16,
    done: Callable[[], None] = lambda: None,
    kinds: Container[str] = (),
) -> DemoPool:
    """Collects demonstrations from train questions that `program` answers well.

    A question qualifies if it scores at least `threshold` by the one metric of `scorer`.

    Questions are answered in blocks of `block` until `n_demos` qualify, or until the rate shows that all of
    `train` would not yield that many. If some are missing, labelled ones from the rest of `train` fill the
    pool up to `filled`. A pool may be smaller, or empty, when the questions run out. If `kinds` has
    "labelled", up to `filled` labelled ones of all train questions are stored too. If it has "balanced", up
    to `n_demos` are stored for each label of a judgement call in a qualifying question.
    """
    (name,) = (metric.id for metric in scorer.metrics)
    scored: list[tuple[Row, float]] = []
    spent, n_answered = Counters(), 0
    while n_answered < len(train) and len(scored) < n_demos:
        rows = await evaluate(program, train[n_answered : n_answered + block], scorer, limit=limit, done=done)
        n_answered += len(rows)
        pairs = ((row, row.scores[name]) for row in rows if not row.failure)
        scored += [(row, score) for row, score in pairs if score is not None and score >= threshold]
        _add(spent, rows)
        if len(scored) * len(train) < n_demos * n_answered:
            break
    judged = _collect_judgements(program, scored, n_demos) if BALANCED in kinds else {}
    earned = [(row.question, score) for row, score in scored[:n_demos]]
    demos = await asyncio.to_thread(_bootstrap, program, earned, threshold)
    taught, labelled = list[tuple[str, Demo]](), list[tuple[str, Demo]]()
    if len(earned) < n_demos or LABELLED in kinds:
        taken = {question.id for question, _ in earned}
        asked_for = train if LABELLED in kinds else [q for q in train if q.id not in taken]
        rows = await evaluate(program, asked_for, NOTHING, limit=limit, taught=True)
        _add(spent, rows)
        rows = tuple(row for row in rows if not row.failure)
        labels, rest = _labels(train), [row for row in rows if row.question.id not in taken]
        if len(earned) < n_demos:
            taught = _collect_labelled(rest, labels, n_demos - len(earned))[: filled - len(earned)]
        labelled = _collect_labelled(rows, labels, n_demos)[:filled] if LABELLED in kinds else []
    signatures = {name: call.signature for name, call in program.named_predictors()}
    for name, labelled_demos in _by_predictor(taught, signatures).items():
        demos[name] = (*demos.get(name, ()), *labelled_demos)
    scores = tuple(score for _, score in earned)
    return DemoPool(
        demos,
        scores,
        n_answered,
        len(taught),
        spent.invariant(),
        _by_predictor(labelled, signatures) if labelled else {},
        judged,
    )


def _by_predictor(
    taught: Sequence[tuple[str, Demo]], signatures: Mapping[str, Any]
) -> dict[str, tuple[Demonstration, ...]]:
    demos: dict[str, tuple[Demonstration, ...]] = {}
    for name, demo in taught:
        demonstration = Demonstration(demo, label=label_of(signatures[name], demo))
        demos[name] = (*demos.get(name, ()), demonstration)
    return demos


def _collect_judgements(
    program: RagProgram, scored: Sequence[tuple[Row, float]], most: int
) -> dict[str, tuple[Demonstration, ...]]:
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
            short = len(canonical(values)) <= LONGEST
            if label and short and not known and counts[call.name, label] < most:
                counts[call.name, label] += 1
                demos[call.name].append(demonstration)
    return {name: tuple(ones) for name, ones in demos.items() if ones}


def _add(spent: Counters, rows: Sequence[Row]) -> None:
    for row in rows:
        spent.merge(row.total_cost)


def _collect_labelled(rows: Sequence[Row], labels: frozenset[str], n_demos: int) -> list[tuple[str, Demo]]:
    """Collects labelled demonstrations, with the predictor's name, from runs with the gold answer.

    Uses runs for which all supporting passages were shown. If these give fewer than `n_demos`, also uses runs
    that showed one supporting passage with the answer in it, such as one of the two that a question needs.
    """
    demos = [demo for row in rows if _is_supported(row, labels, whole=True) and (demo := _last_demo(row))]
    if len(demos) < n_demos:
        demos = [
            demo for row in rows if _is_supported(row, labels, whole=False) and (demo := _last_demo(row))
        ]
    return demos


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


def _labels(questions: Sequence[Question]) -> frozenset[str]:
    """Answers that several questions share, such as "yes"; passages need not contain them."""
    counts = Counter(question.answers[0].casefold() for question in questions)
    return frozenset(answer for answer, count in counts.items() if count > 1)


def _bootstrap(
    program: RagProgram, earned: Sequence[tuple[Question, float]], threshold: float
) -> dict[str, tuple[Demonstration, ...]]:
    """Runs DSPy's bootstrapping on each question with its score; all calls are replayed from the store."""
    demos: dict[str, tuple[Demonstration, ...]] = {name: () for name, _ in program.named_predictors()}
    counters.current.set(())  # replayed calls were counted when the questions were answered
    for question, score in earned:
        teleprompter = _BootstrapOne(
            metric=lambda *_, score=score: score,
            metric_threshold=threshold,
            max_bootstrapped_demos=1,
            max_labeled_demos=0,
            max_rounds=1,
        )
        compiled = teleprompter.compile(program.deepcopy(), trainset=[_example(question)])
        for name, predictor in compiled.named_predictors():
            for values in (_fields(predictor, demo) for demo in predictor.demos):
                if len(canonical(values)) <= LONGEST:
                    demonstration = Demonstration(values, score, label_of(predictor.signature, values))
                    demos[name] = (*demos[name], demonstration)
    return demos


class _BootstrapOne(dspy.BootstrapFewShot):
    """BootstrapFewShot on a training set of one question, which writes nothing.

    DSPy's own writes a progress bar and a summary. Several programs are bootstrapped in threads at once, and
    `contextlib.redirect_stdout` replaces the stream of the whole process: two that overlap leave their
    replacement in place for good.
    """

    def _bootstrap(self, *, max_bootstraps: int | None = None) -> None:
        self.name2traces: dict[str, list[Any]] = {name: [] for name in self.name2predictor}
        is_bootstrapped = self._bootstrap_one_example(self.trainset[0], 0)
        self.validation = [] if is_bootstrapped else list(self.trainset)


def _fields(predictor: Any, demo: Any) -> Demo:
    """Returns the signature's fields in `demo`; DSPy keeps everything a prediction carried, such as log
    probabilities.
    """
    return {name: value for name, value in plain(demo).items() if name in predictor.signature.fields}


def _example(question: Question) -> dspy.Example:
    values = {"question": question.question, **question.context()}
    return dspy.Example(**values, answers=list(question.answers)).with_inputs(*values)


def set_demos(program: RagProgram, demos: Mapping[str, Sequence[Demo]]) -> RagProgram:
    """Sets the `demos` of `program`'s predictors by name; other predictors get none.

    What the program learned from train questions is applied again, because it may replace demonstrations.
    """
    for name, predictor in program.named_predictors():
        predictor.demos = [dict(demo) for demo in demos.get(name, ())]
    program.learned = program.learned
    return program
