"""A user's module keeps the DSPy adapter that they configured, measured as it runs in plain DSPy."""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import dspy
import pydantic
import pytest
from dspy import lm15
from dspy.adapters.baml_adapter import BAMLAdapter

import ragc
from ragc.errors import ArtefactError, NothingAnswered, UsageError
from ragc.programs.own import method_of
from ragc.programs.own.program import OwnProgram


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


class Loud(dspy.ChatAdapter):
    """A user's adapter, with an option and a way of writing and reading of its own."""

    def __init__(self, mark: str = "!") -> None:
        super().__init__(use_json_adapter_fallback=False)
        self.mark = mark

    def format(self, signature: Any, demos: Any, inputs: Any) -> Any:
        """One message more than ChatAdapter has."""
        messages = super().format(signature, demos, inputs)
        return [*messages[:-1], {"role": "user", "content": f"Listen{self.mark}"}, messages[-1]]

    def parse(self, signature: Any, completion: str) -> Any:
        """As ChatAdapter, of text in small letters."""
        return super().parse(signature, completion.lower())


VALUES = {"kind": "colour", "notes": [{"text": "red", "weight": 2}], "reasoning": "Because.", "answer": "a0"}


class Engine:
    """A model that replies in the layout that it is asked for, and records every request.

    `odd` are the numbers of requests whose reply cannot be read.
    """

    def __init__(self, *, schema: bool = False, odd: Any = lambda n: False) -> None:
        self.requests: list[lm15.Request] = []
        self.supports_response_schema = schema
        self.supported_params = frozenset({"response_format"} if schema else ())
        self.supports_function_calling = self.supports_reasoning = False
        self._odd = odd

    def __deepcopy__(self, memo: object) -> Engine:
        return self

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.requests.append(request)
        text = "Nothing to see." if self._odd(request) else self._reply(request)
        return lm15.Response(
            id=None, model=request.model, message=lm15.Message.assistant(text), finish_reason="stop",
            usage=lm15.Usage(input_tokens=10, output_tokens=5),
        )  # fmt: skip

    def _reply(self, request: lm15.Request) -> str:
        system, last = str(request.system), "".join(part.text for part in request.messages[-1].parts)
        users = [part.text for one in request.messages if one.role == "user" for part in one.parts]
        number = re.findall(r"number (\d+)", "".join(users))[-1]
        names = ("kind", "notes") if "`kind`" in system else ("reasoning", "answer")
        shown = any(message.role == "assistant" for message in request.messages)
        right = {**VALUES, "answer": f"a{number}" if shown or int(number) % 3 == 0 else "no"}
        values = {name: right[name] for name in names}
        if "[[ ## completed ## ]]" in system and "a JSON object" not in last:
            plain = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
            return "".join(f"[[ ## {k} ## ]]\n{v}\n\n" for k, v in plain.items()) + "[[ ## completed ## ]]"
        if "<answer>" in system or "<kind>" in system:
            plain = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
            return "\n".join(f"<{k}>\n{v}\n</{k}>" for k, v in plain.items())
        return json.dumps(values)


def lm_of(engine: Engine, **more: Any) -> dspy.LM:
    return dspy.LM("mine/model", engine=engine, **more)


EXAMPLES = [
    dspy.Example(question=f"What is number {n}?", answer=f"a{n}").with_inputs("question") for n in range(8)
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    with dspy.context(lm=None, adapter=None):
        yield


def compiled_under(adapter: Any, engine: Engine, **search: Any) -> tuple[Any, Any]:
    with dspy.context(lm=lm_of(engine, max_tokens=700), adapter=adapter):
        optimizer = ragc.Compile(metric="em", **{"demos": 2, "trials": 3, **search})
        return optimizer.compile(TwoStages(), trainset=EXAMPLES[:4], valset=EXAMPLES[4:]), optimizer


def requests_of(program: Any, engine: Engine, questions: list[str], **settings: Any) -> list[lm15.Request]:
    engine.requests.clear()
    with dspy.context(**settings):
        for question in questions:
            program(question=question)
    return list(engine.requests)


QUESTIONS = [
    "What is number 100?", "What is number 101?\n\nSay it in “Ελληνικά”: ½ or 🎉, {braces} and <b>tags</b>.",
    "  What is\tnumber 102, and “{question}”?  \r\n", '{"what": "is number 103"}',
]  # fmt: skip

ADAPTERS = {
    "none": None,
    "chat": dspy.ChatAdapter(),
    "json": dspy.JSONAdapter(),
    "xml": dspy.XMLAdapter(),
    "baml": BAMLAdapter(),
    "strict": dspy.ChatAdapter(use_json_adapter_fallback=False),
    "own": Loud(mark="?"),
}


@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("name", ADAPTERS)
def test_requests_in_plain_dspy_equal_those_that_were_measured(
    tmp_path: Path, name: str, schema: bool
) -> None:
    adapter = ADAPTERS[name]
    measured = Engine(schema=schema)
    program, _ = compiled_under(adapter, measured)
    assert any(call.demos for call in program.predictors()), "the state holds demonstrations"
    ours = requests_of(program, measured, QUESTIONS)
    with dspy.context(adapter=adapter), warnings.catch_warnings():
        warnings.simplefilter("error")
        program.save(tmp_path / "state.json")
    plain = TwoStages()
    plain.load(tmp_path / "state.json")
    recorder = Engine(schema=schema)
    theirs = requests_of(
        plain, recorder, QUESTIONS, lm=lm_of(recorder, max_tokens=700, cache=False), adapter=adapter
    )
    assert len(ours) == 2 * len(QUESTIONS)
    assert list(map(repr, ours)) == list(map(repr, theirs))


def in_plain_dspy(program: Any, folder: Path, module: dspy.Module, engine: Engine, **settings: Any) -> Any:
    """The requests of `module` with the state of `program`, to the QUESTIONS."""
    with dspy.context(adapter=settings.get("adapter")):
        program.save(folder / "state.json")
    module.load(folder / "state.json")
    return requests_of(module, engine, QUESTIONS, lm=lm_of(engine, max_tokens=700, cache=False), **settings)


def test_the_baseline_is_the_module_as_it_is_under_its_adapter() -> None:
    measured = Engine()
    with dspy.context(lm=lm_of(measured, temperature=0.5), adapter=dspy.XMLAdapter()):
        ragc.Compile(metric="em", demos=0, trials=1, concurrency=1).compile(
            TwoStages(), trainset=[], valset=EXAMPLES[:3]
        )
    recorder = Engine()
    lm = lm_of(recorder, temperature=0.5, max_tokens=512, cache=False)
    with dspy.context(lm=lm, adapter=dspy.XMLAdapter()):
        plain = TwoStages()
        for example in EXAMPLES[:3]:
            plain(question=example.question)
    assert sorted(map(repr, measured.requests)) == sorted(map(repr, recorder.requests))


def test_the_second_try_of_dspy_is_measured_too(tmp_path: Path) -> None:
    """ChatAdapter asks once more, as JSONAdapter, where a reply cannot be read."""

    def odd(request: lm15.Request) -> bool:
        text = "".join(part.text for part in request.messages[-1].parts)
        return ("number 101" in text or "number 5" in text) and "[[ ## completed ## ]]" in str(request.system)

    measured, recorder = Engine(odd=odd), Engine(odd=odd)
    program, _ = compiled_under(None, measured)
    ours = requests_of(program, measured, QUESTIONS)
    theirs = in_plain_dspy(program, tmp_path, TwoStages(), recorder)
    assert len(ours) == 2 * len(QUESTIONS) + 2
    assert list(map(repr, ours)) == list(map(repr, theirs))
    prediction = program(question=QUESTIONS[1])
    assert prediction.answer == "a101"
    assert prediction.counters["lm_calls"] == 4
    assert prediction.counters["repairs"] == 2
    assert [event.repaired for event in prediction.trace] == [True, True]


class Awaited(dspy.Module):
    """The same, for an event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = dspy.Predict(Plan)
        self.answer = dspy.ChainOfThought("question, notes: list[str] -> answer")

    async def aforward(self, question: str) -> dspy.Prediction:
        plan = await self.plan.acall(question=question)
        notes = [f"{plan.kind}: {note.text} ({note.weight})" for note in plan.notes]
        return await self.answer.acall(question=question, notes=notes)


class Switches(TwoStages):
    """The same, of which the second stage has an adapter of its own."""

    def forward(self, question: str) -> dspy.Prediction:
        plan = self.plan(question=question)
        with dspy.context(adapter=dspy.JSONAdapter()):
            return self.answer(question=question, notes=[plan.kind])


class Recorder(dspy.BaseLM):
    """A language model of the older kind, which takes messages as dictionaries."""

    def __init__(self) -> None:
        super().__init__("mine/older", temperature=0.0, max_tokens=700)
        self.calls: list[Any] = []
        self.engine = Engine()

    def __deepcopy__(self, memo: object) -> Recorder:
        return self

    def forward(self, prompt: Any = None, messages: Any = None, **settings: Any) -> Any:
        self.calls.append((messages, settings))
        system, *turns = messages
        makers = {"user": lm15.Message.user, "assistant": lm15.Message.assistant}
        request = lm15.Request(
            model="mine/older", system=system["content"],
            messages=tuple(makers[one["role"]](one["content"]) for one in turns),
        )  # fmt: skip
        text = self.engine._reply(request)
        from dspy.clients.call_result import attributes

        message = {"content": text, "tool_calls": None}
        return attributes(
            {"model": "mine/older", "usage": {}, "choices": [{"message": message, "finish_reason": "stop"}]}
        )


@pytest.mark.filterwarnings("ignore:Implementing custom LMs")
def test_a_model_with_a_forward_of_its_own_gets_the_same_calls(tmp_path: Path) -> None:
    lm = Recorder()
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        optimizer = ragc.Compile(metric="em", demos=2, trials=2)
        program = optimizer.compile(TwoStages(), trainset=EXAMPLES[:4], valset=EXAMPLES[4:])
        lm.calls.clear()
        for question in QUESTIONS:
            program(question=question)
        ours = list(lm.calls)
        program.save(tmp_path / "state.json")
        plain = TwoStages()
        plain.load(tmp_path / "state.json")
        lm.calls.clear()
        for question in QUESTIONS:
            plain(question=question)
    assert ours == lm.calls


@pytest.mark.parametrize("kind", [Awaited, Switches])
def test_modules_that_are_awaited_or_switch_adapters_are_measured_as_they_run(
    tmp_path: Path, kind: type[dspy.Module]
) -> None:
    measured = Engine()
    with dspy.context(lm=dspy.LM("mine/model", engine=measured, async_engine=Async(measured))):
        program = ragc.Compile(metric="em", demos=1, trials=2).compile(
            kind(), trainset=EXAMPLES[:4], valset=EXAMPLES[4:]
        )
        ours = requests_of(program, measured, QUESTIONS)
        program.save(tmp_path / "state.json")
        plain, recorder = kind(), Engine()
        plain.load(tmp_path / "state.json")
        lm = dspy.LM("mine/model", engine=recorder, async_engine=Async(recorder), cache=False)
        with dspy.context(lm=lm):
            for question in QUESTIONS:
                if kind is Awaited:
                    asyncio.run(plain.acall(question=question))
                else:
                    plain(question=question)
    assert list(map(repr, ours)) == list(map(repr, recorder.requests))


class Async:
    """The awaitable side of an Engine."""

    def __init__(self, engine: Engine) -> None:
        self.sync = engine

    def __deepcopy__(self, memo: object) -> Async:
        return self

    async def complete(self, request: lm15.Request) -> lm15.Response:
        return self.sync.complete(request)


def test_other_layouts_are_tried_where_they_are_searched_and_save_says_so(tmp_path: Path) -> None:
    measured = Engine()
    program, _ = compiled_under(dspy.XMLAdapter(), measured, demos=0, trials=5, knobs=["layout"])
    assert program.knobs.layout == "xml", "the baseline is kept where no other layout is better"
    assert any("Reply with a JSON object:" in str(request.system) for request in measured.requests)
    with dspy.context(lm=lm_of(measured)):
        other = ragc.program(TwoStages(), layout="minimal")
    with pytest.warns(UserWarning, match=r"layout 'minimal', and in plain DSPy .*dspy\.ChatAdapter\(\)"):
        other.save(tmp_path / "state.json")
    with dspy.context(adapter=dspy.JSONAdapter()), pytest.warns(UserWarning, match="under dspy.XMLAdapter"):
        program.save(tmp_path / "state.json")


def test_a_module_by_itself_keeps_an_adapter_that_is_configured() -> None:
    with dspy.context(lm=lm_of(Engine()), adapter=Loud()):
        program = ragc.program(TwoStages())
        assert isinstance(program, OwnProgram)
        assert isinstance(program.adapter, Loud)
    with dspy.context(lm=lm_of(Engine())):
        assert ragc.program(TwoStages()).knobs.layout == "minimal"
        assert ragc.program(TwoStages(), layout="adapter").adapter is not None


@pytest.mark.parametrize("name", ["none", "baml", "own"])
def test_what_is_written_is_opened_under_the_same_adapter(tmp_path: Path, name: str) -> None:
    measured, adapter = Engine(), ADAPTERS[name]
    program, _ = compiled_under(adapter, measured, out=tmp_path / "out")
    ours = requests_of(program, measured, QUESTIONS)
    opened = ragc.load(tmp_path / "out").build(program.runtime)
    measured.requests.clear()
    for question in QUESTIONS:
        assert opened(question=question).answer == program(question=question).answer
    assert measured.requests == [], "what was asked is replayed"
    assert opened.learned == program.learned
    assert ours


class Bound(Loud):
    """An adapter with an option that JSON does not hold."""

    def __init__(self) -> None:
        super().__init__()
        self.held = object()


def test_an_adapter_that_cannot_be_made_again_is_asked_for(tmp_path: Path) -> None:
    measured, adapter = Engine(), Bound()
    program, _ = compiled_under(adapter, measured, out=tmp_path / "out")
    method_of(TwoStages)  # as a process does that imports the module and configures nothing
    with pytest.raises(
        ArtefactError, match=r"measured with the adapter '.*:Bound' with held.*dspy\.configure"
    ):
        ragc.load(tmp_path / "out").build(program.runtime)
    with dspy.context(adapter=adapter):
        assert ragc.load(tmp_path / "out").build(program.runtime).adapter is adapter


def test_what_is_no_adapter_or_asks_a_model_of_its_own_is_one_sentence() -> None:
    with dspy.context(lm=lm_of(Engine())):
        with (
            dspy.context(adapter="chat"),
            pytest.raises(UsageError, match=r"of the type str; give it a dspy"),
        ):
            ragc.Compile().compile(TwoStages(), trainset=EXAMPLES[:4], valset=EXAMPLES[4:])
        own = dspy.TwoStepAdapter(lm_of(Engine()))
        with (
            dspy.context(adapter=own),
            pytest.raises(UsageError, match=r"TwoStepAdapter asks a language model"),
        ):
            ragc.Compile().compile(TwoStages(), trainset=EXAMPLES[:4], valset=EXAMPLES[4:])


def test_replies_that_the_adapter_cannot_read_are_unanswered_questions() -> None:
    with pytest.raises(NothingAnswered, match="ChatAdapter found no kind, notes in the reply"):
        compiled_under(dspy.ChatAdapter(), Engine(odd=lambda request: True))
