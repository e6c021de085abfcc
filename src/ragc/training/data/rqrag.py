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
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import dspy

from ragc.core.text import escape_markers
from ragc.errors import UsageError
from ragc.metrics.base import Scorer
from ragc.programs.rqrag import KINDS, RqRagKnobs
from ragc.programs.rqrag.paths import Path, PathStep, answer_key, step_texts
from ragc.programs.rqrag.program import RqRag
from ragc.programs.runtime import Runtime
from ragc.records import Passage, Question
from ragc.signatures.answer import INVALID, UNSURE, normalize_refusal
from ragc.signatures.query import choosing
from ragc.task.answering import answer
from ragc.task.base import Task
from ragc.training.data.base import (
    Gathered,
    Item,
    Message,
    Selection,
    all_items,
    as_run,
    conversation,
    drop_repeated,
    longest_reply,
    reply,
)

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

NO_QUERY = "no query that could be read"
NO_PASSAGES = "a search found nothing"
NO_ANSWER = "an answer that could not be read"
REFUSED = "the teacher refused to answer"
UNSUPPORTED = "the passages miss the supporting ones"
WRONG = "the answer is not the gold one"


@dataclass(slots=True)
class _Trajectory:
    """The unfinished trajectory: its question and kind, the path, and how it ended.

    `stopped` says that the teacher chose to answer, not that no search was left.
    """

    question: Question
    kind: str
    path: Path = ()
    answer: str = ""
    stopped: bool = False
    failure: str = ""


_current: ContextVar[_Trajectory] = ContextVar("ragc_trajectory")


class TrajectoryCollector(RqRag):
    """RQ-RAG on one path, with queries of one kind and at least one search."""

    def __init__(self, runtime: Runtime, knobs: RqRagKnobs) -> None:
        super().__init__(runtime, knobs)
        for kind in KINDS:
            setattr(self, f"choose_{kind}", self.predictor(choosing((kind,)), max_tokens=100))

    def most_calls(self) -> int:
        """Returns a query a search, a choice between searches, and the answer."""
        return int(2 * self.knobs.search_limit)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Searches and answers; the trajectory is stored in that of the context."""
        trajectory = _current.get()
        await self._walk(trajectory, question)
        if not trajectory.failure:
            finished = await self._finish(question, trajectory.path)
            trajectory.answer = finished[0].answer if finished else ""
            trajectory.failure = "" if finished else NO_ANSWER
        passages = tuple(passage for step in trajectory.path for passage in step.passages)
        return dspy.Prediction(answer=trajectory.answer, passages=passages)

    async def _walk(self, trajectory: _Trajectory, question: str) -> None:
        limit = 1 if trajectory.kind == "rewrite" else self.knobs.search_limit
        while len(trajectory.path) < limit:
            if trajectory.path:
                choice = await self._ask(
                    getattr(self, f"choose_{trajectory.kind}"), trajectory.path, question=question
                )
                if choice is None or choice.action == "answer":
                    trajectory.stopped = choice is not None
                    return
            step = await self._step(question, trajectory.path, trajectory.kind)
            if step is None or not step.passages:
                trajectory.failure = "" if trajectory.path else NO_QUERY if step is None else NO_PASSAGES
                return
            if any(step.query.casefold() == earlier.query.casefold() for earlier in trajectory.path):
                return
            trajectory.path = (*trajectory.path, step)


class Trajectories:
    """Rows of rqrag-sft over a task. Raises UsageError for calls that rows cannot have."""

    needs_gold = True
    roles = ("teacher",)

    def __init__(self, task: Task) -> None:
        self.task = task
        knobs: Any = task.recipe.settings()
        if task.recipe.training_data.form == "calls" and (knobs.cot or knobs.chosen_by == "confidence"):
            raise UsageError(
                "Rows of single calls have answers alone, and the program's answers come with reasoning or a "
                "confidence; set knobs.cot to false and knobs.select to another choice."
            )
        plain = replace(knobs, mode="search_on_demand", temperature=0.0, query_temperature=0.0, cot=False)
        teacher = task.runtime.with_targets({"main": "teacher"})
        self._program = TrajectoryCollector(teacher, replace(plain, wording="full"))
        self._student = as_run(TrajectoryCollector(task.runtime, plain), task)
        self._scorer: Scorer = task.scorer.only([task.demo_metric])

    @property
    def facts(self) -> dict[str, Any]:
        """The form of the rows; with control tokens, those that a tokenizer should learn."""
        spec = self.task.recipe.training_data
        tokens = {"control tokens": " ".join(CONTROL_TOKENS)} if spec.form == "tokens" else {}
        return {"form": spec.form, **tokens, "share of original answers": spec.retention}

    @property
    def most_calls(self) -> int:
        """The calls of the longest trajectory."""
        return self._program.most_calls()

    @property
    def longest_reply(self) -> int:
        """The greatest limit of a reply of any call."""
        return longest_reply(self._program)

    def kind_of(self, question: Question) -> str:
        """Returns the kind of query for `question`: the recipe's, the data set's, else by gold passages."""
        chosen, dataset = self.task.recipe.training_data.query_kind, self.task.recipe.data.dataset
        if chosen != "auto":
            return chosen
        return DATASET_KINDS.get(dataset) or ("decompose" if len(question.gold_ids) > 1 else "rewrite")

    async def collect(self, question: Question) -> Gathered:
        """Returns the trajectory of `question`, if it passes all filters."""
        gathered, trajectory = Gathered(question), _Trajectory(question, self.kind_of(question))
        token = _current.set(trajectory)
        try:
            row = await answer(self._program, question, self._scorer)
        finally:
            _current.reset(token)
        score = row.scores[self.task.demo_metric.id]
        if reason := self._reason_to_drop(trajectory, score):
            gathered.drops[reason] += 1
            return gathered
        spec = self.task.recipe.training_data
        if random.Random(f"retention {self.task.seed} {question.id}").random() < spec.retention:
            trajectory.answer = question.answers[0]
        if spec.form == "tokens":
            gathered.items.append(
                Item(
                    {"messages": token_messages(trajectory.question, trajectory.path, trajectory.answer)},
                    trajectory.kind,
                )
            )
        else:
            gathered.items += self._calls(trajectory)
        return gathered

    def _reason_to_drop(self, trajectory: _Trajectory, score: float | None) -> str:
        """Returns why a trajectory is left out; "" if it is not."""
        if trajectory.failure:
            return trajectory.failure
        if normalize_refusal(trajectory.answer) in (INVALID, UNSURE):
            return REFUSED
        parents = {passage.parent for step in trajectory.path for passage in step.passages}
        if not set(trajectory.question.gold_ids) <= parents:
            return UNSUPPORTED
        right = score is not None and score >= (self.task.demo_threshold or 0)
        return "" if right or self._equals_gold(trajectory) else WRONG

    @staticmethod
    def _equals_gold(trajectory: _Trajectory) -> bool:
        """Returns whether the answer is a gold one but for case, articles and punctuation."""
        return answer_key(trajectory.answer) in {answer_key(gold) for gold in trajectory.question.answers}

    def _calls(self, trajectory: _Trajectory) -> list[Item]:
        """Returns one row for each typed call of the trajectory, as the small model's program sends it."""
        program, question, rows = self._student, trajectory.question.question, list[Item]()

        def add(call: Any, path: Path, label: str, **outputs: Any) -> None:
            inputs = {"question": question, "trajectory": step_texts(path)}
            values = {name: outputs.get(name, "") for name in call.signature.output_fields}
            messages = [*conversation(call, inputs), reply(call, values)]
            rows.append(Item({"messages": messages}, label))

        for at, step in enumerate(trajectory.path):
            add(getattr(program, trajectory.kind), trajectory.path[:at], trajectory.kind, query=step.query)
        add(program.answer, trajectory.path, "answer", answer=trajectory.answer)
        return rows

    def select(self, gathered: Sequence[Gathered]) -> Selection:
        """Returns all rows in the order of the questions, each once."""
        return drop_repeated(all_items(gathered))


def defuse(text: str) -> str:
    """Returns `text` with control tokens and role markers made ordinary: one space behind their bracket."""
    return _TOKEN.sub("[ ", escape_markers(text))


def evidence(passages: Sequence[Passage]) -> str:
    """Returns passages between the tokens of evidence."""
    blocks = [f"Title: {' '.join(defuse(p.title).split())}\nText: {defuse(p.text)}" for p in passages]
    first, last = EVIDENCE_TOKENS
    return "\n".join([first, *blocks, last])


def token_messages(question: Question, path: Sequence[PathStep], answer: str) -> list[Message]:
    """Returns a trajectory with control tokens, as messages."""
    messages: list[Message] = [{"role": "user", "content": defuse(question.question)}]
    for step in path:
        messages += [
            {"role": "assistant", "content": f"{QUERY_TOKENS[step.kind]} {defuse(step.query)}"},
            {"role": "user", "content": evidence(step.passages)},
        ]
    return [*messages, {"role": "assistant", "content": f"{ANSWER} {defuse(answer)}"}]
