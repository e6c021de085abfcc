"""The status of a study as a record, and its lines for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ragc.core.display import describe, quantity
from ragc.metrics.failures import Failures
from ragc.optimizers.candidates.space import Candidate, describe_candidate
from ragc.optimizers.search.checkpoint import BEST

_BUDGETS = {"lm_calls": "LM calls", "usd": "US dollars"}

LINES = 5
"""The number of log lines and of failing trials shown."""

RUNNING, CUT, FINISHED, OWN = "running", "cut off", "finished", "at rest"
_NOT_CHOSEN = (
    "best in the lines of a compile; the choice goes by what is expected beyond dev, within search.risk and "
    "search.limits"
)


@dataclass(frozen=True, slots=True)
class StudyStatus:
    """The status of a study.

    `state` is "running" (a process holds the study), "cut off" or "finished". A user's own Optuna script has
    "at rest", because only the script knows its end.

    `trials` are counts: `done` (without the baseline) of `wanted`; `baseline`, 1 once it is done; `stopped`
    early among those; `running`; `stale` (running when their process died, run again on resume); `failed`
    (drawn twice, or stale before). `best` is the trial that would be compiled now, with its values and
    failures; None before the baseline is done. `highest` is the trial with the highest mean on dev, which the
    lines of a compile call best, where that is another one. `front` is the Pareto front, empty with one
    objective.
    `failing` are the trials that failed in any question, the greatest share first.

    `rounds` counts the rounds of instructions that were held, of how many, and the texts written in them;
    None if the recipe asks for none.

    `folds` says of a cross-validation `of` how many folds it is, the last `fold` whose search began, 0 before
    the first, and the counts of that search, `trials`; None without one.

    `budget` has `spent` and `limit` of each kind; a limit of None means no limit. `stored` has the calls,
    tokens and dollars of what was spent that are charged for stored replies, as if they had been sent.
    """

    study: str
    state: str
    recipe: Mapping[str, Any]
    trials: Mapping[str, int]
    best: Mapping[str, Any] | None
    front: tuple[Mapping[str, Any], ...]
    budget: Mapping[str, Mapping[str, float | None]]
    log: tuple[str, ...]
    next: str
    failing: tuple[Mapping[str, Any], ...] = ()
    rounds: Mapping[str, int] | None = None
    stored: Mapping[str, float] = field(default_factory=dict)
    folds: Mapping[str, Any] | None = None
    highest: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        done, best = self.trials, (self.best or {}).get("values")
        trials = f"{done['done']} of {done['wanted']} trials"
        return describe("StudyStatus", repr(self.study), self.state, trials, best=best)

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc study status --json`."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Returns the status for people: two columns of names and values, then the end of the log and what to
        do.
        """
        rows = [*self._rows(), *self._budget_rows()]
        size = max(len(name) for name, _ in rows)
        log = ["", *(f"  {line}" for line in self.log), ""] if self.log else [""]
        return [*(f"{name:<{size}}  {value}" for name, value in rows), *log, self.next]

    def _rows(self) -> Iterator[tuple[str, str]]:
        """Returns the rows about the study, its progress and its best trials."""
        recipe, done = self.recipe, self.trials
        yield "study", self.study
        yield "state", self.state
        yield "program", recipe["program"]
        yield "objectives", ", ".join(recipe["objectives"])
        yield "seed", str(recipe["seed"])
        yield "trials", _describe_counts(done, self.recipe.get("optimizer"))
        if self.folds:
            yield "folds", _describe_folds(self.folds, self.state)
        if self.rounds:
            held = self.rounds
            yield (
                "rounds",
                f"{held['held']} of {held['of']} held, {quantity(held['texts'], 'instruction')} written",
            )
        if self.best is not None:
            chosen = "; chosen by these scores, which flatter it" if done["done"] else ""
            yield "best so far", self._describe_trial(self.best) + chosen
            if self.highest is not None:
                yield "highest mean", f"{self._describe_trial(self.highest)}; {_NOT_CHOSEN}"
            if (where := Path(self.study) / BEST).exists():
                yield "its program", str(where)
        yield from (("on the front", self._describe_trial(trial)) for trial in self.front)
        for trial in self.failing[:LINES]:
            yield "failing", f"trial {trial['trial']}: {Failures.from_json(trial['failures']).text}"
        if len(self.failing) > LINES:
            yield "", f"{len(self.failing) - LINES} trials more failed in some questions"

    def _budget_rows(self) -> Iterator[tuple[str, str]]:
        for name, amount in self.budget.items():
            limit = "" if amount["limit"] is None else f" of {amount['limit']:,g}"
            spent = round(amount["spent"] or 0.0, 1) if name == "minutes" else amount["spent"]
            yield _BUDGETS.get(name, name), f"{spent:,.10g}{limit}"
        if self.stored.get("calls"):
            amounts = f"{quantity(int(self.stored['calls']), 'LM call')}, {self.stored['tokens']:,.0f} tokens"
            dollars_of_it = f"{self.stored['usd']:,.10g} US dollars"
            yield (
                "of it stored",
                f"{amounts}, {dollars_of_it}: replies that count as if sent and cost nothing",
            )

    def _describe_trial(self, trial: Mapping[str, Any]) -> str:
        """Returns a trial's values, its choices among what is searched, and its failures."""
        values = ", ".join(f"{name} {value:.4g}" for name, value in trial["values"].items())
        candidate = Candidate.of(trial["candidate"])
        searched = self.recipe.get("searched", tuple(candidate.knobs))
        knobs = {name: candidate.knobs[name] for name in searched if name in candidate.knobs}
        chosen = describe_candidate(candidate, knobs, program=candidate.program)
        failures = Failures.from_json(trial["failures"]).text if "failures" in trial else ""
        line = f"trial {trial['trial']}: {values}" + (f" ({chosen})" if chosen else "")
        return f"{line}; {failures}" if failures else line


def count_words(counts: Mapping[str, int], optimizer: object) -> list[tuple[str, int]]:
    """Returns the counts of trials beside those that ended, each with its words.

    A study of ragc itself marks trials that a kill or the budget cut off as failed; in a script with the
    `optimizer` optuna the objective may have failed.
    """
    words = {"stopped": "stopped", "running": "running", "stale": "cut off", "failed": "cut off"}
    if optimizer == "optuna":
        words["failed"] = "failed"
    total = Counter[str]()
    for name, word in words.items():
        total[word] += counts.get(name, 0)
    return [(word, count) for word, count in total.items() if count]


def _describe_counts(counts: Mapping[str, int], optimizer: object = "") -> str:
    """Returns the counts of trials in words."""
    others = [f"{count} {word}" for word, count in count_words(counts, optimizer)]
    beside = ["and the baseline"] if counts.get("baseline") else []
    return ", ".join([f"{counts['done']} of {counts['wanted']}", *beside, *others])


def _describe_folds(folds: Mapping[str, Any], state: str) -> str:
    """Returns which fold of a cross-validation is searched."""
    number, of = folds["fold"], folds["of"]
    if not number:
        follow = "they follow the search on all questions" if state != FINISHED else "the budget ended before"
        return f"none of {of} searched; {follow}"
    trials = f"trials {_describe_counts(folds['trials'])}"
    if state == RUNNING:
        return f"fold {number} of {of} is searched: {trials}"
    if number == of and state == FINISHED:
        return f"{of} of {of} searched"
    return f"fold {number} of {of} was the last that began: {trials}"
