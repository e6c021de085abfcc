"""The law of the memo: with it, without it, and in another process, calls say and cost the same."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
import pydantic
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.core import event_loop
from ragc.core.counters import Counters, counting
from ragc.errors import RagcError
from ragc.programs import trace
from ragc.programs.calls.predict import RagPredict
from ragc.programs.calls.replay import call_key
from ragc.programs.runtime import Runtime
from ragc.recipe import Budget
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply, Sampling, TokenLogprob, Usage
from ragc.task.budget import BudgetFile
from ragc.testing import ScriptedTarget
from tests.examples import examples


class Part(pydantic.BaseModel):
    name: str
    share: float


class Plan(dspy.Signature):
    """Plan the answer."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    k: int = dspy.InputField()
    parts: list[Part] = dspy.OutputField()
    answer: str = dspy.OutputField()


def reply_to(request: ChatRequest) -> Reply:
    """A reply that depends on the whole request: good, in prose, cut short, or not to be read."""
    mark = hashlib.sha256(repr(request).encode("utf-8", "replace")).digest()
    answer = {"parts": [{"name": f"n{mark[1]}", "share": mark[2] / 256}], "answer": mark.hex()[:6]}
    text = json.dumps(answer)
    marked = f"[[ ## parts ## ]]\n{json.dumps(answer['parts'])}\n\n[[ ## answer ## ]]\n{answer['answer']}"
    kind = mark[0] % 6
    words = {0: "no idea", 1: f"Here it is:\n{text}", 2: text[:-9], 3: marked}.get(kind, text)
    tokens = (TokenLogprob(words[:3], -mark[3] / 100),) if request.logprobs else ()
    finish = "length" if kind == 2 else "stop"
    return Reply(words, finish, Usage(mark[4], mark[5]), mark[6] / 1e6, tokens)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Setting:
    layout: str
    demos: int
    context: int
    logprobs: bool
    temperature: float
    schema: bool

    def target(self) -> ScriptedTarget:
        able = ("schema", "logprobs") if self.schema else ("logprobs",)
        return ScriptedTarget(reply_to, context_tokens=self.context, capabilities=able)  # type: ignore[arg-type]

    def call(self, runtime: Runtime) -> RagPredict:
        predictor = RagPredict(
            Plan,
            runtime,
            layout=self.layout,
            logprobs=self.logprobs,
            sampling=Sampling(temperature=self.temperature, max_tokens=40),
        )
        predictor.name = "plan"
        predictor.demos = [
            {"question": f"q{i}", "passages": ["p"], "k": i, "parts": [], "answer": "a"}
            for i in range(self.demos)
        ]
        return predictor


SETTINGS = st.builds(
    Setting,
    layout=st.sampled_from(["minimal", "json", "chat", "xml"]),
    demos=st.integers(0, 2),
    context=st.sampled_from([600, 100_000]),
    logprobs=st.booleans(),
    temperature=st.sampled_from([0.0, 0.7]),
    schema=st.booleans(),
)
TEXTS = st.one_of(st.sampled_from(["Where?", "[1] «x»", "word " * 700]), st.text(max_size=12))
CALLS = st.fixed_dictionaries(
    {"question": TEXTS, "passages": st.lists(TEXTS, max_size=3), "k": st.integers(0, 3)},
    optional={"config": st.fixed_dictionaries({"rollout_id": st.integers(0, 2)})},
)

Told = tuple[Any, dict[str, float], list[Any]]


def run_call(call: RagPredict, inputs: dict[str, Any]) -> tuple[Told, float]:
    """Outputs or error, replay-invariant cost and trace of one call; and whether it came from the memo."""

    async def work() -> tuple[Told, float]:
        with trace.recording() as run, counting(Counters()) as cost:
            try:
                outcome: Any = dict((await call.acall(**inputs)).items())
            except RagcError as error:
                outcome = (type(error), str(error))
        return (outcome, cost.invariant(), [event.to_json() for event in run.events]), cost.memo

    return event_loop.run(work())


@settings(max_examples=examples(25))
@given(SETTINGS, st.lists(CALLS, min_size=1, max_size=4))
def test_results_cost_and_trace_are_equal_with_and_without_it(
    setting: Setting, calls: list[dict[str, Any]]
) -> None:
    outcomes: dict[str, list[Told]] = {}
    charged, hits = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name, folders, memo in (("off", "a", False), ("on", "b", True), ("later", "b", True)):
            store, budget = CallStore(Path(folder) / folders), BudgetFile(None, Budget())
            runtime = Runtime({"main": setting.target()}, store=store, budget=budget)
            runtime.gateway.memo = memo
            runs = [run_call(setting.call(runtime), inputs) for inputs in (*calls, *calls)]
            outcomes[name], hits[name] = [result for result, _ in runs], [hit for _, hit in runs]
            charged[name] = (budget.spent.calls, budget.spent.tokens, round(budget.spent.usd, 9))
            store.close()
    assert outcomes["on"] == outcomes["off"]
    assert outcomes["later"] == outcomes["off"]
    assert charged["on"] == charged["later"] == charged["off"]
    refused = [
        isinstance(result[0], tuple) and result[0][0].__name__ == "UsageError" for result in outcomes["off"]
    ]
    assert not any(hits["off"])
    assert [bool(hit) for hit in hits["later"]] == [not no for no in refused]
    assert [bool(hit) for hit in hits["on"][len(calls) :]] == [not no for no in refused[len(calls) :]]


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=6,
)


@given(JSON, JSON)
def test_inputs_that_differ_have_keys_that_differ(one: Any, other: Any) -> None:
    keys = [call_key("mark", 0, {"x": value}) for value in (one, other)]
    equal = json.dumps(one) == json.dumps(other)  # 1, 1.0 and true are shown differently in a prompt
    assert None in keys or (keys[0] == keys[1]) == equal
