"""Demonstration sets: bootstrapped from train questions that scored, filled up with labelled ones.

The train questions are answered concurrently, block by block. On those that score, DSPy's
BootstrapFewShot replays from the store, so its choice is its own and costs no requests. A weak model
earns few in that way. Then the program is run once more over the train questions with the gold answer
in the place of the model's (`ragc.programs.calls.demos`), which sends nothing where that is the only call;
each question whose passages support the answer gives a labelled demonstration.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import dspy

from ragc.core import counters
from ragc.core.counters import Counters
from ragc.metrics.scoring import Scorer
from ragc.optimizers.answering import NOTHING, Row, evaluate
from ragc.optimizers.demos.pool import Demo, Demonstration, Pool, label_field, label_of
from ragc.programs.base import RagProgram
from ragc.programs.calls.demos import plain
from ragc.programs.trace import Call
from ragc.recipe.resolved import BALANCED, LABELLED
from ragc.records import Question
from ragc.signatures.answer import INVALID


async def collect(
    program: RagProgram,
    train: Sequence[Question],
    scorer: Scorer,
    *,
    wanted: int,
    filled: int,
    threshold: float,
    limit: asyncio.Semaphore,
    block: int = 16,
    done: Callable[[], None] = lambda: None,
    kinds: Container[str] = (),
) -> Pool:
    """Demonstrations from the train questions that `program` answers well.

    It scores at least `threshold` on them by the one metric of `scorer`.

    Questions are answered in blocks of `block` until `wanted` have earned their place, or until it
    shows that all of `train` would not give so many. When some are missing, labelled ones from the
    rest of `train` fill up to `filled`. A pool may be smaller, or empty, when the questions run out.
    Where `kinds` has "labelled", up to `filled` labelled ones of all train questions are kept too; where it
    has "balanced", up to `wanted` of each label that a judgement call gave in a question that scored.
    """
    (name,) = (metric.id for metric in scorer.metrics)
    scored: list[tuple[Row, float]] = []
    spent, n_answered = Counters(), 0
    while n_answered < len(train) and len(scored) < wanted:
        rows = await evaluate(program, train[n_answered : n_answered + block], scorer, limit=limit, done=done)
        n_answered += len(rows)
        pairs = ((row, row.scores[name]) for row in rows)
        scored += [(row, score) for row, score in pairs if score is not None and score >= threshold]
        _add(spent, rows)
        if len(scored) * len(train) < wanted * n_answered:
            break
    judged = _collect_judgements(program, scored, wanted) if BALANCED in kinds else {}
    earned = [(row.question, score) for row, score in scored[:wanted]]
    demos = await asyncio.to_thread(_bootstrap, program, earned, threshold)
    taught, labelled = list[tuple[str, Demo]](), list[tuple[str, Demo]]()
    if len(earned) < wanted or LABELLED in kinds:
        taken = {question.id for question, _ in earned}
        asked_for = train if LABELLED in kinds else [q for q in train if q.id not in taken]
        rows = await evaluate(program, asked_for, NOTHING, limit=limit, taught=True)
        _add(spent, rows)
        labels, rest = _labels(train), [row for row in rows if row.question.id not in taken]
        if len(earned) < wanted:
            taught = _collect_labelled(rest, labels, wanted - len(earned))[: filled - len(earned)]
        labelled = _collect_labelled(rows, labels, wanted)[:filled] if LABELLED in kinds else []
    signatures = {name: call.signature for name, call in program.named_predictors()}
    for name, labelled_demos in _by_predictor(taught, signatures).items():
        demos[name] = (*demos.get(name, ()), *labelled_demos)
    scores = tuple(score for _, score in earned)
    return Pool(
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
        one = Demonstration(demo, label=label_of(signatures[name], demo))
        demos[name] = (*demos.get(name, ()), one)
    return demos


def _collect_judgements(
    program: RagProgram, scored: Sequence[tuple[Row, float]], most: int
) -> dict[str, tuple[Demonstration, ...]]:
    """What the judgement calls of questions that scored decided, at most `most` of each label, none twice.

    Calls whose reply was cut off or had to be asked for again show no one how to answer.
    """
    signatures = {n: call.signature for n, call in program.named_predictors() if label_field(call.signature)}
    demos: dict[str, list[Demonstration]] = {name: [] for name in signatures}
    counts = Counter[tuple[str, str]]()
    for row, score in scored:
        calls = (event for event in row.trace if isinstance(event, Call) and event.name in signatures)
        for call in calls:
            values = {**call.inputs, **call.outputs}
            label = label_of(signatures[call.name], values)
            one = Demonstration(values, score, label)
            known = call.truncated or call.repaired or one in demos[call.name]
            if label and not known and counts[call.name, label] < most:
                counts[call.name, label] += 1
                demos[call.name].append(one)
    return {name: tuple(ones) for name, ones in demos.items() if ones}


def _add(spent: Counters, rows: Sequence[Row]) -> None:
    for row in rows:
        spent.merge(row.total_cost)


def _collect_labelled(rows: Sequence[Row], labels: frozenset[str], wanted: int) -> list[tuple[str, Demo]]:
    """Labelled demonstrations with the predictor's name, from runs with the gold answer.

    Those whose supporting passages were all shown; when they are fewer than `wanted`, those too where
    a supporting passage that was shown contains the answer, as when questions need two and one is shown.
    """
    demos = [demo for row in rows if _is_supported(row, labels, whole=True) and (demo := _last_demo(row))]
    if len(demos) < wanted:
        demos = [
            demo for row in rows if _is_supported(row, labels, whole=False) and (demo := _last_demo(row))
        ]
    return demos


def _is_supported(row: Row, labels: frozenset[str], *, whole: bool) -> bool:
    """Whether the passages shown support the gold answer: they contain it, or it is one of `labels`.

    That a question is invalid no passage need say.
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
    """The last call of a run and its predictor's name; None unless the answer is all that it gives."""
    calls = [event for event in row.trace if isinstance(event, Call)]
    if not calls or set(calls[-1].outputs) != {"answer"}:
        return None
    return calls[-1].name, {**calls[-1].inputs, **calls[-1].outputs}


def _labels(questions: Sequence[Question]) -> frozenset[str]:
    """Answers that several questions share, such as "yes": they need not stand in a passage."""
    counts = Counter(question.answers[0].casefold() for question in questions)
    return frozenset(answer for answer, count in counts.items() if count > 1)


def _bootstrap(
    program: RagProgram, earned: Sequence[tuple[Question, float]], threshold: float
) -> dict[str, tuple[Demonstration, ...]]:
    """Let DSPy bootstrap on each question with the score it earned; the store answers them."""
    demos: dict[str, tuple[Demonstration, ...]] = {name: () for name, _ in program.named_predictors()}
    counters.current.set(())  # replays of calls that were counted when the questions were answered
    with _silence_dspy():
        for question, score in earned:
            teleprompter = dspy.BootstrapFewShot(
                metric=lambda *_, score=score: score,
                metric_threshold=threshold,
                max_bootstrapped_demos=1,
                max_labeled_demos=0,
                max_rounds=1,
            )
            compiled = teleprompter.compile(program.deepcopy(), trainset=[_example(question)])
            for name, predictor in compiled.named_predictors():
                for values in (_fields(predictor, demo) for demo in predictor.demos):
                    one = Demonstration(values, score, label_of(predictor.signature, values))
                    demos[name] = (*demos[name], one)
    return demos


@contextlib.contextmanager
def _silence_dspy() -> Iterator[None]:
    """DSPy's bootstrapping without its progress bar and its log of questions that failed."""
    log = logging.getLogger("dspy.teleprompt.bootstrap")
    before, muted = log.level, io.StringIO()
    log.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stderr(muted), contextlib.redirect_stdout(muted):
            yield
    finally:
        log.setLevel(before)


def _fields(predictor: Any, demo: Any) -> Demo:
    """What of `demo` the signature has: DSPy keeps all that a prediction carried, log probabilities too."""
    return {name: value for name, value in plain(demo).items() if name in predictor.signature.fields}


def _example(question: Question) -> dspy.Example:
    values = {"question": question.question, **question.context()}
    return dspy.Example(**values, answers=list(question.answers)).with_inputs(*values)


def set_demos(program: RagProgram, demos: Mapping[str, Sequence[Demo]]) -> RagProgram:
    """`program` with `demos` given to its predictors by name; predictors not named get none.

    What it learned from train questions is applied again, as it may be shown in the place of demonstrations.
    """
    for name, predictor in program.named_predictors():
        predictor.demos = [dict(demo) for demo in demos.get(name, ())]
    program.learned = program.learned
    return program
