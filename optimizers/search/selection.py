"""Selects the trial to compile, with a model of all scores against the winner's curse.

The greatest of many means is biased upwards: with more trials and fewer questions, more of its lead is luck.
The expected score of a trial is therefore its posterior mean under `score_model`, given the scores of all
trials, stopped ones included. Its own mean is pulled towards the scores of trials with the same values, the
more so the less the trials differ beyond what questions explain. Random-effects shrinkage of single trials
(DerSimonian and Laird 1986) chose worse (experiments/LOG.md).

The winner is the trial with the greatest expected score among those whose probability of being worse than the
baseline by more than a margin is at most `RISK`; if there is none, among all. Ties go to the higher mean,
then to fewer failed questions, then to the baseline, then to fewer tokens, then to the earlier trial. With
`search.pick` as a table, trials that are expected to be about as good count as ties too, and the one that is
expected to be best in the other metric wins.

Cost and benefit: in simulated studies of 12 raced trials on 10 to 50 questions, with small to middling
differences, the winner was truly more than .01 below the baseline in 1 to 12% of studies, that of the plain
mean in 7 to 30%. For that safety the winner's true mean was 0 to .013 lower on average. `RISK` holds on
average over trials like those of the study. A baseline near the best possible is not like them; then more
winners are worse than it.

A posterior mean is right on average over trials, and not for the one that is chosen. The chosen trial is the
luckiest of its equals, or it stands so far above the others that the model pulls it down too much.
`expected_of_choice` removes this bias (`ScoreModel.bias_of_choice`). On generated grids three fifths to a
fifth of the error remain, in the mean of a grid (experiments/LOG.md). With few questions and trials that
hardly differ, the expected score stays .01 to .03 too high, and the plain mean .04 to .12.

Only eligible trials can win (`candidates/eligible.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragc.metrics.base import ANY, UNMEASURED, Objective
from ragc.optimizers.candidates.eligible import FAILING, eligible_trials, is_hopeless, within_limits
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.search.allocation import MARGIN, least_to_win
from ragc.optimizers.search.normal_equations import Array
from ragc.optimizers.search.racing import dominated
from ragc.optimizers.search.score_model import Posterior, ScoreModel
from ragc.programs.knobs import Value
from ragc.recipe.models import SelectionRule


@dataclass(frozen=True, slots=True)
class ExpectedScore:
    """The expected signed mean of a trial beyond this dev set.

    `shrunk` is by how much its mean over the questions seen is above that. `risk` is the probability that it
    is worse than the baseline by more than the margin.
    """

    value: float
    shrunk: float
    risk: float = 0.0

    def to_json(self, sign: int = 1) -> dict[str, float]:
        """Returns JSON values only; `sign` turns signed values into the metric's."""
        amounts = {"value": sign * self.value, "shrunk": sign * self.shrunk, "risk": self.risk}
        return {name: round(amount, 6) + 0.0 for name, amount in amounts.items()}  # + 0.0 avoids -0.0


def expected_scores(
    trials: Sequence[TrialResult], objective: Objective, fitted: FittedScores | None = None
) -> dict[int, ExpectedScore]:
    """Returns the expected score of every trial, by trial number. The first of `trials` is the baseline.

    Trials with the same scores on the same questions are expected to score the same. If a candidate was tried
    several times, its longest trial counts. Questions whose cost was not measured are left out of the model,
    and count as `UNMEASURED` afterwards. `fitted` is the model of `trials`, if there is one already.
    """
    fitted = fitted or FittedScores.to(trials, objective)
    by_mark = {
        trial.candidate.mark: ExpectedScore(float(value), _mean(line) - float(value), float(risk))
        for trial, line, value, risk in zip(
            fitted.trials, fitted.lines, fitted.values, fitted.risks, strict=True
        )
    }
    return {trial.number: by_mark[trial.candidate.mark] for trial in trials}


def expected_of_choice(
    trials: Sequence[TrialResult], rule: SelectionRule, chosen: TrialResult
) -> ExpectedScore:
    """Returns the expected score of `chosen`, given that `select` chose it by `rule`.

    This is its expected score less the bias of choosing (`ScoreModel.bias_of_choice`), within the metric's
    bounds. It may lie below or above that in `expected_scores`, which is right on average over all trials.
    `trials` are all that were chosen among.
    """
    pick = rule.pick
    fitted = FittedScores.to(trials, pick)
    expected = expected_scores(trials, pick, fitted)[chosen.number]
    if fitted.model is None:
        return expected
    marks = [trial.candidate.mark for trial in fitted.trials]
    possible = np.isin(marks, [trial.candidate.mark for trial in _choosable(trials, rule)])
    prefer = FittedScores.to(trials, rule.then).values if rule.then else None
    biased = fitted.bias_of_choice(possible, rule, prefer) * (
        1 - float(fitted.table.unmeasured[marks.index(chosen.candidate.mark)])
    )
    value = expected.value - biased
    # Metrics without an upper bound start at 0.
    bounds = pick.metric.bounds_of(score for line in fitted.lines for score in line) or (0.0, math.inf)
    low, high = sorted(pick.sign * bound for bound in bounds)
    value = min(max(value, low), high)
    return replace(expected, value=value, shrunk=expected.value + expected.shrunk - value)


@dataclass(frozen=True, slots=True)
class FittedScores:
    """The model of the scores of `trials`, one of each candidate; without a model if all scores are equal.

    `lines` are signed scores by question; `values` and `risks` are in the score's units. The model may hold
    fresh candidates after the trials, which answered nothing yet.
    """

    trials: Sequence[TrialResult]
    lines: Sequence[Sequence[float]]
    table: ScoreTable
    model: ScoreModel | None
    posterior: Posterior | None
    values: Array
    risks: Array

    @classmethod
    def to(
        cls, trials: Sequence[TrialResult], objective: Objective, fresh: Sequence[Candidate] = ()
    ) -> FittedScores:
        """Returns the model fitted to `trials`, the baseline first, and to `fresh` candidates."""
        unique = _distinct(trials)
        lines = [trial.independent(objective) for trial in unique]
        table = ScoreTable.of([*lines, *([] for _ in fresh)], objective)
        model, posterior = None, None
        values, risks = np.full(len(unique), table.centre), np.zeros(len(unique))
        if table.scale:
            candidates = (*(trial.candidate for trial in unique), *fresh)
            model = ScoreModel([_columns(candidate) for candidate in candidates])
            posterior = model.fit(table.scores)
            values = posterior.mean[: len(unique)] * table.scale + table.centre
            risks = posterior.worse_than(0, table.margin)[: len(unique)]
        share = table.unmeasured[: len(unique)]
        values = (1 - share) * values - share * UNMEASURED
        risks = np.where(share == share[0], risks, share > share[0])
        equal: dict[tuple[float, ...], list[int]] = {}
        for index, line in enumerate(lines):
            equal.setdefault(tuple(line), []).append(index)
        for same in equal.values():
            values[same], risks[same] = values[same].mean(), risks[same].min()
        return cls(unique, lines, table, model, posterior, values, risks)

    def bias_of_choice(
        self, possible: NDArray[np.bool_], rule: SelectionRule, prefer: Array | None = None
    ) -> float:
        """Returns the bias of choosing among `possible` by `rule` as `select` does, in the score's units.

        `prefer` are the expected values of `rule.then`, the same in all repetitions.
        """
        model, posterior = self.model, self.posterior
        if model is None or posterior is None:
            return 0.0

        # `UNMEASURED` is more than any cost: only trials with the least share of it can have the best value.
        share = self.table.unmeasured
        possible = possible & (share <= share[possible].min(initial=np.inf))

        def choose(means: Array) -> NDArray[np.intp]:
            safe = possible & (posterior.worse_than(0, self.table.margin, means) <= rule.risk)
            among = np.where(safe.any(-1, keepdims=True), safe, possible)
            # Rounded, so that the choice does not hang on the last bits of a machine.
            ranked = np.where(among, np.round(means, 9), -np.inf)
            if prefer is not None:
                about = ranked >= ranked.max(-1, keepdims=True) - rule.within / self.table.scale
                ranked = np.where(about, prefer, -np.inf)
            chosen: NDArray[np.intp] = ranked.argmax(-1)
            return chosen

        return model.bias_of_choice(self.table.scores, choose) * self.table.scale


def _distinct(trials: Sequence[TrialResult]) -> list[TrialResult]:
    """Returns one trial of each candidate, the longest (first of equals), in the order of first trials."""
    longest: dict[str, TrialResult] = {}
    for trial in trials:
        known = longest.setdefault(trial.candidate.mark, trial)
        if len(trial.scores) > len(known.scores):
            longest[trial.candidate.mark] = trial
    return list(longest.values())


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Scores in the form of the model: shape (settings, questions), standardized, NaN where there is none.

    A score is `centre + scale * value`; `scale` is 0 if all are equal. `margin` is `MARGIN` in these units,
    for unbounded metrics as a share of the baseline's mean. `unmeasured` is each setting's share of questions
    whose cost was not measured; their values are NaN.
    """

    scores: Array
    centre: float
    scale: float
    margin: float
    unmeasured: Array

    @classmethod
    def of(cls, lines: Sequence[Sequence[float]], objective: Objective) -> ScoreTable:
        """Returns the table of `lines`, signed scores by question; the baseline's are the first and not
        empty.
        """
        scores = np.full((len(lines), max(map(len, lines))), np.nan)
        for row, line in zip(scores, lines, strict=True):
            row[: len(line)] = line
        without = np.abs(scores) >= UNMEASURED
        share = without.sum(1) / [max(1, len(line)) for line in lines]
        scores[without] = np.nan
        known = scores[~np.isnan(scores)]
        centre, scale = (float(known.mean()), float(known.std())) if len(known) else (0.0, 0.0)
        if scale <= 1e-12 * np.max(np.abs(known), initial=0.0):
            return cls(scores, centre, 0.0, 0.0, share)
        base = scores[0][~np.isnan(scores[0])]
        level = abs(float(base.mean()) if len(base) else centre)
        unbounded = objective.metric.bounds_of(known) in (None, ANY)
        margin = MARGIN * level if unbounded else MARGIN
        return cls((scores - centre) / scale, centre, scale, margin / scale, share)


def select(
    trials: Sequence[TrialResult], rule: SelectionRule, fitted: FittedScores | None = None
) -> TrialResult:
    """Selects the trial to compile by `rule`, of the Pareto front if there are several objectives.

    `fitted` is the model of `trials`, if there is one already.
    """
    pick = rule.pick
    expected = expected_scores(trials, pick, fitted)
    pick_index = rule.objectives.index(pick)
    unit = _unit(trials, pick)

    def rank(trial: TrialResult) -> tuple[float, ...]:
        value = round(expected[trial.number].value / unit, 9)
        return (-value, -round(trial.values[pick_index] / unit, 12), *_among_equals(trial, trials[0]))

    front = _choosable(trials, rule)
    safe = [trial for trial in front if expected[trial.number].risk <= rule.risk] or front
    if rule.then is None:
        return min(safe, key=rank)
    least = max(expected[trial.number].value for trial in safe) - rule.within - 1e-9 * unit
    about = [trial for trial in safe if expected[trial.number].value >= least]
    beside, scale = expected_scores(trials, rule.then), _unit(trials, rule.then)
    return min(about, key=lambda trial: (-round(beside[trial.number].value / scale, 9), *rank(trial)))


def _unit(trials: Sequence[TrialResult], objective: Objective) -> float:
    """Returns the greatest measured amount of `objective`, by which values are rounded."""
    amounts = [amount for trial in trials for amount in map(abs, trial.series(objective))
               if amount < UNMEASURED]  # fmt: skip
    return max(amounts, default=0.0) or 1.0


def _choosable(trials: Sequence[TrialResult], rule: SelectionRule) -> list[TrialResult]:
    """Returns the trials among which risk and expected score choose."""
    if len(rule.objectives) > 1:
        return pareto_front(trials, rule)
    whole = eligible_trials(trials, rule.objectives)
    return within_limits([*whole, *_partial(trials, whole)], rule.limits)


def _partial(trials: Sequence[TrialResult], whole: Sequence[TrialResult]) -> list[TrialResult]:
    """Returns incomplete trials that may win because they saw enough questions.

    None if no trial is eligible, and no trial whose candidate is among the `whole` ones.
    """
    enough = least_to_win(max((trial.n_independent for trial in trials), default=0))
    marks = {trial.candidate.mark for trial in whole}
    return [
        trial
        for trial in trials
        if whole and not trial.complete and trial.n_independent >= enough
        and trial.candidate.mark not in marks
        and trial.failures.share <= min(other.failures.share for other in whole) + FAILING + 1e-9
    ]  # fmt: skip


def _columns(candidate: Candidate) -> dict[str, Value]:
    """Returns the values by which candidates are compared.

    Demonstration sets and instructions are names, without an order.
    """
    shown: dict[str, Value] = {"demos": candidate.demos}
    if candidate.demos:
        shown["demo_set"] = f"{candidate.demo_kind} {candidate.demo_set}"
    return {
        "program": candidate.program,
        **{f"knob.{name}": value for name, value in candidate.knobs.items()},
        **shown,
        **{f"demos.{name}": f"{count} of {number}" for name, (count, number) in candidate.own_demos.items()},
        **{f"instructions.{name}": f"text {number}" for name, number in candidate.instructions.items()},
        **{f"target.{role}": name for role, name in candidate.targets.items()},
    }


def leading(trials: Sequence[TrialResult], rule: SelectionRule) -> TrialResult:
    """Returns the trial with the greatest expected score, complete or not, of those that may still win."""
    objective = rule.objectives[0]
    expected = expected_scores(trials, objective)
    among = [t for t in trials if t.complete or not is_hopeless(t, trials[0], objective)]
    among = within_limits(among, rule.limits)
    return min(among, key=lambda t: (-round(expected[t.number].value, 9), *_among_equals(t, trials[0])))


def best(trials: Sequence[TrialResult], objectives: Sequence[Objective]) -> TrialResult:
    """Returns the leader: the trial with the highest mean of the first objective. Ties are broken as in
    `select`.
    """
    return min(
        eligible_trials(trials, objectives),
        key=lambda t: (-round(t.values[0], 12), *_among_equals(t, trials[0])),
    )


def _among_equals(trial: TrialResult, base: TrialResult) -> tuple[float, ...]:
    """Returns the sort key among trials with equal scores."""
    return (trial.failures.n, trial.number != base.number, trial.tokens, trial.number)


def pareto_front(trials: Sequence[TrialResult], rule: SelectionRule) -> list[TrialResult]:
    """Returns the eligible trials within the limits that no other dominates: the Pareto front, in the order
    of trials.

    Of trials with equal values only one is returned, by the tie-breaking order. With one objective all
    eligible trials are returned, because their expected scores decide between them.
    """
    whole = within_limits(eligible_trials(trials, rule.objectives), rule.limits)
    if len(rule.objectives) == 1:
        return whole
    unique: dict[tuple[float, ...], TrialResult] = {}
    for trial in sorted(whole, key=lambda t: _among_equals(t, trials[0])):
        unique.setdefault(trial.values, trial)
    undominated = [
        t for t in unique.values() if not any(dominated(t.values, o.values) for o in unique.values())
    ]
    return sorted(undominated, key=lambda t: t.number)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
