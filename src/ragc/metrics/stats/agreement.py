"""How far a judge can be trusted: its verdicts against those of people on the same answers.

    agreement([JudgedAnswer(human=True, judge=True), ...], seed=0).kappa

Positive means correct: precision is the share of the answers the judge called correct that people did too,
recall the share of the answers people called correct that the judge did too. A reply of the judge that could
not be read counts as "not correct", as it does in scores, and is counted.

In simulations with 30 to 100 answers and kappa of .1 to .9 the intervals of kappa held the true one in .947
or more of 300 runs; those of the asymptotic error (Fleiss, Cohen and Everitt 1969) in .77 to .95.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ragc.errors import UsageError
from ragc.metrics.stats.intervals import Interval, mean_ci


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One answer that people and a judge have judged; `judge` is None when its reply could not be read."""

    human: bool
    judge: bool | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """A judge against people over `n` answers, each part with its interval.

    `both` were called correct by both, `neither` by none, `judge_only` and `human_only` by that side alone;
    they sum to `n`. `unreadable` of them had no readable verdict. `kappa`, -1..1, is None when both sides
    called all answers the same and chance alone explains that; `precision` and `recall` are None when the
    judge, or people, called nothing correct.
    """

    both: int
    judge_only: int
    human_only: int
    neither: int
    unreadable: int
    accuracy: Interval
    kappa: Interval | None
    precision: Interval | None
    recall: Interval | None

    @property
    def n(self) -> int:
        """The number of answers."""
        return self.both + self.judge_only + self.human_only + self.neither

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only; an interval has `mean`, `low`, `high` and `n`."""
        return {"n": self.n, **asdict(self)}


def agreement(
    rows: Iterable[JudgedAnswer],
    *,
    seed: int,
    confidence: float = 0.95,
    groups: Sequence[str] | None = None,
) -> Agreement:
    """Returns the agreement over `rows`; without `groups` the same for the same rows in any order.

    Accuracy, precision and recall have the intervals of `mean_ci`. That of Cohen's kappa is the one of
    accuracy with the agreement by chance held fixed, as in Cohen's own standard error (1960,
    doi:10.1177/001316446002000104). `groups` has the label of each answer's group, "" for one of its own;
    they widen the intervals of accuracy and kappa. Raises UsageError without rows.
    """
    pairs = [(bool(row.judge), row.human, row.judge is None) for row in rows]
    if not pairs:
        raise UsageError("There are no judged answers to compare. Give at least one row with both verdicts.")
    both, judge_only, human_only, neither = (
        sum((judge, human) == cell for judge, human, _ in pairs)
        for cell in ((True, True), (True, False), (False, True), (False, False))
    )

    def share(yes: int, no: int) -> Interval:
        return mean_ci([1.0] * yes + [0.0] * no, seed=seed, confidence=confidence)

    accuracy = mean_ci(
        [float(judge == human) for judge, human, _ in pairs],
        seed=seed,
        confidence=confidence,
        groups=groups,
    )
    by_judge, by_human = both + judge_only, both + human_only
    return Agreement(
        both=both,
        judge_only=judge_only,
        human_only=human_only,
        neither=neither,
        unreadable=sum(unreadable for _, _, unreadable in pairs),
        accuracy=accuracy,
        kappa=_kappa(accuracy, by_judge / len(pairs), by_human / len(pairs)),
        precision=share(both, judge_only) if by_judge else None,
        recall=share(both, human_only) if by_human else None,
    )


def _kappa(accuracy: Interval, judge: float, human: float) -> Interval | None:
    """Returns kappa from the shares that the judge and people called correct; None when chance alone is
    certain.
    """
    if judge == human and judge in (0.0, 1.0):
        return None
    chance = judge * human + (1 - judge) * (1 - human)
    mean, low, high = (
        max(-1.0, (x - chance) / (1 - chance)) for x in (accuracy.mean, accuracy.low, accuracy.high)
    )
    return Interval(mean, low, high, accuracy.n, accuracy.groups)
