"""The front: programs of the Pareto front that are tested together with the winner and written to `front/`.

    trials ──► at most `search.front` members ──► answers to the test questions ──► one correction over all

All members and objectives are one family of comparisons with the baseline (`ragc.metrics.stats.resample`), of
which the winner is a part: whoever picks another member than the winner picks among programs that were tested
for that. All members and limits are another family: that every program which is called "within" a limit keeps
to it on new questions is wrong in at most 5% of studies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from ragc.compiled.base import FRONT, CompiledProgram
from ragc.compiled.verdict import (
    FOR_TRYING,
    NOT_MEASURED,
    adjusted,
    after_looks_json,
    difference_of,
    intervals_to_json,
    trying_note,
)
from ragc.errors import BudgetExhausted
from ragc.metrics.base import UNMEASURED, Objective
from ragc.metrics.failures import Failures
from ragc.metrics.limits import Standing
from ragc.metrics.stats.resample import Interval, verdict
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.selection import pareto_front
from ragc.programs.base import RagProgram
from ragc.recipe.models import SelectionRule
from ragc.store.used_questions import TestUse
from ragc.task.answering import Row, failures_of, groups_of
from ragc.task.base import Task
from ragc.task.run import MeasuredRun

ALPHA = 0.05
"""The probability of any false claim about members and limits."""


@dataclass(frozen=True, slots=True)
class FrontMember:
    """One program of the front: the `trial` that tried it, and whether it is the winner."""

    trial: TrialResult
    program: RagProgram
    is_winner: bool


@dataclass(frozen=True, slots=True)
class TestedMember:
    """A member and its answers to the test questions: rows, intervals by metric, and what they show.

    `differences` from the baseline are by objective, with `p_adjusted` and `ci_simultaneous` over all
    members and objectives. `limits` are standings by limit. Without answers all are empty and the verdict
    says so.
    """

    member: FrontMember
    rows: tuple[Row, ...] = ()
    scores: Mapping[str, Interval] = field(default_factory=dict)
    differences: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    verdict: str = NOT_MEASURED
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def failures(self) -> Failures:
        """The unanswered test questions."""
        return failures_of(self.rows)

    def to_json(self, task: Task, number: int) -> dict[str, Any]:
        """Returns the member number `number` for provenance."""
        trial, objectives = self.member.trial, task.objectives
        failed = {"failures": self.failures.to_json()} if self.rows and self.failures.n else {}
        return {
            "path": f"{FRONT}/{number}",
            "trial": trial.number,
            "winner": self.member.is_winner,
            "candidate": trial.candidate.to_json(),
            "dev": {o.metric.id: o.to_metric(v) for o, v in zip(objectives, trial.values, strict=True)},
            "test": intervals_to_json(self.scores),
            "differences": {name: dict(value) for name, value in self.differences.items()},
            "verdict": self.verdict,
            **({"limits": {name: dict(value) for name, value in self.limits.items()}} if self.limits else {}),
            **failed,
        }


def choose_members(trials: Sequence[TrialResult], rule: SelectionRule, chosen: TrialResult, most: int) -> (
    list[TrialResult]
):  # fmt: skip
    """Returns the trials of the front: `chosen` and the others that cover most with it, at most `most`.

    That is the greatest hypervolume of the objectives, each from its worst value on the Pareto front, less a
    tenth of its range, to its best (Zitzler and Thiele 1998), chosen one at a time. They are in the order of
    the first objective, the best first.
    """
    if not most:
        return []
    front = [
        trial
        for trial in pareto_front(trials, rule)
        if trial.number != chosen.number and max(map(abs, trial.values)) < UNMEASURED
    ]
    columns = list(zip(*(trial.values for trial in (chosen, *front)), strict=True))
    ranges = [(min(column), max(column) - min(column) or 1.0) for column in columns]

    def corner(trial: TrialResult) -> tuple[float, ...]:
        return tuple((v - low) / span + 0.1 for v, (low, span) in zip(trial.values, ranges, strict=True))

    members = [chosen]
    while front and len(members) < most:
        known = [corner(trial) for trial in members]
        best = max(front, key=lambda trial: (round(hypervolume([*known, corner(trial)]), 12), -trial.number))
        members.append(best)
        front.remove(best)
    return sorted(members, key=lambda trial: (-trial.values[0], trial.number))


def hypervolume(corners: Sequence[Sequence[float]]) -> float:
    """Returns the volume of the union of the boxes from 0 to `corners`, by inclusion and exclusion."""
    total = 0.0
    for size in range(1, len(corners) + 1):
        for boxes in combinations(corners, size):
            volume = 1.0
            for edges in zip(*boxes, strict=True):
                volume *= min(edges)
            total += volume if size % 2 else -volume
    return total


async def answer_front(
    run: MeasuredRun, members: Sequence[FrontMember], rows: Mapping[str, tuple[Row, ...]]
) -> list[TestedMember]:
    """Answers the test questions with all `members`; `rows` are those of baseline and winner.

    Where the budget runs out, the members that are left are not measured.
    """
    answers: list[tuple[Row, ...]] = []
    ended = not rows.get("winner")
    for number, member in enumerate(members, start=1):
        if member.is_winner or ended:
            answers.append(rows.get("winner", ()) if member.is_winner else ())
            continue
        run.progress.phase(f"{FRONT}/{number} on test", len(run.task.test))
        try:
            answers.append(await run.answer(member.program, run.task.test))
        except BudgetExhausted as error:
            run.progress.note(f"{FRONT}/{number} and later not measured: {error}")
            ended = True
            answers.append(())
    return test_members(run.task, members, answers, rows.get("baseline", ()))


def test_members(
    task: Task,
    members: Sequence[FrontMember],
    answers: Sequence[tuple[Row, ...]],
    before: Sequence[Row],
) -> list[TestedMember]:
    """Returns the `members` with what their `answers` show beside those of the baseline, `before`."""
    contrasts = [
        (at, objective, result)
        for at, rows in enumerate(answers)
        for objective in task.objectives
        if rows and (result := difference_of(objective.metric, before, rows, task.seed)) is not None
    ]
    family = [(objective.metric, result, answers[at]) for at, objective, result in contrasts]
    differences: list[dict[str, dict[str, Any]]] = [{} for _ in members]
    verdicts = [NOT_MEASURED for _ in members]
    judged = adjusted(family, before, task.seed) if family else []
    for (at, objective, result), (p, low, high) in zip(contrasts, judged, strict=True):
        differences[at][objective.metric.id] = {
            "mean": result.diff,
            "p": result.p,
            "p_adjusted": p,
            "ci_simultaneous": [low, high],
            "n": result.n,
        }
        if objective is task.objectives[0]:
            plain = verdict(result)
            sure = plain if p < ALPHA or plain == "cannot tell" else "not shown to be better"
            verdicts[at] = (
                {"better": "worse", "worse": "better"}.get(sure, sure) if objective.sign < 0 else sure
            )
    tested = [at for at, rows in enumerate(answers) if rows]
    standings = limits_of(task.rule, [answers[at] for at in tested])
    limits = dict(zip(tested, standings, strict=True))
    for at in tested:
        if failures_of(answers[at]).all:
            verdicts[at] = f"nothing answered: {failures_of(answers[at]).reason}"
    return [
        TestedMember(
            member,
            rows,
            task.summarize([row.scores for row in rows], groups_of(rows)),
            differences[at],
            verdicts[at],
            limits.get(at, {}),
        )
        for at, (member, rows) in enumerate(zip(members, answers, strict=True))
    ]


def limits_of(rule: SelectionRule, answers: Sequence[Sequence[Row]]) -> list[dict[str, dict[str, Any]]]:
    """Returns how each of some programs stands to the limits of `rule`, by their `answers` on test.

    "within" and "over" are said falsely of any of them with a probability of at most `ALPHA` each.
    """
    limits = rule.limits
    alpha = ALPHA / max(1, len(limits) * len(answers))
    out = []
    for rows in answers:
        scores = [row.scores for row in rows]
        standings: dict[str, Standing] = {
            limit.name: limit.standing(scores, alpha, groups_of(rows)) for limit in limits
        }
        out.append(
            {
                limit.name: {
                    "most": limit.most,
                    "test": min(limit.amount(scores), UNMEASURED),
                    "standing": standings[limit.name],
                }
                for limit in limits
            }
        )
    return out


def limit_note(limits: Mapping[str, Mapping[str, float]]) -> str:
    """Returns a sentence where the winner exceeds `limits` on dev, as no trial kept to them; "" elsewhere."""
    over = [(name, held["dev"], held["most"]) for name, held in limits.items() if held["dev"] > held["most"]]
    if not over:
        return ""
    shown = ", ".join(
        f"{name} {'not measured' if amount >= UNMEASURED else format(amount, '.4g')} (at most {most:g})"
        for name, amount, most in over
    )
    return f"No program kept to the limits on dev, and the nearest was chosen: {shown}."


def of_front(
    front: Sequence[TestedMember],
    primary: Objective,
    differences: Mapping[str, Mapping[str, Any]],
    verdict: str,
) -> tuple[dict[str, dict[str, Any]], str]:
    """Returns `differences` and `verdict` of the winner after the correction for all members of `front`.

    That of the metric `primary` also has `p_front` and `ci_front`. Without a tested front both are unchanged.
    """
    out = {name: dict(value) for name, value in differences.items()}
    winner = next((one for one in front if one.member.is_winner and one.differences), None)
    mine = winner.differences.get(primary.metric.id) if winner else None
    if winner is None or mine is None:
        return out, verdict
    out[primary.metric.id] |= {"p_front": mine["p_adjusted"], "ci_front": mine["ci_simultaneous"]}
    return out, winner.verdict


def qualified(front: Sequence[TestedMember], mark: str) -> list[TestedMember]:
    """Returns `front` with verdicts as the winner has its own: none on questions that are for trying only,
    and with `mark`, which says how many questions were seen before ("" for none).
    """

    def verdict_of(one: TestedMember) -> str:
        held = FOR_TRYING if trying_note(one.rows) else one.verdict
        return f"{held} ({mark})" if mark else held

    return [replace(one, verdict=verdict_of(one)) if one.rows else one for one in front]


def front_json(task: Task, front: Sequence[TestedMember]) -> dict[str, Any]:
    """Returns the members of `front` for provenance; {} without any."""
    if not front:
        return {}
    return {"front": [one.to_json(task, number) for number, one in enumerate(front, start=1)]}


def front_programs(
    front: Sequence[TestedMember], winner: CompiledProgram, *, look: TestUse | None, primary: str
) -> list[tuple[CompiledProgram, RagProgram]]:
    """Returns each member of `front` as a compiled program, the best first.

    Each has the provenance of the `winner` with its own figures, and what they are after the looks before
    `look` by the metric `primary`.
    """
    programs = []
    facts = winner.provenance
    run = {name: value for name, value in winner.run.items() if name != "after_looks"}
    for number, one in enumerate(front, start=1):
        test = {name: side for name, side in facts["test"].items() if name == "baseline"}
        mine = facts["front"][number - 1]
        provenance = {
            **{name: value for name, value in facts.items() if name not in ("front", "limits")},
            "dev": {},
            "test": {**test, "winner": mine["test"], "differences": mine["differences"]},
            "verdict": one.verdict,
            "search": {"candidate": mine["candidate"], "trial": mine["trial"], "finished": True},
            "failures": {"test": {"winner": one.failures.to_json()}} if one.rows else {},
            **({"limits": mine["limits"]} if "limits" in mine else {}),
        }
        program = one.member.program
        own = {**run, **after_looks_json(look, one.differences, one.verdict, primary)}
        compiled = CompiledProgram.of(program, provenance=provenance, recipe=winner.recipe, run=own)
        programs.append((compiled, program))
    return programs
