"""Decides what is tried next: a list of policies, of which the first that has a candidate proposes it.

1. Children of a round of instructions, right after it.
2. The remaining screening candidates.
3. Thresholds fitted to the screening.
4. Of every three trials, two retry the best candidate with other demonstrations.
5. Untried candidates drawn at random, or with several objectives by TPE (`sampler`).

The first three are planned: their trials begin before questions are allocated to trials that wait (`looks`).
Otherwise all of the pool of untried candidates are proposed too, and the model of scores chooses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import optuna

from ragc.optimizers.candidates.builder import ProgramBuilder
from ragc.optimizers.candidates.instructions.rounds import InstructionRounds
from ragc.optimizers.candidates.space import Candidate, SearchSpace
from ragc.optimizers.candidates.thresholds.tuner import ThresholdTuner
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.policies import (
    CompleteLeader,
    DemoRetries,
    FittedThresholds,
    NextTrial,
    Policy,
    PreparedPolicy,
    RoundChildren,
    Screening,
)
from ragc.optimizers.search.sampler import MAX_REPEATS, PendingTrial, TrialSampler
from ragc.optimizers.search.selection import best

REDRAWS = 8
"""How often the pool of untried candidates is drawn anew where some of them show one program."""

SCREENED_SHARE = 2 / 3
"""The share of the trials that screening candidates may take."""


class Schedule:
    """Proposes the trials of `study` after the baseline and begins them.

    `space` is the space with all instruction candidates proposed at the start. `reserved` is the number of LM
    calls that the budget holds back for the test questions.
    """

    def __init__(
        self,
        study: optuna.Study,
        builder: ProgramBuilder,
        tuner: ThresholdTuner,
        space: SearchSpace,
        complete_leader: CompleteLeader,
        reserved: int,
    ) -> None:
        task = builder.task
        self._builder, self._task = builder, task
        self._sampler = TrialSampler(study, task)
        self._children = RoundChildren(InstructionRounds(builder, task.trials), complete_leader)
        screening = Screening(space.screening(math.ceil(task.trials * SCREENED_SHARE)), task.batch)
        thresholds = FittedThresholds(builder, tuner, self._children, screening, complete_leader, reserved)
        self._prepared: tuple[PreparedPolicy, ...] = self._children, thresholds
        self._plans: tuple[Policy, ...] = self._children, screening, thresholds
        self.policies = *self._plans, DemoRetries(len(screening.candidates)), self._sampler
        self._screening = screening.candidates
        self.size = task.trials + 1 if space.size else 1
        """The number of trials in all, the baseline included."""
        self._space = replace(self._children.recall(space), shown=builder.shown)
        self._proposals: list[Candidate] = []
        self._untried: list[Candidate] = []

    async def prepare(self, trials: Sequence[TrialResult]) -> None:
        """Lets policies that are due find new candidates. Raises BudgetExhausted."""
        if len(trials) < self.size:
            await self._builder.collect_first(self._screening)
        for policy in self._prepared:
            if len(trials) < self.size and policy.is_due(len(trials)):
                self._space = await policy.prepare(trials, self._space)

    def is_planned(self, done: int) -> bool:
        """Returns whether the next trial after `done` trials is planned."""
        next_trial = NextTrial(done, 0, self._regular_index(done), self._space)
        return any(plan.candidate(next_trial) is not None for plan in self._plans)

    def propose(self, trials: Sequence[TrialResult], waiting: Mapping[int, TrialResult]) -> list[Candidate]:
        """Returns the candidates of the next batch after `trials`, and then those of the pool.

        Where nothing is left to try, the leader is proposed again, which costs nothing.
        Nothing is added to the study before `start`. `waiting` are the running trials by Optuna's number. Of
        the pool there are none where a planned batch comes next.
        """
        done, space = len(trials), self._space
        self._sampler.begin_batch(waiting)
        tried_marks = {trial.candidate.mark for trial in trials}
        leader = best(trials, self._task.objectives).candidate
        next_trial = NextTrial(
            done, 0, 0, space, tried_marks,
            [candidate for candidate in (leader, *self._screening) if candidate.demos],
        )  # fmt: skip
        self._proposals = []
        for position in range(min(self._task.batch, self.size - done)):
            next_trial = replace(
                next_trial, position=position, regular_index=self._regular_index(done, position)
            )
            candidate = self._new(next_trial, tried_marks) or leader
            self._proposals.append(candidate)
            self._sampler.expect(candidate, next_trial)
            tried_marks.add(candidate.mark)
        self._untried = []
        if len(self._task.objectives) == 1 and not self.is_planned(done):
            self._untried = self._untried_programs(next_trial, tried_marks)
        return [*self._proposals, *self._untried]

    def _new(self, next_trial: NextTrial, tried_marks: set[str]) -> Candidate | None:
        """Returns the first candidate of a policy whose program was not tried under any name."""
        for policy in self.policies:
            for _ in range(MAX_REPEATS):
                if (candidate := policy.candidate(next_trial)) is None:
                    break
                shown = self._builder.shown(candidate)
                if shown.mark not in tried_marks:
                    return shown
                if candidate.mark in tried_marks:  # all that this policy has
                    break
                tried_marks.add(candidate.mark)
        return None

    def _untried_programs(self, next_trial: NextTrial, tried_marks: set[str]) -> list[Candidate]:
        """Returns the programs of the pool that were not tried under any name, each once."""
        programs: dict[str, Candidate] = {}
        for _ in range(REDRAWS):
            drawn = self._sampler.untried(next_trial)
            programs = {}
            for candidate in drawn:
                shown = self._builder.shown(candidate)
                if shown.mark in tried_marks or shown.mark in programs:
                    tried_marks.add(candidate.mark)
                else:
                    programs[shown.mark] = shown
            if len(programs) == len(drawn):
                break
        return list(programs.values())

    async def start(self, chosen: Sequence[int], trials: Sequence[TrialResult]) -> list[PendingTrial]:
        """Adds the `chosen` proposals, by their position, to the study after `trials`.

        Each candidate is returned within the cap on prompts.
        """
        proposed = [*self._proposals, *self._untried]
        next_trial = NextTrial(len(trials), 0, 0, self._space)
        started = [(proposed[position], replace(next_trial, position=position)) for position in chosen]
        return [
            (number, await self._builder.fitted(candidate))
            for number, candidate in self._sampler.add(started)
        ]

    def _regular_index(self, done: int, position: int = 0) -> int:
        return self._children.regular_index(done - 1 + position)
