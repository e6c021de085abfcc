"""What every method in METHODS promises, whatever it does inside."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import dspy
import pytest

from ragc.errors import UsageError
from ragc.programs import METHODS, Method
from ragc.programs.base import RagProgram
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Call, Search
from ragc.records import Passage
from ragc.store.call_store import CallStore
from ragc.testing import FailingSource, ListSource, SchemaReplies, ScriptedTarget
from tests.support.knob_values import settings

FOUND = [
    Passage(f"p{i}", f"Title {i}", f"The colour of thing {i} is red. It was made in 19{i:02}.")
    for i in range(30)
]
QUESTION = "What is the colour of thing 3?"

FITTING = SchemaReplies()

every = pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)


def runtime(source: Any = None, reply: Any = FITTING) -> tuple[Runtime, ScriptedTarget]:
    target = ScriptedTarget(reply)
    shared_source = source or ListSource(FOUND)
    names = {"local", "web", *(name for entry in METHODS for name in entry.sources)}
    roles: dict[str, Any] = dict.fromkeys(("main", "proxy", "judge", "teacher"), target)
    return Runtime(roles, dict.fromkeys(names, shared_source), store=CallStore(None)), target


def build_program(entry: Method, source: Any = None, **knobs: Any) -> tuple[RagProgram, ScriptedTarget]:
    ground, target = runtime(source)
    return entry.build(ground, knobs), target


@every
def test_knobs_are_complete_and_their_defaults_in_range(entry: Method) -> None:
    knobs = entry.knobs.list_knobs()
    assert {"layout", "temperature", "top_p", "icl_n"} <= {knob.name for knob in knobs}
    for knob in knobs:
        assert knob.check(knob.default) == knob.default
        assert knob.about
    names = {knob.name for knob in knobs}
    assert {*entry.demo_knobs, *entry.demo_shaping_knobs} <= names
    assert all(knob.when.knob in names for knob in knobs if knob.when)
    assert entry.about
    assert entry.paper


@every
def test_a_question_ends_in_an_answer_with_passages_trace_and_counters(entry: Method) -> None:
    program, target = build_program(entry)
    prediction = program(question=QUESTION)
    assert isinstance(prediction.answer, str)
    assert all(isinstance(passage, Passage) for passage in prediction.passages)
    calls = [event for event in prediction.trace if isinstance(event, Call)]
    searches = [event for event in prediction.trace if isinstance(event, Search)]
    assert len(calls) + prediction.counters["repairs"] == prediction.counters["lm_calls"] >= 1
    assert len(searches) == prediction.counters["searches"]
    assert len(target.requests) == prediction.counters["sent"]
    assert prediction.counters["repairs"] == 0
    assert json.loads(json.dumps([event.to_json() for event in prediction.trace]))


@pytest.mark.parametrize("arguments", [{}, {"question": 3}, {"quesion": "Who?"}])
def test_a_call_without_a_question_is_refused_in_a_sentence(arguments: dict[str, Any]) -> None:
    program, _ = build_program(METHODS[1])
    with pytest.raises(UsageError, match="called as program"):
        program(**arguments)
    with pytest.raises(UsageError, match="called as program"):
        program("Who?")


@every
def test_the_same_question_gives_the_same_trace(entry: Method) -> None:
    runs = [build_program(entry)[0](question=QUESTION) for _ in range(2)]
    first, second = ([event.to_json() for event in prediction.trace] for prediction in runs)
    assert first == second


@every
@pytest.mark.parametrize("source", [ListSource([]), FailingSource()], ids=["empty", "failing"])
def test_nothing_found_ends_in_an_answer(entry: Method, source: ListSource) -> None:
    program, _ = build_program(entry, source)
    prediction = program(question=QUESTION)
    assert isinstance(prediction.answer, str)
    assert prediction.passages == ()


@every
def test_every_value_of_every_knob_runs_or_names_itself(entry: Method) -> None:
    for knobs in settings(entry.knobs):
        try:
            program, _ = build_program(entry, **knobs)
        except UsageError as error:
            if not any(name in str(error) for name in knobs):
                pytest.fail(f"{knobs} is refused without being named: {error}")
            continue
        assert isinstance(program(question=QUESTION).answer, str), knobs


@every
def test_a_question_longer_than_the_context_is_cut_and_counted(entry: Method) -> None:
    ground, target = runtime()
    target.context_tokens = 3000
    prediction = entry.build(ground)(question="What is it? " + "word " * 9000)
    assert isinstance(prediction.answer, str)
    assert prediction.counters["trimmed"] >= 1
    for request in target.requests:
        assert sum(len(m.content.split()) for m in request.messages) <= 3000


@every
def test_a_prompt_too_long_without_its_inputs_is_refused_in_a_sentence(entry: Method) -> None:
    ground, target = runtime()
    target.context_tokens = 20
    with pytest.raises(UsageError, match=r"context of scripted holds 20; show fewer demonstrations"):
        entry.build(ground)(question=QUESTION)


@every
def test_all_calls_are_found_by_name_and_their_state_saves_and_loads(entry: Method, tmp_path: Path) -> None:
    program, _ = build_program(entry)
    named = dict(program.named_predictors())
    assert named
    assert all(isinstance(predictor, RagPredict) for predictor in named.values())
    for predictor in named.values():
        demo = dict.fromkeys(predictor.signature.fields, "x")
        predictor.demos = [demo]
    program.save(tmp_path / "state.json")
    twin, _ = build_program(entry)
    twin.load(tmp_path / "state.json")
    for name, predictor in twin.named_predictors():
        assert [dict(demo) for demo in predictor.demos] == [dict(demo) for demo in named[name].demos]


@every
def test_parameters_have_the_names_that_dspy_gives(entry: Method) -> None:
    program, _ = build_program(entry)
    named = dspy.Module.named_parameters(program)
    assert [(name, id(held)) for name, held in program.named_parameters()[1:]] == [
        (name, id(held)) for name, held in named
    ]


def test_answers_leave_nothing_to_the_garbage_collector() -> None:
    program, _ = build_program(METHODS[0])

    def collected() -> int:
        gc.collect()
        for number in range(20):
            program(question=f"{QUESTION} {number}")
        return gc.collect()

    program(question=QUESTION)
    gc.disable()
    gc.freeze()  # what other tests left need not be looked through
    try:
        assert min(collected() for _ in range(4)) < 20  # threads of other tests may leave something
    finally:
        gc.unfreeze()
        gc.enable()


@every
def test_threads_of_dspy_evaluate_and_bootstrapping_pick_the_same_demonstrations(entry: Method) -> None:
    examples = [
        dspy.Example(question=f"What is thing {i}?", answer="text").with_inputs("question") for i in range(8)
    ]

    def fine(example: dspy.Example, prediction: Any, trace: Any = None) -> bool:
        return isinstance(prediction.answer, str)

    picked = []
    for _ in range(2):
        program, _ = build_program(entry)
        score = dspy.Evaluate(devset=examples, metric=fine, num_threads=8, display_progress=False)(program)
        assert score.score == 100
        boot = dspy.BootstrapFewShot(metric=fine, max_bootstrapped_demos=2, max_labeled_demos=0)
        compiled = boot.compile(program, trainset=examples)
        picked.append({n: [dict(d.toDict()) for d in p.demos] for n, p in compiled.named_predictors()})
    assert picked[0] == picked[1]
    assert any(picked[0].values())
