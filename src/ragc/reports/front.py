"""The tested front and the limits of a compiled program, read from its provenance: lines and records.

`provenance.json` may come from elsewhere, so a value of another type than expected is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragc.compiled.verdict import verdict_at
from ragc.core.display import figure, quantity
from ragc.metrics.base import UNMEASURED
from ragc.reports.compiled import looks_factor
from ragc.reports.report import FrontProgram
from ragc.reports.values import amount, entries, mapping, number, text


def front_programs(
    provenance: Mapping[str, Any], run: Mapping[str, Any] | None = None
) -> Iterator[FrontProgram]:
    """Yields the tested members of the front in `provenance`, in order.

    Verdicts and p are adjusted for the looks at the test questions before, by `run.json`.
    """
    factor, differences = looks_factor(run or {}), mapping(mapping(provenance.get("test")).get("differences"))
    decisive = next((name for name, one in differences.items() if "p_front" in mapping(one)), "")
    for value in entries(provenance.get("front")):
        held = mapping(value)
        scores = {name: mapping(one) for name, one in mapping(held.get("test")).items()}
        p = number(mapping(mapping(held.get("differences")).get(decisive)).get("p_adjusted"))
        p = p if p is None else min(1.0, factor * p)
        verdict = text(held.get("verdict"))
        yield FrontProgram(
            text(held.get("path")),
            int(amount(held.get("trial"))),
            held.get("winner") is True,
            {name: mean for name, one in scores.items() if (mean := number(one.get("mean"))) is not None},
            tuple(sorted(map(str, mapping(held.get("dev"))), key=lambda name: name != decisive)),
            verdict if p is None else verdict_at(verdict, p),
            p,
            _standings(held.get("limits")),
        )


def front_lines(provenance: Mapping[str, Any], run: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Yields the lines on the tested front, or else on the Pareto front on dev; none for one objective.

    `run` is that of `front_programs`.
    """
    programs = list(front_programs(provenance, run))
    if not programs:
        yield from _dev_lines(mapping(provenance.get("search")))
        return
    count = quantity(len(programs), "program")
    yield f"The front on test, with one correction for its {count}, best first:"
    for one in programs:
        scores = ", ".join(
            f"{name} {figure(name, one.means[name])}" for name in one.objectives if name in one.means
        )
        mark = ", the winner" if one.winner else ""
        p = "" if one.p is None else f" (p {one.p:.4f})"
        line = f"  {one.path}{mark}: {scores or 'no score'}; {one.verdict}{p}"
        yield line + (f"; {one.limits}" if one.limits else "")


def limit_lines(provenance: Mapping[str, Any]) -> Iterator[str]:
    """Yields the line on how the winner stands to the limits of its recipe; none without limits."""
    if standings := _standings(provenance.get("limits")):
        yield f"Limits, on new questions: {standings}."


_MORE = "; it takes more questions to tell"


def _standings(limits: Any) -> str:
    """Returns how a program stands to `limits`, such as `tokens within (760 on test, at most 800)`."""
    standings = []
    for name, held in mapping(limits).items():
        standing = text(mapping(held).get("standing"))
        most = f"at most {amount(mapping(held).get('most')):g}{_MORE if standing == 'unclear' else ''}"
        standings.append(f"{name} {standing} ({_on_test(mapping(held))}, {most})")
    return ", ".join(standings)


def _on_test(limit: Mapping[str, Any]) -> str:
    cost = number(limit.get("test"))
    return "not measured on test" if cost is None or cost >= UNMEASURED else f"{cost:.4g} on test"


def _dev_lines(search: Mapping[str, Any]) -> Iterator[str]:
    front = [mapping(value) for value in entries(search.get("front"))]
    if not front:
        return
    from ragc.optimizers.candidates.space import Candidate, describe_candidate

    yield "The front: no trial is better than one of these in one objective and as good in the others (dev)."
    candidates = [Candidate.of(trial["candidate"]) for trial in front]
    knobs = dict.fromkeys(name for one in candidates for name in one.knobs)
    varied = [name for name in knobs if len({repr(one.knobs.get(name)) for one in candidates}) > 1]
    for trial, candidate in zip(front, candidates, strict=True):
        shown = {name: candidate.knobs[name] for name in varied if name in candidate.knobs}
        values = ", ".join(f"{name} {value:.4g}" for name, value in trial["values"].items())
        chosen = describe_candidate(candidate, shown, program=candidate.program)
        mark = ", compiled" if trial["candidate"] == search.get("candidate") else ""
        yield f"  trial {trial['trial']}{mark}: {values}" + (f" ({chosen})" if chosen else "")
