"""How often a front is wrong: members called within their limits that are not, and false claims of "better".

    python -m experiments.benchmarks.search.fronts [STUDIES]

A study draws 12 settings with 0/1 scores, skewed token counts and log-normal seconds, answers 60 dev
questions with all, and tests a front of five (objectives: score and tokens; limits: 800 tokens in the mean
and 2 seconds at the 95th percentile) on new questions, through `select`, `choose_members` and `test_members`.
In the world "around" true costs are spread evenly around the limits, .75 to 1.25 times; in "just over" every
setting is over both by at most 1%, so any "within" is false; in "equal" all scores are equal in truth.

Prints the share of studies with any false "within" or "over" (aim: 5% at most, 6.4% with the tolerance of
1,000 runs), with any false "better" or "worse" than the baseline, and how many members and limits that are
kept were called "within".
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from ragc.metrics import get
from ragc.metrics.base import Objective
from ragc.metrics.limits import CostLimit
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.compile.front import FrontMember, choose_members, test_members
from ragc.optimizers.search.selection import select
from ragc.recipe.selection_rule import SelectionRule
from ragc.records import Question
from ragc.task.answering import Row

SETTINGS, DEV, FRONT = 12, 60, 5
TOKENS, SECONDS = 800.0, 2.0
OBJECTIVES = (Objective(get("em"), 1), Objective(get("tokens"), -1))
RULE = SelectionRule(
    OBJECTIVES, OBJECTIVES[0], limits=(CostLimit("tokens", TOKENS), CostLimit("latency_p95", SECONDS))
)
WORLDS = ("around", "just over", "equal")


@dataclass(frozen=True)
class Settings:
    """The truth of all settings: mean score, mean tokens and their kind, and the seconds at the 95th
    percentile.
    """

    score: np.ndarray
    tokens: np.ndarray
    seconds: np.ndarray
    kinds: np.ndarray

    @classmethod
    def drawn(cls, world: str, rng: np.random.Generator) -> Settings:
        """Returns settings of `world`."""
        low, high = (1.0, 1.01) if world == "just over" else (0.75, 1.25)
        score = np.full(SETTINGS, 0.5) if world == "equal" else rng.uniform(0.3, 0.7, SETTINGS)
        factors = rng.uniform(low, high, (2, SETTINGS)) + 1e-9
        return cls(score, TOKENS * factors[0], SECONDS * factors[1], rng.integers(4, size=SETTINGS))

    def answers(self, n: int, rng: np.random.Generator) -> list[list[dict[str, float | None]]]:
        """Returns the scores of `n` new questions by setting."""
        ease = rng.normal(0, 0.3, n)
        table: list[list[dict[str, float | None]]] = []
        for at in range(SETTINGS):
            right = rng.random(n) < np.clip(self.score[at] + ease, 0, 1)
            tokens = self.tokens[at] * _skewed(int(self.kinds[at]), n, rng)
            seconds = self.seconds[at] * rng.lognormal(0, 0.5, n) / np.exp(1.6448536 * 0.5)
            columns = zip(right, tokens, seconds, strict=True)
            table.append([{"em": float(r), "tokens": float(t), "latency": float(s)} for r, t, s in columns])
        return table


def _skewed(kind: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Returns `n` amounts with mean 1: log-normal with sd .5 or 1, gamma, or one in ten five times as
    great.
    """
    if kind < 2:
        spread = (0.5, 1.0)[kind]
        return rng.lognormal(-(spread**2) / 2, spread, n)
    if kind == 2:
        return rng.gamma(2, 0.5, n)
    return rng.lognormal(-0.02, 0.2, n) * np.where(rng.random(n) < 0.1, 5, 1) / 1.4


def _study(world: str, questions: int, seed: int) -> tuple[bool, bool, int, int]:
    """Returns whether a study says anything false of limits, or of scores, and how many limits are kept and
    how many of these are called so.
    """
    rng = np.random.default_rng([seed, questions, WORLDS.index(world)])
    truth = Settings.drawn(world, rng)
    trials = [
        TrialResult(
            at, Candidate({"top_k": at}), tuple(scores),
            tuple(float(np.mean([o.of(one) for one in scores])) for o in OBJECTIVES), True, {},
        )
        for at, scores in enumerate(truth.answers(DEV, rng))
    ]  # fmt: skip
    chosen = select(trials, RULE)
    members = choose_members(trials, RULE, chosen, FRONT)
    answers = truth.answers(questions, rng)
    rows = [
        tuple(Row(Question(str(n), str(n), ()), "", (), one, {}) for n, one in enumerate(scores))
        for scores in answers
    ]
    task = SimpleNamespace(objectives=OBJECTIVES, seed=0, rule=RULE, summarize=lambda *_: {})
    tested = test_members(
        cast(Any, task),
        [FrontMember(trial, cast(Any, None), trial is chosen) for trial in members],
        [rows[trial.number] for trial in members],
        rows[0],
    )
    false_limits = false_scores = False
    met = shown = 0
    for trial, member in zip(members, tested, strict=True):
        at = trial.number
        for name, over in (
            ("tokens", truth.tokens[at] > TOKENS),
            ("latency_p95", truth.seconds[at] > SECONDS),
        ):
            standing = member.limits[name]["standing"]
            false_limits |= standing == ("within" if over else "over")
            met += not over
            shown += standing == "within" and not over
        gap = truth.score[at] - truth.score[0]
        false_scores |= (member.verdict == "better" and gap <= 0) or (member.verdict == "worse" and gap >= 0)
    return false_limits, false_scores, met, shown


def main(studies: int) -> None:
    """Prints a row for each world and number of test questions."""
    print(f"{studies} studies a row, fronts of at most {FRONT}")
    print("world      questions  false limits  false scores  kept limits shown")
    for world in WORLDS:
        for questions in (60, 100, 200):
            results = [_study(world, questions, seed) for seed in range(studies)]
            limits, scores = (np.mean([one[at] for one in results]) for at in (0, 1))
            met, shown = (sum(one[at] for one in results) for at in (2, 3))
            share = f"{shown / met:.2f}" if met else "-"
            print(f"{world:<10} {questions:9} {limits:13.3f} {scores:13.3f} {share:>18}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
