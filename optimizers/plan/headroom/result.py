"""The result of a headroom: figures, and a verdict in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from ragc.core.display import describe, quantity, spent
from ragc.metrics.stats.groups import groups_json, in_groups, too_few
from ragc.metrics.stats.headroom import MIN_SETTINGS, Gain, Noise, Solved, Spread
from ragc.metrics.stats.power import POWER, Changes, careful_changes, questions_needed, smallest_gain
from ragc.metrics.stats.resample import Interval
from ragc.optimizers.plan.budget_share import BudgetShare

Outcome = Literal["worth it", "not worth it", "change it first", "not known"]
"""The verdict of a headroom.

    worth it         a setting is better than the baseline, by as much as the test questions show
    not worth it     no setting tried gains what is wanted, or there is nothing to gain
    change it first  the questions, the model or their numbers keep a study from showing anything
    not known        the settings tried cannot be told apart
"""

MAX_UNSOLVED_SHARE = 0.6
"""A greater share of questions that no setting solves leaves too few to choose by."""

MAX_SOLVED_SHARE = 0.9
"""A greater share of questions that every setting solves leaves nothing to gain."""


@dataclass(frozen=True, slots=True)
class ProbedSetting:
    """A setting that was tried: in words, and its mean on the questions answered by all."""

    what: str
    mean: float


@dataclass(frozen=True)
class Headroom:
    """What a study of a recipe can show.

    `settings`, the baseline first, answered the same `questions` dev questions; `dev`, `test` and `trials`
    are the sizes of the study itself. `objective` is the first objective; `full` is its greatest score, None
    if questions are not solved or missed under it. `noise` is None if the budget left no second run, `solved`
    if `full` is, `changes` if no score differs between settings, `spread` and `gain` then too and with fewer
    than three settings. Gains of an objective to minimize count a decrease as positive. `goal` is the gain
    that the user wants shown, `left_out` what was not tried of the search space, `budget` the message of a
    budget that ended it early, and `paid` what the recipe's budget pays for of the study; None without one.
    Where questions are in groups, `groups` has their number in each split, and `independent` the number of
    independent questions that those of a split are worth.
    """

    program: str
    objective: str
    full: float | None
    trials: int
    dev: int
    test: int
    questions: int
    settings: tuple[ProbedSetting, ...]
    noise: Noise | None
    sampled: bool
    solved: Solved | None
    changes: Changes | None
    spread: Spread | None
    gain: Gain | None
    goal: float
    left_out: str = ""
    budget: str = ""
    paid: BudgetShare | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    independent: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        gain = f"{self.gain.value:+.3f}" if self.gain else None
        return describe(
            "Headroom", self.program, verdict=self.verdict, gain=gain, settings=len(self.settings)
        )

    @property
    def judged(self) -> Changes:
        """Returns the changes between settings behind the verdict: the observed ones, unless too few."""
        return careful_changes(self.changes, self.questions)

    @property
    def shows(self) -> dict[str, float | None]:
        """The smallest gain that the dev and the test questions show with 80% probability, by split.

        None if they show no gain so often. It rests on `judged`.
        """
        changes = self.judged
        return {
            name: None
            if too_few(self.groups.get(name))
            else smallest_gain(self.independent.get(name, n), changes)
            for name, n in (("dev", self.dev), ("test", self.test))
        }

    @property
    def needed(self) -> int | None:
        """Returns the questions needed to show the goal with 80% probability; None if no number would do."""
        return questions_needed(self.goal, self.judged)

    @property
    def verdict(self) -> Outcome:
        """What to do, in one of four words."""
        return self._decision[0]

    @property
    def why(self) -> str:
        """The reason for the verdict, in a sentence or two."""
        return self._decision[1]

    @cached_property
    def _decision(self) -> tuple[Outcome, str]:
        gain, solved, shows = self.gain, self.solved, self.shows["test"]
        hopeless = solved is not None and solved.never.mean >= MAX_UNSOLVED_SHARE
        if solved and hopeless and not (gain and gain.shown and shows and gain.value >= shows):
            return "change it first", (
                f"{solved.never.mean:.0%} of the questions are solved by no setting; a stronger model, or "
                "sources that have the answers, come before a search. What is asked and answered: "
                "`ragc ask RECIPE QUESTION --trace`."
            )
        if len(self.settings) > 1 and self.changes is None and not self._all_solved:
            return "change it first", (
                f"Every setting scores {self.settings[0].mean:.3f} in {self.objective}, question by "
                "question, so there is nothing to choose by; see with `ragc ask RECIPE QUESTION --trace` "
                "what the settings change, or name another metric."
            )
        if solved and self._all_solved:
            return "not worth it", (
                f"{solved.always.mean:.0%} of the questions are solved by every setting, which leaves "
                "nothing to gain; harder questions could tell settings apart."
            )
        if gain is None:
            return "not known", (
                f"{quantity(len(self.settings), 'setting')} could be tried, and three are needed to say how "
                "much settings differ; raise --calls, or widen what is searched."
            )
        if gain.high < self.goal:
            return "not worth it", (
                f"None of {quantity(len(self.settings), 'setting')} tried gains more than {gain.high:.3f}, "
                f"less than the {self.goal:g} wanted."
            )
        if not gain.shown:
            return "not known", (
                "No setting tried is shown to be better than the baseline; raise --calls to try more "
                "settings on more questions, or widen what is searched."
            )
        if not self.test or shows is None or gain.value < shows:
            return "change it first", self._unseen(gain)
        return "worth it", (
            f"The best setting tried gains {gain.value:.3f}, and {self.test} test questions show a gain of "
            f"{shows:.3f}."
        )

    @property
    def _seen(self) -> bool:
        """Returns whether the verdict uses the observed changes instead of usual ones."""
        return self.changes is not None and self.judged.lost == self.changes.lost

    @property
    def _all_solved(self) -> bool:
        return self.solved is not None and self.solved.always.mean >= MAX_SOLVED_SHARE

    def _unseen(self, gain: Gain) -> str:
        """Returns why test questions would not show the gain, and how many would."""
        needed = questions_needed(gain.value, self.judged)
        enough = f"about {needed:,} would" if needed else "no number of them would"
        has = f"{self.test} test questions would not show it" if self.test else "there is no test question"
        return f"The best setting tried gains {gain.value:.3f}, and {has}; {enough}."

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc headroom --json`."""
        changes = self.judged
        return {
            "program": self.program,
            "objective": self.objective,
            "verdict": self.verdict,
            "why": self.why,
            "questions": self.questions,
            "settings": [{"what": setting.what, "mean": setting.mean} for setting in self.settings],
            "left_out": self.left_out,
            "noise": self.noise
            and {
                "changed": self.noise.changed,
                "size": self.noise.size,
                "sd": self.noise.of_mean(self.dev),
                "n": self.noise.n,
                "sampled": self.sampled,
            },
            "solved": self.solved
            and {
                "never": _interval_json(self.solved.never),
                "further": self.solved.unseen,
                "always": _interval_json(self.solved.always),
            },
            "changes": {"worse": changes.lost, "size": changes.size, "assumed": not self._seen},
            "shows": {
                name: {"n": n, "gain": self.shows[name], **groups_json(self.groups.get(name))}
                for name, n in (("dev", self.dev), ("test", self.test))
            },
            "needed": {"gain": self.goal, "n": self.needed},
            "spread": self.spread and {"sd": self.spread.sd, "p": self.spread.p},
            "gain": self.gain
            and {
                "mean": self.gain.value,
                "ci": [self.gain.low, self.gain.high],
                "shown": self.gain.shown,
            },
            "budget": self.budget,
            "budget_pays": None if self.paid is None else {**self.paid.to_json(), "text": self.paid.text},
            "counters": dict(self.counters),
        }

    def lines(self) -> Iterator[str]:
        """Yields lines for people: names and values in two columns, the verdict last."""
        yield from (f"{name:<14}{text}" for name, text in self._facts())

    def _facts(self) -> Iterator[tuple[str, str]]:
        means = [setting.mean for setting in self.settings]
        tried = f"{quantity(len(self.settings), 'setting')} on {quantity(self.questions, 'dev question')}"
        name, low, high = self.objective.lstrip("-"), min(means), max(means)
        yield "tried", f"{tried}, far apart; {name} {means[0]:.3f} (baseline), {low:.3f} to {high:.3f} in all"
        if self.left_out:
            yield "not tried", self.left_out
        yield "noise", self._noise()
        if self.solved is not None:
            never, always = self.solved.never, self.solved.always
            half = "" if self.objective in ("em", "acc") else ", at half marks or more"
            yield (
                "unsolved",
                f"{_share(never)} of the questions are solved by no setting tried{half}"
                + (f"; further settings may solve {self.solved.unseen:.0%}" if self.solved.unseen else ""),
            )
            yield "always solved", f"{_share(always)} of them by every setting tried"
        yield "shown", self._power()
        yield "gain", self._gain()
        if self.budget:
            yield "budget", self.budget
        if self.paid is not None:
            yield "study", self.paid.text
        if self.counters:
            yield "spent", spent(self.counters)
        yield "verdict", f"{self.verdict}. {self.why}"

    def _noise(self) -> str:
        noise = self.noise
        if noise is None:
            return "not measured: the budget left no second run of the baseline"
        asked_twice = f"{quantity(noise.n, 'question')} answered twice by the baseline"
        if not noise.changed:
            why = "although replies are sampled" if self.sampled else "the model is asked at temperature 0"
            return f"0: {asked_twice} scored the same; {why}"
        although = "" if self.sampled else ", although at temperature 0"
        return (
            f"{noise.changed:.0%} of {asked_twice}{although} scored differently, by {noise.size:.3f} in the "
            f"mean; a mean of {self.dev} dev questions moves by {noise.of_mean(self.dev):.3f} (one standard "
            "deviation)"
        )

    def _power(self) -> str:
        changes = self.judged
        shown = [
            f"{n} {name} questions{in_groups(self.groups.get(name))} show a gain of {gain:.3f}"
            if (gain := self.shows[name]) is not None
            else f"{n} {name} questions{in_groups(self.groups.get(name))} show no gain"
            for name, n in (("dev", self.dev), ("test", self.test))
            if n
        ]
        needed = f"{self.needed:,} questions" if self.needed else "more than can be counted"
        source = "as between the settings tried" if self._seen else "if as many"
        return (
            f"{' and '.join(shown)} with {POWER:.0%} probability; a gain of {self.goal:g} needs {needed} "
            f"({changes.lost:.0%} get worse, {source})"
        )

    def _gain(self) -> str:
        gain, spread = self.gain, self.spread
        if gain is None or spread is None:
            few = len(self.settings) < MIN_SETTINGS
            return f"not estimated: {'fewer than three settings were tried' if few else 'no score differs'}"
        apart = "" if gain.shown else ", which cannot be told apart from 0"
        return (
            f"{gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}] by the best setting tried{apart}; "
            f"settings differ by {spread.sd:.3f} (standard deviation beyond the questions', p {spread.p:.4f})"
        )


def _share(interval: Interval) -> str:
    return f"{interval.mean:.0%} [{interval.low:.0%}, {interval.high:.0%}]"


def _interval_json(interval: Interval) -> dict[str, Any]:
    return {"mean": interval.mean, "ci": [interval.low, interval.high]}
