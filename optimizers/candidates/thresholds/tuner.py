"""Calibrates the searched thresholds of a study from scores recorded by the leading candidate.

After the screening, the best candidate of each program with searched thresholds answers the dev questions
again (`ThresholdTrials`), with one threshold at a time at its present value and at both ends of its range. If
each question passed the gate at most once, these give the whole curve. If some passed it several times, as
documents pass tau in GGatrieval, a few thresholds between the recorded scores are evaluated too. Calls that
do not depend on the threshold are replayed. Calibration thus sends what trials at those values would send,
and later trials at nearby values replay it. The results are stored with the study, so a resumed study uses
the same ones.

The dev questions are also those that trials are compared on. A fitted threshold is only a candidate, a
trial like any other, so it is no more biased than as many trials at other thresholds would be. The
cross-validated mean estimates its true gain; the test split verifies the winner independently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragc.core.counters import Counters
from ragc.core.display import quantity
from ragc.errors import BudgetExhausted, CapabilityMissing, UsageError
from ragc.optimizers.candidates.builder import Attributes, ProgramBuilder
from ragc.optimizers.candidates.demos.setting import shaping
from ragc.optimizers.candidates.dev_order import shuffle_dev
from ragc.optimizers.candidates.eligible import eligible_trials
from ragc.optimizers.candidates.space import Candidate, ProgramSpace, SearchSpace
from ragc.optimizers.candidates.thresholds.curve import (
    POINTS,
    Fit,
    GateOutcome,
    exact_curve,
    fit,
    is_single_gate,
    measured_curve,
    space_thresholds,
)
from ragc.optimizers.candidates.trial import TrialResult
from ragc.programs.knobs import Knob
from ragc.programs.trace import ThresholdCheck, together
from ragc.task.answering import Row, evaluate


class NotTunable(Exception):
    """A threshold cannot be calibrated; the text says why."""


class ThresholdTrials:
    """Evaluates the trial `lead`, on its questions, with other values of the threshold `knob`, at most `left`
    times.

    `used` is the number of evaluations so far. The cost of all answers, replayed or not, is added to `spent`.
    """

    def __init__(
        self, builder: ProgramBuilder, lead: TrialResult, knob: Knob, left: int, spent: Counters
    ) -> None:
        self._builder, self._lead, self._knob, self._spent = builder, lead.candidate, knob, spent
        self._left, self.used = left, 0
        self._order = shuffle_dev(builder.task)[: len(lead.scores)]
        self._rows: dict[float, tuple[Row, ...]] = {}

    @property
    def _present(self) -> float:
        return float(self._lead.knobs[self._knob.name])

    async def fit_threshold(self) -> Fit:
        """Fits the threshold.

        Raises NotTunable, BudgetExhausted, and UsageError for a value with which the program cannot be built.
        """
        low, high = self._knob.bounds
        if self._left < 2:
            raise NotTunable("the budget has no room for it")
        await self._answer(low, high, self._present)
        seen = [self._scores(at) for at in range(len(self._order))]
        every = [score for runs in seen for scores in runs for score in scores]
        if not every:
            raise NotTunable("no question reached it")
        reached = sum(any(runs) for runs in seen)
        single = self._single(seen)
        if single is not None and is_single_gate(single, low, high, self._present):
            return fit(exact_curve(single, low, high, self._present), reached)
        points = space_thresholds(every, low, high, min(POINTS, self._left - self.used))
        whole = self._knob.kind == "int"
        await self._answer(*(math.ceil(point) if whole else point for point in points))
        values_by_threshold = {point: self._values(rows) for point, rows in self._rows.items()}
        return fit(measured_curve(values_by_threshold, self._present), reached)

    async def _answer(self, *points: float) -> None:
        """Answers the questions with the threshold at each of `points` that is not evaluated yet."""
        task, name = self._builder.task, self._knob.name
        fresh = [point for point in dict.fromkeys(points) if point not in self._rows]
        settings = [replace(self._lead, knobs={**self._lead.knobs, name: self._knob.check(p)}) for p in fresh]
        programs = [await self._builder.program(setting) for setting in settings]
        row_lists = await together(
            *(evaluate(program, self._order, task.scorer, limit=self._builder.limit) for program in programs)
        )
        self.used += sum(setting != self._lead for setting in settings)
        for point, rows in zip(fresh, row_lists, strict=True):
            self._rows[point] = rows
            for row in rows:
                self._spent.merge(row.total_cost)

    def _scores(self, at: int) -> list[list[float]]:
        """Returns the scores that question number `at` compared with the threshold, in each run."""
        name = self._knob.name
        traces = [rows[at].trace for rows in self._rows.values()]
        return [
            [e.score for e in trace if isinstance(e, ThresholdCheck) and e.knob == name] for trace in traces
        ]

    def _single(self, seen: list[list[list[float]]]) -> list[GateOutcome] | None:
        """Returns the outcomes of questions that pass the gate once; None if some passed it several times.

        None also for integer knobs, and if a question's score differs between runs.
        """
        if self._knob.kind == "int" or any(len(scores) > 1 for runs in seen for scores in runs):
            return None
        own = [{score for scores in runs for score in scores} for runs in seen]
        if any(len(scores) > 1 for scores in own):
            return None
        ends = [self._values(self._rows[point]) for point in (*self._knob.bounds, self._present)]
        return [
            GateOutcome(question.id, next(iter(scores), None), *(values[question.id] for values in ends))
            for question, scores in zip(self._order, own, strict=True)
        ]

    def _values(self, rows: tuple[Row, ...]) -> dict[str, float]:
        return {row.question.id: self._builder.task.pick.of(row.scores) for row in rows}


MAX_OFFERS = 3
"""The most candidates offered for one program: all fitted thresholds together, then each alone, the best
first.
"""

SHARE = 0.5
"""The share of the remaining budget that calibrating one program may take, as estimated from its trial."""


class ThresholdTuner:
    """Calibrates the thresholds of the task of `builder`.

    `attributes` stores the results, `note` writes to the log.

    `done` is True once this process has computed the candidates.
    """

    def __init__(self, builder: ProgramBuilder, attributes: Attributes, note: Callable[[str], None]) -> None:
        self._builder, self._attributes, self._note = builder, attributes, note
        self._task = builder.task
        self.done = False

    async def candidates(
        self, space: SearchSpace, trials: Sequence[TrialResult], held: int
    ) -> list[Candidate]:
        """Returns the candidates to try after `trials`, the screening with the baseline.

        They are at most `MAX_OFFERS` a program, whose eligible trial with the best mean is calibrated. `held`
        LM calls of the budget are held back. If the budget is too small, nothing is sent and the log says so.
        """
        self.done = True
        tried_marks = {trial.candidate.mark for trial in trials}
        candidates: list[Candidate] = []
        for part in space.parts if self._task.recipe.search.calibrate else ():
            lead = self._calibrated(part, trials) or self._leader(part, trials)
            knobs = [] if lead is None else self._thresholds(part, lead.candidate)
            if lead is not None and knobs:
                record = await self._calibrate(part.program, lead, knobs, held)
                fits = {name: Fit.of(fields) for name, fields in record["fits"].items()}
                candidates += offers(lead.candidate, fits)
        return [candidate for candidate in candidates if candidate.mark not in tried_marks]

    def facts(self) -> list[dict[str, Any]]:
        """Returns each calibrated threshold for provenance, with means in the metric's own direction."""
        pick, facts = self._task.pick, []
        for program, record in self._all():
            for knob, fields in record["fits"].items():
                means = {name: pick.sign * fields[name] for name in ("before", "in_sample", "validated")}
                curve = {"means": [pick.sign * mean for mean in fields["means"]], "metric": pick.metric.id}
                facts.append({"program": program, "knob": knob, **fields, **means, **curve})
            left = record["left_out"].items()
            facts += [{"program": program, "knob": knob, "left_out": why} for knob, why in left]
        return facts

    def costs(self) -> list[Mapping[str, float]]:
        """Returns the counters of calibrating each program."""
        return [record["counters"] for _, record in self._all()]

    def _all(self) -> list[tuple[str, Any]]:
        names = [part.program for part in self._builder.space.parts]
        records = [
            (name or self._task.recipe.program, self._attributes.get(f"calibration:{name}")) for name in names
        ]
        return [(name, record) for name, record in records if record is not None]

    def _calibrated(self, part: ProgramSpace, trials: Sequence[TrialResult]) -> TrialResult | None:
        """Returns the trial that an earlier process calibrated: later trials may lead by now."""
        record = self._attributes.get(f"calibration:{part.program}")
        return None if record is None else next(t for t in trials if t.number == record["trial"])

    def _leader(self, part: ProgramSpace, trials: Sequence[TrialResult]) -> TrialResult | None:
        pick_index = self._task.objectives.index(self._task.pick)
        leading = eligible_trials(trials, self._task.objectives)
        own = [t for t in leading if t.candidate.program == part.program and not t.failures.all]
        return max(
            own,
            key=lambda t: (round(t.values[pick_index], 12), -t.failures.n, -t.tokens, -t.number),
            default=None,
        )

    def _thresholds(self, part: ProgramSpace, lead: Candidate) -> list[Knob]:
        """Returns the searched thresholds that matter under `lead`.

        If `lead` shows demonstrations, a threshold that shapes them is left out: each of its values would
        need a new pool.
        """
        matter = [knob for knob in part.knobs if knob.threshold and part.kind.matters(knob, lead.knobs)]
        if not lead.demos:
            return matter
        method, runtime = self._task.method_of(part.program), self._task.runtime
        return [
            knob
            for knob in matter
            if not shaping(method, runtime, lead.knobs, {knob.name: knob.check(knob.low)})
        ]

    async def _calibrate(self, program: str, lead: TrialResult, knobs: Sequence[Knob], held: int) -> Any:
        """Returns the fits of `knobs`, the reasons why others are left out, and the cost; computed once a
        study.
        """
        name = f"calibration:{program}"
        if (record := self._attributes.get(name)) is not None:
            return record
        left = self._evaluation_limit(program, lead, len(knobs), held)
        spent, fits, left_out = Counters(), dict[str, Any](), dict[str, str]()
        self._builder.progress.phase("calibrating thresholds", None)
        for knob in knobs:
            try:
                bench = ThresholdTrials(self._builder, lead, knob, left, spent)
                fitted = await bench.fit_threshold()
                fits[knob.name], left = fitted.to_json(), left - bench.used
                self._note(self._describe_fit(knob, fitted))
            except (NotTunable, BudgetExhausted, CapabilityMissing, UsageError) as error:
                left_out[knob.name] = str(error)
                self._note(f"{knob.name} is not calibrated: {error}")
        calibration = {
            "fits": fits,
            "left_out": left_out,
            "counters": spent.invariant(),
            "trial": lead.number,
        }
        self._attributes.put(name, calibration)
        return calibration

    def _describe_fit(self, knob: Knob, fitted: Fit) -> str:
        sign, metric = self._task.pick.sign, self._task.pick.metric.id
        before, after, other = (sign * mean for mean in (fitted.before, fitted.in_sample, fitted.validated))
        n_fitted = quantity(fitted.n, "question")
        about = f"{knob.name} calibrated on {n_fitted}, {fitted.reached} of which reached it"
        if fitted.threshold == fitted.present:
            return f"{about}: {fitted.present:g} is as good as any"
        how = "" if fitted.worth_a_trial else ", which is not worth a trial"
        return (
            f"{about}: {fitted.present:g} to {fitted.threshold:g} takes {metric} from {before:.4g} to "
            f"{after:.4g}, {other:.4g} cross-validated{how}"
        )

    def _evaluation_limit(self, program: str, lead: TrialResult, knobs: int, held: int) -> int:
        """Returns the number of evaluations allowed, decided once a study, before the first evaluation."""
        name = f"calibrating:{program}"
        if (saved := self._attributes.get(name)) is not None:
            return int(saved)
        task, minutes = self._task, self._task.budget.minutes
        spent = task.budget.spent
        limits, cost = task.recipe.budget, lead.counters
        shares = [
            (limits.lm_calls, spent.calls + held, cost.get("lm_calls", 0)),
            (limits.tokens, spent.tokens, lead.tokens),
            (limits.usd, spent.usd, cost.get("usd", 0)),
            (limits.minutes, minutes, minutes / (lead.number + 1)),
        ]
        rooms = [
            SHARE * (limit - spent) / each for limit, spent, each in shares if limit is not None and each
        ]
        evaluations = max(0, math.floor(min([*rooms, knobs * (2 + POINTS)])))
        self._attributes.put(name, evaluations)
        return evaluations


def offers(lead: Candidate, fits: Mapping[str, Fit]) -> list[Candidate]:
    """Returns `lead` with all fitted thresholds that are worth a trial together, then with each alone; at
    most `MAX_OFFERS`.
    """
    good = {name: fitted for name, fitted in fits.items() if fitted.worth_a_trial}
    order = sorted(good, key=lambda name: (good[name].before - good[name].in_sample, name))
    groups = [order] if len(order) > 1 else []
    groups += [[name] for name in order]
    return [
        replace(lead, knobs={**lead.knobs, **{name: good[name].threshold for name in group}})
        for group in groups[:MAX_OFFERS]
    ]
