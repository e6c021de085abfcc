"""A user's module on language models of DSPy: what ragc measures is what plain DSPy sends and returns."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import dspy
import pydantic
import pytest
from dspy import lm15
from dspy.adapters.baml_adapter import BAMLAdapter

import ragc
from ragc.compiled.base import CompiledProgram
from ragc.core import event_loop
from ragc.errors import ArtefactError, BudgetExhausted, ParseFailure, UsageError
from ragc.exports.write import export
from ragc.programs.own import method_of
from ragc.programs.own.program import OwnProgram, result_module, saved_demo
from ragc.programs.runtime import Runtime
from ragc.prompts.model import NotExpressible
from ragc.recipe import Budget
from ragc.store.calls import CallStore
from ragc.targets.dspy_lm import DspyTarget, target_of
from ragc.task.budget import BudgetFile


class Note(pydantic.BaseModel):
    """A note, of a type of its own."""

    text: str
    weight: int


class Plan(dspy.Signature):
    """Plan what to look up for a question."""

    question: str = dspy.InputField()
    kind: Literal["colour", "size"] = dspy.OutputField(desc="what is asked for")
    notes: list[Note] = dspy.OutputField(desc="what is known")


class TwoStages(dspy.Module):
    """Plans, then answers."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = dspy.Predict(Plan)
        self.answer = dspy.ChainOfThought("question, notes: list[str] -> answer", temperature=0.3)

    def forward(self, question: str) -> dspy.Prediction:
        plan = self.plan(question=question)
        notes = [f"{plan.kind}: {note.text} ({note.weight})" for note in plan.notes]
        return self.answer(question=question, notes=notes)


class Awaited(dspy.Module):
    """The same, for an event loop alone."""

    def __init__(self) -> None:
        super().__init__()
        self.plan, self.answer = dspy.Predict(Plan), TwoStages().answer

    async def aforward(self, question: str) -> dspy.Prediction:
        plan, twin = await asyncio.gather(*(self.plan.acall(question=question) for _ in range(2)))
        assert plan.notes == twin.notes
        return await self.answer.acall(question=question, notes=[plan.kind])


class Loud(dspy.ChatAdapter):
    """A user's adapter, with an option and a way of writing and reading of its own."""

    def __init__(self, mark: Any = "!") -> None:
        super().__init__(use_json_adapter_fallback=False)
        self.mark = mark

    def format(self, signature: Any, demos: Any, inputs: Any) -> Any:
        """One message more than ChatAdapter has."""
        messages = super().format(signature, demos, inputs)
        return [*messages[:-1], {"role": "user", "content": f"Listen{self.mark}"}, messages[-1]]


VALUES = {"kind": "colour", "notes": [{"text": "red", "weight": 2}], "reasoning": "Because.", "answer": "a0"}


class Engine:
    """A model that replies in the layout that it is asked for, and records every request.

    `odd` are the requests whose reply cannot be read.
    """

    supports_function_calling = supports_reasoning = False

    def __init__(self, *, schema: bool = False, odd: Any = lambda request: False) -> None:
        self.requests: list[lm15.Request] = []
        self.supports_response_schema = schema
        self.supported_params = frozenset({"response_format"} if schema else ())
        self._odd = odd

    def __deepcopy__(self, memo: object) -> Engine:
        return self

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.requests.append(request)
        text = "Nothing to see." if self._odd(request) else self._reply(request)
        return lm15.Response(
            id=None, model=request.model, message=lm15.Message.assistant(text), finish_reason="stop",
            usage=lm15.Usage(input_tokens=10, output_tokens=5, reasoning_tokens=3),
        )  # fmt: skip

    def _reply(self, request: lm15.Request) -> str:
        system, last = str(request.system), "".join(part.text for part in request.messages[-1].parts)
        values = {name: VALUES[name] for name in re.findall(r"`(\w+)`", system) if name in VALUES}
        texts = {name: v if isinstance(v, str) else json.dumps(v) for name, v in values.items()}
        if "[[ ## completed ## ]]" in system and "a JSON object" not in last:
            return "".join(f"[[ ## {name} ## ]]\n{text}\n\n" for name, text in texts.items())
        if "<answer>" in system or "<kind>" in system:
            return "\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in texts.items())
        return json.dumps(values)


class AsyncEngine:
    """The awaitable side of an Engine."""

    def __init__(self, engine: Engine) -> None:
        self.sync = engine

    def __deepcopy__(self, memo: object) -> AsyncEngine:
        return self

    async def complete(self, request: lm15.Request) -> lm15.Response:
        await asyncio.sleep(0.001)
        return self.sync.complete(request)


def lm_of(engine: Any, **more: Any) -> dspy.LM:
    settings = {"cache": False} | more
    return dspy.LM("mine/model", engine=engine, async_engine=AsyncEngine(engine), **settings)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    with dspy.context(lm=None, adapter=None):
        yield


def program_of(module: Any, **parts: Any) -> Any:
    return ragc.program(module, store=False, **parts)


QUESTIONS = [
    "What is number 100?", "What is number 101?\n\nSay it in “Ελληνικά”: ½ or 🎉, {braces} and <b>tags</b>.",
    "  What is\tnumber 102, and “{question}”?  \r\n", '{"what": "is number 103"}',
]  # fmt: skip

ADAPTERS = {
    "none": None, "chat": dspy.ChatAdapter(), "json": dspy.JSONAdapter(), "xml": dspy.XMLAdapter(),
    "baml": BAMLAdapter(), "strict": dspy.ChatAdapter(use_json_adapter_fallback=False), "own": Loud(mark="?"),
}  # fmt: skip


def asked(program: Any, engine: Engine, questions: list[str] = QUESTIONS) -> list[str]:
    """The requests of `program` to the questions, equal ones once."""
    engine.requests.clear()
    for question in questions:
        if hasattr(type(program), "forward"):
            program(question=question)
        else:
            asyncio.run(program.acall(question=question))
    return list(dict.fromkeys(map(repr, engine.requests)))


def taught(program: Any) -> Any:
    """`program` with instructions and demonstrations as the search sets them."""
    demo = {"question": "Why?", "kind": "size", "notes": [Note(text="b", weight=1), Note(text="a", weight=2)]}
    shown = saved_demo(program.module.plan, dspy.Example(augmented=True, **demo))
    assert shown is not None
    assert list(shown["notes"][0]) == ["text", "weight"]
    program.module.plan.demos = [shown]
    program.module.plan.signature = program.module.plan.signature.with_instructions("Plan well.")
    return program


@pytest.mark.parametrize("kind", [TwoStages, Awaited])
@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("name", ADAPTERS)
def test_what_is_saved_and_written_sends_in_dspy_what_was_measured(
    tmp_path: Path, name: str, schema: bool, kind: Any
) -> None:
    engine = Engine(schema=schema)
    lm = lm_of(engine, max_tokens=700, cache=False)
    with dspy.context(lm=lm, adapter=ADAPTERS[name]):
        program = taught(program_of(kind()))
        measured = asked(program, engine)
        program.save(tmp_path / "state.json")
        plain = kind()
        plain.load(tmp_path / "state.json")
        found = result_module(program)
        assert type(found) is kind
        again = program_of(found)
        CompiledProgram.of(program, provenance={}, recipe="", run={}).save(tmp_path / "out", program)
        runtime = Runtime({"main": DspyTarget(lm)}, store=CallStore(None))
        assert asked(plain, engine) == asked(found, engine) == asked(again, engine) == measured
    opened = ragc.load(tmp_path / "out").build(runtime)  # where DSPy is configured otherwise
    assert asked(opened, engine) == measured
    assert len(set(measured)) == 2 * len(QUESTIONS)


def test_dspys_second_try_is_measured_and_an_unreadable_reply_is_one_sentence() -> None:
    engine = Engine(odd=lambda request: "[[ ## completed ## ]]" in str(request.system))
    with dspy.context(lm=lm_of(engine)):
        prediction = program_of(TwoStages())(question="Why?")
    assert prediction.answer == "a0"
    assert (prediction.counters["lm_calls"], prediction.counters["repairs"]) == (4, 2)
    assert [event.repaired for event in prediction.trace] == [True, True]
    with (
        dspy.context(lm=lm_of(Engine(odd=lambda request: True))),
        pytest.raises(ParseFailure, match=r"^JSONAdapter found no kind, notes in the reply\.$") as error,
    ):
        program_of(TwoStages())(question="Why?")
    assert error.value.counters["lm_calls"] == 2
    assert "Nothing to see." in str(error.value.events[-1].sent.to_json())


def test_a_reply_is_stored_under_address_and_settings_and_never_the_key() -> None:
    engine, store = Engine(), CallStore(None)

    def sent_by(lm: Any) -> int:
        before = len(engine.requests)
        program = method_of(TwoStages).build(Runtime({"main": target_of(lm)}, store=store))
        assert program(question="Why?").answer == "a0"
        return len(engine.requests) - before

    lm = lm_of(engine, cache=True)  # of two predictors, one has a temperature of its own
    assert [sent_by(lm), sent_by(lm), sent_by(lm.copy(temperature=0.7)), sent_by(lm)] == [2, 0, 1, 0]
    assert target_of(lm_of(engine)).identity != target_of(lm).identity
    at = [
        dspy.LM("openai/x", api_base=f"http://127.0.0.1:{port}", api_key=key)
        for port, key in ((1, "a"), (1, "b"), (2, "a"))
    ]
    one, other_key, elsewhere = (DspyTarget(lm).identity for lm in at)
    assert one == other_key != elsewhere


class Older(dspy.BaseLM):
    """A language model of the older kind, with a `forward` of its own."""

    def __init__(self) -> None:
        super().__init__("mine/older", temperature=0.0, max_tokens=700)
        self.calls: list[Any] = []

    def forward(self, prompt: Any = None, messages: Any = None, **settings: Any) -> Any:
        from dspy.clients.call_result import attributes

        self.calls.append((messages, settings))
        text = json.dumps(VALUES)
        choices = [{"message": {"content": text, "tool_calls": None}, "finish_reason": "stop"}]
        return attributes({"model": "mine/older", "usage": {}, "choices": choices})


@pytest.mark.filterwarnings("ignore:Implementing custom LMs")
def test_an_lm_class_with_a_forward_of_its_own_gets_the_same_calls() -> None:
    lm = Older()
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        program_of(TwoStages())(question="Why?")
        measured = list(lm.calls)
        lm.calls.clear()
        TwoStages()(question="Why?")
    assert measured == lm.calls


class Inner(dspy.Module):
    """A part with a number of its own."""

    depth = ragc.number(2, 1, 9, "how deep")

    def __init__(self) -> None:
        super().__init__()
        self.look = dspy.Predict("question -> answer")

    def forward(self, question: str) -> Any:
        return self.look(question=f"{question} {self.depth}")


class Numbers(dspy.Module):
    """A program with numbers, of its parts too."""

    k = ragc.number(3, 1, 8, "passages")
    loud = ragc.switch(False, "loud")

    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.parts = [Inner()]

    def forward(self, question: str) -> Any:
        answer = self.inner(question=f"{question} {self.k} {self.loud}").answer
        return dspy.Prediction(answer=answer, k=self.k)


def test_a_marked_part_stays_as_it_is_and_predictors_keep_their_lms(tmp_path: Path) -> None:
    one, two = Engine(), Engine()
    mine, own = Numbers(), lm_of(two, temperature=0.2)
    mine.inner._compiled = True
    mine.parts[0].look._compiled, mine.parts[0].look.lm = True, own
    mine.extra = mine.inner.look
    with pytest.raises(UsageError, match="No knob"):
        method_of(mine).knobs.knob("inner.depth")
    both = TwoStages()
    both.plan.lm = own
    with dspy.context(lm=lm_of(one)):
        assert [name for name, _ in program_of(mine).named_predictors()] == ["extra"]
        program = program_of(both)
        assert program(question="Why?").counters["lm_calls"] == 2
        assert result_module(program).plan.lm is own is both.plan.lm
        assert result_module(program).answer.predict.lm is None
        assert program.deepcopy()(question="Why?").counters["sent"] == 0
    assert (len(one.requests), len(two.requests)) == (1, 1)


class Fields(dspy.Module):
    """A program with other fields than question and answer."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict(Describe)

    def forward(self, picture: dspy.Image, history: dspy.History, domain: str = "none") -> Any:
        reply = self.answer(picture=picture, history=history)
        return dspy.Prediction(summary=reply.notes, domain=domain, count=3)


class Describe(dspy.Signature):
    """Describe the picture."""

    picture: dspy.Image = dspy.InputField()
    history: dspy.History = dspy.InputField()
    notes: list[Note] = dspy.OutputField()


def test_any_fields_go_in_and_come_out_as_what_they_are(tmp_path: Path) -> None:
    engine = Engine()
    engine._reply = lambda request: '[[ ## notes ## ]]\n[{"text": "x", "weight": 1}]'  # type: ignore[method-assign]
    picture = dspy.Image("data:image/png;base64,iVBORw0KGgo=")
    history = dspy.History(messages=[{"picture": "earlier", "notes": "[]"}])
    with dspy.context(lm=lm_of(engine)):
        program = program_of(Fields())
        prediction = asyncio.run(program.acall(picture=picture, history=history, domain="art"))
        CompiledProgram.of(program, provenance={}, recipe="", run={}).save(tmp_path / "out", program)
        assert "Describe the picture" in (tmp_path / "out" / "prompts" / "answer.md").read_text("utf-8")
        with pytest.raises(NotExpressible, match=r"'picture' is of the type .*Image"):
            export(program, "all", tmp_path / "exports")
        sent = list(map(repr, engine.requests))
        engine.requests.clear()
        Fields()(picture=picture, history=history)
    assert list(map(repr, engine.requests)) == sent
    assert "ImagePart" in sent[0]
    assert prediction.summary == [Note(text="x", weight=1)]
    assert (prediction.count, prediction.domain) == (3, "art")
    assert "passages" not in prediction
    assert prediction.counters["lm_calls"] == len(prediction.trace) == 1


def test_usage_history_and_traces_are_dspys() -> None:
    with dspy.context(lm=lm_of(Engine()), track_usage=True, trace=[]):
        program = program_of(TwoStages())
        prediction = program(question="Why?")
        assert prediction.get_lm_usage()["mine/model"]["total_tokens"] == 30
        assert prediction.counters["thinking_tokens"] == 6, "as the model reports"
        again = program(question="Why?")
        assert again.get_lm_usage() == {}
        assert len(program.history) == 4
        trace = dspy.settings.trace
    assert [entry[0] for entry in trace] == [program.module.plan, program.module.answer.predict] * 2
    assert trace[0][2].notes == [Note(text="red", weight=2)]


class Streams(Engine):
    """An engine that streams, in parts of three characters."""

    def stream(self, request: lm15.Request) -> Iterator[Any]:
        for event in lm15.response_to_events(self.complete(request)):
            for part in re.findall(r"(?s).{1,3}", event.delta.text) if event.type == "delta" else ():
                yield replace(event, delta=replace(event.delta, text=part))
            if event.type != "delta":
                yield event


def test_a_stream_of_dspy_passes_the_gateway() -> None:
    async def chunks(program: Any) -> list[str]:
        listener = dspy.streaming.StreamListener(signature_field_name="answer")
        stream = dspy.streamify(program, stream_listeners=[listener])
        items = [item async for item in stream(question="Why?")]
        assert items[-1].answer == "a0"
        return [item.chunk for item in items[:-1]]

    with dspy.context(lm=lm_of(Streams(), cache=False)):
        ours, plain = (asyncio.run(chunks(program)) for program in (program_of(TwoStages()), TwoStages()))
    assert ours == plain
    assert "".join(ours) == "a0"


class Catches(TwoStages):
    """A program that goes on whatever happens."""

    def forward(self, question: str) -> dspy.Prediction:
        try:
            return super().forward(question)
        except Exception:
            return dspy.Prediction(answer="unknown")


class Aside(dspy.Module):
    """A program that calls a language model by itself."""

    def __init__(self, lm: Any) -> None:
        super().__init__()
        self.mine, self.answer = lm, dspy.Predict("question -> answer")

    def forward(self, question: str) -> Any:
        with dspy.context(lm=self.mine):
            dspy.Predict("question -> answer")(question="aside")
        return self.answer(question=question)


def test_a_spent_budget_ends_what_the_module_catches_and_calls_past_the_gateway_are_told() -> None:
    engine = Engine()
    lm = lm_of(engine)
    budget = BudgetFile(None, Budget(lm_calls=1))
    runtime = Runtime({"main": target_of(lm)}, store=CallStore(None), budget=budget)
    with pytest.raises(BudgetExhausted):
        method_of(Catches).build(runtime)(question="Why?")
    assert len(engine.requests) == 1
    with dspy.context(lm=lm):
        prediction = program_of(Aside(lm_of(engine)))(question="Why?")
    assert prediction.counters["lm_calls"] == prediction.counters["ungated"] == 1
    assert "1 calls of an LM that the module calls by itself" in str(prediction.trace[-1].to_json())


class LongPrompt(Engine):
    """An engine whose prompts are too long until they are cut."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        if "cut" not in repr(request.messages):
            self.requests.append(request)
            raise lm15.ContextLengthError("at most 10 tokens")
        return super().complete(request)


class Cuts(TwoStages):
    """A program that shortens what is too long."""

    def forward(self, question: str) -> dspy.Prediction:
        try:
            return super().forward(question)
        except dspy.ContextWindowExceededError:
            return super().forward("cut")


def test_a_prompt_that_is_too_long_is_dspys_error_also_where_the_refusal_is_stored() -> None:
    engine = LongPrompt()
    with dspy.context(lm=lm_of(engine)):
        program = program_of(Cuts())
        assert program(question="Why?").answer == "a0"
        sent = len(engine.requests)
        assert program(question="Why?").answer == "a0"
    assert len(engine.requests) == sent == 3


class SyncInside(Awaited):
    """A coroutine with a synchronous call whose twin is awaited."""

    async def aforward(self, question: str) -> dspy.Prediction:
        twin = asyncio.ensure_future(self.plan.acall(question=question))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        notes = self.plan(question=question).notes
        assert notes == (await twin).notes
        return await self.answer.acall(question=question, notes=[])


def test_a_synchronous_call_beside_its_awaited_twin_ends() -> None:
    with dspy.context(lm=lm_of(Engine())):
        program = program_of(SyncInside())
        for answer in (program(question="Why?"), event_loop.run(program.acall(question="Why?"))):
            assert answer.answer == "a0"


def test_an_adapter_that_cannot_be_made_again_is_asked_for(tmp_path: Path) -> None:
    with dspy.context(lm=lm_of(Engine()), adapter=Loud(mark=object())):
        program = program_of(TwoStages())
        CompiledProgram.of(program, provenance={}, recipe="", run={}).save(tmp_path / "out", program)
        opened: Any = ragc.load(tmp_path / "out").build(program.runtime)
        assert opened.adapter is dspy.settings.adapter
    with pytest.raises(ArtefactError, match=r"the adapter .*:Loud.*mark.*dspy\.configure"):
        ragc.load(tmp_path / "out").build(program.runtime)
    assert isinstance(program, OwnProgram)


def test_settings_of_a_target_are_refused_beside_an_lm_of_dspy() -> None:
    with (
        dspy.context(lm=lm_of(Engine())),
        pytest.raises(
            UsageError, match=r"give it to the language model: dspy\.LM\(\.\.\., temperature=0\.5\)"
        ),
    ):
        program_of(TwoStages(), temperature=0.5)
