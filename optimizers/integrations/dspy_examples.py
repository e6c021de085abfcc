"""Examples of DSPy as questions, and a metric of DSPy as one of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import dspy

from ragc.core.user_code import code_digest
from ragc.corpora.files.splits import normalise
from ragc.errors import UsageError
from ragc.metrics.base import Metric, Outcome
from ragc.metrics.own import MetricFunction, own_metric
from ragc.recipe.values import CALLERS_METRIC
from ragc.records import Passage, Question
from ragc.task.answering import as_text

SHOWN = 200
"""The most characters of the text that stands for the inputs of an example."""


ExampleSet = tuple[tuple[Question, ...], tuple[Passage, ...]]


def read_examples(
    examples: Sequence[dspy.Example], split: str, *, own: bool = False, gold: bool = False
) -> ExampleSet:
    """Returns the questions of `examples`, each with its own id or a number, and the passages they contain.

    For a user's `own` module the inputs of an example (`with_inputs`) are those of the question, and all
    other fields are gold. For a program of ragc an example has `question`, and may have `passages` or
    `context` (a text or several, or records of ours), `gold_ids`, `context_ids`, `query_time`, `domain` and
    `sub_questions`. With `gold` it needs `answers` or `answer`. Raises UsageError for others, and where two
    different examples have one id.
    """
    by_id, passages = dict[str, Any](), list[Passage]()
    questions = []
    for number, example in enumerate(examples):
        name = f"{split}{number}"
        if not isinstance(example, dspy.Example):
            raise UsageError(f"An example is a dspy.Example, found {type(example).__name__} ({name}).")
        values = dict(example.items())
        answers = _answers(values)
        if (gold and not answers) or not (own or isinstance(values.get("question"), str)):
            needed = "`answers` or `answer`" if own else "`question`"
            needed += " and `answers` or `answer`" if gold and not own else ""
            shown = (f"{key} = None" if value is None else key for key, value in values.items())
            raise UsageError(f"An example needs {needed}, found {', '.join(shown)}; add them ({name}).")
        name = str(values.get("id") or name)
        if by_id.setdefault(name, example) != example:
            raise UsageError(
                f"Two examples of the {split}set have the id {name!r}; give each its own, or leave ids out."
            )
        if own:
            questions.append(_question_of_inputs(example, name, split, answers))
        else:
            own_passages = _passages(values, name)
            passages += own_passages
            questions.append(_question(example, name, split, answers, own_passages))
    if passages and not all(question.context_ids for question in questions):
        raise UsageError(
            f"Some examples of the {split}set come with passages and some do not; give all of them some."
        )
    return tuple(questions), tuple(passages)


def distinct_passages(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """Returns `passages`, each once. Raises UsageError if two different ones have one id."""
    by_id = dict[str, Passage]()
    for passage in passages:
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


def _answers(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the gold answers in `values` as texts; () for none."""
    answers = values.get("answers", values.get("answer"))
    listed = answers if isinstance(answers, list | tuple) else () if answers is None else (answers,)
    return tuple(map(as_text, listed))


def _question_of_inputs(example: dspy.Example, name: str, split: str, answers: tuple[str, ...]) -> Question:
    """Returns the question of a user's module; without answers, all its gold stands for them."""
    try:
        inputs = dict(example.inputs())
    except ValueError:
        inputs = {}
    if not inputs:
        raise UsageError(
            f"The example {name} does not say which of its fields are inputs; call its with_inputs(...), "
            f"with some of {', '.join(example.keys())}."
        )
    labels = {name: value for name, value in example.items() if name not in inputs and name != "id"}
    text = as_text(inputs.get("question") or inputs)
    return Question(
        id=name,
        question=text if "question" in inputs or len(text) <= SHOWN else f"{text[:SHOWN]}…",
        answers=answers or ((as_text(labels),) if labels else ()),
        split=split,
        inputs=inputs,
        example=example,
    )


def _question(
    example: dspy.Example, name: str, split: str, answers: tuple[str, ...], passages: Sequence[Passage]
) -> Question:
    extra = {name: example[name] for name in ("domain", "sub_questions", "qa_pairs") if example.get(name)}
    return Question(
        id=name,
        question=example["question"],
        answers=answers,
        split=split,
        gold_ids=tuple(example.get("gold_ids") or ()),
        context_ids=tuple(example.get("context_ids") or (passage.id for passage in passages)),
        query_time=str(example.get("query_time") or ""),
        extra=extra,
        example=example,
    )


def _passages(values: Mapping[str, Any], name: str) -> list[Passage]:
    given = values.get("passages") or values.get("context") or ()
    listed = (given,) if isinstance(given, str | Passage | Mapping) else given
    return [_passage(passage, f"{name}:{n}") for n, passage in enumerate(listed)]


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

    Of a module `of_user` the prediction has meanwhile what plain DSPy gives, and not what ragc adds. Raises
    UsageError if it is no function of two places. An unreadable answer scores 0.
    """

    family, backend = CALLERS_METRIC, "the caller's metric"

    def __init__(self, metric: Callable[..., Any]) -> None:
        self._name = getattr(metric, "__name__", CALLERS_METRIC)
        self._metric = MetricFunction(metric, f"The metric {self._name!r}", "example, prediction")
        self.code = code_digest(metric, whole_file=False)
        self.of_user = False

    async def assess(self, outcome: Outcome) -> float:
        """Returns the score. Raises MetricFailure where the metric gives none."""
        if outcome.prediction is None:
            return 0.0
        prediction = outcome.output
        added = {name: prediction[name] for name in ("trace", "counters") if self.of_user}
        for name in added:
            del prediction[name]
        try:
            return await self._metric.score(outcome.example, prediction, outcome.steps)
        finally:
            for name, value in added.items():
                prediction[name] = value

    @property
    def as_metric(self) -> Metric:
        """Returns the metric that reads the scores of this assessor."""
        return own_metric(CALLERS_METRIC, f"the caller's {self._name}")
