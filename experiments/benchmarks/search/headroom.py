"""How far the estimates of `ragc headroom` are from the truth, on recipes whose truth is known.

    PYTHONPATH=src python -m experiments.benchmarks.search.headroom
        [--recipes 300] [--settings 8] [--questions 30] [--dev 80] [--trials 30] [--seed 1]

A simulated recipe is a population of settings and of questions. A setting has an effect, a question a
difficulty (some are solved by nothing), each pair of both an interaction; a score is 0 or 1, or a share of 1.
The truth is the mean gain of searches on this recipe that draw `--trials` settings and compile the best mean
on `--dev` questions. Each recipe gives one small matrix, from which headroom estimates. Printed for each kind
of recipe, over `--recipes` recipes: the mean truth, the bias of the estimate and its mean absolute error, the
share of intervals that hold the truth and their mean width, how often a gain is told apart from 0, the true
standard deviation between settings and the bias of its estimate, and the bias of the share of questions that
no setting solves.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ragc.metrics.stats import headroom

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Numbers = NDArray[np.int64]

POPULATION = 400
"""Settings of a recipe, and questions that its true means are taken over."""

BROKEN = -8.0
"""The effect of a setting that is broken, on the logit scale."""

SEARCHES = 200
"""Searches whose mean gain is the truth."""


@dataclass(frozen=True)
class Kind:
    """A kind of recipe, on the logit scale.

    `effects` is the standard deviation between settings, `skew` the share of settings that are better by
    `lift`, `broken` the share that fails almost every question. `difficulty` and `interaction` are standard
    deviations, `hopeless` the share of questions that nothing solves. `start` shifts the baseline. With
    `shares` a score is the mean of three answers.
    """

    name: str
    effects: float = 0.4
    skew: float = 0.0
    lift: float = 0.0
    broken: float = 0.0
    difficulty: float = 2.0
    interaction: float = 1.0
    hopeless: float = 0.1
    start: float = 0.0
    shares: bool = False


KINDS = (
    Kind("no differences", effects=0.0, interaction=0.7),
    Kind("small differences", effects=0.2),
    Kind("usual differences"),
    Kind("large differences", effects=1.0),
    Kind("baseline good", start=0.8),
    Kind("baseline poor", start=-1.0),
    Kind("few good settings", effects=0.2, skew=0.2, lift=1.5),
    Kind("30% broken settings", effects=0.2, broken=0.3),
    Kind("needle", effects=0.05, skew=0.02, lift=1.5),
    Kind("hard questions", hopeless=0.6),
    Kind("scores in shares", shares=True),
)


@dataclass(frozen=True)
class Recipe:
    """The chance of each setting (row, the baseline first) to solve each question (column)."""

    chances: Array
    shares: bool

    @classmethod
    def drawn(cls, kind: Kind, rng: Generator) -> Recipe:
        """A recipe of a `kind`."""
        effects = rng.normal(0, kind.effects, POPULATION) + kind.lift * (rng.random(POPULATION) < kind.skew)
        if kind.broken:
            effects[rng.random(POPULATION) < kind.broken] = BROKEN
        effects[0] = kind.start
        difficulty = rng.normal(0, kind.difficulty, POPULATION)
        both = rng.normal(0, kind.interaction, (POPULATION, POPULATION))
        chances = 1 / (1 + np.exp(-(effects[:, None] + difficulty + both)))
        chances[:, rng.random(POPULATION) < kind.hopeless] = 0.0
        return cls(chances, kind.shares)

    def scores(self, settings: Numbers, questions: Numbers, rng: Generator) -> Array:
        """Scores of `settings` on `questions`, both numbers."""
        chances = self.chances[np.ix_(settings, questions)]
        draws = 3 if self.shares else 1
        scores: Array = (rng.random((draws, *chances.shape)) < chances).mean(axis=0)
        return scores

    def gain(self, trials: int, dev: int, rng: Generator) -> float:
        """The mean gain of searches on this recipe."""
        means, gains = self.chances.mean(axis=1), []
        for _ in range(SEARCHES):
            tried = np.append(0, 1 + rng.choice(POPULATION - 1, trials, replace=False))
            questions = rng.choice(POPULATION, dev, replace=False)
            best = tried[self.scores(tried, questions, rng).mean(axis=1).argmax()]
            gains.append(means[best] - means[0])
        return float(np.mean(gains))


@dataclass(frozen=True)
class Outcome:
    """One recipe's truth and what headroom says of it."""

    truth: float
    gain: headroom.Gain
    sd: float
    true_sd: float
    never: float
    true_never: float

    @property
    def covered(self) -> bool:
        """Whether the interval holds the truth."""
        return self.gain.low - 1e-9 <= self.truth <= self.gain.high + 1e-9


def simulate(kind: Kind, args: argparse.Namespace, number: int) -> Outcome:
    """One recipe of a `kind`: its truth, and the estimates from one small matrix."""
    rng = np.random.default_rng([args.seed, number])
    recipe = Recipe.drawn(kind, rng)
    settings = np.append(0, 1 + rng.choice(POPULATION - 1, args.settings - 1, replace=False))
    scores = recipe.scores(settings, rng.choice(POPULATION, args.questions, replace=False), rng).tolist()
    seen, solved = headroom.spread(scores, seed=0), headroom.solved(scores, 1.0)
    limit = 1 - float(np.mean(scores[0]))
    gain = headroom.expected_gain(seen, trials=args.trials, dev=args.dev, limit=limit, seed=number)
    return Outcome(
        recipe.gain(args.trials, args.dev, rng),
        gain,
        seen.variance**0.5,
        float(recipe.chances[1:].mean(axis=1).std()),
        solved.never.mean - solved.unseen,
        float((recipe.chances.max(axis=0) < 0.5).mean()),
    )


def report(kind: Kind, outcomes: list[Outcome]) -> str:
    """One line of figures."""
    truths = np.array([outcome.truth for outcome in outcomes])
    errors = np.array([outcome.gain.value for outcome in outcomes]) - truths
    covered = np.mean([outcome.covered for outcome in outcomes])
    shown = np.mean([outcome.gain.shown for outcome in outcomes])
    width = np.mean([outcome.gain.high - outcome.gain.low for outcome in outcomes])
    sds = np.mean([outcome.sd - outcome.true_sd for outcome in outcomes])
    true_sd = np.mean([outcome.true_sd for outcome in outcomes])
    never = np.mean([outcome.never - outcome.true_never for outcome in outcomes])
    return (
        f"{kind.name:20}{truths.mean():8.3f}{errors.mean():+8.3f}{abs(errors).mean():8.3f}"
        f"{covered:9.3f}{width:8.3f}{shown:7.2f}{true_sd:9.3f}{sds:+8.3f}{never:+8.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Bias and coverage of the estimates of ragc headroom.")
    parser.add_argument("--recipes", type=int, default=300)
    parser.add_argument("--settings", type=int, default=8, help="the baseline among them")
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--dev", type=int, default=80)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"{args.settings} settings on {args.questions} questions; a search of {args.trials} on {args.dev}")
    print(f"{'':20}{'gain':>8}{'bias':>8}{'|error|':>8}{'covered':>9}{'width':>8}{'shown':>7}", end="")
    print(f"{'sd':>9}{'bias':>8}{'never':>8}")
    for kind in KINDS:
        outcomes = [simulate(replace(kind), args, number) for number in range(args.recipes)]
        print(report(kind, outcomes), flush=True)


if __name__ == "__main__":
    main()
