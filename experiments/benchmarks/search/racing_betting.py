"""For comparison: a trial is stopped once the questions seen so far prove that it cannot beat the incumbent.

The N dev questions come in one fixed random order, so those seen are a sample without replacement from a
finite set, and "better" means a greater sum over exactly these N. Two rules stop a trial. The logical one:
even the best score on every remaining question would not lift it above the incumbent. The statistical one: a
test by betting for sampling without replacement (Waudby-Smith and Ramdas 2020, arXiv:2006.04347).

Suppose the trial equals the incumbent or beats it. Before each question, the rest of the trial's scores must
then average at least `need = (incumbent's sum - trial's sum so far) / remaining questions`. A gambler who
stakes on "less than `need`" before every question plays a game that is fair at best, so his capital, 1 at
the start, ever reaches 1/alpha with probability at most alpha (Ville's inequality). When it does, the
supposition is dropped. That holds for scores of any shape, for any number of looks and whenever one looks,
so the sizes of blocks do not enter and no correction for looks is owed. The capital is the average of five
gamblers with constant shares of the greatest stake that can never lose everything; `STAKES` was chosen by
simulation.

The pairing enters as a control variate: the incumbent's scores on all N questions are known, so what a hard
or easy question explains is removed from each trial score before the bet, with a slope learnt from earlier
questions only. A slope of 1 bets on paired differences; the learnt one loses less when the two systems
agree little.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

ALPHA = 0.1
"""How often, at most, a trial is stopped that would have won."""

STAKES = (0.05, 0.1, 0.2, 0.4, 0.7)
PRIOR_SLOPE, PRIOR_WEIGHT = 0.6, 5.0


def hopeless(
    trial_scores: Sequence[float],
    incumbent_scores: Sequence[float],
    *,
    alpha: float = ALPHA,
    best: float = 1.0,
) -> bool:
    """Whether the trial can be given up: True stays True as more scores arrive.

    `incumbent_scores` are the incumbent's on all N questions, in their random order; `trial_scores` are the
    trial's on the first of them. Higher is better, and `best` is the greatest score a question can get
    (costs: pass them negated, with `best=0.0`; no least score is needed). A trial that beats the incumbent
    on all N is given up with probability at most `alpha`, over the random order and all looks together.
    """
    total = sum(incumbent_scores)
    questions = len(incumbent_scores)
    smallest_left = list(accumulate(reversed(incumbent_scores), min))[::-1]
    slope = _Slope(incumbent_scores)
    capital = [1.0 / len(STAKES)] * len(STAKES)
    trial_sum, incumbent_left = 0.0, total
    for seen, (score, peer) in enumerate(zip(trial_scores, incumbent_scores, strict=False)):
        left = questions - seen
        need = (total - trial_sum) / left
        if need >= best - 1e-12:
            return True
        usual, share = incumbent_left / left, slope.value()
        greatest_loss = best + share * (usual - smallest_left[seen]) - need
        loss = score - share * (peer - usual) - need
        capital = [
            money * (1 - stake * loss / greatest_loss) for money, stake in zip(capital, STAKES, strict=True)
        ]
        if sum(capital) >= 1 / alpha:
            return True
        slope.add(score, peer)
        trial_sum, incumbent_left = trial_sum + score, incumbent_left - peer
    return trial_sum + (questions - len(trial_scores)) * best <= total + 1e-9


class _Slope:
    """The regression of the trial on the incumbent, from the questions seen, shrunk to `PRIOR_SLOPE`."""

    def __init__(self, incumbent_scores: Sequence[float]) -> None:
        n = max(1, len(incumbent_scores))
        mean = sum(incumbent_scores) / n
        self._prior = PRIOR_WEIGHT * sum((peer - mean) ** 2 for peer in incumbent_scores) / n
        self._n = self._trial = self._peer = self._product = self._square = 0.0

    def add(self, score: float, peer: float) -> None:
        self._n += 1
        self._trial += score
        self._peer += peer
        self._product += score * peer
        self._square += peer * peer

    def value(self) -> float:
        """In 0..1; 0 when the incumbent scores the same everywhere."""
        if self._prior <= 0:
            return 0.0
        n = max(1.0, self._n)
        together = self._product - self._trial * self._peer / n
        alone = self._square - self._peer * self._peer / n
        return min(1.0, max(0.0, (together + PRIOR_SLOPE * self._prior) / (alone + self._prior)))
