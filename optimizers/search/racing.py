"""Racing: stop a trial once it has too little chance left to beat the incumbent on all dev questions.

The N dev questions come in one fixed random order, so those seen are a sample without replacement from a
finite set, and "better" means a greater sum over exactly these N. Two rules stop a trial. The logical one:
even the best score on every remaining question would not lift it above the incumbent. The statistical one:
the predictive probability that it ends above the incumbent (as in clinical trials that are watched for
futility: Lee and Liu 2008, doi:10.1177/1740774508089279) is less than `FUTILITY`.

That probability comes from the paired differences seen, by a Polya urn: each remaining question draws one of
the differences seen, or with the weight of one question one of two extremes, and what was drawn is added to
the urn. For 0/1 differences that is the beta-binomial prediction. The sum of the draws has a mean and a
variance in closed form; it is taken as normal. Pairing removes what makes a question hard for both.

What it guarantees: the predictive probability is a martingale, so a trial that is stopped, at whichever look,
would have won with probability below `FUTILITY`. Hence of all trials at most that share is stopped although
it would have won, however many looks there are. The share is greatest, and the loss least, among trials as
good as the incumbent; whatever wins was evaluated on all N. An anytime-valid test by betting (Waudby-Smith
and Ramdas 2020, arXiv:2006.04347) limits the errors among the winners alone, at twice the questions for a
trial that is a tenth worse: `experiments/benchmarks/search/racing.py` measures errors and savings of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from ragc.errors import UsageError

FUTILITY = 0.1
"""A trial is stopped when its chance to win is less."""

_normal = NormalDist().cdf


def win_probability(
    trial_scores: Sequence[float], incumbent_scores: Sequence[float], *, best: float = 1.0
) -> float:
    """The chance, 0..1, that the trial's sum over all N questions will exceed the incumbent's.

    `incumbent_scores` are the incumbent's on all N questions, in their random order; `trial_scores` are the
    trial's on the first of them. Higher is better, and `best` is the greatest score a question can get
    (costs: pass them negated, with `best=0.0`; no least score is needed). 1 before the first question,
    unless the incumbent is perfect.

    Raises UsageError when there are more trial scores than incumbent scores or a score exceeds `best`.
    """
    _check(trial_scores, incumbent_scores, best)
    seen, left = len(trial_scores), len(incumbent_scores) - len(trial_scores)
    if sum(trial_scores) + left * best <= sum(incumbent_scores) + 1e-9:
        return 0.0
    if not seen or not left:
        return 1.0
    gained = [mine - other for mine, other in zip(trial_scores, incumbent_scores, strict=False)]
    known = (*trial_scores, *incumbent_scores)
    extreme = max(known) - min(known) or best - min(known)
    weight = seen + 1
    mean = sum(gained) / weight
    variance = (sum(gain * gain for gain in gained) + extreme * extreme) / weight - mean * mean
    spread = math.sqrt(left * variance * (weight + left) / (weight + 1))
    return _normal((sum(gained) + left * mean) / spread)


def dominated(mine: Sequence[float], other: Sequence[float]) -> bool:
    """Whether `other` is at least as good in every value and better in one."""
    pairs = list(zip(mine, other, strict=True))
    return all(b >= a for a, b in pairs) and any(b > a for a, b in pairs)


def estimated_mean(trial_scores: Sequence[float], incumbent_scores: Sequence[float]) -> float:
    """What a stopped trial is told to have scored: the incumbent's mean plus the paired difference so far.

    The incumbent's mean is over all its questions. Raises UsageError when the trial has no score.
    """
    seen = len(trial_scores)
    if not seen or seen > len(incumbent_scores):
        raise UsageError(f"A standing needs 1 to {len(incumbent_scores)} trial scores, but got {seen}.")
    gained = (sum(trial_scores) - sum(incumbent_scores[:seen])) / seen
    return sum(incumbent_scores) / len(incumbent_scores) + gained


def _check(trial_scores: Sequence[float], incumbent_scores: Sequence[float], best: float) -> None:
    if len(trial_scores) > len(incumbent_scores):
        raise UsageError(
            f"A trial is raced over the incumbent's {len(incumbent_scores)} questions, "
            f"but it has {len(trial_scores)} scores."
        )
    highest = max((*trial_scores, *incumbent_scores), default=best)
    if highest > best + 1e-9:
        raise UsageError(f"No score may exceed best={best:g}, but one is {highest:g}. Pass the right best.")
