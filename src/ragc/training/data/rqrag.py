"""Search-augmented trajectories for RQ-RAG, for supervised fine-tuning (SFT).

Paper: RQ-RAG, section 2.1 and appendix A. The teacher writes queries of the kind that fits the data set
(rewrite for single questions, decompose for several hops, disambiguate for several readings), each query is
searched, and the teacher answers from what was found. A trajectory is left out where its passages miss the
supporting ones, where the teacher refuses, or where a reply cannot be read. With `retention` above 0 a share
of the trajectories ends in the data set's own answer; none did best in the paper (section 4.4).

A row with control tokens is a conversation: a query behind its token, the passages in the next message, and
the answer behind its token at the end.

    user       the question
    assistant  [S_Decomposed_Query] a query
    user       [R_Evidences] Title: ... Text: ... [/R_Evidences]
    assistant  [A_Response] the answer

Differs: each query is written with what earlier ones found at hand, as it is when the model searches; the
paper has all of them written at once from the supporting passages. The teacher never sees the gold answer,
and a trajectory whose answer does not match it is left out (the paper takes it). Passages stand in messages
of their own, not in the reply, so that training on replies alone leaves them out, which the paper's script
does not do; the end of a message stands for the token `[EOS]`. Dialogues without a search are not made. In
the form `calls` a row is one typed call of the program as ragc sends it, with the teacher's reply.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import dspy

from ragc.core.text import escape_markers
from ragc.errors import UsageError
from ragc.metrics.base import Scorer
from ragc.programs.rqrag import KINDS, RqRagKnobs
from ragc.programs.rqrag.program import Path, PathStep, RqRag, answer_key, passages_of, step_texts
from ragc.programs.runtime import Runtime
from ragc.records import Passage, Question
from ragc.signatures.answer import INVALID, UNSURE, normalize_refusal
from ragc.signatures.query import choosing
from ragc.task.answering import answer
from ragc.task.base import Task
from ragc.training.data.base import Collector, Gathered, Item, conversation, reply

QUERY_TOKENS = {
    "rewrite": "[S_Rewritten_Query]",
    "decompose": "[S_Decomposed_Query]",
    "disambiguate": "[S_Disambiguated_Query]",
}
ANSWER = "[A_Response]"
EVIDENCE_TOKENS = ("[R_Evidences]", "[/R_Evidences]")
CONTROL_TOKENS = (*QUERY_TOKENS.values(), *EVIDENCE_TOKENS, ANSWER)
"""The tokens that a tokenizer should learn for rows with control tokens."""

_TOKEN = re.compile(r"\[(?=/?(?:S_\w+_Query|R_Evidences|A_Response|S_Response|EOS)\])", re.IGNORECASE)

DATASET_KINDS = {
    "hotpotqa": "decompose",
    "2wikimultihopqa": "decompose",
    "musique": "decompose",
    "asqa": "disambiguate",
    "arc_challenge": "rewrite",
    "openbookqa": "rewrite",
    "popqa": "rewrite",
    "nq": "rewrite",
    "triviaqa": "rewrite",
    "bioasq": "rewrite",
    "pydocs": "rewrite",
    "pybuiltins": "rewrite",
}
"""The kind of query for each data set; for others the number of supporting passages decides."""


@dataclass(slots=True)
class _Trajectory(Gathered):
    """The trajectory of a question so far: the kind of its queries, path, answer, and why it is left out."""

    kind: str = ""
    path: Path = ()
    answer: str = ""
    failure: str = ""


_current: ContextVar[_Trajectory] = ContextVar("ragc_trajectory")


class TrajectoryCollector(RqRag):
    """RQ-RAG on one path, with queries of one kind and at least one search."""

    def __init__(self, runtime: Runtime, knobs: RqRagKnobs) -> None:
        super().__init__(runtime, knobs)
        for kind in KINDS:
            setattr(self, f"choose_{kind}", self.predictor(choosing((kind,)), max_tokens=100))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Searches and answers; the trajectory is stored in that of the context."""
        trajectory = _current.get()
        kind, path = trajectory.kind, trajectory.path
        while len(path) < (1 if kind == "rewrite" else self.knobs.search_limit):
            if path:
                choice = await self._ask(getattr(self, f"choose_{kind}"), path, question=question)
                if choice is None or choice.action == "answer":
                    break
            step = await self._step(question, path, kind)
            if step is None or not step.passages:
                trajectory.failure = (
                    "no query that could be read" if step is None else "a search found nothing"
                )
                break
            if step.query.casefold() in [earlier.query.casefold() for earlier in path]:
                break
            path = (*path, step)
        if path:
            finished = await self._finish(question, path)
            trajectory.path, trajectory.answer = path, finished[0].answer if finished else ""
            trajectory.failure = "" if finished else "an answer that could not be read"
        return dspy.Prediction(answer=trajectory.answer, passages=passages_of(path))


class Trajectories(Collector):
    """Rows of rqrag-sft over a task. Raises UsageError for calls that rows cannot have."""

    roles = ("teacher",)

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        knobs, spec = self.knobs, task.recipe.training_data
        if spec.form == "calls" and (knobs.cot or knobs.chosen_by == "confidence"):
            raise UsageError(
                "Rows of single calls have answers alone, and the program's answers come with reasoning or a "
                "confidence; set knobs.cot to false and knobs.select to another choice."
            )
        plain = replace(knobs, mode="search_on_demand", temperature=0.0, query_temperature=0.0, cot=False)
        teacher = task.runtime.with_targets({"main": "teacher"})
        self.program = TrajectoryCollector(teacher, replace(plain, wording="full"))
        self.student = self.as_run(TrajectoryCollector(task.runtime, plain))
        self.scorer: Scorer = task.scorer.only([task.demo_metric])
        self.calls = 2 * plain.search_limit  # queries, choices between searches, and the answer
        tokens = {"control tokens": " ".join(CONTROL_TOKENS)} if spec.form == "tokens" else {}
        self.facts = {"form": spec.form, **tokens, "share of original answers": spec.retention}

    async def collect(self, question: Question) -> Gathered:
        """Returns the trajectory of `question`, if it passes all filters."""
        spec, dataset = self.task.recipe.training_data, self.task.recipe.data.dataset
        by_passages = "decompose" if len(question.gold_ids) > 1 else "rewrite"
        kind = DATASET_KINDS.get(dataset, by_passages) if spec.query_kind == "auto" else spec.query_kind
        trajectory = _Trajectory(question, kind=kind)
        _current.set(trajectory)
        scores = (await answer(self.program, question, self.scorer)).scores
        if reason := self._reason_to_drop(trajectory, scores[self.task.demo_metric.id]):
            trajectory.drops[reason] += 1
            return trajectory
        if random.Random(f"retention {self.task.seed} {question.id}").random() < spec.retention:
            trajectory.answer = question.answers[0]
        if spec.form == "calls":
            trajectory.items += self._calls(trajectory)
        else:
            row = {"messages": token_messages(question, trajectory.path, trajectory.answer)}
            trajectory.items.append(Item(row, trajectory.kind))
        return trajectory

    def _reason_to_drop(self, trajectory: _Trajectory, score: float | None) -> str:
        """Returns why a trajectory is left out; "" if it is not."""
        question, answer = trajectory.question, trajectory.answer
        parents = {passage.parent for passage in passages_of(trajectory.path)}
        is_right = score is not None and score >= (self.task.demo_threshold or 0)
        is_gold = answer_key(answer) in map(answer_key, question.answers)  # but for case and punctuation
        reasons = {
            trajectory.failure: bool(trajectory.failure),
            "the teacher refused to answer": normalize_refusal(answer) in (INVALID, UNSURE),
            "the passages miss the supporting ones": not parents.issuperset(question.gold_ids),
            "the answer is not the gold one": not (is_right or is_gold),
        }
        return next((reason for reason, applies in reasons.items() if applies), "")

    def _calls(self, trajectory: _Trajectory) -> Iterator[Item]:
        """Yields a row for each typed call of the trajectory, as the small model's program sends it."""
        kind, path = trajectory.kind, trajectory.path
        steps = [
            (getattr(self.student, kind), number, kind, {"query": step.query})
            for number, step in enumerate(path)
        ]
        for call, number, label, values in [
            *steps,
            (self.student.answer, len(path), "answer", {"answer": trajectory.answer}),
        ]:
            inputs = {"question": trajectory.question.question, "trajectory": step_texts(path[:number])}
            outputs = {name: values.get(name, "") for name in call.signature.output_fields}
            yield Item({"messages": [*conversation(call, inputs), reply(call, outputs)]}, label)


def defuse(text: str) -> str:
    """Returns `text` with control tokens and role markers made ordinary: one space behind their bracket."""
    return _TOKEN.sub("[ ", escape_markers(text))


def evidence(passages: Sequence[Passage]) -> str:
    """Returns passages between the tokens of evidence."""
    blocks = (f"Title: {' '.join(defuse(p.title).split())}\nText: {defuse(p.text)}" for p in passages)
    return "\n".join([EVIDENCE_TOKENS[0], *blocks, EVIDENCE_TOKENS[1]])


def token_messages(question: Question, path: Sequence[PathStep], answer: str) -> list[dict[str, str]]:
    """Returns a trajectory with control tokens, as messages."""
    messages: list[dict[str, str]] = [{"role": "user", "content": defuse(question.question)}]
    for step in path:
        messages += [
            {"role": "assistant", "content": f"{QUERY_TOKENS[step.kind]} {defuse(step.query)}"},
            {"role": "user", "content": evidence(step.passages)},
        ]
    return [*messages, {"role": "assistant", "content": f"{ANSWER} {defuse(answer)}"}]
