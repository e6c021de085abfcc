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
    Better,
    Fields,
    Prompt,
    Serve,
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


# The written program is the measured one.


@pytest.mark.parametrize("adapter", [dspy.ChatAdapter(), dspy.JSONAdapter(), dspy.XMLAdapter()])
def test_keys_in_demonstrations_keep_their_order(serve: Serve, compile_better: Better, adapter: Any) -> None:
    def note(city: str) -> Fields:
        return {"text": city, "sources": [{"url": "u", "line": 1, "at": {"z": 1, "a": 2}}]}

    def make() -> Any:
        return dspy.ChainOfThought("question, origin: dict -> note: dict, answer")

    def rows(country: str, city: str) -> Fields:
        return {
            "question": f"{country}?",
            "origin": {"z": 1, "a": country},
            "note": note(city),
            "answer": city,
        }

    model = serve(lambda prompt: {"note": note("x"), "answer": capital(prompt)}, adapter=adapter)
    compiled = compile_better(model, make, exact, examples(rows, "question", "origin"))
    for demo in compiled.predict.demos:
        assert list(demo["origin"]) == ["z", "a"]
        assert list(demo["note"]) == ["text", "sources"]
        assert list(demo["note"]["sources"][0]) == ["url", "line", "at"]


# Numbers are part of the state.


class Finder(dspy.Module):
    k = ragc.number(3, 1, 8)

    def forward(self, question: str) -> list[str]:
        return [f"{place}. {text}" for place, text in enumerate(CORPUS[: self.k], 1)]


class Numbered(dspy.Module):
    size = ragc.number(3, 1, 8)

    def __init__(self) -> None:
        super().__init__()
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
        enough = int(shown) >= 5 if field == "size" else "5. " in shown
        return {"answer": CAPITALS[country_in(prompt.reads("question"))] if enough else "?"}

    return think


@pytest.mark.parametrize(("field", "knobs"), [("size", ["size"]), ("first", "all")])
def test_numbers_are_searched_and_restored_by_plain_load(
    serve: Serve, compile_better: Better, tmp_path: Path, field: str, knobs: Any
) -> None:
    model = serve(likes_many(field))
    compiled = compile_better(model, Numbered, exact, questions(), knobs=knobs, trials=12, demos=0)
    plain = Numbered()
    plain.load(tmp_path / "program.json")
    assert numbers(plain) == numbers(compiled)
    assert max(numbers(compiled)) >= 5
    assert numbers(Numbered()) == [3, 3, 3]


def test_numbers_of_the_instance_are_where_the_search_begins(serve: Serve) -> None:
    model = serve(likes_many("first"))
    student = Numbered()
    student.size, student.finders[1].k = 6, 2
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=exact, trials=1, demos=0, budget=BUDGET)
    compiled = optimizer.compile(student, trainset=trainset, valset=valset)
    assert numbers(compiled) == [6, 3, 2]
    assert {prompt.reads("size") for prompt in model.prompts} == {"6"}


def test_save_program_writes_a_program_that_dspy_loads(serve: Serve, tmp_path: Path) -> None:
    model = serve(likes_many("size"))
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=exact, trials=12, demos=0, knobs=["size"], budget=BUDGET)
    compiled = optimizer.compile(Numbered(), trainset=trainset, valset=valset)
    compiled.save(tmp_path / "whole", save_program=True)
    loaded = dspy.load(tmp_path / "whole", allow_pickle=True)
    assert numbers(loaded) == numbers(compiled)
    assert ask(loaded, valset[0]).answer == ask(compiled, valset[0]).answer == "Tokyo"
    assert model.sent[-1] == model.sent[-2]


# Any fields and types.


def test_a_document_in_and_a_summary_out(serve: Serve, compile_better: Better) -> None:
    def metric(example: Any, pred: Any, trace: Any = None) -> bool:
        return bool(example.summary == pred.summary and example.author == "me")

    sets = examples(lambda country, city: {"document": country, "summary": city, "author": "me"}, "document")
    model = serve(lambda prompt: {"summary": capital(prompt)})
    compile_better(model, lambda: dspy.ChainOfThought("document -> summary"), metric, sets)


class Order(BaseModel):
    item: str
    pieces: int


def test_typed_outputs_reach_metric_and_result_as_what_they_are(serve: Serve, compile_better: Better) -> None:
    outputs = ["count", "tags", "ok", "price", "order"]
    signature = dspy.Signature(
        "text -> count: int, tags: list[str], ok: bool, price: float, order: Order",
        custom_types={"Order": Order},
    )

    class Typed(dspy.Module):
        def __init__(self) -> None:
            self.read = dspy.Predict(signature)

        def forward(self, text: str) -> Any:
            found = self.read(text=text)
            return dspy.Prediction(**found, source=self.read, size=len(text))

    def rows(country: str, city: str) -> Fields:
        order = Order(item=city, pieces=2)
        return {"text": country, "count": 3, "tags": ["a", "b"], "ok": True, "price": 2.5, "order": order}

    def metric(example: Any, pred: Any, trace: Any = None) -> float:
        assert isinstance(pred.source, dspy.Predict)
        assert pred.size == len(example.text)
        return sum(getattr(example, name) == getattr(pred, name) for name in outputs) / len(outputs)

    def think(prompt: Prompt) -> Fields:
        right = rows("", CAPITALS[country_in(prompt.last)]) | {
            "order": {"item": capital(prompt), "pieces": 2}
        }
        return right if knows(prompt) else right | {"count": 0, "tags": [], "ok": False, "price": 0.0}

    sets = examples(rows, "text")
    compiled = compile_better(serve(think), Typed, metric, sets)
    assert metric(sets[1][1], ask(compiled, sets[1][1])) == 1.0


def test_text_where_a_list_is_expected_stays_whole(serve: Serve, compile_better: Better) -> None:
    class Reader(dspy.Module):
        def __init__(self) -> None:
            self.answer = dspy.Predict("question, context: list[str] -> answer")

        def forward(self, question: str, context: Any) -> Any:
            found = self.answer(question=question, context=context)
            return dspy.Prediction(answer=found.answer, context=context, passages=context)

    def rows(country: str, city: str) -> Fields:
        return {"context": "A page of text.", "question": f"{country}?", "answer": city}

    model = serve(capital_only)
    compiled = compile_better(model, Reader, "em", examples(rows, "question", "context"), judge=exact)
    assert all(
        "A page of text." in text
        for prompt in model.prompts
        for role, text in prompt.messages
        if role == "user"
    )
    assert compiled(question="Cuba?", context="A page of text.").passages == "A page of text."


# Metrics as DSPy's users write them.

NO = float("nan")


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
        (0.5, NO),
        (1, ValueError("no score")),
    ],
)
def test_metric_values_of_any_range_and_type(
    serve: Serve, compile_better: Better, right: Any, wrong: Any
) -> None:
    def metric(example: Any, pred: Any, trace: Any = None) -> Any:
        if isinstance(wrong, Exception) and not exact(example, pred):
            raise wrong
        return right if exact(example, pred) else wrong

    compile_better(serve(capital_only), question_answer, metric, questions(), judge=exact)


async def asynchronous(example: Any, pred: Any, trace: Any = None) -> bool:
    return exact(example, pred)


def five_arguments(gold: Any, pred: Any, trace: Any, pred_name: str | None, pred_trace: Any) -> Any:
    return dspy.Prediction(score=float(exact(gold, pred)), feedback=f"It is {gold.answer}.")


def two_arguments(example: Any, pred: Any) -> bool:
    return exact(example, pred)


@pytest.mark.parametrize("metric", [asynchronous, five_arguments, two_arguments])
def test_metric_shapes(serve: Serve, compile_better: Better, metric: Any) -> None:
    compile_better(serve(capital_only), question_answer, metric, questions(), judge=exact)


def test_metric_is_given_the_trace_where_demonstrations_are_chosen(
    serve: Serve, compile_better: Better
) -> None:
    traces: list[Any] = []

    def metric(example: Any, pred: Any, trace: Any = None) -> bool:
        traces.append(trace)
        return exact(example, pred) and (trace is None or example.question != "Capital of France?")

    compiled = compile_better(
        serve(capital_only), lambda: dspy.ChainOfThought("question -> answer"), metric, questions()
    )
    steps = [trace[0] for trace in traces if trace is not None]
    assert None in traces
    assert {len(trace) for trace in traces if trace is not None} == {1}
    assert all(isinstance(step[0], dspy.Predict) and step[2].reasoning == "So." for step in steps)
    assert {step[1]["question"] for step in steps} == {example.question for example in questions()[0]}
    bootstrapped = [demo.question for demo in compiled.predict.demos if "reasoning" in demo]
    assert "Capital of France?" not in bootstrapped


def test_metric_threshold_chooses_demonstrations(serve: Serve, compile_better: Better) -> None:
    good = {"Capital of Spain?", "Capital of Peru?"}

    def metric(example: Any, pred: Any, trace: Any = None) -> float:
        return exact(example, pred) * (0.9 if example.question in good else 0.6)

    def think(prompt: Prompt) -> Fields:
        reasoned = "Not supplied" not in str(prompt.messages)
        return {"answer": capital(prompt) if reasoned else "?"}

    model = serve(think)
    options = {"metric_threshold": 0.8, "judge": exact, "trials": 8}
    compiled = compile_better(
        model, lambda: dspy.ChainOfThought("question -> answer"), metric, questions(), **options
    )
    assert {demo.question for demo in compiled.predict.demos if "reasoning" in demo} <= good


def test_bootstrapping_tries_every_train_question_while_demonstrations_are_missing(
    serve: Serve, compile_better: Better
) -> None:
    def think(prompt: Prompt) -> Fields:
        number = int(prompt.reads("question").split()[1])
        full = prompt.demos == 3 and "Not supplied" not in str(prompt.messages)
        return {"answer": str(number) if full or 37 <= number < 40 else "?"}

    numbered = [dspy.Example(question=f"Number {number} ?", answer=str(number)) for number in range(46)]
    rows = [example.with_inputs("question") for example in numbered]
    model = serve(think)
    sets = (rows[:40], rows[40:])
    compiled = compile_better(
        model, lambda: dspy.ChainOfThought("question -> answer"), exact, sets, demos=4, trials=8
    )
    assert {demo.question for demo in compiled.predict.demos} == {
        f"Number {number} ?" for number in (37, 38, 39)
    }
    asked = {prompt.reads("question") for prompt in model.prompts}
    assert {row.question for row in rows[:40]} <= asked


# The user's program, LMs and settings.


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.3, "max_tokens": 77}])
def test_only_the_settings_of_the_users_lm_are_sent(
    serve: Serve, compile_better: Better, settings: dict[str, Any]
) -> None:
    model = serve(capital_only, **settings)
    compile_better(model, question_answer, exact, questions())
    sent = [{**prompt.body, "messages": []} for prompt in model.prompts]
    assert all(body == sent[0] for body in sent)
    assert set(sent[0]) - {"max_completion_tokens"} == {"model", "messages", *settings} - {
        "max_completion_tokens"
    }


class Draft(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.draft = dspy.Predict("question -> draft")
        self.answer = dspy.Predict("question, draft -> answer")

    def forward(self, question: str) -> Any:
        return self.answer(question=question, draft=self.draft(question=question).draft)


def test_predictors_keep_their_lms_and_the_frozen_one_its_prompt(serve: Serve) -> None:
    other = serve(lambda prompt: {"draft": "It is far away."})
    model = serve(capital_only)
    student, own_lm, shared_lm = Draft(), other.lm(temperature=0.2), model.lm()
    student.draft.lm, student.answer.lm = own_lm, shared_lm
    student.draft._compiled = True
    student.draft.demos = [dspy.Example(question="Capital of Mars?", draft="None.")]
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=exact, trials=3, demos=2, budget=BUDGET)
    compiled = optimizer.compile(student, trainset=trainset, valset=valset)
    assert compiled.draft.lm is own_lm
    assert compiled.answer.lm is shared_lm
    assert {(prompt.demos, prompt.body["temperature"]) for prompt in other.prompts} == {(1, 0.2)}
    assert [demo.toDict() for demo in compiled.draft.demos] == [
        {"question": "Capital of Mars?", "draft": "None."}
    ]
    assert compiled.answer.demos
    assert not student.answer.demos
    assert dspy.settings.lm is not own_lm


def test_compile_takes_dspys_names_divides_the_trainset_and_repeats_for_nothing(serve: Serve) -> None:
    model = serve(capital_only)
    student = question_answer()
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=exact, trials=3, demos=2, budget={"lm_calls": 40})
    compiled = optimizer.compile(student=student, trainset=[*trainset, *valset])
    assert type(compiled) is dspy.Predict
    assert compiled is not student
    assert not student.demos
    assert all(ask(compiled, example).answer == example.answer for example in valset)
    sent = len(model.sent) - len(valset)
    assert sent <= 40
    optimizer.compile(student=student, trainset=[*trainset, *valset])
    assert len(model.sent) == sent + len(valset)


def test_a_spent_budget_ends_the_search_with_the_best_so_far(serve: Serve) -> None:
    model = serve(capital_only)
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=exact, trials=9, demos=2, budget={"lm_calls": 9})
    compiled = optimizer.compile(question_answer(), trainset=trainset, valset=valset)
    assert type(compiled) is dspy.Predict
    assert len(model.sent) <= 9


class Counting(dspy.utils.BaseCallback):
    def __init__(self) -> None:
        self.calls = 0

    def on_lm_start(self, call_id: str, instance: Any, inputs: Any) -> None:
        self.calls += 1


def test_callbacks_and_usage_work_while_compiling(serve: Serve) -> None:
    usages: list[Any] = []

    def metric(example: Any, pred: Any, trace: Any = None) -> bool:
        usages.append(pred.get_lm_usage())
        return exact(example, pred)

    model = serve(capital_only)
    callback = Counting()
    dspy.configure(callbacks=[callback], track_usage=True)
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=metric, trials=3, demos=2, budget=BUDGET)
    compiled = optimizer.compile(Draft(), trainset=trainset, valset=valset)
    assert callback.calls >= len(model.sent)
    assert any(usage and sum(entry["total_tokens"] for entry in usage.values()) == 30 for usage in usages)
    assert dspy.settings.callbacks == [callback]
    assert ask(compiled, valset[0]).get_lm_usage()


def test_an_unreadable_reply_is_that_questions_failure_in_a_few_words(
    serve: Serve, capfd: Any, caplog: Any
) -> None:
    serve(lambda prompt: capital_only(prompt) if knows(prompt) else "I would rather not say.")
    trainset, valset = questions()
    optimizer = ragc.Compile(metric=exact, trials=3, demos=2, budget=BUDGET)
    compiled = optimizer.compile(question_answer(), trainset=trainset, valset=valset)
    assert all(ask(compiled, example).answer == example.answer for example in valset)
    printed = caplog.text + "".join(capfd.readouterr())
    assert "Traceback" not in printed
