"""Parents of instructions: the pool of trials that lead on some dev question, and draws from it.

The pool is that of GEPA (Agrawal et al. 2025, arXiv:2507.19457, section 3.1): per question the trials with
the best score, without those that lead only where another member leads as well. A parent is drawn in
proportion to the number of questions on which it leads. Differs: members are trials of the study, with their
knobs and demonstrations, and not texts alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragc.metrics.base import Objective
from ragc.optimizers.candidates.trial import TrialResult


@dataclass(frozen=True, slots=True)
class ParentPool:
    """The trials of the pool, each with the indexes of the dev questions on which it leads."""

    leads: Mapping[int, frozenset[int]]
    trials: Mapping[int, TrialResult]

    @classmethod
    def of(cls, trials: Sequence[TrialResult], objective: Objective) -> ParentPool:
        """Returns the pool of `trials`. A question compares the trials that answered it; all saw the first
        ones.

        Of equal candidates only the first is a member.
        """
        unique: dict[str, TrialResult] = {}
        for trial in trials:
            unique.setdefault(trial.candidate.mark, trial)
        series = {trial.number: trial.series(objective) for trial in unique.values()}
        leads: dict[int, set[int]] = {number: set() for number in series}
        for index in range(max(map(len, series.values()))):
            scores = {number: line[index] for number, line in series.items() if index < len(line)}
            top = max(scores.values())
            for number, score in scores.items():
                if score == top:
                    leads[number].add(index)
        members = _undominated({n: frozenset(led) for n, led in leads.items()}, series)
        return cls(members, {t.number: t for t in unique.values() if t.number in members})

    def draw(self, rng: random.Random) -> TrialResult:
        """Returns one member, in proportion to the questions on which it leads."""
        numbers = sorted(self.leads)
        return self.trials[rng.choices(numbers, [len(self.leads[n]) for n in numbers])[0]]

    def draw_pair(self, rng: random.Random) -> tuple[TrialResult, TrialResult] | None:
        """Two members with different instructions of one program, each leading where the other does not.

        The first is the one with the higher mean. None if there is no such pair.
        """
        numbers = sorted(self.leads)
        pairs = [
            (first, other)
            for at, first in enumerate(numbers)
            for other in numbers[at + 1 :]
            if self.leads[first] - self.leads[other]
            and self.leads[other] - self.leads[first]
            and self.trials[first].candidate.program == self.trials[other].candidate.program
            and self.trials[first].candidate.instructions != self.trials[other].candidate.instructions
        ]
        if not pairs:
            return None
        weights = [len(self.leads[first] ^ self.leads[other]) for first, other in pairs]
        first, other = (self.trials[number] for number in rng.choices(pairs, weights)[0])
        return (first, other) if first.values[0] >= other.values[0] else (other, first)


def _undominated(
    leads: Mapping[int, frozenset[int]], series: Mapping[int, Sequence[float]]
) -> dict[int, frozenset[int]]:
    """Returns `leads` without trials that lead nowhere, or only where the remaining ones lead too.

    The trial with the lowest mean is examined first; of equal ones the earlier, so that a text that changed
    nothing yet may be built on.
    """
    remaining = {number: led for number, led in leads.items() if led}
    for number in sorted(remaining, key=lambda n: (sum(series[n]) / len(series[n]), n)):
        others = (led for other, led in remaining.items() if other != number)
        if remaining[number] <= frozenset().union(*others):
            del remaining[number]
    return remaining
