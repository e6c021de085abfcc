"""DSPy's own ways around a program of ours: LMs, retrievers, optimizers, history, streams, saved states."""

from __future__ import annotations

import asyncio
import io
import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.dsp.utils.settings import main_thread_config

import ragc
from ragc.errors import UsageError
from ragc.programs.base import RagProgram
from ragc.records import Hit, Passage
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget

QUESTION = "Which exception ends an iterator?"
PASSAGES = [Passage("stop", "Iterators", "StopIteration ends an iterator.")]


class Engine:
    """A scripted engine of DSPy's kind, which keeps what it was asked."""

    supports_function_calling = supports_reasoning = False
    supports_response_schema = True
    supported_params = frozenset({"temperature", "max_tokens", "top_p", "response_format", "logprobs"})

    def __init__(self, script: Callable[[lm15.Request], str]) -> None:
        self.script, self.requests = script, list[lm15.Request]()

    def __deepcopy__(self, memo: object) -> Engine:
        return self

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.requests.append(request)
        return lm15.Response(
            id=None, model="scripted", message=lm15.Message.assistant(self.script(request)),
            finish_reason="stop", usage=lm15.Usage(input_tokens=7, output_tokens=3),
        )  # fmt: skip


class AsyncEngine:
    """The same, awaited."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: object) -> AsyncEngine:
        return self

    async def complete(self, request: lm15.Request) -> lm15.Response:
        return self.engine.complete(request)


def scripted_lm(
    script: Callable[[lm15.Request], str] = lambda request: '{"answer": "theirs"}', *, awaited: bool = True
) -> tuple[dspy.LM, Engine]:
    engine = Engine(script)
    async_engine = AsyncEngine(engine) if awaited else None
    return dspy.LM("scripted/model", engine=engine, async_engine=async_engine, cache=False), engine


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    with dspy.context(lm=None):
        yield


def build(target: Any = None, name: str = "vanilla", **parts: Any) -> RagProgram:
    target = target or ScriptedTarget(lambda request: {"answer": "ours"})
    return ragc.program(name, main=target, local=ListSource(PASSAGES), store=False, **parts)


@pytest.mark.parametrize("awaited", [True, False])
@pytest.mark.parametrize("name", ["lm", "main"])
def test_an_lm_of_dspy_is_a_target_and_its_settings_are_the_programs(name: str, awaited: bool) -> None:
    lm, engine = scripted_lm(awaited=awaited)
    program = ragc.program(
        "vanilla", local=lambda query: ["StopIteration ends it."], store=False, temperature=0.3, **{name: lm}
    )
    prediction = program(question=QUESTION)
    assert prediction.answer == "theirs"
    assert prediction.counters["tokens"] == 10
    (request,) = engine.requests
    assert request.config.temperature == 0.3
    assert request.config.response_format is not None
    assert "StopIteration ends it." in str(request)
    assert program(question=QUESTION).counters["replayed"] == 1, "the call store holds it"
    assert len(engine.requests) == 1
    assert len(lm.history) == 2, "what is replayed is in the history too"


def test_a_class_with_a_forward_of_its_own_is_asked_for_text() -> None:
    class Mine(dspy.BaseLM):
        def forward(self, prompt: Any = None, messages: Any = None, **kwargs: Any) -> Any:
            message = SimpleNamespace(content='{"answer": "mine"}', tool_calls=None)
            choice = SimpleNamespace(message=message, finish_reason="stop")
            return SimpleNamespace(choices=[choice], usage={}, model="mine")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # DSPy's own, for such classes
        answer = build(Mine("mine"))(question=QUESTION).answer
    assert answer == "mine"


def test_the_configured_lm_answers_where_no_target_is_named() -> None:
    lm, engine = scripted_lm()
    with dspy.context(lm=lm):
        program = ragc.program("vanilla", local=ListSource(PASSAGES), store=False)
    assert program(question=QUESTION).answer == "theirs"
    assert len(engine.requests) == 1


class Found:
    def __init__(self, long_text: str) -> None:
        self.long_text, self.title, self.id = long_text, "A title", 7


async def awaited_search(query: str, k: int) -> list[Any]:
    return [Passage("a", "", f"{query}/{k}")]


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (lambda query: ["one", "two", "three", "four"], ["one", "two", "three"]),
        (lambda query, k: [{"text": str(k), "id": "x", "title": "T"}], ["3"]),
        (lambda query: (Found("long"),), ["long"]),
        (lambda query: [Hit(PASSAGES[0], 2.0)], [PASSAGES[0].text]),
        (lambda query: dspy.Prediction(passages=["p"]), ["p"]),
        (lambda query: [], []),
        (awaited_search, [f"{QUESTION}/3"]),
    ],
)
def test_a_function_is_a_source(function: Any, texts: list[str]) -> None:
    lm, _ = scripted_lm()
    prediction = ragc.program("vanilla", lm=lm, local=function, store=False)(question=QUESTION)
    assert [passage.text for passage in prediction.passages] == texts
    assert len({passage.id for passage in prediction.passages}) == len(texts)
    assert asyncio.run(ragc.source(function).search(QUESTION, 3))[:1] == tuple(
        Hit(p, 2.0 if p is PASSAGES[0] else 1.0) for p in prediction.passages[:1]
    )


def test_a_retriever_of_dspy_is_a_source() -> None:
    def search(query: str, k: int, **more: Any) -> list[Any]:
        return [SimpleNamespace(long_text=f"{query} {n}") for n in range(k)]

    with dspy.context(rm=search):
        lm, _ = scripted_lm()
        program = ragc.program("vanilla", lm=lm, local=dspy.Retrieve(k=1), store=False, top_k=2)
        texts = [passage.text for passage in program(question=QUESTION).passages]
    assert texts == [f"{QUESTION} 0", f"{QUESTION} 1"]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (
            lambda query: "one text",
            "must return a list of texts.*returned str; put what it finds into a list",
        ),
        (lambda query: None, "returned NoneType"),
        (lambda query: {"text": "x"}, "returned dict"),
        (lambda query: [3], "type int has no text .*; give each a `text`"),
        (lambda query: [{"body": "x"}], "type dict has no text"),
    ],
)
def test_a_function_that_returns_something_else_is_one_sentence(function: Any, says: str) -> None:
    program = ragc.program("vanilla", lm=scripted_lm()[0], local=function, store=False)
    with pytest.raises(UsageError, match=says):
        program(question=QUESTION)


def test_a_function_that_raises_is_a_search_that_could_not_be_made() -> None:
    def broken(query: str) -> list[str]:
        raise OSError("no connection")

    prediction = ragc.program("vanilla", lm=scripted_lm()[0], local=broken, store=False)(question=QUESTION)
    assert prediction.counters["failed_searches"] == 1
    assert "no connection" in str(prediction.trace)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"lm": "openai/gpt"}, "found str; pass lm=dspy.LM"),
        ({"lm": dspy.LM("a/b"), "main": dspy.LM("a/b")}, "leave one out"),
        ({"main": dspy.LM("a/b"), "local": [1]}, "takes a source as 'local', found list.*or a function"),
    ],
)
def test_what_is_no_lm_or_source_is_one_sentence(parts: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ragc.program("vanilla", **{"local": ListSource(PASSAGES), **parts})


def test_set_lm_context_and_the_argument_lm_are_honoured_and_a_configured_one_is_not() -> None:
    lm, engine = scripted_lm()
    target = ScriptedTarget(lambda request: {"answer": "ours"})
    program = build(target)
    with dspy.context(lm=lm):
        assert program(question=QUESTION).answer == "theirs"
        assert asyncio.run(program.acall(question=QUESTION)).answer == "theirs"
    assert target.requests == []
    assert program(question=QUESTION).answer == "ours"
    program.set_lm(lm)
    assert program.get_lm() is lm
    assert program(question=QUESTION).answer == "theirs"
    program.set_lm(None)
    assert program(question=QUESTION).answer == "ours"
    call = dict(program.named_predictors())["answer"]
    assert call(lm=lm, question=QUESTION, passages=[]).answer == "theirs"
    assert len(engine.requests) == 2, "the second and third time it was replayed"
    with pytest.raises(UsageError, match="found str"):
        program.set_lm("openai/gpt")
    with pytest.raises(UsageError, match=r"of the type int; give it a dspy\.LM"):
        call(lm=3, question=QUESTION, passages=[])


def test_a_context_lm_plays_the_role_main_only() -> None:
    lm, _ = scripted_lm()
    proxy = ScriptedTarget(lambda request: "[]")
    program = ragc.program(
        "slimplm", main=ScriptedTarget([]), proxy=proxy, local=ListSource(PASSAGES), store=False
    )
    roles = {call.role for call in program.predictors()}
    assert roles == {"main", "proxy"}
    with dspy.context(lm=lm):
        for call in program.predictors():
            assert (call.target is proxy) == (call.role == "proxy")


def draws(request: ChatRequest) -> dict[str, Any]:
    return {"answer": f"draw {request.sample} at {request.sampling.temperature:g}"}


def test_best_of_n_draws_n_replies_each_with_a_number() -> None:
    target = ScriptedTarget(draws)
    seen = list[str]()

    def reward(args: dict[str, Any], prediction: dspy.Prediction) -> float:
        seen.append(prediction.answer)
        return float("draw 2" in prediction.answer)

    best = dspy.BestOfN(build(target), N=4, reward_fn=reward, threshold=1.0)
    with dspy.context(trace=[]):
        assert best(question=QUESTION).answer == "draw 2 at 1"
    assert seen == ["draw 0 at 1", "draw 1 at 1", "draw 2 at 1"]


def test_refine_draws_again_with_the_advice_in_the_prompt() -> None:
    target = ScriptedTarget(draws)

    def advise(request: lm15.Request) -> str:
        return json.dumps({"discussion": "It was long.", "advice": {"answer": "Name the class alone."}})

    adviser, engine = scripted_lm(advise)

    def reward(args: dict[str, Any], prediction: dspy.Prediction) -> float:
        return float("draw 1" in prediction.answer)

    refined = dspy.Refine(build(target), N=3, reward_fn=reward, threshold=1.0)
    with configured(adviser), dspy.context(adapter=dspy.JSONAdapter(), trace=[]):
        assert refined(question=QUESTION).answer == "draw 1 at 1"
    assert len(engine.requests) == 1
    first, second = target.requests
    assert "Name the class alone." not in first.messages[-1].content
    assert "Name the class alone." in second.messages[-1].content


@contextmanager
def configured(lm: Any) -> Iterator[None]:
    """`dspy.configure(lm=...)` for a while: DSPy lets only one thread of a process configure."""
    before = main_thread_config.get("lm")
    main_thread_config["lm"] = lm
    try:
        with dspy.context(lm=lm):
            yield
    finally:
        main_thread_config["lm"] = before


def test_what_dspy_configures_for_all_modules_does_not_take_a_targets_place() -> None:
    lm, engine = scripted_lm()
    program = build()
    with configured(lm):
        assert program(question=QUESTION).answer == "ours"
        with dspy.context(lm=lm.copy(rollout_id=3, temperature=1.0)):
            assert program(question=QUESTION).answer == "ours"
    assert engine.requests == []


def learns(request: ChatRequest) -> dict[str, Any]:
    """Right where an example was shown, or the instructions say how."""
    messages = list(request.messages)
    shown = len(messages) > 2 or "capital letters" in messages[0].content
    number = re.findall(r"number (\d+)", messages[-1].content)[-1]
    lucky = int(number) % 3 == 0 or request.sample % 2 == 1
    return {"answer": f"A{number}" if shown or lucky else "no"}


EXAMPLES = [
    dspy.Example(question=f"What is number {n}?", answer=f"A{n}").with_inputs("question") for n in range(8)
]


def exact(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None, *more: Any) -> float:
    return float(prediction is not None and prediction.answer == example.answer)


def proposes(request: lm15.Request) -> str:
    """A reply that holds whatever output fields DSPy's proposers ask for, as JSON."""
    text = str(request)
    names = set(re.findall(r"`(\w+)`", text)) | {
        "proposed_instruction", "proposed_prefix_for_output_field", "basic_instruction", "observations",
        "summary", "new_instruction", "program_description", "module_description", "reasoning", "discussion",
    }  # fmt: skip
    values: dict[str, Any] = dict.fromkeys(sorted(names), "Answer in capital letters.")
    values["module_advice"] = {"answer": "Answer in capital letters."}
    return json.dumps(values)


def optimizers(lm: dspy.LM) -> dict[str, Callable[[RagProgram], Any]]:
    def simba(program: RagProgram) -> Any:
        optimizer = dspy.SIMBA(
            metric=exact, bsize=4, num_candidates=2, max_steps=2, max_demos=2, prompt_model=lm, num_threads=1
        )
        return optimizer.compile(program, trainset=EXAMPLES, seed=3)

    def copro(program: RagProgram) -> Any:
        optimizer = dspy.COPRO(prompt_model=lm, metric=exact, breadth=2, depth=1)
        threads = {"num_threads": 1, "display_progress": False}
        return optimizer.compile(program, trainset=EXAMPLES, eval_kwargs=threads)

    def mipro(program: RagProgram) -> Any:
        optimizer = dspy.MIPROv2(
            metric=exact, prompt_model=lm, task_model=lm, auto=None, num_candidates=2, num_threads=1,
            max_bootstrapped_demos=1, max_labeled_demos=1, init_temperature=1.0,
        )  # fmt: skip
        return optimizer.compile(
            program, trainset=EXAMPLES[:4], valset=EXAMPLES[4:], num_trials=2, minibatch=False
        )

    def gepa(program: RagProgram) -> Any:
        def judged(gold: Any, pred: Any, trace: Any = None, name: Any = None, steps: Any = None) -> Any:
            return dspy.Prediction(score=exact(gold, pred), feedback="Answer in capital letters.")

        optimizer = dspy.GEPA(metric=judged, reflection_lm=lm, max_metric_calls=24, num_threads=1)
        return optimizer.compile(program, trainset=EXAMPLES[:4], valset=EXAMPLES[4:])

    def bootstrap(program: RagProgram) -> Any:
        return dspy.BootstrapFewShot(metric=exact, max_bootstrapped_demos=1, max_labeled_demos=1).compile(
            program, trainset=EXAMPLES
        )

    return {"SIMBA": simba, "COPRO": copro, "MIPROv2": mipro, "GEPA": gepa, "BootstrapFewShot": bootstrap}


@pytest.mark.parametrize("name", ["SIMBA", "COPRO", "MIPROv2", "GEPA", "BootstrapFewShot"])
@pytest.mark.filterwarnings("ignore")
def test_the_optimizers_of_dspy_make_a_program_better(name: str) -> None:
    target = ScriptedTarget(learns)
    lm, engine = scripted_lm(proposes)
    program = build(target)
    score = dspy.Evaluate(devset=EXAMPLES, metric=exact, num_threads=1, display_progress=False)
    before = score(program).score
    with configured(lm), dspy.context(adapter=dspy.JSONAdapter()):
        better = optimizers(lm)[name](program)
    assert isinstance(better, RagProgram)
    assert score(better).score == 100 > before
    assert engine.requests or name in ("BootstrapFewShot", "SIMBA"), "these may do without proposals"


def test_the_history_shows_what_was_sent_and_what_was_replayed() -> None:
    program = build()
    program(question=QUESTION)
    program(question="Another?")
    program(question="Another?")
    assert len(program.history) == 3
    shown = io.StringIO()
    program.inspect_history(n=2, file=shown)
    assert shown.getvalue().count("Another?") == 2
    assert QUESTION not in shown.getvalue()
    assert "ours" in shown.getvalue()
    call = dict(program.named_predictors())["answer"]
    assert len(call.history) == 3
    with dspy.context(disable_history=True):
        program(question=QUESTION)
    assert len(program.history) == 3
    shown = io.StringIO()
    dspy.inspect_history(n=1, file=shown)
    assert "Another?" in shown.getvalue()


def test_knobs_are_in_a_saved_state_and_others_are_refused(tmp_path: Path) -> None:
    program = build(name="prefrag", web=ListSource(PASSAGES), reflect=False)
    program.save(tmp_path / "state.json")
    assert json.loads((tmp_path / "state.json").read_text("utf-8"))["settings"]["knobs"]["reflect"] is False
    same = build(name="prefrag", web=ListSource(PASSAGES), reflect=False)
    same.load(tmp_path / "state.json")
    assert same.dump_state() == program.dump_state()
    with pytest.raises(
        UsageError, match=r"saved with reflect=False, and this program has reflect=True; build"
    ):
        build(name="prefrag", web=ListSource(PASSAGES)).load(tmp_path / "state.json")
    with pytest.raises(UsageError, match=r"program 'prefrag', and this one is 'vanilla'"):
        build().load(tmp_path / "state.json")


def test_a_program_inside_a_users_module_is_saved_whole(tmp_path: Path) -> None:
    class Mine(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = build(name="skr")
            self.polish = dspy.Predict("draft -> answer")

        def forward(self, question: str) -> Any:
            return self.inner(question=question)

    mine, other = Mine(), Mine()
    learned = {"labels": [["Who?", "better"], ["When?", "worse"]]}
    mine.inner.learned = learned
    mine.save(tmp_path / "mine.json")
    assert other.inner.learned != mine.inner.learned
    other.load(tmp_path / "mine.json")
    assert other.inner.learned == mine.inner.learned == learned
