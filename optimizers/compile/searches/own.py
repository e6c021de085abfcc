"""The search by ragc's own study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragc.core.display import quantity
from ragc.metrics.base import UNMEASURED, Objective
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.compile.front import FrontMember, choose_members
from ragc.optimizers.compile.searches.base import Baseline, Searched, Selected, no_answer_error
from ragc.optimizers.search.selection import best, expected_of_choice, pareto_front
from ragc.optimizers.search.study import Study
from ragc.recipe.models import SelectionRule
from ragc.task.base import Task


class StudySearch:
    """The search by ragc's own study."""

    def __init__(self, study: Study) -> None:
        self.task, self._study = study.task, study

    async def baseline(self) -> Baseline:
        """Runs the first trial, unless the study has it already."""
        trial = await self._study.baseline()
        calls = trial.counters["lm_calls"] / max(1, len(trial.scores))
        return Baseline(trial.scores, trial.failures, calls)

    async def search(self, reserved: int) -> Searched:
        """Runs trials until the trials or the budget are spent."""
        await self._study.search(reserved)
        self.task.budget.hold(0)
        return Searched(tuple(self._study.trials), self._study.budget_message)

    async def select(self, searched: Searched) -> Selected:
        """Selects the trial with the greatest expected score, on the Pareto front if there are several
        objectives.
        """
        task, study, trials = self.task, self._study, searched.trials
        chosen = study.select(trials, searched.budget)
        if chosen.failures.all:
            raise no_answer_error(chosen.failures, len(trials), task)
        first = trials[0]
        expected = expected_of_choice(trials, task.rule, chosen)
        facts: dict[str, Any] = {
            "candidate": chosen.candidate.to_json(),
            "expected": {task.pick.metric.id: expected.to_json(task.pick.sign)},
            "trials": len(trials) - 1,
            "stopped": sum(not trial.complete for trial in trials),
            "budget": searched.budget,
        }
        remarks = [study.looks.fewer_questions] if study.looks.fewer_questions else []
        if calibrated := study.threshold_tuner.facts():
            facts["calibration"] = calibrated
            remarks += _fitted_remarks(calibrated, chosen.candidate, task.recipe.program)
        if remarks:
            facts["remarks"] = remarks
        if limits := dev_limits(chosen, task.rule):
            facts["limits"] = limits
        if scores := await study.builder.demo_scores(chosen.candidate):
            facts["demonstrations"] = scores
        if len(task.objectives) > 1:
            facts["front"] = [_on_front(task, trial) for trial in pareto_front(trials, task.rule)]
        members = [
            FrontMember(trial, await study.builder.program(trial.candidate), trial.number == chosen.number)
            for trial in choose_members(trials, task.rule, chosen, task.recipe.search.front)
        ]
        return Selected(
            await study.builder.program(first.candidate),
            await study.builder.program(chosen.candidate),
            {"baseline": first.scores, "winner": chosen.scores},
            facts,
            [*(trial.counters for trial in trials), *study.builder.costs(), *study.threshold_tuner.costs()],
            [trial.to_json() for trial in trials],
            {"baseline": first.failures, "winner": chosen.failures},
            "" if len(task.objectives) > 1 else _leader_note(trials, task.pick),
            members,
        )


def dev_limits(chosen: TrialResult, rule: SelectionRule) -> dict[str, dict[str, float]]:
    """Returns what `chosen` cost on its dev questions, by limit, with what each limit allows."""
    return {
        limit.name: {"most": limit.most, "dev": min(limit.amount(chosen.scores), UNMEASURED)}
        for limit in rule.limits
    }


def _leader_note(trials: Sequence[TrialResult], objective: Objective) -> str:
    """Returns a clause about the trial that led the baseline, the first of `trials`, by its mean; "" if none
    did.
    """
    leader = best(trials, [objective])
    lead = leader.values[0] - trials[0].values[0]
    if lead <= 0:
        return ""
    questions = quantity(len(leader.scores), "dev question")
    return f"trial {leader.number} led by {lead:.4g} on {questions}, too little to expect that it is better"


def _fitted_remarks(calibrated: Sequence[Mapping[str, Any]], chosen: Candidate, program: str) -> list[str]:
    """Returns a sentence for each threshold of `chosen` that was fitted to the dev questions."""
    own = chosen.program or program
    return [
        f"{fit['knob']} = {fit['threshold']:g} was fitted to the dev questions. It is one trial, but the "
        f"best of {len(fit['points'])} values, so its score on dev and what is expected of it flatter it "
        "more than those of other trials."
        for fit in calibrated
        if "threshold" in fit
        and fit["threshold"] != fit["present"]
        and (fit["program"], chosen.knobs.get(fit["knob"])) == (own, fit["threshold"])
    ]


def _on_front(task: Task, trial: TrialResult) -> dict[str, Any]:
    pairs = zip(task.objectives, trial.values, strict=True)
    values = {objective.metric.id: objective.sign * value for objective, value in pairs}
    failed = {"failures": trial.failures.to_json()} if trial.failures.n else {}
    return {"trial": trial.number, "values": values, "candidate": trial.candidate.to_json(), **failed}
