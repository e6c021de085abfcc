"""Paths of RQ-RAG's tree and the choice among them: perplexity, confidence, votes, sums over equal answers.

A path is searches one after another, and the answer at the end. All functions are pure; no model is called.

Paper: RQ-RAG, section 2.3. Where the paper and the authors' code differ the code is followed: the confidence
of an answer is the mean probability of its tokens. The paper's sum of log probabilities is here a `product`
of probabilities: the same order, but an ensemble that adds logarithms, which are negative, would make
frequent answers lose.
Differs: a passage stands once in a trajectory, where the authors' code repeats it. Answers are compared
after normalisation, not letter by letter. Perplexity is over what the model wrote (the paper), not over
prompt and evidence too (its code). The probability of the token that was drawn stands for the largest one,
which is the same when answers are greedy.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragc.metrics.short_answer import normalise
from ragc.records import Passage


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


def earlier_passages(path: Path, query: str) -> tuple[Passage, ...] | None:
    """Returns the passages of the latest step of `path` with the same query, ignoring case, or None."""
    same = (step.passages for step in reversed(path) if step.query.casefold() == query.casefold())
    return next(same, None)


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
