"""ragc.Compile on DSPy programs as their users write them: any fields, any metric, the user's class back."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy import lm15

import ragc
from ragc.core import event_loop
from ragc.errors import UsageError
from ragc.metrics.base import Outcome
from ragc.optimizers.integrations.dspy_examples import ExampleAssessor, read_examples

Script = Callable[[str, bool], dict[str, Any]]


class Engine:
    """A scripted engine of DSPy's kind: `script` gives the fields for the last message, and whether examples
    were shown.
    """

    supports_function_calling = supports_reasoning = False
    supports_response_schema = True
    supported_params = frozenset({"temperature", "max_tokens"})

    def __init__(self, script: Script) -> None:
        self.script, self.requests = script, list[Any]()

    def __deepcopy__(self, memo: object) -> Engine:
        return self

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.requests.append(request)
        fields = self.script(str(request.messages[-1]), len(request.messages) > 1)
        text = "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in fields.items())
        return lm15.Response(
            id=None, model="scripted", message=lm15.Message.assistant(f"{text}[[ ## completed ## ]]"),
            finish_reason="stop", usage=lm15.Usage(input_tokens=7, output_tokens=3),
        )  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))


@pytest.fixture
def using() -> Iterator[Callable[[Script], Engine]]:
    """Configures an LM on a scripted engine until the test ends."""
    contexts = []

    def use(script: Script) -> Engine:
        engine = Engine(script)
        context = dspy.context(lm=dspy.LM("scripted/model", engine=engine, cache=False))
        context.__enter__()
        contexts.append(context)
        return engine

    yield use
    for context in reversed(contexts):
        context.__exit__(None, None, None)


def number_in(text: str) -> int:
    return int(re.findall(r"number (\d+)", text)[-1])


class Summarise(dspy.Module):
    """Any fields, one of them typed, and no question."""

    words = ragc.number(3, 1, 8)

    def __init__(self) -> None:
        super().__init__()
        self.write = dspy.Predict("document: str, tags: list[str] -> summary: str, length: int")

    def forward(self, document: str, tags: list[str]) -> Any:
        return self.write(document=document, tags=tags)


def summarises(text: str, shown: bool) -> dict[str, Any]:
    """Short where examples were shown, and for every fourth document anyway."""
    n = number_in(text)
    short = shown or n % 4 == 0
    return {"summary": f"S{n}" if short else f"A long text on {n}", "length": n}


def document(n: int, **more: Any) -> dspy.Example:
    values = {"document": f"Document number {n}", "tags": ["a", "b"], "gold": {"short": f"S{n}"}, **more}
    return dspy.Example(**values).with_inputs("document", "tags")


DOCUMENTS = [document(n) for n in range(40)]


def is_short(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
    return bool(prediction.summary == example.gold["short"])


def test_one_text_as_context_of_a_program_of_ragc_is_one_passage() -> None:
    example = dspy.Example(question="Why?", context="One text.")
    _, (passage,) = read_examples([example], "val")
    assert passage.text == "One text."


def test_example_without_inputs_is_refused_in_a_sentence(using: Any) -> None:
    using(summarises)
    bare = [dspy.Example(document="Document number 1", gold="x")]
    with pytest.raises(UsageError, match=r"train0 does not say .* with_inputs\(\.\.\.\), .* document, gold"):
        ragc.Compile(metric=is_short).compile(Summarise(), trainset=bare, valset=DOCUMENTS)


def test_examples_that_share_a_field_are_told_apart_by_all_inputs() -> None:
    rows = [dspy.Example(question="Why?", context=text).with_inputs("question", "context") for text in "ab"]
    (first, second), _ = read_examples(rows, "train", own=True)
    assert first.question == second.question == "Why?"
    assert first.whole_text != second.whole_text


class Called:
    def __call__(self, example: Any, pred: Any, trace: Any = None) -> float:
        return 0.5


def by_name(example: Any, pred: Any, *, trace: Any) -> int:
    assert trace is None
    return 4


class AsModule(dspy.Module):
    def forward(self, example: Any, pred: Any, trace: Any = None) -> bool:
        return trace is None


METRICS: dict[str, tuple[Any, float]] = {
    "two places": (lambda example, pred: True, 1.0),
    "dictionary": (lambda example, pred, trace=None: {"score": 7, "feedback": "more"}, 7.0),
    "any places": (lambda *places: len(places), 2.0),
    "callable": (Called(), 0.5),
    "module": (AsModule(), 1.0),
    "by name": (by_name, 4.0),
}


@pytest.mark.parametrize("name", METRICS)
def test_metric_is_called_as_dspys_users_write_it(using: Any, name: str) -> None:
    using(summarises)
    metric, mean = METRICS[name]
    optimizer = ragc.Compile(metric=metric, trials=1, demos=0, knobs="all")
    optimizer.compile(Summarise(), trainset=[], valset=DOCUMENTS[:6])
    assert optimizer.compiled is not None
    dev = optimizer.compiled.provenance["dev"]["winner"]["metric"]
    assert dev["mean"] == pytest.approx(mean)
    assert dev["ci"][0] <= dev["mean"] <= dev["ci"][1]


@pytest.mark.parametrize(
    "metric",
    [
        lambda gold, pred: None if pred.length < 3 else -5.0 + pred.length / 10,
        lambda gold, pred: math.nan if pred.length < 3 else -5.0 + pred.length / 10,
        lambda gold, pred: gold.colour if pred.length < 3 else -5.0 + pred.length / 10,
        lambda gold, pred: next(iter(())) if pred.length < 3 else -5.0 + pred.length / 10,
    ],
)
def test_metric_without_a_score_is_a_failure_of_its_question_at_the_worst_score(
    using: Any, metric: Any
) -> None:
    using(summarises)
    optimizer = ragc.Compile(metric=metric, trials=1, demos=0, knobs="all")
    optimizer.compile(Summarise(), trainset=[], valset=DOCUMENTS[:8])
    assert optimizer.compiled is not None
    provenance = optimizer.compiled.provenance
    assert provenance["failures"]["dev"]["baseline"]["kinds"] == {"unscored": 3}
    assert "The metric '<lambda>'" in provenance["failures"]["dev"]["baseline"]["reasons"][0]["reason"]
    scores = [-4.7] * 4 + [-4.6, -4.5, -4.4, -4.3]
    assert provenance["dev"]["baseline"]["metric"]["mean"] == pytest.approx(sum(scores) / 8)


def test_metric_that_ends_the_process_is_told(using: Any) -> None:
    assessor = ExampleAssessor(lambda gold, pred: exit(3))
    with pytest.raises(UsageError, match="ended the process"):
        event_loop.run(assessor.assess(Outcome("x", output=dspy.Prediction(answer="x"))))


def bootstrapped(using: Any, metric: Any, trainset: list[dspy.Example], **more: Any) -> tuple[Any, list[str]]:
    using(summarises)
    lines: list[str] = []
    optimizer = ragc.Compile(metric=metric, trials=1, demos=2, progress=lines.append, **more)
    compiled = optimizer.compile(Summarise(), trainset=trainset, valset=[document(n) for n in range(90, 96)])
    return compiled, [line for line in lines if line.startswith("demonstrations: ")]


def test_bootstrapping_leaves_half_of_the_budget_to_the_trials(using: Any) -> None:
    def never(example: Any, prediction: Any, trace: Any = None) -> bool:
        return trace is None

    _, (line,) = bootstrapped(using, never, [document(n) for n in range(80)], budget={"lm_calls": 102})
    assert "(48 train questions were answered for them)" in line


@pytest.mark.parametrize(
    ("threshold", "score", "taken"),
    [
        (None, lambda n: n % 2 == 0, {0, 2, 4, 6}),
        (None, lambda n: -1.0 - n % 2, {0, 2, 4, 6}),
        (None, lambda n: 0.5, {0, 1, 2, 3, 4, 5, 6, 7}),
        (None, lambda n: 0.0, set()),
        (0.5, lambda n: n / 10, {5, 6, 7}),
        (6, lambda n: n, {6, 7}),
    ],
)
def test_demonstrations_are_those_that_the_metric_takes(
    using: Any, threshold: Any, score: Any, taken: set[int]
) -> None:
    def metric(example: Any, prediction: Any, trace: Any = None) -> Any:
        return 1.0 if trace is None else score(prediction.length)

    examples = [document(n) for n in range(8)]
    _, (line,) = bootstrapped(using, metric, examples, metric_threshold=threshold)
    assert line.startswith(f"demonstrations: {len(taken)} bootstrapped")


def test_labelled_demonstrations_are_examples_with_fields_of_the_predictor(using: Any) -> None:
    def never(example: Any, prediction: Any, trace: Any = None) -> float:
        return float(trace is None and prediction.summary.startswith("S"))

    labelled = [document(n, summary=f"S{n}") for n in range(1, 12, 4)]
    compiled, (line,) = bootstrapped(using, never, [*labelled, document(13)], demo_kinds=["labelled"])
    assert line.startswith("demonstrations: 0 bootstrapped")
    assert len(compiled.write.demos) in (1, 2)
    assert all(set(demo.keys()) == {"document", "tags", "summary"} for demo in compiled.write.demos)


def test_candidates_that_show_one_program_are_one(using: Any) -> None:
    using(summarises)
    lines: list[str] = []
    kinds = ["filled", "bootstrapped", "labelled"]
    optimizer = ragc.Compile(metric=is_short, trials=8, demos=4, demo_kinds=kinds, progress=lines.append)
    optimizer.compile(Summarise(), trainset=[document(n) for n in (4, 5, 6)], valset=DOCUMENTS[10:22])
    trials = [line for line in lines if re.match(r"trial [1-9]", line)]
    assert any("; " not in line and "1 demonstration, set 0" in line for line in trials)
    assert not any(re.search(r"[2-4] (\w+ )?demonstrations|set [1-9]|labelled", line) for line in trials)
