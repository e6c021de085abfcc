"""SKR-KNN: train questions like this one say whether retrieval helps.

Paper: SKR's nearest neighbours as SlimPLM's tables use them (METHODS section 6). `label` finds out on
train questions where retrieval made a program better or worse; a new question goes by its `skr_k` most
similar ones, and is then answered as in `vanilla` or `no_retrieval`, in one call.
Differs: questions are compared by BM25 in place of an encoder, which finds only questions that share a
word, so there may be fewer than `skr_k`, and the margin is taken over those found; the question itself is
never its own neighbour; without labels, or without a question alike, it always retrieves and notes so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import dspy

from ragc import loop
from ragc.corpora.bm25 import Bm25Source
from ragc.errors import ParseFailure, UsageError
from ragc.metrics.outcome import Metric, Outcome
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.programs.skr_knn_knobs import SkrKnnKnobs
from ragc.programs.trace import Note, record, together
from ragc.programs.vanilla import Vanilla
from ragc.records import Passage, Question
from ragc.signatures.answers import ClosedBookAnswer

Label = tuple[str, Literal["better", "worse"]]


def helps(better: int, worse: int, all_better: int, all_worse: int, rule: str) -> bool:
    """Whether to retrieve, from the labels of the neighbours and of all train questions.

    `majority`: unless more neighbours say worse. `margin`: the commoner label of training must lead among
    the neighbours by at least as much as it leads there, scaled down to their number; else the rarer one
    decides. The commoner one is `worse` only when it leads in training.
    """
    if rule == "majority":
        return better >= worse
    margin = int(abs(all_worse - all_better) * (better + worse) / (all_better + all_worse))
    if all_better < all_worse:
        return not (worse > better and worse - better >= margin)
    return better > worse and better - worse >= margin


class SkrKnn(Vanilla):
    """Neighbours among labelled train questions decide, then one answering call."""

    def __init__(self, runtime: Runtime, knobs: SkrKnnKnobs) -> None:
        super().__init__(runtime, knobs)
        self.closed = self.answering(ClosedBookAnswer)
        self.labels = ()

    @property
    def labels(self) -> tuple[Label, ...]:
        """Train questions and whether retrieval made their answer better or worse; `label` makes them.

        Assign pairs to change them. Raises UsageError for another label, or a question given twice.
        """
        return self._labels

    @labels.setter
    def labels(self, pairs: Iterable[tuple[str, str]]) -> None:
        made: dict[str, Literal["better", "worse"]] = {}
        for question, how in pairs:
            if how not in ("better", "worse"):
                raise UsageError(f"A label must be 'better' or 'worse', found {how!r} for {question!r}.")
            if question in made:
                raise UsageError(f"The question {question!r} has two labels; give it one.")
            made[question] = "better" if how == "better" else "worse"
        self._labels = tuple(made.items())
        self._index = Bm25Source(Passage(f"{at:06d}", "", q) for at, q in enumerate(made)) if made else None

    def dump_state(self, *args: Any, **more: Any) -> dict[str, Any]:
        """DSPy's state, and the labels."""
        return {**super().dump_state(*args, **more), "labels": [list(pair) for pair in self.labels]}

    def load_state(self, state: dict[str, Any], *args: Any, **more: Any) -> None:
        """Take over the predictors and the labels of `state`."""
        super().load_state({k: v for k, v in state.items() if k != "labels"}, *args, **more)
        self.labels = state.get("labels", ())

    def most_calls(self) -> int:
        """One, with passages or without."""
        return 1

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Let the questions alike decide, then answer with or without passages."""
        if await self._retrieves(question):
            said = await super().aforward(question, **context)
            said.tallies = {"retrieved": 1}
            return said
        said = await self.closed.acall(question=question)
        return dspy.Prediction(answer=said.answer, passages=(), tallies={"retrieved": 0})

    async def _retrieves(self, question: str) -> bool:
        if self._index is None:
            record(Note("labels", "there are none, so it always retrieves"))
            return True
        hits = await self._index.search(question, self.knobs.skr_k + 1)
        known = dict(self.labels)
        alike = [known[hit.passage.text] for hit in hits if hit.passage.text != question][: self.knobs.skr_k]
        if not alike:
            record(Note("labels", "no train question is like this one, so it retrieves"))
            return True
        near, all_ = Counter(alike), Counter(known.values())
        chosen = helps(near["better"], near["worse"], all_["better"], all_["worse"], self.knobs.skr_rule)
        outcome = f"{near['better']} better, {near['worse']} worse: {'retrieve' if chosen else 'do not'}"
        record(Note("train questions alike by BM25", outcome))
        return chosen


def label(
    pair: tuple[RagProgram, RagProgram], questions: Sequence[Question], metric: Metric
) -> tuple[Label, ...]:
    """Whether retrieval made each of `questions` better or worse by `metric`; ties are left out.

    `pair` is the program that does not retrieve and the one that does, in this order. All questions are
    answered at once, as far as the targets allow. Use train questions only.
    """
    return loop.run(_labelled(pair, questions, metric))


async def _labelled(
    pair: tuple[RagProgram, RagProgram], questions: Sequence[Question], metric: Metric
) -> tuple[Label, ...]:
    scores = await together(*(_score(program, q, metric) for q in questions for program in pair))
    made: list[Label] = []
    for question, without, retrieved in zip(questions, scores[::2], scores[1::2], strict=True):
        if without is not None and retrieved is not None and without != retrieved:
            made.append((question.question, "better" if retrieved > without else "worse"))
    return tuple(made)


async def _score(program: RagProgram, question: Question, metric: Metric) -> float | None:
    """The score of one answer; one that cannot be read is no answer."""
    context = {"id": question.id, "context_ids": question.context_ids, "query_time": question.query_time}
    try:
        said = await program.acall(question=question.question, **context)
    except ParseFailure:
        return metric.score(Outcome.of(question, None, (), {}))
    return metric.score(Outcome.of(question, str(said.answer), said.passages, said.counters))
