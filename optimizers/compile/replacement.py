"""What a compile replaces: a sentence on the program that was in its output directory, with both scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragc.compiled.base import CompiledProgram, load
from ragc.core.display import figure, quantity
from ragc.errors import ArtefactError

_TWO_FOLDERS = "Another --out keeps both."


def replacement_note(out: Path, compiled: CompiledProgram, metric: str) -> str:
    """Returns a sentence on the program in `out` that `compiled` replaces; "" for none and for the same one.

    It has the scores of both in `metric` where they answered the same questions, on test or else on dev.
    """
    try:
        earlier = load(out)
    except ArtefactError:
        return ""
    same_inputs = all(
        _at(earlier.provenance, name) == _at(compiled.provenance, name) for name in ("sources", "targets")
    )
    if earlier.fingerprint == compiled.fingerprint and same_inputs:
        return ""
    scores = _scores(earlier.provenance, compiled.provenance, metric)
    if scores is None:
        reason = f"its scores are not of the same questions in the same metric ({metric}), so none is shown"
        return f"The program that was in {out} was another one and is replaced; {reason}. {_TWO_FOLDERS}"
    before, now, questions = scores
    return (
        f"The program that was in {out} was another one and is replaced: {metric} was "
        f"{figure(metric, before)} on {questions}, and is {figure(metric, now)} now. {_TWO_FOLDERS}"
    )


def _scores(
    earlier: Mapping[str, Any], present: Mapping[str, Any], metric: str
) -> tuple[float, float, str] | None:
    """Returns the means of both winners in `metric` and the questions that both answered; None for none.

    Replies of another judge are another metric.
    """
    if _at(earlier, "backends") != _at(present, "backends"):
        return None
    crossed = [_at(facts, "cross_validation") is not None for facts in (earlier, present)]
    splits = [("test", "test"), ("dev", "dev")] if not any(crossed) else []
    if all(crossed) and _at(earlier, "folds") == _at(present, "folds"):
        splits = [("test", "train"), ("test", "dev")]
    same = {data: _is_same(earlier, present, data) for _, data in splits}
    if any(crossed) and not all(same.values()):
        return None
    for split, data in splits:
        before, now = (_at(facts, split, "winner", metric) for facts in (earlier, present))
        means = _at(before, "mean"), _at(now, "mean")
        numbers = _at(before, "n"), _at(now, "n")
        if same[data] and numbers[0] == numbers[1] and all(isinstance(one, int | float) for one in means):
            what = "question" if any(crossed) else f"{split} question"
            by = ", by cross-validation" if any(crossed) else ", which chose both" if split == "dev" else ""
            return means[0], means[1], f"the same {quantity(int(numbers[0]), what)}{by}"
    return None


def _is_same(earlier: Mapping[str, Any], present: Mapping[str, Any], split: str) -> bool:
    before, now = (_at(facts, "data", split) for facts in (earlier, present))
    return bool(before == now)


def _at(value: Any, *keys: str) -> Any:
    """Returns what stands at `keys` in nested tables; None where it is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
