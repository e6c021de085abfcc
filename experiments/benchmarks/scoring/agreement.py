"""Reads verdicts of people and a judge on the same answers from a file of JSON lines.

agreement(read_judged("judged.jsonl"), seed=0).to_json()
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ragc.core import inputs
from ragc.errors import DataError, UsageError
from ragc.metrics.stats.agreement import JudgedAnswer

_WORDS = {
    **dict.fromkeys(("correct", "true", "yes"), True),
    **dict.fromkeys(("wrong", "incorrect", "hallucination", "missing", "false", "no"), False),
}


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
