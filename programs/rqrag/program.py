"""RQ-RAG: rewrite, decompose or disambiguate the question, along every path of a tree, and choose one answer.

Paper: RQ-RAG, section 2.3 and appendices B.2 and B.4. Every path is answered, and grown by one query of
each kind while it is shorter than the depth: with 3 kinds and depth 2 that is 12 queries, 12 searches and
13 answers, with depth 4 120, 120 and 121, less the searches of repeated queries. Searching on demand is the
authors' demo: one path, whose steps the model chooses. The paper's upper bound, the best score of any of
`candidates`, is the metric `upper_bound@f1`, or with the name of another metric of texts. RQ-RAG, section
2.3. Where the paper and the authors' code differ the code is followed: the confidence of an answer is the
mean probability of its tokens. The paper's sum of log probabilities is here a `product` of probabilities:
the same order, but an ensemble that adds logarithms, which are negative, would make frequent answers lose.
Differs: the control tokens of the fine-tuned model are typed calls on any model. Passages are cut at
`chunk_size` tokens, 200 unless a recipe says otherwise, where the paper takes them whole. With `branching`
`turn` a path goes on with the next kind of query only, as it does where demonstrations are collected. The
trajectory is given as one text a search; a query that its path searched for before is not searched again,
which the authors' code does, unless `exclude_seen` asks for further passages. A query that is empty or
unreadable ends its branch, where the authors' code searches for nothing and shows a dummy result; an answer
that cannot be read is left out of the choice. Oldest evidence goes first when a path does not fit. For
`retrieve_threshold` the model says how likely a search is needed before the tree grows, where the authors'
code reads it off the control tokens and then leaves out the grown paths. Perplexity of prompt and evidence
(the code) needs log probabilities that no target gives, and is left out. Where an answer's tokens are not
found in a reply that was mended, the mean over the whole reply is its confidence; such answers are counted
as `unspelled`. Without log probabilities `vote`, `judge` and `confidence` stand in for the model's own
confidence, added over equal answers unless `pooled` is off. A passage stands once in a trajectory, where
the authors' code repeats it. Answers are compared after normalisation, not letter by letter. Perplexity is
over what the model wrote (the paper), not over prompt and evidence too (its code). The probability of the
token that was drawn stands for the largest one, which is the same when answers are greedy.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dspy

from ragc.core import counters
from ragc.errors import CapabilityMissing, ParseFailure
from ragc.metrics.short_answer import normalise
from ragc.programs.base import RagProgram
from ragc.programs.calls.field_logprobs import field_tokens
from ragc.programs.calls.predict import RagPredict
from ragc.programs.rqrag import BY_LOGPROBS, BY_OTHERS, RqRagKnobs
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note, at_least, record, together
from ragc.records import Passage
from ragc.signatures.grade import NeedRetrieval
from ragc.signatures.query import (
    AnswerPath,
    DecomposeQuery,
    DisambiguateQuery,
    RewriteQuery,
    TrajectoryJudge,
    choosing,
    with_confidence,
)
from ragc.targets.base import TokenLogprob


@dataclass(frozen=True, slots=True)
class PathStep:
    """One search on a path. `logprobs` are those of the query's tokens, empty unless asked for."""

    kind: str
    query: str
    passages: tuple[Passage, ...]
    logprobs: tuple[float, ...] = ()


Path = tuple[PathStep, ...]


@dataclass(frozen=True, slots=True)
class FinishedPath:
    """A path with its answer; `score` is higher-is-better and of the kind of the knob `select`.

    `passages` are those that the answer was based on, possibly fewer than the path found. `exact` says that a
    score by log probabilities is of the answer alone, not of the whole reply.
    """

    path: Path
    passages: tuple[Passage, ...]
    answer: str
    score: float
    exact: bool = True


def passages_of(path: Path) -> tuple[Passage, ...]:
    """Returns the passages of `path`, each once."""
    return tuple({passage.id: passage for step in path for passage in step.passages}.values())


def shrink_path(path: Path) -> Path:
    """Returns `path` without the last passage of the oldest step that has one, or else without its oldest
    step.
    """
    for at, step in enumerate(path):
        if step.passages:
            return (*path[:at], replace(step, passages=step.passages[:-1]), *path[at + 1 :])
    return path[1:]


def step_texts(path: Path) -> list[str]:
    """Returns `path` as a prompt shows it, one text a step: kind, query, and passages with number and title.

    Numbers count through the path. A repeated passage is only named, its text not repeated.
    """
    numbers: dict[str, int] = {}
    texts = []
    for step in path:
        lines = [f"{step.kind}: {step.query}"]
        for passage in step.passages:
            known = passage.id in numbers
            number = numbers.setdefault(passage.id, len(numbers) + 1)
            title = " ".join(passage.title.split())
            lines.append(f"Passage {number}{f': {title}' if title else ''}{' (shown above)' * known}")
            lines += [] if known else [passage.text]
        texts.append("\n".join(lines))
    return texts


_LARGEST = 700.0  # exp of more is no float


def perplexity(logprobs: Sequence[float]) -> float:
    """Returns the exponential of the mean negative log probability; infinite without any."""
    if not logprobs:
        return math.inf
    return math.exp(min(-sum(logprobs) / len(logprobs), _LARGEST))


def confidence(logprobs: Sequence[float], by: str = "mean") -> float:
    """Returns the `mean` or the `product` of the tokens' probabilities, 0 to 1; 0 without any."""
    if not logprobs:
        return 0.0
    if by == "product":
        return math.exp(sum(logprobs))
    return sum(math.exp(p) for p in logprobs) / len(logprobs)


def agreement(answer: str, draws: Sequence[str | None]) -> float:
    """Returns the share of `draws` that equal `answer`; an unreadable draw is None."""
    same = [draw for draw in draws if draw is not None and answer_key(draw) == answer_key(answer)]
    return len(same) / len(draws) if draws else 0.0


def answer_key(answer: str) -> str:
    """Returns a key that equal answers share; `A` or `The` alone loses only punctuation."""
    return normalise(answer) or answer.lower().strip(string.punctuation + string.whitespace)


def group_answers(answers: Sequence[str]) -> dict[str, list[int]]:
    """Returns the positions of equal answers by their key; empty answers are left out if others exist."""
    positions: dict[str, list[int]] = {}
    for i, answer in enumerate(answers):
        positions.setdefault(answer_key(answer), []).append(i)
    return {key: places for key, places in positions.items() if key} or positions


def best(answers: Sequence[str], scores: Sequence[float], depths: Sequence[int], *, pooled: bool) -> int:
    """Returns the position of the winner among one or more trajectories: the one with the highest score.

    `pooled` first chooses the answer whose trajectories have the highest sum. Ties go to the deeper
    trajectory, which has seen more, then to the earlier one. Lists run in parallel.
    """

    def rank(i: int) -> tuple[float, int, int]:
        return scores[i], depths[i], -i

    teams = list(group_answers(answers).values())
    if pooled:
        teams = [max(teams, key=lambda team: (sum(scores[i] for i in team), max(map(rank, team))))]
    return max((i for team in teams for i in team), key=rank)


QUERIES = {"rewrite": RewriteQuery, "decompose": DecomposeQuery, "disambiguate": DisambiguateQuery}
CONFIDENCE, REASONED = 20, 100
"""Tokens of a reply that the answer's confidence takes, and of a choice or score with its reason."""


def _logprobs(reply: Any, *fields: str) -> tuple[tuple[float, ...], bool]:
    """Returns the token log probabilities of `fields`, and whether all their values were found in the reply.

    If one was not found, those of the whole reply.
    """
    drawn: Sequence[TokenLogprob] = reply.get("logprobs") or ()
    spelled: list[TokenLogprob] = []
    for name in fields:
        if not str(reply.get(name) or "").strip():
            continue
        tokens = field_tokens(drawn, name, reply[name])
        if not tokens:
            return tuple(token.logprob for token in drawn), False
        spelled += tokens
    return tuple(token.logprob for token in spelled), True


class RqRag(RagProgram):
    """Searches the source `local`; a target with the role `judge` scores if there is one, else `main`."""

    def __init__(self, runtime: Runtime, knobs: RqRagKnobs) -> None:
        super().__init__(runtime, knobs)
        self.local = self.cut_source("local")
        tree = knobs.mode == "tree"
        self.kinds = tuple(knobs.width.split("+"))
        self.select = knobs.chosen_by
        scored = self.select in BY_LOGPROBS
        if scored and "logprobs" not in runtime.target("main").capabilities:
            raise CapabilityMissing(
                f"select={self.select} needs log probabilities, and {runtime.target('main').name} does not "
                f"offer them; set select=vote{'' if knobs.select_for == 'own' else ' and select_for=own'}."
            )
        for kind in self.kinds:  # with every choice by log probabilities the same requests, so the same tree
            call = self.predictor(QUERIES[kind], max_tokens=100, logprobs=scored)
            call.sampling = replace(call.sampling, temperature=knobs.query_temperature)
            setattr(self, kind, call)
        if not tree:
            self.choose = self.predictor(choosing(self.kinds), max_tokens=REASONED)
        self.gated = tree and knobs.depth > 0 and knobs.retrieve_threshold > 0
        if self.gated:
            self.need = self.predictor(NeedRetrieval, max_tokens=30)
        sure = self.select == "confidence"
        self.answer = self.answer_call(
            self.reading(with_confidence(AnswerPath) if sure else AnswerPath),
            extra_tokens=CONFIDENCE * sure,
            logprobs=scored,
        )
        if self.select == "judge":
            role: Any = "judge" if "judge" in runtime.targets else "main"
            self.judge = self.predictor(TrajectoryJudge, role=role, max_tokens=REASONED)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers `question`; `candidates` of the prediction are the answers of all trajectories."""
        tree = self.knobs.mode == "tree"
        finished = await (self._expand(question, ()) if tree else self._expand_on_demand(question))
        if not finished:
            raise ParseFailure("No trajectory ended in an answer that could be read.")
        won = self._choose_path(finished) if tree else finished[0]
        return dspy.Prediction(
            answer=won.answer,
            passages=won.passages,
            candidates=tuple(one.answer for one in finished),
            tallies={
                "trajectories": len(finished),
                "depth": len(won.path),
                "unspelled": sum(not one.exact for one in finished),
            },
        )

    def _choose_path(self, finished: Sequence[FinishedPath]) -> FinishedPath:
        """Returns the chosen winner, noted with the scores of all trajectories."""
        answers, scores = [one.answer for one in finished], [one.score for one in finished]
        pooled = self.select == "ensemble" or (self.select in BY_OTHERS and self.knobs.pooled)
        at = best(answers, scores, [len(one.path) for one in finished], pooled=pooled)
        listed = ", ".join(f"{score:.3g}" for score in scores)
        record(
            Note("select", f"{at + 1} of {len(finished)} by {self.select}: {answers[at]} (scores: {listed})")
        )
        return finished[at]

    async def _expand(self, question: str, path: Path) -> list[FinishedPath]:
        """Answers `path` and all paths that begin with it; each before the longer ones."""
        own, longer = await together(self._finish(question, path), self._branches(question, path))
        return [*own, *longer]

    async def _branches(self, question: str, path: Path) -> list[FinishedPath]:
        """Answers all paths that continue `path`; none if it is long enough or needs no search."""
        if len(path) == self.knobs.depth or not (path or await self._needs_search(question)):
            return []
        branches = await together(*(self._branch(question, path, kind) for kind in self._next_kinds(path)))
        return [one for part in branches for one in part]

    def _next_kinds(self, path: Path) -> Sequence[str]:
        """Returns the kinds of query that continue `path`: all, or the one after that of its last search."""
        if self.knobs.branching == "all" or not path:
            return self.kinds
        return (self.kinds[(self.kinds.index(path[-1].kind) + 1) % len(self.kinds)],)

    async def _branch(self, question: str, path: Path, kind: str) -> list[FinishedPath]:
        step = await self._step(question, path, kind)
        return [] if step is None else await self._expand(question, (*path, step))

    async def _needs_search(self, question: str) -> bool:
        """Returns whether a search is likely enough to be needed; True if the estimate is unreadable."""
        if not self.gated:
            return True
        reply = await self.need.try_call(question=question)
        if reply is None:
            return True
        chance, least = reply.need / 100, self.knobs.retrieve_threshold
        record(Note("search", f"needed by {chance:g}, threshold {least:g}"))
        return at_least("retrieve_threshold", chance, least)

    async def _expand_on_demand(self, question: str) -> list[FinishedPath]:
        """Follows one path whose steps the model chooses; it is answered after `search_limit` searches."""
        path: Path = ()
        while len(path) < self.knobs.search_limit:
            reply = await self._ask(self.choose, path, question=question)
            if reply is None or reply.action == "answer":
                break
            step = await self._step(question, path, reply.action)
            if step is None:
                break
            path = (*path, step)
        return await self._finish(question, path)

    async def _step(self, question: str, path: Path, kind: str) -> PathStep | None:
        """Makes one query of `kind` and its search; None when the query is empty or unreadable."""
        reply = await self._ask(getattr(self, kind), path, question=question)
        if reply is None:
            return None
        query = " ".join(reply.query.split())
        if not query:
            self._drop(kind, "an empty query")
            return None
        logprobs = self._written(kind, reply, "query")[0] if self.select in BY_LOGPROBS else ()
        return PathStep(kind, query, await self._find(path, query), logprobs)

    async def _find(self, path: Path, query: str) -> tuple[Passage, ...]:
        """Returns the passages for `query`; with `exclude_seen`, only those that `path` does not have.

        Without it a query that `path` searched for already is not searched again.
        """
        exclude, ndocs = self.knobs.exclude_seen, self.knobs.ndocs
        earlier = [step.passages for step in path if step.query.casefold() == query.casefold()]
        if earlier and not exclude:
            record(Note("local", f"not searched again: {query}"))
            return earlier[-1]
        seen = {p.id for step in path for p in step.passages} if exclude else set()
        hits = await self.search("local", query, ndocs + len(seen), source=self.local)
        new = [hit.passage for hit in hits if hit.passage.id not in seen]
        return tuple(new[:ndocs])

    async def _finish(self, question: str, path: Path) -> list[FinishedPath]:
        """Returns `path` answered and scored; nothing when the answer is unreadable."""
        shown_path = self._trim(self.answer, path, question=question)
        draws = self.knobs.n_conf_samples if self.select == "vote" else 0
        reply, *drawn = await together(
            self.answer.try_call(question=question, trajectory=step_texts(shown_path)),
            *(
                self.answer.try_call(
                    question=question,
                    trajectory=step_texts(shown_path),
                    config={"temperature": 1.0, "rollout_id": number},
                )
                for number in range(1, draws + 1)  # 0 is the greedy answer
            ),
        )
        if reply is None:
            return []
        passages, answer = passages_of(shown_path), reply.answer.strip()
        if self.select in BY_LOGPROBS:
            return [FinishedPath(path, passages, answer, *self._likelihood(shown_path, reply))]
        draws_said = [None if draw is None else draw.answer for draw in drawn]
        score = await self._score(question, shown_path, reply, draws_said)
        return [FinishedPath(path, passages, answer, score)]

    def _likelihood(self, path: Path, reply: Any) -> tuple[float, bool]:
        """Returns the score of `reply` by log probabilities, and whether it is of the answer alone."""
        by_perplexity = self.select == "ppl"
        written, exact = self._written("answer", reply, *(("reasoning",) if by_perplexity else ()), "answer")
        if by_perplexity:
            queries = [logprob for step in path for logprob in step.logprobs]
            return -perplexity([*queries, *written] if written else ()), exact
        return confidence(written, self.knobs.conf_by if exact else "mean"), exact

    @staticmethod
    def _written(about: str, reply: Any, *fields: str) -> tuple[tuple[float, ...], bool]:
        """Returns `_logprobs`, and notes in the trace when the whole reply is used."""
        logprobs, exact = _logprobs(reply, *fields)
        if logprobs and not exact:
            record(Note(about, "its tokens were not found in the reply; all of it stands in for them"))
        return logprobs, exact

    async def _score(self, question: str, path: Path, reply: Any, drawn: Sequence[str | None]) -> float:
        """Returns the score of the answer `reply` without log probabilities; `drawn` are other draws."""
        match self.select:
            case "vote":
                return agreement(reply.answer, drawn)
            case "confidence":
                return float(reply.confidence / 100)
            case "judge":
                judged = await self._ask(self.judge, path, question=question, answer=reply.answer)
                return 0.0 if judged is None else float(judged.score / 100)
        return 0.0

    async def _ask(self, call: RagPredict, path: Path, **inputs: Any) -> Any:
        """Calls `call` with as much of `path` as fits; None when the reply is unreadable."""
        return await call.try_call(**inputs, trajectory=step_texts(self._trim(call, path, **inputs)))

    def _trim(self, call: RagPredict, path: Path, **inputs: Any) -> Path:
        """Returns `path` without the oldest evidence, as far as needed to fit the context of `call`."""
        return self.shrink_to_fit(
            call, path, lambda subset: {**inputs, "trajectory": step_texts(subset)}, shrink_path
        )

    def _drop(self, about: str, why: str) -> None:
        counters.count(dropped=1)
        record(Note(about, f"dropped: {why}"))
