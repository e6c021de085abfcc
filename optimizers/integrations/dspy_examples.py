"""Converts DSPy examples to our questions, and a DSPy metric to one of our metrics."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from ragc.core.user_code import code_digest
from ragc.corpora.files.splits import normalise
from ragc.errors import UsageError
from ragc.metrics.base import Metric, Outcome
from ragc.metrics.own import own_metric
from ragc.recipe.values import CALLERS_METRIC
from ragc.records import Passage, Question

_KEY = "example"


@dataclass(frozen=True, slots=True)
class ExampleSet:
    """Examples as `questions`, in their order, with the `passages` they contained."""

    questions: tuple[Question, ...]
    passages: tuple[Passage, ...]
    examples: Mapping[str, dspy.Example]


def read_examples(examples: Sequence[dspy.Example], split: str) -> ExampleSet:
    """Returns the questions of `examples`, each with its own id or a number in its `split`.

    An example has `question` and `answers` or `answer`, and may have `passages` or `context` (texts, or
    records of ours), `gold_ids`, `context_ids`, `query_time`, `domain` and `sub_questions`. Raises UsageError
    for others, and where two different examples have one id.
    """
    questions, passages = list[Question](), list[Passage]()
    for number, example in enumerate(examples):
        question, own = _question(example, f"{split}{number}", split)
        questions.append(question)
        passages += own
    if passages and not all(question.context_ids for question in questions):
        raise UsageError(
            f"Some examples of the {split}set come with passages and some do not; give all of them some."
        )
    by_id = dict[str, dspy.Example]()
    for question, example in zip(questions, examples, strict=True):
        if by_id.setdefault(question.id, example) != example:
            raise UsageError(
                f"Two examples of the {split}set have the id {question.id!r}; give each its own, or leave "
                "ids out."
            )
    return ExampleSet(tuple(questions), tuple(passages), by_id)


def distinct_passages(*sets: ExampleSet) -> tuple[Passage, ...]:
    """Returns the passages of all `sets`, each once. Raises UsageError if two different ones have one id."""
    by_id = dict[str, Passage]()
    for passage in (passage for one in sets for passage in one.passages):
        other = by_id.setdefault(passage.id, passage)
        if (other.title, other.text) != (passage.title, passage.text):
            raise UsageError(
                f"Two different passages of the examples have the id {passage.id!r}; give each its own, or "
                "leave their ids out."
            )
    return tuple(by_id.values())


def together(examples: Sequence[dspy.Example]) -> list[list[dspy.Example]]:
    """Returns `examples` by their question, in the order of the first ones."""
    by_text = dict[str | int, list[dspy.Example]]()
    for example in examples:
        text = example.get("question") if isinstance(example, dspy.Example) else None
        by_text.setdefault(normalise(text) if isinstance(text, str) else id(example), []).append(example)
    return list(by_text.values())


def _question(example: dspy.Example, name: str, split: str) -> tuple[Question, list[Passage]]:
    held = example.toDict() if isinstance(example, dspy.Example) else {}
    text, answers = held.get("question"), held.get("answers", held.get("answer"))
    answers = [answers] if isinstance(answers, str) else answers
    if not isinstance(text, str) or not isinstance(answers, list | tuple) or not answers:
        shown = (f"{key} = None" if value is None else key for key, value in held.items())
        fields = ", ".join(shown) or type(example).__name__
        raise UsageError(
            f"An example needs `question` and `answers` or `answer`, found {fields}; add them ({name})."
        )
    name = str(held.get("id") or name)
    own = [
        _passage(passage, f"{name}:{n}")
        for n, passage in enumerate(held.get("passages") or held.get("context") or ())
    ]
    beside = {name: held[name] for name in ("domain", "sub_questions", "qa_pairs") if held.get(name)}
    question = Question(
        id=name,
        question=text,
        answers=tuple(map(str, answers)),
        split=split,
        gold_ids=tuple(held.get("gold_ids") or ()),
        context_ids=tuple(held.get("context_ids") or (passage.id for passage in own)),
        query_time=str(held.get("query_time") or ""),
        extra={_KEY: name, **beside},
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
    """Calls the caller's metric, `metric(example, prediction)`, in a thread of its own.

    The prediction has `answer` and `passages`. An unreadable answer scores 0.
    """

    family, backend = CALLERS_METRIC, "the caller's metric"

    def __init__(self, metric: Callable[..., Any], examples: Mapping[str, dspy.Example]) -> None:
        self._metric, self._examples = metric, examples
        self.code = code_digest(metric, whole_file=False)

    async def assess(self, outcome: Outcome) -> float:
        """Returns the score, 0..1. Raises UsageError when the metric fails or returns anything else."""
        if outcome.prediction is None:
            return 0.0
        example = self._examples[str(outcome.extra[_KEY])]
        prediction = dspy.Prediction(answer=outcome.prediction, passages=outcome.passages)
        try:
            score = await asyncio.to_thread(self._metric, example, prediction)
        except Exception as error:
            raise UsageError(
                f"The metric failed on the question {outcome.question!r} ({type(error).__name__}: {error}); "
                "it is called as metric(example, prediction)."
            ) from error
        return _share(getattr(score, "score", score))

    @property
    def as_metric(self) -> Metric:
        """Returns the metric that reads the scores of this assessor."""
        name = getattr(self._metric, "__name__", CALLERS_METRIC)
        return own_metric(CALLERS_METRIC, f"the caller's {name}")


def _share(score: Any) -> float:
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value <= 1:
        raise UsageError(
            f"A metric gives True, False or a number from 0 to 1, and it gave {score!r}; scale it."
        )
    return value
