"""Demonstration sets: bootstrapped from train questions that scored, filled up with labelled ones.

The train questions are answered concurrently, block by block. On those that score, DSPy's
BootstrapFewShot replays from the store, so its choice is its own and costs no requests. A weak model
earns few in that way. Then the program is run once more over the train questions with the gold answer
in the place of the model's (`ragc.programs.forced`), which sends nothing where that is the only call;
each question whose passages support the answer gives a labelled demonstration.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dspy

from ragc import counters
from ragc.counters import Counters
from ragc.metrics.scoring import Scorer
from ragc.optimizers.demo_pool import Demo, Demonstration, Pool
from ragc.optimizers.evaluation import NOTHING, Row, evaluate
from ragc.programs.base import RagProgram
from ragc.programs.demos import plain
from ragc.programs.trace import Call
from ragc.records import Question
from ragc.signatures.invalid import INVALID


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
    done: Callable[[Row], None] = lambda row: None,
) -> Pool:
    """Demonstrations from the train questions that `program` answers well.

    It scores at least `threshold` on them by the one metric of `scorer`.

    Questions are answered in blocks of `block` until `wanted` have earned their place, or until it
    shows that all of `train` would not give so many. When some are missing, labelled ones from the
    rest of `train` fill up to `filled`. A pool may be smaller, or empty, when the questions run out.
    """
    (name,) = (metric.id for metric in scorer.metrics)
    earned: list[tuple[Question, float]] = []
    spent, asked = Counters(), 0
    while asked < len(train) and len(earned) < wanted:
        rows = await evaluate(program, train[asked : asked + block], scorer, limit=limit, done=done)
        asked += len(rows)
        scored = ((row, row.scores[name]) for row in rows)
        earned += [(row.question, s) for row, s in scored if s is not None and s >= threshold]
        _add(spent, rows)
        if len(earned) * len(train) < wanted * asked:
            break
    earned = earned[:wanted]
    demos = await asyncio.to_thread(_collect, program, earned, threshold)
    taught: list[tuple[str, Demo]] = []
    if len(earned) < wanted:
        taken = {question.id for question, _ in earned}
        rest = [question for question in train if question.id not in taken]
        rows = await evaluate(program, rest, NOTHING, limit=limit, taught=True)
        _add(spent, rows)
        taught = _taught(rows, _labels(train), wanted - len(earned))[: filled - len(earned)]
    for name, demo in taught:
        demos[name] = (*demos.get(name, ()), Demonstration(demo))
    return Pool(demos, tuple(score for _, score in earned), asked, len(taught), spent.invariant())


def _add(spent: Counters, rows: Sequence[Row]) -> None:
    for row in rows:
        spent.merge(row.spent)


def _taught(rows: Sequence[Row], labels: frozenset[str], wanted: int) -> list[tuple[str, Demo]]:
    """Labelled demonstrations with the predictor's name, from runs with the gold answer.

    Those whose supporting passages were all shown; when they are fewer than `wanted`, those too where
    a supporting passage that was shown contains the answer, as when questions need two and one is shown.
    """
    found = [demo for row in rows if _supported(row, labels, whole=True) and (demo := _last(row))]
    if len(found) < wanted:
        found = [demo for row in rows if _supported(row, labels, whole=False) and (demo := _last(row))]
    return found


def _supported(row: Row, labels: frozenset[str], *, whole: bool) -> bool:
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


def _last(row: Row) -> tuple[str, Demo] | None:
    """The last call of a run and its predictor's name; None unless the answer is all that it gives."""
    calls = [event for event in row.trace if isinstance(event, Call)]
    if not calls or set(calls[-1].outputs) != {"answer"}:
        return None
    return calls[-1].name, {**calls[-1].inputs, **calls[-1].outputs}


def _labels(questions: Sequence[Question]) -> frozenset[str]:
    """Answers that several questions share, such as "yes": they need not stand in a passage."""
    counts = Counter(question.answers[0].casefold() for question in questions)
    return frozenset(answer for answer, count in counts.items() if count > 1)


def _collect(
    program: RagProgram, earned: Sequence[tuple[Question, float]], threshold: float
) -> dict[str, tuple[Demonstration, ...]]:
    """Let DSPy bootstrap on each question with the score it earned; the store answers them."""
    found: dict[str, tuple[Demonstration, ...]] = {name: () for name, _ in program.named_predictors()}
    counters.current.set(())  # replays of calls that were counted when the questions were answered
    with _silent():
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
                made = (Demonstration(_fields(predictor, demo), score) for demo in predictor.demos)
                found[name] = (*found[name], *made)
    return found


@contextlib.contextmanager
def _silent() -> Iterator[None]:
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


def show(program: RagProgram, demos: Mapping[str, Sequence[Demo]]) -> RagProgram:
    """`program` with `demos` given to its predictors by name; predictors not named get none."""
    for name, predictor in program.named_predictors():
        predictor.demos = [dict(demo) for demo in demos.get(name, ())]
    return program
