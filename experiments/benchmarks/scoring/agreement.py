"""How far a judge can be trusted: its verdicts against those of people on the same answers.

    rows = read_judged("judged.jsonl")
    agreement(rows, seed=0).to_json()

Positive means correct: precision is the share of the answers the judge called correct that people did too,
recall the share of the answers people called correct that the judge did too. A reply of the judge that could
not be read counts as "not correct", as it does in scores, and is counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragc.core import inputs
from ragc.errors import DataError, UsageError
from ragc.metrics.stats.intervals import Interval, mean_ci

_WORDS = {
    **dict.fromkeys(("correct", "true", "yes"), True),
    **dict.fromkeys(("wrong", "incorrect", "hallucination", "missing", "false", "no"), False),
}


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
        """JSON values only; an interval has `mean`, `low`, `high` and `n`."""
        return {"n": self.n, **asdict(self)}


def agreement(rows: Iterable[JudgedAnswer], *, seed: int, confidence: float = 0.95) -> Agreement:
    """The agreement over `rows`; the same for the same rows in any order.

    Accuracy, precision and recall have the intervals of `mean_ci`. That of Cohen's kappa is the one of
    accuracy with the agreement by chance held fixed, as in Cohen's own standard error (1960,
    doi:10.1177/001316446002000104). Raises UsageError without rows.
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

    accuracy = share(both + neither, judge_only + human_only)
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


def read_judged(path: str | Path) -> tuple[JudgedAnswer, ...]:
    """The rows of a file of JSON lines, each an object with `human` and `judge`; blank lines are skipped.

    A verdict is true or false, one of the words correct, true, yes, wrong, incorrect, hallucination,
    missing, false, no, or the finding of an assessor. `judge` may also be null, or a finding by
    "unreadable". Raises DataError with every line that does not fit, UsageError when there is no such file.
    """
    where = Path(path)
    try:
        text = inputs.read_text(where, "utf-8-sig")
    except (OSError, ValueError) as error:
        raise UsageError(f"No judged answers can be read from {where}: {error}.") from error
    rows, problems = list[JudgedAnswer](), list[str]()
    for number, line in enumerate(text.split("\n"), 1):
        try:
            rows += _row(line)
        except (ValueError, RecursionError) as error:
            problems.append(f"line {number}: {error}")
    if problems or not rows:
        raise DataError(str(where), problems or ["it holds no judged answers"])
    return tuple(rows)


def _row(line: str) -> Iterator[JudgedAnswer]:
    if not line.strip():
        return
    values = json.loads(line)
    if not isinstance(values, dict) or not {"human", "judge"} <= values.keys():
        raise ValueError("an object with `human` and `judge` is needed")
    human = _verdict("human", values["human"])
    if human is None:
        raise ValueError("`human` must be a verdict")
    yield JudgedAnswer(human, _verdict("judge", values["judge"]))


def _verdict(name: str, value: object) -> bool | None:
    if isinstance(value, dict):
        if value.get("by") == "unreadable":
            return None
        value = value.get("verdict", value)
    if value is None or isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in _WORDS:
        raise ValueError(
            f"`{name}` is {json.dumps(value)[:60]}, true, false or one of {', '.join(_WORDS)} is needed"
        )
    return _WORDS[word]


def _kappa(accuracy: Interval, judge: float, human: float) -> Interval | None:
    """Kappa from the shares that the judge and people called correct; None when chance alone is certain."""
    if judge == human and judge in (0.0, 1.0):
        return None
    chance = judge * human + (1 - judge) * (1 - human)
    mean, low, high = (
        max(-1.0, (x - chance) / (1 - chance)) for x in (accuracy.mean, accuracy.low, accuracy.high)
    )
    return Interval(mean, low, high, accuracy.n)
