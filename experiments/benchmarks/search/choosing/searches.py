"""The searches that are compared. Each gets a `World` and a seed, and returns its `Pick`.

All start from the baseline and return it where the budget pays for nothing else. What each does when the
budget ends is part of it: it returns its best setting so far by its own rule.

- `random`: settings at random, each on all dev questions; the best mean.
- `tpe`: Optuna's TPE (its defaults), each trial on all dev questions.
- `minibatches`: MIPROv2's rule (DSPy 3.4.1, defaults): TPE over minibatches of 35 questions; after every five
  the setting with the best mean of minibatches answers all questions; the best full mean wins.
- `halving`: successive halving with factor 3, with as many settings as the budget pays for.
- `hyperband`: Optuna's HyperbandPruner over random settings, with five questions a step.
- `wilcoxon`: Optuna's WilcoxonPruner (p < .1) over TPE, looked at after every five questions from the 15th.
- `race`: CAPO's race: a population of ten and four new settings answer blocks together; a setting that is
  worse than ten others by a paired t test (one-sided, .2) leaves.
- `greedy`: AutoRAG's order: one column after the other, each value on all questions, the best one stays.
- `futility`: ragc's race of before: TPE, and a trial stops when its probability of passing the leader falls
  below a tenth.
- `ragc`: ragc's study: looks allocated by knowledge gradient, with its model of scores.
- `oracle`: `ragc` with the variances that generated the grid; not a search that one could run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray
from scipy import stats

from experiments.benchmarks.search.choosing.worlds import Array, Pick, World
from ragc.optimizers.search.allocation import (
    MARGIN,
    RISK,
    TOLERANCE,
    affordable_questions,
    least_to_win,
    next_looks,
    stopping_points,
)
from ragc.optimizers.search.racing import FUTILITY, win_probability
from ragc.optimizers.search.sampler import RESERVE
from ragc.optimizers.search.score_model import Posterior, ScoreModel, Variances

Search = Callable[[World, int], Pick]

STEP = 5
"""Questions between two looks of a pruner."""

MINIBATCH, FULL_EVERY = 35, 5
POPULATION, ARRIVALS, ALPHA = 10, 4, 0.2
BATCH, LOOKS, SCREENING = 4, 2, 0.25


def _all(world: World) -> range:
    return range(world.shape[1])


def _shuffled(world: World, seed: int) -> list[int]:
    """The baseline, then the other settings in random order."""
    order = np.random.default_rng([seed, 1]).permutation(world.shape[0])
    return [world.baseline, *(int(s) for s in order if s != world.baseline)]


def _best(world: World, settings: list[int]) -> Pick:
    """The best mean; the first of equals."""
    if not settings:
        return Pick(world.baseline, world.mean(world.baseline))
    winner = max(settings, key=world.mean)
    return Pick(winner, world.mean(winner))


def random(world: World, seed: int) -> Pick:
    """See the module's docstring, as for the others."""
    done = []
    for setting in _shuffled(world, seed):
        if not world.affords(setting, world.shape[1]):
            break
        world.answer(setting, _all(world))
        done.append(setting)
    return _best(world, done)


class _Sampled:
    """Settings from an Optuna sampler over the columns; the baseline first, no setting twice.

    A combination that is no setting of the grid, or was tried, becomes the most similar one that was not.
    """

    def __init__(
        self,
        world: World,
        sampler: optuna.samplers.BaseSampler,
        pruner: optuna.pruners.BasePruner | None = None,
    ) -> None:
        self.world = world
        # Hyperband assigns trials to brackets by the name of the study, which is random by default.
        self.study = optuna.create_study(
            study_name="choosing", direction="maximize", sampler=sampler, pruner=pruner
        )
        names = sorted({name for setting in world.settings for name in setting})
        values = {name: sorted({repr(s.get(name)) for s in world.settings}) for name in names}
        self._values = {name: labels for name, labels in values.items() if len(labels) > 1}
        self._codes = np.array(
            [
                [labels.index(repr(s.get(name))) for name, labels in self._values.items()]
                for s in world.settings
            ]
        ).reshape(world.shape[0], len(self._values))
        self._free = set(range(world.shape[0]))

    def ask(self, *, again: bool = False) -> tuple[optuna.Trial, int]:
        """A trial and its setting; `again` allows settings that were tried."""
        if len(self._free) == self.world.shape[0]:
            row = self._codes[self.world.baseline]
            self.study.enqueue_trial({n: int(c) for n, c in zip(self._values, row, strict=True)})
        trial = self.study.ask()
        drawn = [trial.suggest_categorical(n, range(len(v))) for n, v in self._values.items()]
        pool = np.array(sorted(self._free)) if self._free and not again else np.arange(self.world.shape[0])
        nearest = pool[int(np.argmax((self._codes[pool] == drawn).sum(1)))]
        self._free.discard(int(nearest))
        return trial, int(nearest)

    @property
    def exhausted(self) -> bool:
        """Whether all settings were tried."""
        return not self._free


def _tpe(seed: int) -> optuna.samplers.TPESampler:
    return optuna.samplers.TPESampler(seed=seed)


def tpe(world: World, seed: int) -> Pick:
    """Optuna's TPE in full."""
    sampled, done = _Sampled(world, _tpe(seed)), []
    while not sampled.exhausted:
        trial, setting = sampled.ask()
        if not world.affords(setting, world.shape[1]):
            break
        sampled.study.tell(trial, float(world.answer(setting, _all(world)).mean()))
        done.append(setting)
    return _best(world, done)


def minibatches(world: World, seed: int) -> Pick:
    """MIPROv2's minibatches."""
    rng = np.random.default_rng([seed, 2])
    questions = world.shape[1]
    size = min(MINIBATCH, questions)
    sampled, full = _Sampled(world, _tpe(seed)), []
    means: dict[int, list[float]] = {}
    if world.affords(world.baseline, questions):
        world.answer(world.baseline, _all(world))
        full.append(world.baseline)
    trials = 0
    while world.left >= size and trials < 10 * world.shape[0]:
        trial, setting = sampled.ask(again=True)
        batch = rng.choice(questions, size, replace=False)
        score = float(world.answer(setting, batch).mean())
        sampled.study.tell(trial, score)
        means.setdefault(setting, []).append(score)
        trials += 1
        if trials % FULL_EVERY == 0:
            waiting = [s for s in means if s not in full]
            if not waiting:
                continue
            top = max(waiting, key=lambda s: float(np.mean(means[s])))
            if not world.affords(top, questions):
                break
            world.answer(top, _all(world))
            full.append(top)
    return _best(world, full)


def _ladder(world: World, factor: int = 3) -> tuple[list[int], list[int]]:
    """Questions and settings by rung, with as many settings at first as the budget pays for."""
    settings, questions = world.shape
    best: tuple[list[int], list[int]] = ([questions], [1])
    for rungs in range(1, 6):
        first = max(3, questions // factor ** (rungs - 1))
        lengths = [min(questions, first * factor**i) for i in range(rungs - 1)] + [questions]
        for n in range(settings, 0, -1):
            sizes = [max(1, n // factor**i) for i in range(rungs)]
            earlier = [0, *lengths[:-1]]
            cost = sum(k * (b - a) for k, a, b in zip(sizes, earlier, lengths, strict=True))
            if cost <= world.budget:
                if n > best[1][0]:
                    best = (lengths, sizes)
                break
    return best


def halving(world: World, seed: int) -> Pick:
    """Successive halving."""
    lengths, sizes = _ladder(world)
    arms = _shuffled(world, seed)
    for length, size in zip(lengths, sizes, strict=True):
        arms = arms[:size] if length == lengths[0] else sorted(arms, key=lambda s: -world.mean(s))[:size]
        for setting in arms:
            world.answer(setting, range(length))
    return _best(world, arms)


def _pruned(world: World, sampled: _Sampled) -> Pick:
    """Trials of a study with a pruner, which sees each question; complete trials may win."""
    questions, complete, begun = world.shape[1], [], []
    while world.left > 0 and not sampled.exhausted:
        trial, setting = sampled.ask()
        begun.append(setting)
        scores: list[float] = []
        pruned = False
        running_mean = not isinstance(sampled.study.pruner, optuna.pruners.WilcoxonPruner)
        for look, end in enumerate([*range(STEP, questions, STEP), questions], 1):
            block = world.answer(setting, range(len(scores), end))
            for score in block:
                scores.append(float(score))
                if not running_mean:
                    trial.report(float(score), len(scores) - 1)
            if len(scores) < end:
                break
            if running_mean:
                trial.report(float(np.mean(scores)), look)
            if end < questions and trial.should_prune():
                pruned = True
                break
        if len(scores) == questions:
            complete.append(setting)
            sampled.study.tell(trial, float(np.mean(scores)))
        elif pruned:
            sampled.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            break
    return _best(world, complete or begun[:1])


def hyperband(world: World, seed: int) -> Pick:
    """Optuna's Hyperband."""
    most = max(2, -(-world.shape[1] // STEP))
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=most, reduction_factor=3)
    return _pruned(world, _Sampled(world, optuna.samplers.RandomSampler(seed=seed), pruner))


def wilcoxon(world: World, seed: int) -> Pick:
    """Optuna's WilcoxonPruner, from 15 questions on: with fewer, scipy permutes for half a second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pruner = optuna.pruners.WilcoxonPruner(p_threshold=0.1, n_startup_steps=14)
        return _pruned(world, _Sampled(world, _tpe(seed), pruner))


def race(world: World, seed: int) -> Pick:
    """CAPO's race."""
    order = _shuffled(world, seed)
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
        population = sorted(population, key=lambda s: -world.mean(s))[:POPULATION] + waiting[:ARRIVALS]
        waiting = waiting[ARRIVALS:]
    most = max(int(world.seen[s].sum()) for s in population)
    return _best(world, [s for s in population if int(world.seen[s].sum()) == most])


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


def greedy(world: World, seed: int) -> Pick:
    """AutoRAG's order of modules."""
    del seed
    current = dict(world.settings[world.baseline])
    index = {tuple(sorted((n, repr(v)) for n, v in s.items())): i for i, s in enumerate(world.settings)}
    done: list[int] = []

    def try_one(setting: int) -> bool:
        if setting in done:
            return True
        if not world.affords(setting, world.shape[1]):
            return False
        world.answer(setting, _all(world))
        done.append(setting)
        return True

    if not try_one(world.baseline):
        return _best(world, done)
    for name in current:
        options = {repr(s.get(name)): s.get(name) for s in world.settings}
        tried = []
        for value in options.values():
            key = tuple(sorted((n, repr(v)) for n, v in {**current, name: value}.items()))
            setting = index.get(key)
            if setting is None:
                continue
            if not try_one(setting):
                return _best(world, done)
            tried.append(setting)
        if tried:
            current = dict(world.settings[max(tried, key=world.mean)])
    return _best(world, done)


def futility(world: World, seed: int) -> Pick:
    """The race by futility, ragc's of before."""
    questions = world.shape[1]
    sampled, complete = _Sampled(world, _tpe(seed)), list[int]()
    while world.left > 0 and not sampled.exhausted:
        trial, setting = sampled.ask()
        leader = max(complete, key=world.mean) if complete else None
        ends = stopping_points(questions) if leader is not None else [questions]
        for end in ends:
            scores = world.answer(setting, range(end))
            if len(scores) < end:
                return _best(world, complete)
            if leader is not None and end < questions:
                rival = world.scores[leader].tolist()
                if win_probability(scores.tolist(), rival) < FUTILITY:
                    break
        seen = int(world.seen[setting].sum())
        if seen == questions:
            complete.append(setting)
        value = world.mean(setting)
        if leader is not None and seen < questions:
            value = world.mean(leader) + float(
                np.mean(world.scores[setting, :seen]) - np.mean(world.scores[leader, :seen])
            )
        sampled.study.tell(trial, value)
    return _best(world, complete)


def _allocated(world: World, seed: int, variances: Variances | None) -> Pick:
    """A study of ragc with one objective, as `ragc.optimizers.search.study` runs it.

    Its screening are settings drawn at random, for at most `SCREENING` of the budget after the baseline; then
    in each round any of the next `RESERVE` new ones may begin.
    """
    questions = affordable_questions(world.shape[1], world.budget)
    ends = stopping_points(questions)
    scores = np.full((world.shape[0], questions), np.nan)
    seen = np.zeros(world.shape[0], dtype=int)

    def look(setting: int, end: int) -> None:
        span = range(int(seen[setting]), min(end, int(seen[setting]) + world.left))
        scores[setting, span] = world.answer(setting, span)
        seen[setting] = max(seen[setting], span.stop)

    look(world.baseline, questions)
    if not seen[world.baseline]:
        return Pick(world.baseline, 0.0)
    fresh = _shuffled(world, seed)[1:]
    for _ in range(max(BATCH, int(SCREENING * world.left / ends[0]))):
        if fresh:
            look(fresh.pop(0), ends[0])
    model = ScoreModel(world.settings)
    if variances is not None:
        model.fix(variances)

    def posterior() -> Posterior:
        return model.fit(scores) if variances is None else model.posterior(scores)

    while world.left > 0:
        begun = [s for s in range(len(seen)) if 0 < seen[s] < questions]
        looks = next_looks(
            posterior(), seen.tolist(), [*begun, *fresh[:RESERVE]],
            questions=questions, most=LOOKS, tolerance=TOLERANCE,
        )  # fmt: skip
        for setting in looks or fresh[:BATCH]:
            if setting in fresh:
                fresh.remove(setting)
            look(setting, next(end for end in ends if end > seen[setting]))
        if not looks and not fresh:
            break
    while world.left > 0 and seen[leader := int(posterior().mean.argmax())] < questions:
        look(leader, questions)
    final = posterior()

    def choose(means: Array) -> NDArray[np.intp]:
        risk = final.worse_than(world.baseline, MARGIN, means)
        possible = (risk <= RISK) & (
            (seen >= least_to_win(questions)) | (np.arange(len(seen)) == world.baseline)
        )
        chosen: NDArray[np.intp] = np.where(possible, means, -np.inf).argmax(-1)
        return chosen

    winner = int(choose(final.mean))
    while world.left > 0 and seen[winner] < questions:
        look(winner, questions)
        final = posterior()
        winner = int(choose(final.mean))
    return Pick(winner, float(final.mean[winner]) - model.bias_of_choice(scores, choose))


def ragc(world: World, seed: int) -> Pick:
    """A study of ragc."""
    return _allocated(world, seed, None)


def oracle(variances: Variances) -> Search:
    """A study of ragc that knows the variances."""

    def search(world: World, seed: int) -> Pick:
        return _allocated(world, seed, variances)

    return search


SEARCHES: dict[str, Search] = {
    "random": random,
    "tpe": tpe,
    "minibatches": minibatches,
    "halving": halving,
    "hyperband": hyperband,
    "wilcoxon": wilcoxon,
    "race": race,
    "greedy": greedy,
    "futility": futility,
    "ragc": ragc,
}


def true_variances(levels: tuple[int, ...], grid: Any) -> Variances:
    """The variances of a generated grid on the scale of its scores.

    Those of questions and of the residual are measured on 4,000 fresh questions; that between settings is the
    generator's, on the scale of the scores, by the slope of the mean score at the mean effect.
    """
    p = grid.parameters
    columns = len(levels)
    parts = np.array([columns * p.single**2, columns * (columns - 1) / 2 * p.pair**2, p.own**2])
    parts[2] += p.broken * (1 - p.broken) * 9.0
    scores = grid.draw(4000, np.random.default_rng([p.seed, 99]))
    rest = scores - scores.mean(1, keepdims=True)
    questions = rest.mean(0)
    n = len(scores)
    residual = float((rest - questions).var()) * n / (n - 1)
    between_questions = max(float(questions.var()) - residual / n, 1e-6)
    spread = np.sqrt(1 + p.ease**2 + columns * p.local**2)
    slope = sum(c * stats.norm.pdf((grid.effects - t) / spread) / spread for t, c in p.steps).mean()
    shares = parts / parts.sum()
    return Variances(
        (float(shares[0]), float(shares[1]), float(shares[2])),
        float(slope**2 * parts.sum() / residual),
        float(residual / between_questions),
        residual,
    )
