"""RQ-RAG: rewrite, decompose or disambiguate the question, along every path of a tree, and choose one answer.

Paper: RQ-RAG, inference and trajectory selection (METHODS sections 4.1 to 4.3). Every path is answered,
and grown by one query of each kind while it is shorter than `max_depth`: with 3 kinds and depth 2 that
is 12 queries, 12 searches and 13 answers, with depth 4 120, 120 and 121.
Differs: the control tokens of the fine-tuned model are typed calls on any model. The trajectory is
given as one text a search. A query that is empty or unreadable ends its branch, where the authors' code
searches for nothing and shows a dummy result; an answer that cannot be read is left out of the choice.
Oldest evidence goes first when a path does not fit. Full-sequence perplexity and `retrieve_threshold`
need log probabilities of prompts and of control tokens, and are left out; so are answer options, which
stand in the question. Without log probabilities `vote`, `judge` and `confidence` stand in for the
model's own confidence, added over equal answers unless `pooled` is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dspy

from ragc import counters
from ragc.corpora.neutral import neutral
from ragc.errors import ParseFailure, UsageError
from ragc.programs import rqrag_select as selection
from ragc.programs.base import RagProgram, shown
from ragc.programs.predict import RagPredict
from ragc.programs.rqrag_knobs import BY_LOGPROBS, BY_OTHERS, RqRagKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, record, together
from ragc.records import Passage
from ragc.signatures.paths import AnswerPath, TrajectoryJudge, with_confidence
from ragc.signatures.queries import DecomposeQuery, DisambiguateQuery, RewriteQuery, choosing

QUERIES = {"rewrite": RewriteQuery, "decompose": DecomposeQuery, "disambiguate": DisambiguateQuery}


@dataclass(frozen=True, slots=True)
class Step:
    """One search on a path. `logprobs` are those of the query's tokens, empty unless asked for."""

    kind: str
    query: str
    passages: tuple[Passage, ...]
    logprobs: tuple[float, ...] = ()

    def __str__(self) -> str:
        """The step as it stands in a prompt."""
        return "\n".join([f"{self.kind}: {neutral(self.query)}", *map(shown, self.passages)])


@dataclass(frozen=True, slots=True)
class Finished:
    """A path with its answer; `score` is higher-is-better and of the kind that `select` names."""

    path: tuple[Step, ...]
    answer: str
    score: float


def _draw(number: int) -> dict[str, Any]:
    """What makes an answer the draw `number` of a vote; draw 0 is another than the greedy answer."""
    return {"temperature": 1.0, "rollout_id": number + 1}


class RqRag(RagProgram):
    """Searches the source `local`; a target with the role `judge` scores where there is one, else `main`."""

    def __init__(self, runtime: Runtime, knobs: RqRagKnobs) -> None:
        super().__init__(runtime, knobs)
        self.kinds = tuple(knobs.width.split("+"))
        self.select = knobs.select if knobs.mode == "tree" else "none"
        scored = self.select in BY_LOGPROBS
        if scored and "logprobs" not in runtime.target("main").capabilities:
            raise UsageError(
                f"select={self.select} needs log probabilities, and {runtime.target('main').name} does not "
                "offer them; set select=vote."
            )
        for kind in self.kinds:
            call = self.predictor(QUERIES[kind], max_tokens=100, logprobs=self.select == "ppl")
            call.sampling = replace(call.sampling, temperature=knobs.query_temperature)
            setattr(self, kind, call)
        if knobs.mode == "search_on_demand":
            self.choose = self.predictor(choosing(self.kinds), max_tokens=30)
        signature = with_confidence(AnswerPath) if self.select == "confidence" else AnswerPath
        self.answer = self.answering(signature, logprobs=scored)
        if self.select == "judge":
            role: Any = "judge" if "judge" in runtime.targets else "main"
            self.judge = self.predictor(TrajectoryJudge, role=role, max_tokens=30)

    def most_calls(self) -> int:
        """On demand two a search and the answer; of a tree its queries, and its answers with their scores."""
        knobs = self.knobs
        if knobs.mode != "tree":
            return int(2 * knobs.search_limit + 1)
        answers = sum(len(self.kinds) ** depth for depth in range(knobs.max_depth + 1))
        scoring = {"vote": knobs.n_conf_samples, "judge": 1}.get(self.select, 0)
        return int(answers - 1 + answers * (1 + scoring))

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answer `question`; `candidates` of the prediction are the answers of all trajectories."""
        tree = self.knobs.mode == "tree"
        finished = await (self._grown(question, ()) if tree else self._on_demand(question))
        if not finished:
            raise ParseFailure("No trajectory ended in an answer that could be read.")
        answers, scores = [f.answer for f in finished], [f.score for f in finished]
        pooled = self.select == "ensemble" or (self.select in BY_OTHERS and self.knobs.pooled)
        at = selection.best(answers, scores, [len(f.path) for f in finished], pooled=pooled)
        won = finished[at]
        if tree:
            record(Note("select", f"{at + 1} of {len(finished)} by {self.select}: {won.answer}"))
        seen = {passage.id: passage for step in won.path for passage in step.passages}
        return dspy.Prediction(
            answer=won.answer,
            passages=tuple(seen.values()),
            candidates=tuple(answers),
            tallies={"trajectories": len(finished), "depth": len(won.path)},
        )

    async def _grown(self, question: str, path: tuple[Step, ...]) -> list[Finished]:
        """`path` and all paths that begin with it, answered; each before the longer ones."""
        kinds = self.kinds if len(path) < self.knobs.max_depth else ()
        branches = (self._branch(question, path, kind) for kind in kinds)
        made = await together(self._finished(question, path), *branches)
        return [one for part in made for one in part]

    async def _branch(self, question: str, path: tuple[Step, ...], kind: str) -> list[Finished]:
        step = await self._step(question, path, kind)
        return [] if step is None else await self._grown(question, (*path, step))

    async def _on_demand(self, question: str) -> list[Finished]:
        """One path, each step of it chosen by the model; it is answered after `search_limit` searches."""
        path: tuple[Step, ...] = ()
        while len(path) < self.knobs.search_limit:
            shown_path = self._trimmed(self.choose, path, question=question)
            said = await self._asked(self.choose, shown_path, question=question)
            if said is None or said.action == "answer":
                break
            step = await self._step(question, path, said.action)
            if step is None:
                break
            path = (*path, step)
        return await self._finished(question, path)

    async def _step(self, question: str, path: tuple[Step, ...], kind: str) -> Step | None:
        """One query of `kind` and its search; None when the query is empty or cannot be read."""
        call = getattr(self, kind)
        said = await self._asked(call, self._trimmed(call, path, question=question), question=question)
        if said is None:
            return None
        query = " ".join(said.query.split())
        if not query:
            self._drop(kind, "an empty query")
            return None
        seen = {p.id for step in path for p in step.passages} if self.knobs.exclude_seen else set()
        hits = await self.search("local", query, self.knobs.ndocs + len(seen))
        new = [hit.passage for hit in hits if hit.passage.id not in seen]
        written = selection.field_logprobs("query", said.query, said.get("logprobs") or ())
        return Step(kind, query, tuple(new[: self.knobs.ndocs]), written)

    async def _finished(self, question: str, path: tuple[Step, ...]) -> list[Finished]:
        """`path` answered and scored; nothing when the answer cannot be read."""
        path = self._trimmed(self.answer, path, question=question)
        draws = self.knobs.n_conf_samples if self.select == "vote" else 0
        said, *drawn = await together(
            self._asked(self.answer, path, question=question),
            *(self._asked(self.answer, path, question=question, config=_draw(n)) for n in range(draws)),
        )
        if said is None:
            return []
        score = await self._score(question, path, said, [None if d is None else d.answer for d in drawn])
        return [Finished(path, said.answer.strip(), score)]

    async def _score(self, question: str, path: tuple[Step, ...], said: Any, drawn: Sequence[Any]) -> float:
        tokens = selection.field_logprobs("answer", said.answer, said.get("logprobs") or ())
        match self.select:
            case "ppl":
                written = [p for step in path for p in step.logprobs]
                return -selection.perplexity([*written, *tokens] if tokens else ())
            case "conf" | "ensemble":
                return selection.confidence(tokens)
            case "vote":
                return selection.agreement(said.answer, drawn)
            case "confidence":
                return self._share(said.confidence)
            case "judge":
                inputs = {"question": question, "answer": neutral(said.answer)}
                judged = await self._asked(self.judge, self._trimmed(self.judge, path, **inputs), **inputs)
                return 0.0 if judged is None else self._share(judged.score)
        return 0.0

    async def _asked(self, call: RagPredict, path: tuple[Step, ...], **inputs: Any) -> Any:
        """What `call` says about `path`; None when that cannot be read."""
        try:
            return await call.acall(**inputs, trajectory=[str(step) for step in path])
        except ParseFailure as error:
            self._drop(call.name, str(error))
            return None

    def _trimmed(self, call: RagPredict, path: tuple[Step, ...], **inputs: Any) -> tuple[Step, ...]:
        """`path` without as much of its oldest evidence as does not fit the context of `call`."""
        room = self.runtime.target(call.role).context_tokens
        steps = list(path)
        while call.size(**inputs, trajectory=[str(step) for step in steps]) > room:
            oldest = next((i for i, step in enumerate(steps) if step.passages), None)
            if oldest is None:
                break
            steps[oldest] = replace(steps[oldest], passages=steps[oldest].passages[:-1])
            counters.count(trimmed=1)
        return tuple(steps)

    def _share(self, percent: int) -> float:
        """`percent` as a share; 0 when it is no percentage."""
        if 0 <= percent <= 100:
            return percent / 100
        self._drop(self.select, f"{percent} is no percentage")
        return 0.0

    def _drop(self, about: str, why: str) -> None:
        counters.count(dropped=1)
        record(Note(about, f"dropped: {why}"))
