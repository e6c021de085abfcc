"""Lines on the front and the limits of a compiled program, for the terminal; read from `provenance.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragc.core.display import figure, quantity


def front_lines(provenance: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines on the tested front, or else on the Pareto front on dev; none for one objective."""
    if tested := provenance.get("front") or ():
        yield from _tested_lines(tested, provenance.get("oracle") or {})
    else:
        yield from _dev_lines(provenance.get("search") or {})


def limit_lines(provenance: Mapping[str, Any]) -> Iterator[str]:
    """Yields the line on how the winner stands to the limits of its recipe; none without limits."""
    if limits := provenance.get("limits") or {}:
        yield f"Limits, on new questions: {_standings(limits)}."


def _standings(limits: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{name} {held['standing']} ({held['test']:.4g} on test, at most {held['most']:g})"
        for name, held in limits.items()
    )


def _tested_lines(front: Sequence[Mapping[str, Any]], oracle: Mapping[str, Any]) -> Iterator[str]:
    programs = quantity(len(front), "program")
    yield f"The front on test, with one correction for its {programs}, best first:"
    for member in front:
        scores = ", ".join(
            f"{name} {figure(name, member['test'][name]['mean'])}"
            for name in member["dev"]
            if name in member["test"]
        )
        mark = ", the winner" if member["winner"] else ""
        p = next((f" (p {one['p_adjusted']:.4f})" for one in member["differences"].values()), "")
        line = f"  {member['path']}{mark}: {scores or 'no score'}; {member['verdict']}{p}"
        yield line + (f"; {_standings(member['limits'])}" if member.get("limits") else "")
    if oracle:
        yield (
            f"Choosing among them for each question could save at most {oracle['saved']:.0%} of "
            f"{oracle['cost']}: so much saves an oracle that knows the scores."
        )


def _dev_lines(search: Mapping[str, Any]) -> Iterator[str]:
    front: Sequence[Mapping[str, Any]] = search.get("front") or ()
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
