"""How the score of a compiled program moved, once other targets play its roles than when it was compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragc.metrics.significance import Interval


@dataclass(frozen=True, slots=True)
class Moved:
    """What changed since the compile.

    `targets` are the names of the targets then and now, by role, of those that changed. `means` are then and
    now, by metric; the means then were of the same questions where `same_questions`.
    """

    targets: Mapping[str, tuple[str, str]]
    means: Mapping[str, tuple[float, float]]
    same_questions: bool

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        means = {
            name: {"then": then, "now": now, "difference": now - then}
            for name, (then, now) in self.means.items()
        }
        targets = {role: {"then": then, "now": now} for role, (then, now) in self.targets.items()}
        return {"targets": targets, "metrics": means, "same_questions": self.same_questions}

    def lines(self) -> list[str]:
        """For people: what changed, then a line a metric."""
        said = [f"{role}: {then} when compiled, {now} now" for role, (then, now) in self.targets.items()]
        said += [
            f"{name:<12} {then:.3f} then, {now:.3f} now: {now - then:+.3f}"
            for name, (then, now) in self.means.items()
        ]
        return said if self.same_questions else [*said, "The questions are not those of the compile."]


def moved(
    provenance: Mapping[str, Any], facts: Mapping[str, Any], split: str, now: Mapping[str, Interval]
) -> Moved | None:
    """How the means `now` of `split` differ from those in `provenance`; `facts` are those of the task now.

    None when the same targets play all roles, or when the compile did not score this split.
    """
    before, after = provenance.get("targets") or {}, facts.get("targets") or {}
    changed = {
        role: (str(before[role]["name"]), str(after[role]["name"]))
        for role in sorted(before.keys() & after.keys())
        if before[role] != after[role]
    }
    scored = (provenance.get(split) or {}).get("winner") or {}
    means = {name: (float(scored[name]["mean"]), value.mean) for name, value in now.items() if name in scored}
    if not changed or not means:
        return None
    data = [(held.get("data") or {}).get(split) for held in (provenance, facts)]
    return Moved(changed, means, data[0] == data[1])
