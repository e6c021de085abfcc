"""Examples of DSPy as questions, and a metric of DSPy as one of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from ragc.core.user_code import code_digest
from ragc.corpora.files.splits import normalise
from ragc.errors import UsageError
from ragc.metrics.base import Metric, Outcome
from ragc.metrics.own import MetricFunction, own_metric
from ragc.programs.calls.demos import plain
from ragc.recipe.values import CALLERS_METRIC
from ragc.records import Passage, Question
from ragc.task.answering import as_text

SHOWN = 200
"""The most characters of the text that stands for the inputs of an example."""


@dataclass(frozen=True, slots=True)
class ExampleSet:
    """Examples as `questions`, in their order, with the `passages` they contained."""

    questions: tuple[Question, ...]
    passages: tuple[Passage, ...] = ()


def read_examples(examples: Sequence[dspy.Example], split: str) -> ExampleSet:
    """Returns the questions of `examples` for a user's own module, each with its own id or a number.

    The inputs of an example (`with_inputs`) are those of the question; all other fields are gold. Raises
    UsageError for an example without inputs, and where two different examples have one id.
    """
    questions = []
    for number, example in enumerate(examples):
        values = _fields(example, f"{split}{number}")
        try:
            inputs = dict(example.inputs())
        except ValueError:
            inputs = {}
        if not inputs:
            raise UsageError(
                f"The example {split}{number} does not say which of its fields are inputs; call its "
                f"with_inputs(...), with some of {', '.join(values)}."
            )
        gold = {name: value for name, value in values.items() if name not in inputs and name != "id"}
        questions.append(
            Question(
                id=str(values.get("id") or f"{split}{number}"),
                question=_listed(inputs, "question"),
                answers=_answers(gold) or ((_listed(gold, "answer"),) if gold else ()),
                split=split,
                inputs=inputs,
                example=example,
            )
        )
    _check_ids(questions, split)
    return ExampleSet(tuple(questions))


def read_questions(examples: Sequence[dspy.Example], split: str, *, gold: bool) -> ExampleSet:
    """Returns the questions of `examples` for a program of ragc, each with its own id or a number.

    An example has `question`, and where `gold` is needed `answers` or `answer`; it may have `passages` or
    `context` (a text or several, or records of ours), `gold_ids`, `context_ids`, `query_time`, `domain` and
    `sub_questions`. Raises UsageError for others, and where two different examples have one id.
    """
    questions, passages = list[Question](), list[Passage]()
    for number, example in enumerate(examples):
        question, own = _question(example, f"{split}{number}", split, gold)
        questions.append(question)
        passages += own
    if passages and not all(question.context_ids for question in questions):
        raise UsageError(
            f"Some examples of the {split}set come with passages and some do not; give all of them some."
        )
    _check_ids(questions, split)
    return ExampleSet(tuple(questions), tuple(passages))


def distinct_passages(*sets: ExampleSet) -> tuple[Passage, ...]:
    """Returns the passages of all `sets`, each once. Raises UsageError if two different ones have one id."""
    by_id = dict[str, Passage]()
    for passage in (passage for each in sets for passage in each.passages):
        if by_id.setdefault(passage.id, passage) != passage:
            raise UsageError(
                f"Two different passages of the examples have the id {passage.id!r}; give each its own, or "
                "leave their ids out."
            )
    return tuple(by_id.values())


def together(examples: Sequence[dspy.Example], questions: Sequence[Question]) -> list[list[dspy.Example]]:
    """Returns `examples` by what they ask, as their `questions` say, in the order of the first ones."""
    by_text = dict[str, list[dspy.Example]]()
    for example, question in zip(examples, questions, strict=True):
        by_text.setdefault(normalise(question.whole_text), []).append(example)
    return list(by_text.values())


def _fields(example: Any, name: str) -> dict[str, Any]:
    """Returns the fields of `example` as they are. Raises UsageError for what is no example."""
    if not isinstance(example, dspy.Example):
        raise UsageError(f"An example is a dspy.Example, found {type(example).__name__} ({name}).")
    return dict(example.items())


def _check_ids(questions: Sequence[Question], split: str) -> None:
    by_id = dict[str, Any]()
    for question in questions:
        if by_id.setdefault(question.id, question.example) != question.example:
            raise UsageError(
                f"Two examples of the {split}set have the id {question.id!r}; give each its own, or leave "
                "ids out."
            )


def _listed(values: Mapping[str, Any], name: str) -> str:
    """Returns what stands for `values`: the text of the field `name`, or of the only one, else of all."""
    value = values[name] if name in values else next(iter(values.values()))
    if name not in values and len(values) > 1:
        value = plain(values)
    text = as_text(value)
    return text if name in values or len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _answers(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the gold answers in `values` as texts; () for none."""
    answers = values.get("answers", values.get("answer"))
    listed = answers if isinstance(answers, list | tuple) else () if answers is None else (answers,)
    return tuple(map(as_text, listed))


def _question(example: dspy.Example, name: str, split: str, gold: bool) -> tuple[Question, list[Passage]]:
    values = _fields(example, name)
    text, answers = values.get("question"), _answers(values)
    if not isinstance(text, str) or (gold and not answers):
        needed = "`question` and `answers` or `answer`" if gold else "a text as `question`"
        shown = (f"{key} = None" if value is None else key for key, value in values.items())
        raise UsageError(f"An example needs {needed}, found {', '.join(shown)}; add them ({name}).")
    name = str(values.get("id") or name)
    given = values.get("passages") or values.get("context") or ()
    listed = (given,) if isinstance(given, str | Passage | Mapping) else given
    own = [_passage(passage, f"{name}:{n}") for n, passage in enumerate(listed)]
    question = Question(
        id=name,
        question=text,
        answers=answers,
        split=split,
        gold_ids=tuple(values.get("gold_ids") or ()),
        context_ids=tuple(values.get("context_ids") or (passage.id for passage in own)),
        query_time=str(values.get("query_time") or ""),
        extra={name: values[name] for name in ("domain", "sub_questions", "qa_pairs") if values.get(name)},
        example=example,
    )
    return question, own


def _passage(item: Any, name: str) -> Passage:
    if isinstance(item, Passage):
        return item
    if isinstance(item, Mapping) and "text" in item:
        return Passage(str(item.get("id") or name), str(item.get("title") or ""), str(item["text"]))
    if isinstance(item, str):
        return Passage(name, "", item)
    raise UsageError(f"A passage of an example is a text or has a `text`, found {item!r}.")


class ExampleAssessor:
    """Calls the user's `metric` with the example and the whole prediction.

    Raises UsageError if it is no function of two places. An unreadable answer scores 0.
    """

    family, backend = CALLERS_METRIC, "the caller's metric"

    def __init__(self, metric: Callable[..., Any]) -> None:
        self._name = getattr(metric, "__name__", CALLERS_METRIC)
        self._metric = MetricFunction(metric, f"The metric {self._name!r}")
        self.code = code_digest(metric, whole_file=False)

    async def assess(self, outcome: Outcome) -> float:
        """Returns the score. Raises MetricFailure where the metric gives none."""
        if outcome.prediction is None:
            return 0.0
        return await self._metric.score(outcome.example, outcome.output, outcome.steps)

    @property
    def as_metric(self) -> Metric:
        """Returns the metric that reads the scores of this assessor."""
        return own_metric(CALLERS_METRIC, f"the caller's {self._name}")
