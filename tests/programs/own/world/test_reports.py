"""What users of DSPy and of its optimizers reported, each as what they wanted, under `ragc.Compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pytest
from pydantic import BaseModel

import ragc
from tests.programs.own.world.conftest import (
    CAPITALS,
    CORPUS,
    Fields,
    Prompt,
    ask,
    capital,
    capital_only,
    country_in,
    exact,
    examples,
    knows,
    questions,
)

BUDGET = {"lm_calls": 300}


def question_answer() -> Any:
    return dspy.Predict("question -> answer")


def chain() -> Any:
    return dspy.ChainOfThought("question -> answer")


# The written program is the measured one.


@pytest.mark.parametrize("adapter", [dspy.ChatAdapter(), dspy.JSONAdapter(), dspy.XMLAdapter()])
def test_keys_in_demonstrations_keep_their_order(serve: Any, compile_better: Any, adapter: Any) -> None:
    note = {"text": "x", "sources": [{"url": "u", "line": 1}]}

    def rows(country: str, city: str) -> Fields:
        return {"question": f"{country}?", "origin": {"z": 1, "a": country}, "note": note, "answer": city}

    model = serve(lambda prompt: {"note": note, "answer": capital(prompt)}, adapter=adapter)
    program = dspy.ChainOfThought("question, origin: dict -> note: dict, answer")
    compiled = compile_better(model, program.deepcopy, exact, examples(rows, "question", "origin"))
    orders = {
        (*demo["origin"], *demo["note"], *demo["note"]["sources"][0]) for demo in compiled.predict.demos
    }
    assert orders == {("z", "a", "text", "sources", "url", "line")}


# Numbers are part of the state.


class Finder(dspy.Module):
    k = ragc.number(3, 1, 8)

    def forward(self, question: str) -> list[str]:
        return [f"{place}. {text}" for place, text in enumerate(CORPUS[: self.k], 1)]


class Numbered(dspy.Module):
    size = ragc.number(3, 1, 8)

    def __init__(self) -> None:
        self.finders = [Finder(), Finder()]
        self.answer = dspy.Predict("question, first: list[str], second: list[str], size: int -> answer")

    def forward(self, question: str) -> Any:
        first, second = (finder(question=question) for finder in self.finders)
        return self.answer(question=question, first=first, second=second, size=self.size)


def numbers(program: Any) -> list[int]:
    return [program.size, *(finder.k for finder in program.finders)]


def likes_many(field: str) -> Any:
    """A model that answers from five passages on in the first list, or with a size from five on."""

    def think(prompt: Prompt) -> Fields:
        shown = prompt.reads(field)
        many = int(shown) >= 5 if field == "size" else "5. " in shown
        return {"answer": CAPITALS[country_in(prompt.reads("question"))] if many else "?"}

    return think


@pytest.mark.parametrize(("field", "knobs"), [("size", ["size"]), ("first", "all")])
def test_numbers_are_searched_and_restored_by_plain_load(
    serve: Any, compile_better: Any, tmp_path: Path, field: str, knobs: Any
) -> None:
    model = serve(likes_many(field))
    compiled = compile_better(model, Numbered, exact, questions(), knobs=knobs, trials=12, demos=0)
    plain = Numbered()
    plain.load(tmp_path / "program.json")
    assert numbers(plain) == numbers(compiled)
    assert numbers(Numbered()) == [3, 3, 3]


def test_numbers_of_the_instance_are_where_the_search_begins_and_pickled(serve: Any, tmp_path: Path) -> None:
    model = serve(likes_many("first"))
    student = Numbered()
    student.size, student.finders[1].k = 6, 2
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=exact, trials=1, demos=0, budget=BUDGET)
    compiled = optimizer.compile(student, trainset=trainset, valset=valset)
    assert numbers(compiled) == [6, 3, 2]
    assert {prompt.reads("size") for prompt in model.prompts} == {"6"}
    compiled.save(tmp_path / "whole", save_program=True)
    assert numbers(dspy.load(tmp_path / "whole", allow_pickle=True)) == [6, 3, 2]


# Any fields and types.


class Order(BaseModel):
    item: str
    pieces: int


def test_any_fields_and_types_reach_metric_and_result_as_what_they_are(
    serve: Any, compile_better: Any
) -> None:
    outputs = "summary: str, count: int, tags: list[str], ok: bool, price: float, order: Order"
    program = dspy.ChainOfThought(dspy.Signature(f"document -> {outputs}", custom_types={"Order": Order}))

    def typed(city: str, count: int) -> Fields:
        return {"summary": city, "count": count, "tags": ["a", city], "ok": count > 2, "price": 2.5}

    def rows(country: str, city: str) -> Fields:
        return {"document": country, **typed(city, 3), "order": Order(item=city, pieces=2), "author": "me"}

    def metric(example: Any, pred: Any, trace: Any = None) -> bool:
        return (
            all(example[name] == pred[name] for name in pred if name != "reasoning")
            and example.author == "me"
        )

    def think(prompt: Prompt) -> Fields:
        city = CAPITALS[country_in(prompt.last)]
        return {**typed(city, 3 if knows(prompt) else 1), "order": {"item": city, "pieces": 2}}

    compile_better(serve(think), program.deepcopy, metric, examples(rows, "document"))


def test_text_where_a_list_is_expected_stays_whole(serve: Any, compile_better: Any) -> None:
    def rows(country: str, city: str) -> Fields:
        return {"context": "A page of text.", "question": f"{country}?", "answer": city}

    model = serve(capital_only)
    program = dspy.Predict("question, context: list[str] -> answer")
    compile_better(model, program.deepcopy, "em", examples(rows, "question", "context"), judge=exact)
    assert all("A page of text." in text for prompt in model.prompts for role, text in prompt.messages[1::2])


# Metrics as DSPy's users write them.


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (1.0000000000000002, 0.0),
        (-1.0, -5.5),
        (250, 3),
        (np.float32(0.5), np.float32(0.25)),
        (np.True_, np.False_),
        (dspy.Prediction(score=0.9, feedback="Good."), dspy.Prediction(score=-2.0, feedback="Bad.")),
        (1.0, None),
        (0.5, float("nan")),
        (1, ValueError("no score")),
    ],
)
def test_metric_values_of_any_range_and_type(serve: Any, compile_better: Any, right: Any, wrong: Any) -> None:
    def metric(example: Any, pred: Any, trace: Any = None) -> Any:
        if isinstance(wrong, Exception) and not exact(example, pred):
            raise wrong
        return right if exact(example, pred) else wrong

    compile_better(serve(capital_only), question_answer, metric, questions(), judge=exact)


async def asynchronous(example: Any, pred: Any, trace: Any = None) -> bool:
    return exact(example, pred)


def five_arguments(gold: Any, pred: Any, trace: Any, pred_name: str | None, pred_trace: Any) -> Any:
    return dspy.Prediction(score=float(exact(gold, pred)), feedback=f"It is {gold.answer}.")


@pytest.mark.parametrize("metric", [asynchronous, five_arguments])
def test_metric_shapes(serve: Any, compile_better: Any, metric: Any) -> None:
    compile_better(serve(capital_only), question_answer, metric, questions(), judge=exact)


def test_metric_with_a_trace_chooses_demonstrations_from_its_threshold_on(
    serve: Any, compile_better: Any
) -> None:
    good = {"Capital of Spain?", "Capital of Peru?"}
    traces: list[Any] = []

    def metric(example: Any, pred: Any, trace: Any = None) -> float:
        traces.append(trace)
        return exact(example, pred) * (0.9 if example.question in good else 0.6)

    model = serve(lambda prompt: {"answer": capital(prompt) if prompt.full_demos == prompt.demos else "?"})
    options = {"metric_threshold": 0.8, "judge": exact, "trials": 8}
    compiled = compile_better(model, chain, metric, questions(), **options)
    assert {demo.question for demo in compiled.predict.demos} <= good
    steps = [trace for trace in traces if trace is not None]
    assert 0 < len(steps) < len(traces)
    assert {(type(step[0]), *step[1], step[2].reasoning) for [step] in steps} == {
        (dspy.Predict, "question", "So.")
    }


def test_bootstrapping_tries_every_train_question_while_demonstrations_are_missing(
    serve: Any, compile_better: Any
) -> None:
    def think(prompt: Prompt) -> Fields:
        number = int(prompt.reads("question").split()[1])
        return {"answer": str(number) if prompt.full_demos >= 3 or 37 <= number < 40 else "?"}

    numbered = [dspy.Example(question=f"Number {number} ?", answer=str(number)) for number in range(46)]
    rows = [example.with_inputs("question") for example in numbered]
    model = serve(think)
    compiled = compile_better(model, chain, exact, (rows[:40], rows[40:]), demos=4, trials=8)
    assert {demo.answer for demo in compiled.predict.demos if "reasoning" in demo} == {"37", "38", "39"}
    assert {row.question for row in rows} <= {prompt.reads("question") for prompt in model.prompts}


# The user's program, LMs and settings.


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.3, "max_tokens": 77}])
def test_only_the_settings_of_the_users_lm_are_sent(
    serve: Any, compile_better: Any, settings: dict[str, Any]
) -> None:
    model = serve(capital_only, **settings)
    compile_better(model, question_answer, exact, questions())
    sent = [{**prompt.body, "messages": []} for prompt in model.prompts]
    assert all(body == sent[0] for body in sent)


class Draft(dspy.Module):
    def __init__(self) -> None:
        self.draft = dspy.Predict("question -> draft")
        self.answer = dspy.Predict("question, draft -> answer")

    def forward(self, question: str) -> Any:
        return self.answer(question=question, draft=self.draft(question=question).draft)


class Counting(dspy.utils.BaseCallback):
    calls = 0

    def on_lm_start(self, call_id: str, instance: Any, inputs: Any) -> None:
        self.calls += 1


def test_predictors_keep_their_lms_callbacks_and_a_frozen_prompt(serve: Any) -> None:
    other = serve(lambda prompt: {"draft": "It is far away."})
    model = serve(capital_only)
    student, own_lm, shared_lm, callback = Draft(), other.lm(temperature=0.2), model.lm(), Counting()
    dspy.configure(callbacks=[callback])
    student.draft.lm, student.answer.lm = own_lm, shared_lm
    student.draft._compiled = True
    student.draft.demos = [dspy.Example(question="Capital of Mars?", draft="None.")]
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=exact, trials=3, demos=2, budget=BUDGET)
    compiled = optimizer.compile(student, trainset=trainset, valset=valset)
    assert compiled.draft.lm is own_lm
    assert compiled.answer.lm is shared_lm
    assert {(prompt.demos, prompt.body["temperature"]) for prompt in other.prompts} == {(1, 0.2)}
    assert [dict(demo) for demo in compiled.draft.demos] == [
        {"question": "Capital of Mars?", "draft": "None."}
    ]
    assert compiled.answer.demos
    assert not student.answer.demos
    assert callback.calls >= len(model.sent) + len(other.sent)
    assert dspy.settings.callbacks == [callback]


def test_compile_takes_dspys_names_divides_the_trainset_and_repeats_for_nothing(serve: Any) -> None:
    model = serve(capital_only, cache=True)
    student = question_answer()
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=exact, trials=3, demos=2, budget={"lm_calls": 40})
    compiled = optimizer.compile(student=student, trainset=[*trainset, *valset])
    assert type(compiled) is dspy.Predict
    assert not student.demos
    assert all(ask(compiled, example).answer == example.answer for example in valset)
    sent = len(model.sent) - len(valset)
    assert sent <= 40
    optimizer.compile(student=student, trainset=[*trainset, *valset])
    assert len(model.sent) == sent + len(valset)


def test_usage_reaches_metric_and_result(serve: Any, compile_better: Any) -> None:
    def metric(example: Any, pred: Any, trace: Any = None) -> float:
        return exact(example, pred) * float(pred.get_lm_usage()["openai/gpt-4o-mini"]["total_tokens"])

    model = serve(lambda prompt: {"draft": "It is far away.", **capital_only(prompt)})
    dspy.configure(track_usage=True)
    compile_better(model, Draft, metric, questions())


def test_an_unreadable_reply_is_that_questions_failure_in_a_few_words(
    serve: Any, capfd: Any, caplog: Any
) -> None:
    serve(lambda prompt: capital_only(prompt) if knows(prompt) else "I would rather not say.")
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=exact, trials=3, demos=2, budget=BUDGET)
    compiled = optimizer.compile(question_answer(), trainset=trainset, valset=valset)
    assert all(ask(compiled, example).answer == example.answer for example in valset)
    printed = caplog.text + "".join(capfd.readouterr())
    assert "Traceback" not in printed
