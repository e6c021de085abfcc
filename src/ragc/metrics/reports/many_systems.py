"""Many systems on the same questions: each against a baseline, or each against each.

With 20 variants and no real difference, some variant looks better than the baseline at p < .05 in up to two
of three tables. So p values are adjusted for the family (`adjusting`), and verdicts follow the adjusted ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ragc.errors import UsageError
from ragc.metrics import get
from ragc.metrics.stats.intervals import Verdict, power_note
from ragc.metrics.stats.multiple import Contrast, Judged, Matching, Method, Scores, judge, match


@dataclass(frozen=True, slots=True)
class Scored:
    """A system's scores of one metric by question id; None where the metric does not apply.

    `backend` names the judge, model or rule behind the scores, "" when there is none.
    """

    name: str
    metric: str
    scores: Scores
    backend: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """System `b` against system `a`. `judged` is None when they share no scored question."""

    a: str
    b: str
    matching: Matching
    judged: Judged | None
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """JSON values; of the numbers of a pair that shares no question only `n` is there, as 0."""
        left = {name: getattr(self.matching, name) for name in ("only_a", "only_b", "unscored")}
        numbers = self.judged.to_json() if self.judged else {"n": 0}
        return {"a": self.a, "b": self.b, **numbers, **left, "verdict": self.verdict}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A family of pairs on one metric, adjusted together by `method`."""

    metric: str
    backend: str
    method: Method
    pairs: tuple[Pair, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        pairs = [pair.to_json() for pair in self.pairs]
        return {"metric": self.metric, "backend": self.backend, "adjustment": self.method, "pairs": pairs}

    def table(self) -> tuple[tuple[str, ...], ...]:
        """Rows of text for printing, the header first."""
        head = ("a", "b", "difference (simultaneous interval)", "p adjusted", "p alone", "n", "verdict")
        return head, *(_row(pair) for pair in self.pairs)

    def notes(self) -> tuple[str, ...]:
        """What was left out of each pair, and what the smallest effect to be shown is before adjustment."""
        found = []
        for pair in self.pairs:
            notes = [
                pair.matching.note(pair.a, pair.b),
                power_note(pair.judged.result) if pair.judged else "",
            ]
            found += [f"{pair.a} and {pair.b}: {note}" for note in notes if note]
        return tuple(found)


def against(
    baseline: Scored,
    others: Sequence[Scored],
    *,
    seed: int,
    method: Method = "max-t",
    confidence: float = 0.95,
) -> Comparison:
    """Each of `others` as b against `baseline` as a, in the order given.

    Questions are matched by id; those that one side lacks are counted in the pair's `matching`. Raises
    UsageError for different metrics or backends, a name used twice, nothing to compare, and as
    `contrasts.judge` does.
    """
    return _compare((baseline, *others), [(baseline, other) for other in others], seed, method, confidence)


def all_pairs(
    systems: Sequence[Scored], *, seed: int, method: Method = "max-t", confidence: float = 0.95
) -> Comparison:
    """Every system against every later one; as `against`."""
    return _compare(systems, list(combinations(systems, 2)), seed, method, confidence)


def _compare(
    systems: Sequence[Scored],
    pairs: Sequence[tuple[Scored, Scored]],
    seed: int,
    method: Method,
    confidence: float,
) -> Comparison:
    if not pairs:
        raise UsageError("There is nothing to compare; give two systems or more.")
    twice = [name for name, n in Counter(system.name for system in systems).items() if n > 1]
    if twice:
        raise UsageError(f"Two systems are named {twice[0]!r}; give each its own name.")
    metric = get(_one("metric", (system.metric for system in systems)))
    backend = _one("backend", (system.backend for system in systems))
    contrasts = [Contrast(a.scores, b.scores, metric.bounds) for a, b in pairs]
    found = judge(contrasts, seed=seed, method=method, confidence=confidence)
    made = (
        Pair(a.name, b.name, match(a.scores, b.scores)[1], one, decided(one, metric.higher_is_better))
        for (a, b), one in zip(pairs, found, strict=True)
    )
    return Comparison(metric.id, backend, method, tuple(made))


def decided(found: Judged | None, higher_is_better: bool) -> Verdict:
    """The adjusted verdict on b; nothing is shown where nothing was compared."""
    return found.verdict(higher_is_better=higher_is_better) if found else "not shown to be better"


def _one(what: str, values: Iterable[str]) -> str:
    found = list(dict.fromkeys(values))
    if len(found) > 1:
        listed = " and ".join(repr(value) for value in found)
        raise UsageError(
            f"Scores of different {what}s cannot be compared, but got {listed}; use one for all."
        )
    return found[0]


def _row(pair: Pair) -> tuple[str, ...]:
    found = pair.judged
    if found is None:
        return pair.a, pair.b, "", "", "", "0", "no common question"
    gap = f"{found.result.diff:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
    numbers = f"{found.adjusted:.4f}", f"{found.result.p:.4f}", str(found.result.n)
    return pair.a, pair.b, gap, *numbers, pair.verdict
