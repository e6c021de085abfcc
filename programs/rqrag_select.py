"""Choosing among finished trajectories: perplexity, confidence, votes, and sums over equal answers.

Paper: RQ-RAG, trajectory selection (METHODS section 4.2). Pure functions; no model is called here.
Where the paper and its code differ the code is followed: the confidence of an answer is the mean
probability of its tokens, and an ensemble adds the confidences of the trajectories that answer alike
(the paper's sum of log probabilities is negative, so frequent answers would lose).
Differs: equal answers are told after normalisation, not letter by letter. Perplexity is over what the
model wrote (the paper), not over prompt and evidence too (its code). The probability of the token that
was drawn stands for the largest one, which is the same when answers are greedy.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from ragc.metrics.short import normalise
from ragc.targets.base import TokenLogprob

_LABEL = r'"{0}"\s*:\s*"?|<{0}>\s*|\[\[ ## {0} ## \]\]\s*'  # of JSON, XML and chat layouts
_LARGEST = 700.0  # exp of more is no float


def field_logprobs(name: str, value: str, drawn: Sequence[TokenLogprob]) -> tuple[float, ...]:
    """Log probabilities of the tokens in a reply that spell the `value` of its output field `name`.

    Labels and brackets around the value do not count. When the tokens do not spell the value (some
    servers mark spaces or bytes) all tokens after the field's label count; without a label, none.
    """
    text, value = "".join(token for token, _ in drawn), value.strip()
    label = re.search(_LABEL.format(re.escape(name)), text)
    if not value or label is None:
        return ()
    start, end = label.end(), len(text)
    for spelled in (json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1], value):
        if (at := text.find(spelled, start)) >= 0:
            start, end = at, at + len(spelled)
            break
    kept, place = [], 0
    for token, logprob in drawn:
        if place < end and place + len(token) > start:
            kept.append(logprob)
        place += len(token)
    return tuple(kept)


def perplexity(logprobs: Sequence[float]) -> float:
    """The exponential of the mean negative log probability; infinite when nothing is known."""
    if not logprobs:
        return math.inf
    return math.exp(min(-sum(logprobs) / len(logprobs), _LARGEST))


def confidence(logprobs: Sequence[float]) -> float:
    """Mean probability of the tokens, 0 to 1; 0 when nothing is known."""
    return sum(math.exp(p) for p in logprobs) / len(logprobs) if logprobs else 0.0


def agreement(answer: str, draws: Sequence[str | None]) -> float:
    """The share of `draws` that say the same as `answer`; a draw that could not be read is None."""
    same = [draw for draw in draws if draw is not None and alike(draw) == alike(answer)]
    return len(same) / len(draws) if draws else 0.0


def alike(answer: str) -> str:
    """What equal answers share. Words that normalise to nothing (`A`, `The`) are compared as they are."""
    return normalise(answer) or answer.strip().lower()


def groups(answers: Sequence[str]) -> dict[str, list[int]]:
    """The positions of equal answers, by what they share; empty answers are left out where others exist."""
    found: dict[str, list[int]] = {}
    for i, answer in enumerate(answers):
        found.setdefault(alike(answer), []).append(i)
    return {key: places for key, places in found.items() if key} or found


def best(answers: Sequence[str], scores: Sequence[float], depths: Sequence[int], *, pooled: bool) -> int:
    """The position of the winner among one or more trajectories: the one with the highest score.

    `pooled` looks first for the answer whose trajectories have the highest sum. Ties go to the deeper
    trajectory, which has seen more, then to the earlier one. Lists run in parallel.
    """

    def rank(i: int) -> tuple[float, int, int]:
        return scores[i], depths[i], -i

    teams = list(groups(answers).values())
    if pooled:
        teams = [max(teams, key=lambda team: (sum(scores[i] for i in team), max(map(rank, team))))]
    return max((i for team in teams for i in team), key=rank)
