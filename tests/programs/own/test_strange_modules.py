"""Users' modules as strangers write them: threads, coroutines, lists, agents, globals, errors."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import dspy
import pytest

import ragc
from ragc.errors import ParseFailure, UsageError
from ragc.programs.base import RagProgram
from ragc.records import Passage, Question
from ragc.targets.base import ChatRequest
from ragc.task.answering import evaluate
from ragc.testing import ListSource, ScriptedTarget
from tests.programs.own.common import fit, number_in

QUESTIONS = [Question(f"q{n}", f"What is number {n}?", (f"a{n}",)) for n in range(40)]
QA = "question -> answer"


def right(request: ChatRequest) -> Any:
    number = number_in(request.messages[-1].content)
    return fit(request, {"query": f"number {number}", "reasoning": "So.", "answer": f"a{number}"})


def built(
    module: Any, script: Callable[[ChatRequest], Any] = right, **knobs: Any
) -> tuple[Any, ScriptedTarget]:
    target = ScriptedTarget(script, hold=False)
    local = ListSource([Passage("p", "", "A passage.")])
    return ragc.program(module, main=target, local=local, store=False, **knobs), target


def answers_of(program: RagProgram, questions: list[Question] = QUESTIONS, flying: int = 40) -> list[Any]:
    from ragc.core import event_loop
    from ragc.metrics.base import Scorer

    async def work() -> Any:
        return await evaluate(program, questions, Scorer(()), limit=asyncio.Semaphore(flying))

    rows = event_loop.run(asyncio.wait_for(work(), 60))
    return [row.prediction for row in rows]


class Simple(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict(QA)


class Together(Simple):
    """Answers once eight questions are in `forward` together."""

    barrier: ClassVar[threading.Barrier] = threading.Barrier(8)

    def forward(self, question: str) -> Any:
        self.barrier.wait(timeout=60)
        return self.answer(question=question)


def test_many_synchronous_questions_are_in_flight_at_once() -> None:
    program, _ = built(Together)
    assert answers_of(program) == [f"a{n}" for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda q: program(question=q.question).answer, QUESTIONS))
    assert replies == [f"a{n}" for n in range(40)]


class Mixin:
    answer: Any

    def forward(self, question: str) -> Any:
        passages = dspy.Retrieve(k=1)(question).passages
        return dspy.Prediction(answer=self.answer(question=question).answer, passages=passages)


class Mixed(dspy.Module, Mixin):
    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict(QA)
        self.find = dspy.Retrieve(k=1)


def test_a_retriever_that_dspy_was_told_of_searches_where_there_is_no_source() -> None:
    def find(query: str, k: int = 3, **more: Any) -> list[Any]:
        return [dspy.Prediction(long_text=f"about {query}")] * k

    with dspy.context(rm=find):
        program = ragc.program(Mixed, main=ScriptedTarget(right), store=False)
        prediction = program(question="What is number 7?")
    assert prediction.answer == "a7"
    assert prediction.passages[0] == "about What is number 7?"
    with pytest.raises(UsageError, match="no source named 'local'"):
        ragc.program(Mixed, main=ScriptedTarget(right), store=False)


class Awaited(Simple):
    loops: ClassVar[set[int]] = set()

    async def aforward(self, question: str) -> Any:
        self.loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0.01)
        first, second = await asyncio.gather(
            self.answer.acall(question=question), self.answer.acall(question=f"{question} Again?")
        )
        assert first.answer == second.answer
        return first


class AsyncForward(Simple):
    async def forward(self, question: str) -> Any:
        return await self.answer.acall(question=question)


class BlocksInside(Simple):
    async def aforward(self, question: str) -> Any:
        time.sleep(0.001)  # noqa: ASYNC251 - as careless users do
        return self.answer(question=question)


class Both(Simple):
    def forward(self, question: str) -> Any:
        return self.answer(question=question)

    async def aforward(self, question: str) -> Any:
        raise AssertionError("forward is there")


@pytest.mark.parametrize("module", [Awaited, AsyncForward, BlocksInside, Both])
def test_coroutines_run_on_one_loop_that_is_not_ragcs(module: Any) -> None:
    program, _ = built(module)
    assert answers_of(program) == [f"a{n}" for n in range(40)]
    assert program(question="What is number 7?").answer == "a7"
    assert asyncio.run(program.acall(question="What is number 7?")).answer == "a7"
    assert len(Awaited.loops) <= 1


def test_the_trace_of_calls_side_by_side_is_in_the_order_of_their_start() -> None:
    program, _ = built(Awaited)
    prediction = program(question="What is number 7?")
    texts = [event.inputs["question"] for event in prediction.trace]
    assert texts == ["What is number 7?", "What is number 7? Again?"]
    assert prediction.counters["lm_calls"] == 2


def fail(question: str, fifth: BaseException) -> None:
    faults = {"3": KeyError("missing"), "4": SystemExit(2), "5": fifth}
    if error := faults.get(number_in(question)):
        raise error


class Fails(Simple):
    def forward(self, question: str) -> Any:
        reply = self.answer(question=question)
        fail(question, StopIteration())
        return reply


class FailsAwaited(Simple):
    async def aforward(self, question: str) -> Any:
        reply = await self.answer.acall(question=question)
        fail(question, asyncio.CancelledError())
        return reply


@pytest.mark.parametrize("module", [Fails, FailsAwaited])
def test_an_error_in_forward_leaves_only_that_question_without_an_answer(module: Any) -> None:
    program, _ = built(module)
    assert answers_of(program, QUESTIONS[:8]) == ["a0", "a1", "a2", None, None, None, "a6", "a7"]
    with pytest.raises(ParseFailure, match=r"raised KeyError: 'missing' \(line \d+\); correct it") as error:
        program(question="What is number 3?")
    assert error.value.counters["lm_calls"] == 1, "what was spent is known"


class Hops(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hops = [dspy.ChainOfThought("question -> query") for _ in range(2)]
        self.by_kind = {"short": dspy.Predict(QA), "long": dspy.Predict(QA)}
        self.pair = (dspy.Predict(QA), self.by_kind["short"])

    def forward(self, question: str) -> Any:
        for hop in self.hops:
            hop(question=question)
        assert self.pair[1] is self.by_kind["short"], "one predictor in two places stays one"
        self.by_kind["long"](question=question)
        self.pair[0](question=question)
        return self.pair[1](question=question)


def test_predictors_in_lists_tuples_and_dictionaries_have_their_own_prompts(tmp_path: Any) -> None:
    program, target = built(Hops)
    names = [name for name, _ in program.named_predictors()]
    assert names == ["hops[0].predict", "hops[1].predict", "by_kind['short']", "by_kind['long']", "pair[0]"]
    assert program(question="What is number 7?").answer == "a7"
    assert len(target.requests) == 2, "equal calls are sent once"
    calls = dict(program.named_predictors())
    calls["by_kind['long']"].demos = [{"question": "What is number 1?", "answer": "one"}]
    twin = program.deepcopy()
    assert dict(twin.named_predictors())["by_kind['long']"].demos
    dict(twin.named_predictors())["pair[0]"].demos = [{"question": "q", "answer": "a"}]
    assert not calls["pair[0]"].demos, "a copy has predictors of its own"
    from ragc.exports.write import export

    exported = export(program, "all", tmp_path / "exports")
    assert set(exported.refused) <= {"openai-batch"}, exported.refused


class Stateful(Simple):
    seen: ClassVar[list[str]] = []

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.inner = Inner(self.lock)
        self.count = 0

    def forward(self, question: str) -> Any:
        with self.lock:
            self.count += 1
            Stateful.seen.append(question)
            globals()["CHANGED"] = question
        return self.inner(question=question)


class Inner(dspy.Module):
    def __init__(self, lock: Any) -> None:
        super().__init__()
        self.lock = lock
        self.answer = dspy.Predict(QA)

    def forward(self, question: str) -> Any:
        return self.answer(question=question)


def test_a_module_with_locks_and_globals_is_copied_with_predictors_of_its_own() -> None:
    mine = Stateful()
    program, _ = built(mine)
    assert len(answers_of(program)) == 40
    assert program.module.count == 40
    assert mine.count == 0
    twin = program.deepcopy()
    dict(twin.named_predictors())["inner.answer"].demos = [{"question": "q", "answer": "a"}]
    assert not dict(program.named_predictors())["inner.answer"].demos
    assert not mine.inner.answer.demos


class Parallel(Simple):
    most_calls = 9

    def forward(self, question: str) -> Any:
        parallel = dspy.Parallel(num_threads=3, disable_progress_bar=True)
        pairs = [(self.answer, {"question": f"{question} {part}?"}) for part in "abc"]
        replies = parallel(pairs)
        dspy.Retrieve(k=1)(question)
        return dspy.Prediction(answer=replies[0].answer, passages=["shown", Passage("x", "", "y")])


def test_calls_in_dspys_own_threads_are_counted_and_traced() -> None:
    program, _ = built(Parallel)
    prediction = program(question="What is number 7?")
    assert prediction.answer == "a7"
    assert prediction.counters["lm_calls"] == 3
    assert len(prediction.trace) == 4
    assert [passage.text for passage in program.shown_passages(prediction)] == ["shown", "y"]


class MakesPredictors(Simple):
    def forward(self, question: str) -> Any:
        rough = dspy.Predict(QA)(question=question)
        assert rough.answer
        return self.answer(question=question)


def test_predictors_made_on_the_way_pass_through_the_programs_target() -> None:
    program, target = built(MakesPredictors)
    prediction = program(question="What is number 7?")
    assert prediction.answer == "a7"
    assert len(target.requests) == 1, "equal calls are sent once"
    assert prediction.counters["lm_calls"] == 2


class Two(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = dspy.Predict(QA), dspy.Predict(QA)

    def forward(self, question: str) -> Any:
        first = self.first(question=question)
        return self.second(question=f"{question} Surely {first.answer}?")


def examples(n: int = 12) -> list[dspy.Example]:
    return [
        dspy.Example(question=f"What is number {k}?", answer=f"a{k}").with_inputs("question")
        for k in range(n)
    ]


def exact(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    return bool(prediction.answer == example.answer)


def half(request: ChatRequest) -> Any:
    number = number_in(request.messages[-1].content)
    right_now = len(request.messages) > 2 or int(number) % 3 == 0
    return fit(request, {"query": "q", "reasoning": "r", "answer": f"a{number}" if right_now else "no"})


class Alone(dspy.Predict):
    """A predictor with a signature of its own."""

    def __init__(self) -> None:
        super().__init__(QA)


@pytest.mark.parametrize("program", [dspy.Predict(QA), dspy.Predict("question -> reasoning, answer"), Alone])
def test_a_predictor_alone_is_a_program(program: Any, tmp_path: Path) -> None:
    own, _ = built(program, half)
    optimizer = ragc.Compile(metric=exact, trials=2, demos=2, out=tmp_path / "compiled")
    compiled = optimizer.compile(own, trainset=examples()[:6], valset=examples()[6:])
    (call,) = compiled.predictors()
    assert call.demos
    assert compiled(question="What is number 100?").answer == "a100"
    assert json.loads((tmp_path / "compiled/program.json").read_text("utf-8"))["predictors"]["self"]


def test_a_question_that_nobody_waits_for_makes_no_more_calls() -> None:
    from ragc.core import event_loop

    class Goes(Simple):
        most_calls = 100

        def forward(self, question: str) -> Any:
            for n in range(60):
                time.sleep(0.02)
                self.answer(question=f"What is number {n}?")
            return dspy.Prediction(answer="never")

    program, target = built(Goes)

    async def work() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(program.acall(question="What is number 1?"), 0.2)

    event_loop.run(work())
    time.sleep(0.1)
    sent = len(target.requests)
    time.sleep(0.3)
    assert len(target.requests) == sent < 30


def test_dspys_optimizers_take_it() -> None:
    program, _ = built(Two, half)
    optimizer = dspy.BootstrapFewShot(metric=exact, max_bootstrapped_demos=1, max_labeled_demos=0)
    compiled = optimizer.compile(program, trainset=examples())
    first, second = compiled.predictors()
    assert "Surely" not in first.demos[0]["question"]
    assert "Surely" in second.demos[0]["question"]
    evaluator = dspy.Evaluate(devset=examples(), metric=exact, num_threads=4, display_progress=False)
    assert evaluator(compiled).score == 100
