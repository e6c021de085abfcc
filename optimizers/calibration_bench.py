"""What one threshold does to one setting: its scores and outcomes on the dev questions, and the fit to them.

The questions are answered with the threshold as it is and at both ends of its range. Where each of them
passed the gate once at most, that gives the whole curve. Where some passed it several times, as documents
do at tau in GGatrieval, a few thresholds between the scores that were seen are tried too.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ragc.counters import Counters
from ragc.optimizers.calibration import Fit, fit
from ragc.optimizers.calibration_curve import POINTS, Gated, agrees, evaluated, exact, spaced
from ragc.optimizers.evaluation import Row, evaluate
from ragc.optimizers.heats import shuffled
from ragc.optimizers.making import Maker
from ragc.optimizers.space import Candidate
from ragc.programs.knobs import Knob
from ragc.programs.trace import Gate, together


class LeftOut(Exception):
    """Why a threshold is not calibrated."""


class Bench:
    """The threshold `knob` of the setting `lead`, answered at other values: `left` times at most.

    `used` says how often it was so far, and `spent` is charged with what all answers cost, replayed or not.
    """

    def __init__(self, maker: Maker, lead: Candidate, knob: Knob, left: int, spent: Counters) -> None:
        self._maker, self._lead, self._knob, self._spent = maker, lead, knob, spent
        self._left, self.used = left, 0
        self._order = shuffled(maker.task)
        self._rows: dict[float, tuple[Row, ...]] = {}

    @property
    def _present(self) -> float:
        return float(self._lead.knobs[self._knob.name])

    async def fitted(self) -> Fit:
        """The fit. Raises LeftOut, BudgetExhausted, and what a program says that cannot have a value."""
        low, high = self._knob.bounds
        if self._left < 2:
            raise LeftOut("the budget has no room for it")
        await self._answer(low, high, self._present)
        seen = [self._scores(at) for at in range(len(self._order))]
        every = [score for runs in seen for scores in runs for score in scores]
        if not every:
            raise LeftOut("no question reached it")
        reached = sum(any(runs) for runs in seen)
        single = self._single(seen)
        if single is not None and agrees(single, low, high, self._present):
            return fit(exact(single, low, high, self._present), reached)
        points = spaced(every, low, high, min(POINTS, self._left - self.used))
        whole = self._knob.kind == "int"
        await self._answer(*(math.ceil(point) if whole else point for point in points))
        tried = {point: self._values(rows) for point, rows in self._rows.items()}
        return fit(evaluated(tried, self._present), reached)

    async def _answer(self, *points: float) -> None:
        """Answer the questions with the threshold at each of `points` where they were not yet."""
        task, name = self._maker.task, self._knob.name
        fresh = [point for point in dict.fromkeys(points) if point not in self._rows]
        settings = [replace(self._lead, knobs={**self._lead.knobs, name: self._knob.check(p)}) for p in fresh]
        programs = [await self._maker.program(setting) for setting in settings]
        made = await together(
            *(evaluate(program, self._order, task.scorer, limit=self._maker.limit) for program in programs)
        )
        self.used += sum(setting != self._lead for setting in settings)
        for point, rows in zip(fresh, made, strict=True):
            self._rows[point] = rows
            for row in rows:
                self._spent.merge(row.spent)

    def _scores(self, at: int) -> list[list[float]]:
        """What question `at` compared with the threshold, in each run."""
        name = self._knob.name
        traces = [rows[at].trace for rows in self._rows.values()]
        return [[e.score for e in trace if isinstance(e, Gate) and e.knob == name] for trace in traces]

    def _single(self, seen: list[list[list[float]]]) -> list[Gated] | None:
        """The questions at their one gate; None where some passed several, or one with several scores."""
        if self._knob.kind == "int" or any(len(scores) > 1 for runs in seen for scores in runs):
            return None
        own = [{score for scores in runs for score in scores} for runs in seen]
        if any(len(scores) > 1 for scores in own):
            return None
        ends = [self._values(self._rows[point]) for point in (*self._knob.bounds, self._present)]
        return [
            Gated(question.id, next(iter(scores), None), *(values[question.id] for values in ends))
            for question, scores in zip(self._order, own, strict=True)
        ]

    def _values(self, rows: tuple[Row, ...]) -> dict[str, float]:
        return {row.question.id: self._maker.task.pick.of(row.scores) for row in rows}
