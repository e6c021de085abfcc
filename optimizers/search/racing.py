"""Racing: stops a trial whose probability of beating the incumbent on all dev questions is too low.

The N dev questions are in one fixed random order, so the questions seen are a sample without replacement.
"Better" means a greater sum over exactly these N questions. Two rules stop a trial:

- Logical: the best possible score on every remaining question would not lift it above the incumbent.
- Statistical: its predictive probability of ending above the incumbent is less than `FUTILITY`. Clinical
  trials are stopped for futility by the same rule (Lee and Liu 2008, doi:10.1177/1740774508089279).

The probability is predicted by a Polya urn over the paired differences seen. Each remaining question draws
one of the differences seen or, with the weight of one question, one of two extremes. The drawn value is added
to the urn. For 0/1 differences this is the beta-binomial prediction. The sum of the draws has a mean and a
variance in closed form; it is taken as normal. Pairing removes the difficulty of a question, which both
trials share.

Guarantee: under the urn's own predictions the probability is a martingale. So of trials that the urn
describes at most `FUTILITY` are stopped wrongly, however many looks there are. That is an average over such
trials and no bound for each kind of them. Measured: 13 to 21% of fixed near-ties are stopped although they
would have won, and 14% where 5% large gains meet 40% small losses, because the normal approximation is too
sure of skewed sums; the loss is .01 to .02 F1 then. The share is greatest, and the loss smallest, among
trials as good as the incumbent. The winner was always evaluated on all N questions. An anytime-valid test by
betting (Waudby-Smith and Ramdas 2020, arXiv:2006.04347) limits the errors among the winners alone, but needs
twice the questions for a trial that is a tenth worse. Errors and savings of both were
measured, see experiments/LOG.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from ragc.errors import UsageError

FUTILITY = 0.1
"""A trial is stopped when its win probability is less than this."""

_normal = NormalDist().cdf


def win_probability(
    trial_scores: Sequence[float],
    incumbent_scores: Sequence[float],
    *,
    best: float = 1.0,
    groups: Sequence[int] = (),
) -> float:
    """Returns the probability, 0..1, that the trial's sum over all N questions will exceed the incumbent's.

    `incumbent_scores` are the incumbent's scores on all N questions, in their random order; `trial_scores`
    are the trial's on the first of them. Higher is better, and `best` is the greatest score of a question.
    Costs are passed negated with `best=0.0`; no least score is needed. Before the first question the result
    is 1, unless the incumbent is perfect. `groups` are the sizes of groups of the N questions in their order,
    () for independent ones: a group's sum of differences counts as one.

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
    if groups:
        gained, left = _by_group(gained, groups)
        extreme *= len(incumbent_scores) / len(groups)
        seen = len(gained)
    weight = seen + 1
    mean = sum(gained) / weight
    variance = (sum(gain * gain for gain in gained) + extreme * extreme) / weight - mean * mean
    spread = math.sqrt(left * variance * (weight + left) / (weight + 1))
    return _normal((sum(gained) + left * mean) / spread)


def _by_group(gained: Sequence[float], groups: Sequence[int]) -> tuple[list[float], int]:
    """Returns the sums of `gained` over whole groups, and the number of groups that are left."""
    sums, first = [], 0
    for size in groups:
        if first >= len(gained):
            break
        sums.append(sum(gained[first : first + size]))
        first += size
    return sums, len(groups) - len(sums)


def dominated(mine: Sequence[float], other: Sequence[float]) -> bool:
    """Returns whether `other` is at least as good in every value and better in one."""
    pairs = list(zip(mine, other, strict=True))
    return all(b >= a for a, b in pairs) and any(b > a for a, b in pairs)


def _check(trial_scores: Sequence[float], incumbent_scores: Sequence[float], best: float) -> None:
    if len(trial_scores) > len(incumbent_scores):
        raise UsageError(
            f"A trial is raced over the incumbent's {len(incumbent_scores)} questions, "
            f"but it has {len(trial_scores)} scores."
        )
    highest = max((*trial_scores, *incumbent_scores), default=best)
    if highest > best + 1e-9:
        raise UsageError(f"No score may exceed best={best:g}, but one is {highest:g}. Pass the right best.")
