"""Decides which settings answer more questions, and from how many answers on a setting may win.

All settings answer the same questions in the same order. Questions of a group come together, are answered
together, and count as one answer, the group's mean: so ten questions about one document are not ten. A look
of a setting takes it to the next of a few stopping points. After each round of looks the model of all scores
so far (`score_model`) gives the value of another look of each setting. This is the knowledge gradient
(Frazier, Powell and Dayanik 2009, doi:10.1287/ijoc.1080.0314): the expected rise of the best posterior mean
per answer. Effects of settings are correlated, so a look at one setting informs about its relatives, and
about settings that answered nothing. One look may be worth nothing where several together are worth much;
longer looks are therefore tried too, and the best rate counts. Further looks of a round are chosen as if the
earlier ones had been answered, which reduces variances and moves no mean (Desautels, Krause and Burdick
2014). No stop is final: a setting that fell behind continues once the others disappoint.

The setting with the greatest mean continues until it answered enough to win. The search ends when no other
setting is expected to overtake it by more than `TOLERANCE`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ragc.errors import UsageError
from ragc.optimizers.search.normal_equations import Array
from ragc.optimizers.search.score_model import Posterior

MARGIN = 0.01
"""The difference below the baseline that counts as worse, in units of the score."""

TOLERANCE = 1e-9
"""A setting goes on only if its own look is expected to raise the best mean by more, in units of the score.

So low, it stops where the look would have to move its mean by about six standard deviations. With 1e-4 a
search asked two thirds as much and chose worse (experiments/LOG.md), as the model is too sure early on.
"""

BLOCKS = (0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
"""Shares of the dev questions after which a setting may be stopped."""

MIN_BEFORE_STOP = 5
"""The least number of questions after which a setting may be stopped.

Fewer questions are too little evidence, and so small a block leaves most of the request limit unused.
"""

MIN_DEV_QUESTIONS = 15
"""The least number of dev questions that a budget may cut a study to."""

ANSWERS = 6
"""The answers to each dev question that a budget has to allow; otherwise the study asks fewer questions.

A few questions asked of many settings choose better than many asked of two (experiments/LOG.md).
"""

LOOKAHEAD = (1, 4)
"""Stopping points ahead for which the worth of a look is computed."""

MIN_TO_WIN = (1 / 3, 10)
"""A setting may win that answered this share of the dev questions, and at least this many or all."""

_LEAST_RATE = 1e-9
"""The least rise an answer, as a share of the greatest mean, that is more than an error of rounding."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def stopping_points(questions: int, groups: Sequence[int] = ()) -> list[int]:
    """Returns the numbers of dev questions after which a setting may be stopped, ascending up to all of them.

    `groups` are the sizes of groups of questions in their order, () for independent questions: a setting is
    stopped after a whole group.
    """
    ends = {round(questions * share) for share in BLOCKS}
    points = sorted({end for end in ends if end >= MIN_BEFORE_STOP} | {questions})
    if not groups:
        return points
    return sorted({whole_groups(end, groups, questions) for end in points})


def whole_groups(questions: int, groups: Sequence[int], most: int) -> int:
    """Returns the number of questions, at most `most`, in the first groups that hold at least `questions`."""
    ends = accumulate(groups) if groups else (questions,)
    return min(most, next((end for end in ends if end >= questions), most))


def affordable_questions(questions: int, answers: float, groups: Sequence[int] = ()) -> int:
    """Returns how many of `questions` dev questions a study asks whose budget allows `answers` answers on
    dev.

    In whole `groups`, as in `stopping_points`.
    """
    if answers >= ANSWERS * questions:
        return questions
    return whole_groups(min(questions, max(MIN_DEV_QUESTIONS, int(answers / ANSWERS))), groups, questions)


def least_to_win(questions: int) -> int:
    """Returns the answers to `questions` dev questions that a winner needs at least."""
    share, least = MIN_TO_WIN
    return min(questions, max(least, math.ceil(share * questions)))


def next_looks(
    posterior: Posterior, seen: Sequence[int], among: Sequence[int], *, questions: int, most: int,
    tolerance: float, ends: Sequence[int] = (),
) -> list[int]:  # fmt: skip
    """Returns the settings of `among` that answer up to their next stopping point: at most `most`, the best
    first.

    `seen` is the number of questions that each setting of `posterior` answered. Settings whose looks are not
    expected to raise the best mean by `tolerance` are left out, except for a leader that may not win yet, and
    so are those that answered everything. Where questions are in groups, `seen` and `questions` count groups,
    and `ends` are the numbers of groups after which a setting may be stopped.
    Raises UsageError for `most` below 1.
    """
    if most < 1:
        raise UsageError(f"A round of looks needs room for at least one, found {most}.")
    ends = ends or stopping_points(questions)
    looks = np.zeros((len(LOOKAHEAD), len(seen)))
    for setting in among:
        further = [end - seen[setting] for end in ends if end > seen[setting]]
        for row, ahead in enumerate(LOOKAHEAD):
            looks[row, setting] = further[min(ahead, len(further)) - 1] if further else 0
    next_answers = {setting: looks[LOOKAHEAD.index(1), setting] for setting in among}
    leader = int(np.argmax(np.round(posterior.mean, 9)))
    chosen: list[int] = []
    if leader in among and seen[leader] < least_to_win(questions):
        chosen.append(leader)
        posterior = posterior.after(leader, next_answers[leader])
    while len(chosen) < most:
        rate, rise = _worth(posterior, looks)
        # Rounded, so that settings that are equal but for the last bits keep their order on every machine.
        greatest = max(float(rate.max()), _LEAST_RATE * float(np.abs(posterior.mean).max()), 1e-300)
        worth = [
            (-round(float(rate[setting]) / greatest, 6), position, setting)
            for position, setting in enumerate(among)
            if setting not in chosen and rise[setting] > tolerance
        ]
        if not worth:
            break
        chosen.append(min(worth)[2])
        posterior = posterior.after(chosen[-1], next_answers[chosen[-1]])
    return chosen


def _worth(posterior: Posterior, looks: Array) -> tuple[Array, Array]:
    """Returns what `looks` of each setting are worth, of shape (lengths, settings); 0 is no look.

    First the greatest expected rise of the best mean an answer. Then the greatest rise in all that comes from
    the setting's own mean: that it overtakes the leader or, of the leader, falls behind. What a look teaches
    about other settings orders looks, but is no reason to go on with one that cannot win.
    """
    mean, cov = posterior.mean, posterior.covariance
    leader, top = int(mean.argmax()), float(mean.max())
    gap = top - mean
    if len(mean) > 1:
        gap[leader] = top - float(np.partition(mean, -2)[-2])
    rate, rise = np.zeros(len(mean)), np.zeros(len(mean))
    for row in looks:
        some = np.flatnonzero(row)
        answers, variance = row[some], np.diag(cov)[some]
        change = cov[:, some] / np.sqrt(variance + posterior.residual / answers)
        best = sum(
            weight * (mean[:, None] + change * node).max(axis=0)
            for node, weight in zip(_NODES, _WEIGHTS, strict=True)
        )
        own = np.where(some == leader, 0.0, change[some, np.arange(len(some))]) - change[leader]
        rate[some] = np.maximum(rate[some], (best - top) / answers)
        rise[some] = np.maximum(rise[some], _expected_lead(np.abs(own), gap[some]))
    return rate, rise


def _expected_lead(deviation: Array, gap: Array) -> Array:
    """Returns the mean of what a normal difference with mean `-gap` is above 0."""
    from scipy.special import ndtr

    z = gap / np.maximum(deviation, 1e-12)
    lead: Array = deviation * np.exp(-z * z / 2) / math.sqrt(2 * math.pi) - gap * ndtr(-z)
    return np.maximum(lead, 0.0)
