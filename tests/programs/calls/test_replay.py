"""A typed call made before is replayed whole: equal in everything, and without its prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import dspy
import pydantic
import pytest
from dspy.utils.callback import BaseCallback

from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.errors import ParseFailure
from ragc.programs import method, trace
from ragc.programs.calls.demos import forced_outputs
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.recipe import Budget
from ragc.store.calls import CallStore
from ragc.targets.base import Sampling
from ragc.task.budget import BudgetFile
from ragc.testing import ScriptedTarget

PASSAGES = ["Paris is in France.", "Rome is in Italy."]


class Answer(dspy.Signature):
    """Answer from the passages."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    answer: str = dspy.OutputField()


class Grade(pydantic.BaseModel):
    id: int
    words: list[str]


class Grades(dspy.Signature):
    """Grade the passages."""

    question: str = dspy.InputField()
    grades: list[Grade] = dspy.OutputField()
    kind: Literal["good", "bad"] = dspy.OutputField()


GRADED = {"grades": [{"id": 1, "words": ["a"]}, {"id": 2, "words": []}], "kind": "bad"}


@dataclass
class CallRun:
    """What a call gave: its outputs or its failure, what it cost and what the trace says."""

    outputs: dict[str, Any]
    failure: str
    cost: Counters
    events: list[dict[str, Any]]


def run_call(call: RagPredict, **inputs: Any) -> CallRun:
    """One call, awaited on the process's loop."""

    async def work() -> CallRun:
        outputs, failure = {}, ""
        with trace.recording() as run, counting(Counters()) as cost:
            try:
                outputs = dict((await call.acall(**inputs)).items())
            except ParseFailure as error:
                failure = str(error)
        return CallRun(outputs, failure, cost, [event.to_json() for event in run.events])

    return event_loop.run(work())


def ground(target: ScriptedTarget, store: CallStore | None = None, **more: Any) -> Runtime:
    return Runtime({"main": target}, store=store, **more)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Callable[[], CallStore]]:
    """Opens the same store again, as another process would."""
    opened: list[CallStore] = []

    def open_again() -> CallStore:
        opened.append(CallStore(tmp_path / "store"))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


def same(first: CallRun, second: CallRun) -> None:
    """Equal in all that does not depend on what the store already held."""
    assert (first.outputs, first.failure, first.events) == (second.outputs, second.failure, second.events)
    assert first.cost.invariant() == second.cost.invariant()


def unformatted(patch: pytest.MonkeyPatch) -> None:
    """From now on no prompt can be made."""

    def refuse(*args: Any, **more: Any) -> Any:
        raise AssertionError("a prompt was formatted")

    patch.setattr(RagPredict, "messages", refuse)


def test_a_call_made_before_formats_no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    call = RagPredict(Answer, ground(ScriptedTarget([{"answer": "Paris"}])))
    first = run_call(call, question="Where?", passages=PASSAGES)
    unformatted(monkeypatch)
    second = run_call(call, question="Where?", passages=PASSAGES)
    same(first, second)
    assert (first.cost.memo, first.cost.sent, first.cost.replayed) == (0, 1, 0)
    assert (second.cost.memo, second.cost.sent, second.cost.replayed) == (1, 0, 1)
    assert second.events[0]["prompt_tokens"] > 0


def test_what_a_caller_does_to_its_result_is_its_own() -> None:
    call = RagPredict(Grades, ground(ScriptedTarget([GRADED])))
    for _ in range(4):
        run = run_call(call, question="Which?")
        assert run.outputs["grades"] == [Grade(id=1, words=["a"]), Grade(id=2, words=[])]
        assert run.events[0]["outputs"]["grades"][0] == {"id": 1, "words": ["a"]}
        run.outputs["grades"][0].words.append("b")
        run.outputs["grades"][0].id = 7
        run.events[0]["outputs"]["grades"][0]["words"].clear()
        run.outputs["grades"].pop()


def test_what_a_caller_does_to_its_inputs_does_not_change_the_trace() -> None:
    call, passages = RagPredict(Answer, ground(ScriptedTarget([{"answer": "Paris"}]))), list(PASSAGES)
    for _ in range(2):
        run = run_call(call, question="Where?", passages=passages)
        passages.append("more")
        assert run.events[0]["inputs"]["passages"] == PASSAGES
        passages.pop()


@pytest.mark.parametrize("second", ['{"answer": "Paris"}', "{}"])
def test_a_repair_and_a_failure_are_replayed_as_they_were(second: str, home: Callable[[], CallStore]) -> None:
    target = ScriptedTarget(["{}", second])
    first = run_call(RagPredict(Answer, ground(target, home())), question="Where?", passages=PASSAGES)
    again = RagPredict(Answer, ground(target, home()))
    for _ in range(2):
        run = run_call(again, question="Where?", passages=PASSAGES)
        same(first, run)
        assert (run.cost.memo, run.cost.repairs, run.cost.lm_calls) == (1, 1, 2)
    assert bool(first.failure) == (second == "{}")


def test_a_replayed_call_is_charged_once_a_study(home: Callable[[], CallStore], tmp_path: Path) -> None:
    target = ScriptedTarget([{"answer": "Paris"}])
    run_call(RagPredict(Answer, ground(target, home())), question="Where?", passages=PASSAGES)
    budget = BudgetFile(tmp_path / "charges.sqlite3", Budget())
    call = RagPredict(Answer, ground(target, home(), budget=budget))
    costs = [run_call(call, question="Where?", passages=PASSAGES).cost for _ in range(3)]
    assert [cost.memo for cost in costs] == [1, 1, 1]
    assert (budget.spent.calls, budget.spent.tokens) == (1, costs[0].tokens)
    budget.close()
    assert BudgetFile(tmp_path / "charges.sqlite3", Budget()).spent.calls == 1


def test_forced_outputs_come_before_what_was_recorded() -> None:
    call = RagPredict(Answer, ground(ScriptedTarget([{"answer": "Paris"}])))
    run_call(call, question="Where?", passages=PASSAGES)
    with forced_outputs({"answer": "Rome"}):
        run = run_call(call, question="Where?", passages=PASSAGES)
    assert (run.outputs, run.cost.lm_calls) == ({"answer": "Rome"}, 0)


class Watcher(BaseCallback):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self.seen.append("start")

    def on_module_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:
        self.seen.append(f"end {outputs.answer}")

    def on_adapter_parse_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:
        self.seen.append("parsed")


@pytest.mark.parametrize("everywhere", [True, False])
def test_callbacks_see_every_call_and_all_of_it(everywhere: bool) -> None:
    watcher = Watcher()
    reply = "[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]"
    call = RagPredict(Answer, ground(ScriptedTarget([reply])), layout="chat")
    call(question="Where?", passages=PASSAGES)
    if not everywhere:
        call.callbacks.append(watcher)
    with dspy.context(callbacks=[watcher] if everywhere else []):
        call(question="Where?", passages=PASSAGES)
        run_call(call, question="Where?", passages=PASSAGES)
    seen = ["start", "parsed", "end Paris"] if everywhere else ["start", "end Paris"]
    assert watcher.seen == seen * 2


def test_dspys_trace_and_usage_are_kept() -> None:
    call = RagPredict(Answer, ground(ScriptedTarget([{"answer": "Paris"}])))
    with dspy.context(trace=[], track_usage=True):
        first = call(question="Where?", passages=PASSAGES)
        second = call(question="Where?", passages=PASSAGES)
        entries = dspy.settings.trace
    assert [(entry[0], entry[1]["question"], entry[2].answer) for entry in entries] == [
        (call, "Where?", "Paris")
    ] * 2
    assert first.get_lm_usage()["ragc/scripted"]["prompt_tokens"] > 0
    assert second.get_lm_usage() == {}


def test_dspys_trace_holds_the_latest_entries_of_calls_and_of_programs() -> None:
    call = RagPredict(Answer, ground(ScriptedTarget(lambda _: {"answer": "Paris"})))
    program = method("no_retrieval").build(ground(ScriptedTarget(lambda _: {"answer": "Paris"})), {})
    runs: list[Callable[[int], object]] = [
        lambda number: call(question=f"Where {number}?", passages=PASSAGES),
        lambda number: program(question=f"Where {number}?"),
    ]
    for run in runs:
        with dspy.context(trace=[], max_trace_size=2):
            for number in range(4):
                run(number)
            assert [inputs["question"] for _, inputs, _ in dspy.settings.trace] == ["Where 2?", "Where 3?"]
    with dspy.context(trace=[], max_trace_size=0):
        program(question="Where?")
        assert dspy.settings.trace == []


def changes() -> dict[str, Callable[[RagPredict], Any]]:
    def set_to(**values: Any) -> Callable[[RagPredict], None]:
        def change(call: RagPredict) -> None:
            for name, value in values.items():
                setattr(call, name, value)

        return change

    def on_target(**values: Any) -> Callable[[RagPredict], None]:
        def change(call: RagPredict) -> None:
            for name, value in values.items():
                setattr(call.runtime.targets["main"], name, value)

        return change

    def signed(change: Callable[[Any], Any]) -> Callable[[RagPredict], None]:
        return lambda call: setattr(call, "signature", change(call.signature))

    demo = {"question": "q", "passages": ["p"], "answer": "a"}
    return {
        "instructions": signed(lambda s: s.with_instructions("Answer in French.")),
        "description": signed(lambda s: s.with_updated_fields("answer", desc="one word")),
        "type": signed(lambda s: s.with_updated_fields("answer", type_=Literal["Paris", "Rome"])),
        "more outputs": signed(lambda s: s.append("why", dspy.OutputField(), str)),
        "demonstrations": set_to(demos=[demo]),
        "demonstrations shown": set_to(max_demos=1),
        "layout": set_to(layout="json"),
        "temperature": set_to(sampling=Sampling(temperature=0.5)),
        "token limit": set_to(sampling=Sampling(max_tokens=7)),
        "configuration": lambda call: call.update_config(top_p=0.5),
        "log probabilities": set_to(logprobs=True),
        "identity": on_target(identity="another"),
        "model": on_target(model="another"),
        "context": on_target(context_tokens=900),
        "no schemas": on_target(capabilities=frozenset({"logprobs"})),
        "tokens counted otherwise": on_target(count_tokens=len),
    }


@pytest.mark.parametrize("change", changes().values(), ids=changes())
def test_whatever_changes_the_prompt_or_its_reading_is_another_call(
    change: Callable[[RagPredict], Any],
) -> None:
    target = ScriptedTarget(lambda request: {"answer": "Paris", "why": "so"})
    call = RagPredict(Answer, ground(target))
    call.demos = [{"question": f"q{i}", "passages": ["p"], "answer": "a"} for i in range(2)]
    run_call(call, question="Where?", passages=PASSAGES)
    assert run_call(call, question="Where?", passages=PASSAGES).cost.memo == 1
    change(call)
    assert run_call(call, question="Where?", passages=PASSAGES).cost.memo == 0
    assert run_call(call, question="Where?", passages=PASSAGES).cost.memo == 1


def test_equal_calls_at_the_same_time_are_sent_once() -> None:
    target = ScriptedTarget([{"answer": "Paris"}], hold=True)
    call = RagPredict(Answer, ground(target))

    async def work() -> list[str]:
        calls = [call.acall(question="Where?", passages=PASSAGES) for _ in range(5)]
        return [prediction.answer for prediction in await asyncio.gather(*calls)]

    with counting(Counters()) as cost:
        assert event_loop.run(work()) == ["Paris"] * 5
    assert (cost.lm_calls, cost.sent, cost.replayed, cost.memo) == (5, 1, 4, 0)


def test_draws_and_sampling_of_one_call_are_told_apart() -> None:
    target = ScriptedTarget([{"answer": str(i)} for i in range(3)])
    call = RagPredict(Answer, ground(target), sampling=Sampling(temperature=1.0))
    for _ in range(2):
        answers = [
            run_call(call, question="Where?", passages=PASSAGES, config=config).outputs["answer"]
            for config in (None, {"rollout_id": 1}, {"temperature": 0.7})
        ]
        assert answers == ["0", "1", "2"]


def test_the_size_of_a_call_is_found_once_and_not_kept_for_another() -> None:
    target = ScriptedTarget([], context_tokens=300)
    call = RagPredict(Answer, ground(target))
    short, long = {"question": "Where?", "passages": PASSAGES}, {"question": "Where? " * 300, "passages": []}
    assert [call.fits(**short), call.fits(**long), call.fits(**short), call.fits(**long)] == [
        True,
        False,
    ] * 2
    target.context_tokens = 100_000
    assert call.fits(**long)
