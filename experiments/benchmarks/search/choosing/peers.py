"""The searches that ragc is compared with. Each gets a `World` and a seed, and returns settings, best first.

All begin with the baseline. What each does when the budget ends is part of it: it ranks by its own rule.

- `random`: settings at random, each on all dev questions.
- `halving2`, `halving3`: successive halving, with as many settings as the budget pays for.
- `race`: CAPO's race: a population of ten and four new settings answer blocks together; a setting that is
  worse than ten others by a paired t test (one-sided, .2) leaves.
- `irace`: irace's rule: iterations with fewer and fewer settings; after five questions, and after each
  further one, settings that are worse by Friedman's test (.05) leave; new ones are drawn near the elites.
- `greedy`: AutoRAG's order: one column after the other, each value on all questions, the best one stays.
- `screen`: half of the budget on 5 questions of random settings, a ridge regression on single values, then
  again and again the best predicted setting doubles its questions.

Those that propose by a model of scores are in `proposers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from experiments.benchmarks.search.choosing.worlds import Array, World

Search = Callable[[World, int], list[int]]
"""Settings by preference, the best first; the baseline alone where the budget pays for nothing."""

STEP = 5
"""Questions of a first look."""

POPULATION, ARRIVALS, ALPHA = 10, 4, 0.2
RIDGE = 1.0
ELITES, SURVIVING, FRIEDMAN = 3, 2, 0.05


def shuffled(world: World, seed: int) -> list[int]:
    """The baseline, then the other settings in random order."""
    order = np.random.default_rng([seed, 1]).permutation(world.shape[0])
    return [world.baseline, *(int(s) for s in order if s != world.baseline)]


def ranked(world: World, settings: Sequence[int]) -> list[int]:
    """`settings` by their means, the first of equals first; the baseline alone for none."""
    return sorted(dict.fromkeys(settings), key=lambda s: -world.mean(s)) or [world.baseline]


def random(world: World, seed: int) -> list[int]:
    """See the module's docstring, as for the others."""
    done = []
    for setting in shuffled(world, seed):
        if not world.affords(setting, world.shape[1]):
            break
        world.answer(setting, range(world.shape[1]))
        done.append(setting)
    return ranked(world, done)


def _ladder(world: World, factor: int) -> tuple[list[int], list[int]]:
    """Questions and settings by rung, with as many settings at first as the budget pays for."""
    settings, questions = world.shape
    best: tuple[list[int], list[int]] = ([questions], [1])
    for rungs in range(1, 7):
        first = max(min(STEP, questions), questions // factor ** (rungs - 1))
        lengths = sorted({min(questions, first * factor**i) for i in range(rungs - 1)} | {questions})
        for n in range(settings, 0, -1):
            sizes = [max(1, n // factor**i) for i in range(len(lengths))]
            cost = sum(k * (b - a) for k, a, b in zip(sizes, [0, *lengths[:-1]], lengths, strict=True))
            if cost <= world.budget:
                if n > best[1][0]:
                    best = (lengths, sizes)
                break
    return best


def halving(world: World, seed: int, factor: int) -> list[int]:
    """Successive halving."""
    lengths, sizes = _ladder(world, factor)
    arms, out = shuffled(world, seed), list[int]()
    for length, size in zip(lengths, sizes, strict=True):
        order = arms if length == lengths[0] else ranked(world, arms)
        arms, left = order[:size], order[size:]
        out = (left if length != lengths[0] else []) + out
        for setting in arms:
            world.answer(setting, range(length))
    return [*ranked(world, arms), *out]


def race(world: World, seed: int) -> list[int]:
    """CAPO's race."""
    order = shuffled(world, seed)
    questions = world.shape[1]
    block = max(STEP, questions // 6)
    population, waiting = order[:POPULATION], order[POPULATION:]
    while True:
        for end in [*range(block, questions, block), questions]:
            for setting in population:
                world.answer(setting, range(end))
            population = _survivors(world, population, end)
            if world.left <= 0:
                break
        if world.left <= 0 or not waiting:
            break
        population = ranked(world, population)[:POPULATION] + waiting[:ARRIVALS]
        waiting = waiting[ARRIVALS:]
    most = max(int(world.seen[s].sum()) for s in population)
    return ranked(world, [s for s in population if most and int(world.seen[s].sum()) == most])


def _survivors(world: World, population: list[int], end: int) -> list[int]:
    """The settings that fewer than `POPULATION` others beat on their first `end` questions."""
    if len(population) <= POPULATION or not all(world.seen[s, :end].all() for s in population):
        return population
    rows = world.scores[population, :end]
    survivors = []
    for index, setting in enumerate(population):
        gaps = rows - rows[index]
        spread = gaps.std(1, ddof=1) / np.sqrt(end)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(spread > 0, gaps.mean(1) / spread, np.sign(gaps.mean(1)) * np.inf)
        if int((t > stats.t.ppf(1 - ALPHA, end - 1)).sum()) < POPULATION:
            survivors.append(setting)
    return survivors


def irace(world: World, seed: int) -> list[int]:
    """The iterated race of irace."""
    rng = np.random.default_rng([seed, 3])
    iterations = 2 + int(np.log2(max(2, len(world.columns))))
    tried: set[int] = {world.baseline}
    elites = [world.baseline]
    for iteration in range(iterations):
        share = world.left / (iterations - iteration)
        new = max(1, int(share / (STEP + min(5, iteration + 1))) - len(elites))
        arms = elites + _drawn(world, rng, elites, tried, new, iteration / iterations, first=not iteration)
        tried |= set(arms)
        elites = _race_by_rank(world, arms, world.left - int(share))
        if world.left <= 0:
            break
    return elites


def _drawn(
    world: World, rng: np.random.Generator, elites: Sequence[int], tried: set[int], n: int, focus: float,
    *, first: bool,
) -> list[int]:  # fmt: skip
    """`n` new settings: at random at first, then with each value an elite's with probability `focus`."""
    chosen: list[int] = []
    for _ in range(n):
        free = [s for s in range(world.shape[0]) if s not in tried and s not in chosen]
        if not free:
            break
        codes = world.codes[rng.integers(world.shape[0])].copy()
        if not first:
            parent = world.codes[elites[int(rng.integers(min(len(elites), ELITES)))]]
            keep = rng.random(len(codes)) < max(focus, 0.5)
            codes[keep] = parent[keep]
        chosen.append(world.nearest(codes, free))
    return chosen


def _race_by_rank(world: World, arms: list[int], reserve: int) -> list[int]:
    """The survivors of a race on one question after another, best first; `reserve` answers stay."""
    questions, end = world.shape[1], min(STEP, world.shape[1])
    while arms:
        cost = int(sum((~world.seen[s, :end]).sum() for s in arms))
        if world.left - cost < reserve and end > STEP:
            break
        for setting in arms:
            world.answer(setting, range(end))
        arms = [s for s in arms if world.seen[s, :end].all()]
        if len(arms) > SURVIVING:
            arms = _not_worse(world.scores[arms, :end], arms)
        if end == questions or world.left <= reserve or len(arms) <= SURVIVING:
            break
        end += 1
    return ranked(world, arms)[: ELITES + 2]


def _not_worse(rows: Array, arms: list[int]) -> list[int]:
    """The arms that Friedman's test with its post-hoc comparisons does not find worse than the best."""
    ranks = stats.rankdata(-rows, axis=0)
    k, n = ranks.shape
    totals = ranks.sum(1)
    squares = float((ranks**2).sum())
    spread = squares - n * k * (k + 1) ** 2 / 4
    if spread <= 0:
        return arms
    statistic = (k - 1) * float(((totals - n * (k + 1) / 2) ** 2).sum()) / spread
    if statistic < stats.chi2.ppf(1 - FRIEDMAN, k - 1):
        return arms
    inner = 2 * n * (1 - statistic / (n * (k - 1))) * spread / ((n - 1) * (k - 1))
    margin = stats.t.ppf(1 - FRIEDMAN / 2, (n - 1) * (k - 1)) * np.sqrt(max(inner, 0.0))
    return [arm for arm, total in zip(arms, totals, strict=True) if total <= totals.min() + margin]


def greedy(world: World, seed: int) -> list[int]:
    """AutoRAG's order of modules. A combination that is no setting becomes the nearest with that value."""
    del seed
    current = world.codes[world.baseline].copy()
    done: list[int] = []

    def try_one(setting: int) -> bool:
        if setting in done:
            return True
        if not world.affords(setting, world.shape[1]):
            return False
        world.answer(setting, range(world.shape[1]))
        done.append(setting)
        return True

    if not try_one(world.baseline):
        return ranked(world, done)
    for column, options in enumerate(world.columns.values()):
        tried = []
        for value in range(len(options)):
            codes = current.copy()
            codes[column] = value
            setting = world.nearest(codes, np.flatnonzero(world.codes[:, column] == value).tolist())
            if not try_one(setting):
                return ranked(world, done)
            tried.append(setting)
        current = world.codes[ranked(world, tried)[0]].copy()
    return ranked(world, done)


def screen(world: World, seed: int) -> list[int]:
    """A wide screen, then doublings of the setting that main effects predict to be best."""
    questions = world.shape[1]
    first = min(STEP, questions)
    design = _design(world.codes)
    for setting in shuffled(world, seed):
        if world.left - first < world.budget / 2 and world.seen.any():
            break
        world.answer(setting, range(first))
    while world.left > 0:
        predicted = _ridge(world, design)
        begun = world.seen.sum(1)
        open_settings = np.flatnonzero(begun < questions)
        if not len(open_settings):
            break
        top = int(open_settings[predicted[open_settings].argmax()])
        if begun[int(predicted.argmax())] == questions and predicted.max() > predicted[top]:
            top = int(predicted.argsort()[-2]) if begun[int(predicted.argsort()[-2])] < questions else top
        world.answer(top, range(min(questions, max(first, 2 * int(begun[top])))))
    predicted, begun = _ridge(world, design), world.seen.sum(1)
    enough = [s for s in range(len(begun)) if begun[s] >= min(questions, 2 * first)]
    return sorted(enough or np.flatnonzero(begun).tolist() or [world.baseline], key=lambda s: -predicted[s])


def _design(codes: NDArray[np.int_]) -> Array:
    """A column for each value."""
    parts = [(codes[:, [c]] == np.unique(codes[:, c])).astype(float) for c in range(codes.shape[1])]
    return np.hstack([np.ones((len(codes), 1)), *parts])


def _ridge(world: World, design: Array) -> Array:
    """Each setting's mean as its answers and a ridge regression on single values say."""
    answers = world.seen.sum(1)
    means = np.array([world.mean(s) for s in range(len(answers))])
    level = float((answers * means).sum() / max(answers.sum(), 1))
    penalty = RIDGE * np.eye(design.shape[1])
    penalty[0, 0] = 1e-6
    weighted = design.T * (answers / STEP)
    fitted = design @ np.linalg.solve(weighted @ design + penalty, weighted @ (means - level)) + level
    blended: Array = (answers * means + STEP * fitted) / (answers + STEP)
    return blended


PEERS: dict[str, Search] = {
    "random": random,
    "halving2": lambda world, seed: halving(world, seed, 2),
    "halving3": lambda world, seed: halving(world, seed, 3),
    "race": race,
    "irace": irace,
    "greedy": greedy,
    "screen": screen,
}
