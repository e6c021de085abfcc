"""Self-Eval and SKR-KNN: a gate decides whether to answer from passages or from what the model knows.

Both answer from passages as in `vanilla`, or from what the model knows as in `no_retrieval`.

Self-Eval: the model says whether it needs additional information; only then is anything retrieved.
Paper: Self-Eval (Kadavath et al. 2022) as SlimPLM compares with it, section 4.3. Two typed calls: the gate,
then the answer.
Differs: the three examples of the gate are ours and stand in its instructions, demonstrations are collected
like any other; a gate that cannot be read counts as a need.

SKR-KNN: train questions like this one say whether retrieval helps.
Paper: SKR (Wang et al. 2023) with nearest neighbours as SlimPLM compares with it, section 4.3. `fit`
determines on train questions where retrieval changed this program's answer for better or worse; ties are
left out. A new question goes by its `skr_k` most similar ones, and is then answered in one call.
Differs: questions are compared by the embedder of a source that has one (`encoder`), else by BM25, which the
trace notes and the tally `skr_bm25` counts; BM25 matches only questions that share a word, so there may be
fewer than `skr_k`. The rule
`margin` takes the number of these neighbours for k, and that of the labelled questions for the size of the
training set. A question is never its own neighbour. Without labels (`skr_unlabelled`) or without a question
alike (`skr_alone`) it retrieves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import dspy

from ragc.core import event_loop
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.errors import ParseFailure, UsageError
from ragc.metrics.base import Outcome, Scorer
from ragc.programs.base import LearnsLabels, unless_failed
from ragc.programs.baselines.knobs import SkrKnnKnobs, VanillaKnobs
from ragc.programs.baselines.vanilla import Vanilla
from ragc.programs.likeness import Likeness
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage, Question
from ragc.signatures.answer import ClosedBookAnswer
from ragc.signatures.grade import NeedInfo


class GatedProgram(Vanilla):
    """Answers as `vanilla` does if `needs` returns True, and as `no_retrieval` does otherwise."""

    def __init__(self, runtime: Runtime, knobs: VanillaKnobs) -> None:
        super().__init__(runtime, knobs)
        self.closed = self.answer_call(ClosedBookAnswer)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Asks the gate, then answers with or without passages."""
        needed, tallies = await self.needs(question)
        prediction = await (self.answer_retrieved if needed else self.answer_closed)(question, **context)
        prediction.tallies = {"retrieved": int(needed), **tallies}
        return prediction

    async def needs(self, question: str) -> tuple[bool, Mapping[str, int]]:
        """Returns whether `question` needs passages, and the gate's own counts."""
        raise NotImplementedError(f"{type(self).__name__} has no gate")

    async def answer_retrieved(self, question: str, **context: Any) -> dspy.Prediction:
        """Returns the answer from passages, whatever the gate decides."""
        return await super().aforward(question, **context)

    async def answer_closed(self, question: str, **context: Any) -> dspy.Prediction:
        """Returns the answer without passages, whatever the gate decides."""
        reply = await self.closed.acall(question=question)
        return dspy.Prediction(answer=reply.answer, passages=())


class SelfEval(GatedProgram):
    """A gate that asks the model itself, then one answering call."""

    def __init__(self, runtime: Runtime, knobs: VanillaKnobs) -> None:
        super().__init__(runtime, knobs)
        self.gate = self.predictor(NeedInfo, max_tokens=30)

    async def needs(self, question: str) -> tuple[bool, Mapping[str, int]]:
        """Returns whether the model says that it needs passages; True when its reply cannot be read."""
        reply = await self.gate.try_call(question=question)
        return reply is None or bool(reply.need), {}


How = Literal["better", "worse"]
Label = tuple[str, How]
"""A train question, and whether retrieval made its answer better or worse."""


def should_retrieve(better: int, worse: int, all_better: int, all_worse: int, rule: str) -> bool:
    """Returns whether to retrieve, from the labels of the neighbours and of all train questions.

    `majority`: unless more neighbours say worse. `margin`: the commoner label in training decides if it leads
    among the neighbours by at least its lead in training, scaled down to their number; else the rarer one
    decides. The commoner label is `worse` only when it leads in training.
    """
    if rule == "majority":
        return better >= worse
    margin = int(abs(all_worse - all_better) * (better + worse) / (all_better + all_worse))
    if all_better < all_worse:
        return not (worse > better and worse - better >= margin)
    return better > worse and better - worse >= margin


class SkrKnn(LearnsLabels, GatedProgram):
    """Neighbours among labelled train questions decide, then one answering call."""

    def __init__(self, runtime: Runtime, knobs: SkrKnnKnobs) -> None:
        super().__init__(runtime, knobs)
        self.likeness = Likeness(runtime, knobs.encoder)
        self.labels = ()

    @property
    def labels(self) -> tuple[Label, ...]:
        """Train questions and whether retrieval made their answer better or worse; `fit` sets them.

        Assign pairs to change them. Raises UsageError for another label, or a question given twice.
        """
        return self._labels

    @labels.setter
    def labels(self, pairs: Iterable[Any]) -> None:
        labels: dict[str, How] = {}
        for pair in pairs:
            match pair:
                case (str(question), "better" | "worse" as how):
                    if question in labels:
                        raise UsageError(f"The question {question!r} has two labels; give it one.")
                    labels[question] = how
                case _:
                    raise UsageError(f"A label is a question with 'better' or 'worse', found {pair!r}.")
        self._labels = tuple(labels.items())
        self._labelled = tuple(Passage(f"{at:06d}", "", q) for at, q in enumerate(labels))
        self._index = Bm25Source(self._labelled) if labels else None

    async def fit(self, questions: Sequence[Question], scorer: Scorer) -> None:
        """Labels `questions`, which must be train questions, by how `scorer` scores their answers.

        Each is answered without and with passages, with the present demonstrations; all at once, as far as
        the targets allow. A question where both score the same, or where `scorer` does not apply, gets no
        label. If a question comes twice the first counts.
        """
        self.labels = await event_loop.on_loop(self._label(questions, scorer))

    async def _label(self, questions: Sequence[Question], scorer: Scorer) -> list[Label]:
        by_text: dict[str, Question] = {}
        for question in questions:
            by_text.setdefault(question.question, question)
        ways = (self.answer_closed, self.answer_retrieved)
        scores = await together(*(self._score(way, q, scorer) for q in by_text.values() for way in ways))
        labels: list[Label] = []
        for text, without, with_passages in zip(by_text, scores[::2], scores[1::2], strict=True):
            if without is not None and with_passages is not None and without != with_passages:
                better = (with_passages > without) == scorer.metrics[0].higher_is_better
                labels.append((text, "better" if better else "worse"))
        return labels

    async def _score(
        self, way: Callable[..., Awaitable[dspy.Prediction]], question: Question, scorer: Scorer
    ) -> float | None:
        """Returns the score of an answer given in one `way`; an unreadable one counts as no answer.

        None where the scorer does not apply, or a request failed.
        """
        asked = {"question": question.question, **question.context()}
        try:
            prediction = await unless_failed(self._run_recorded(way, asked))
            if prediction is None:
                return None
        except ParseFailure:
            outcome = Outcome.of(question, None)
        else:
            outcome = Outcome.of(question, str(prediction.answer), prediction.passages, prediction.counters)
        return (await scorer.score(outcome)).scores[scorer.metrics[0].id]

    async def needs(self, question: str) -> tuple[bool, Mapping[str, int]]:
        """Returns whether passages are needed, by the labels of similar train questions."""
        alike = await self._nearest_labels(question)
        tallies = {
            "skr_bm25": int(bool(self.labels) and not self.likeness.embeds),
            "skr_unlabelled": int(self._index is None),
            "skr_alone": int(self._index is not None and not alike),
        }
        if not alike:
            why = "no train question is like this one" if self.labels else "there are no labels"
            record(Note("neighbours", f"{why}: retrieve"))
            return True, tallies
        near, all_ = Counter(alike), Counter(how for _, how in self.labels)
        needed = should_retrieve(
            near["better"], near["worse"], all_["better"], all_["worse"], self.knobs.skr_rule
        )
        votes = f"{near['better']} better, {near['worse']} worse: {'retrieve' if needed else 'do not'}"
        record(Note("neighbours", f"{self.likeness.name}, {votes}"))
        return needed, tallies

    async def _nearest_labels(self, question: str) -> list[How]:
        """Returns the labels of the `skr_k` train questions most like `question`, itself not among them."""
        if self._index is None:
            return []
        if self.likeness.embeds:
            scores = await self.likeness.scores(question, self._labelled)
            order = sorted(range(len(scores)), key=lambda at: -scores[at])
            near = [self._labelled[at].text for at in order]
        else:
            near = [hit.passage.text for hit in await self._index.search(question, self.knobs.skr_k + 1)]
        known = dict(self.labels)
        return [known[text] for text in near if text != question][: self.knobs.skr_k]
