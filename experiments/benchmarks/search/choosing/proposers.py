"""Searches whose settings come from one of Optuna's samplers.

- `tpe`: Optuna's TPE (its defaults), each trial on all dev questions.
- `mipro`: MIPROv2's rule (DSPy 3.4.1, defaults): TPE over minibatches of 35 questions; after every five the
  setting with the best mean of minibatches answers all questions; the best full mean wins.
- `hyperband2`, `hyperband3`: Optuna's HyperbandPruner over random settings, with five questions a step.
"""

from __future__ import annotations

import numpy as np
import optuna

from experiments.benchmarks.search.choosing.peers import STEP, Search, ranked
from experiments.benchmarks.search.choosing.worlds import World

MINIBATCH, FULL_EVERY = 35, 5


class Proposer:
    """Proposes settings as numbers of values by an Optuna sampler, the baseline first."""

    def __init__(
        self, world: World, sampler: optuna.samplers.BaseSampler,
        pruner: optuna.pruners.BasePruner | None = None,
    ) -> None:  # fmt: skip
        # Hyperband assigns trials to brackets by the name of the study, which is random by default.
        self.study = optuna.create_study(
            study_name="choosing", direction="maximize", sampler=sampler, pruner=pruner
        )
        self._sizes = [len(options) for options in world.columns.values()]
        names = range(len(self._sizes))
        row = world.codes[world.baseline]
        self.study.enqueue_trial({f"{n}": int(c) for n, c in zip(names, row, strict=True)})
        self.trial: optuna.Trial

    def ask(self) -> list[int]:
        """The next proposal."""
        self.trial = self.study.ask()
        return [int(self.trial.suggest_categorical(f"{n}", range(k))) for n, k in enumerate(self._sizes)]

    def tell(self, mean: float) -> None:
        """The mean of the last proposal, or of what stood in for it."""
        self.study.tell(self.trial, mean)


class _Free:
    """The settings that were not tried: a proposal becomes the nearest of them."""

    def __init__(self, world: World) -> None:
        self.world, self._free = world, set(range(world.shape[0]))

    def take(self, codes: list[int]) -> int:
        nearest = self.world.nearest(codes, sorted(self._free))
        self._free.discard(nearest)
        return nearest

    @property
    def exhausted(self) -> bool:
        return not self._free


def tpe(world: World, seed: int) -> list[int]:
    """Optuna's TPE in full: proposals on all dev questions, one after another."""
    proposer = Proposer(world, optuna.samplers.TPESampler(seed=seed))
    free, done, questions = _Free(world), list[int](), world.shape[1]
    while not free.exhausted:
        setting = free.take(proposer.ask())
        if not world.affords(setting, questions):
            break
        proposer.tell(float(world.answer(setting, range(questions)).mean()))
        done.append(setting)
    return ranked(world, done)


def mipro(world: World, seed: int) -> list[int]:
    """MIPROv2's minibatches."""
    rng, questions = np.random.default_rng([seed, 2]), world.shape[1]
    size = min(MINIBATCH, questions)
    proposer = Proposer(world, optuna.samplers.TPESampler(seed=seed))
    means: dict[int, list[float]] = {}
    full: list[int] = []
    if world.affords(world.baseline, questions):
        world.answer(world.baseline, range(questions))
        full.append(world.baseline)
    for trial in range(10 * world.shape[0]):
        if world.left < size:
            break
        setting = world.nearest(proposer.ask())
        score = float(world.answer(setting, rng.choice(questions, size, replace=False)).mean())
        proposer.tell(score)
        means.setdefault(setting, []).append(score)
        waiting = [s for s in means if s not in full]
        if (trial + 1) % FULL_EVERY == 0 and waiting:
            top = max(waiting, key=lambda s: float(np.mean(means[s])))
            if not world.affords(top, questions):
                break
            world.answer(top, range(questions))
            full.append(top)
    return ranked(world, full)


def hyperband(world: World, seed: int, factor: int) -> list[int]:
    """Optuna's Hyperband."""
    questions, free, complete, begun = world.shape[1], _Free(world), list[int](), list[int]()
    pruner = optuna.pruners.HyperbandPruner(
        min_resource=1, max_resource=max(2, -(-questions // STEP)), reduction_factor=factor
    )
    proposer = Proposer(world, optuna.samplers.RandomSampler(seed=seed), pruner)
    while world.left > 0 and not free.exhausted:
        setting = free.take(proposer.ask())
        begun.append(setting)
        seen = 0
        for look, end in enumerate([*range(STEP, questions, STEP), questions], 1):
            world.answer(setting, range(end))
            seen = int(world.seen[setting, :end].sum())
            if seen < end:
                break
            proposer.trial.report(world.mean(setting), look)
            if end < questions and proposer.trial.should_prune():
                break
        if seen == questions:
            complete.append(setting)
            proposer.tell(world.mean(setting))
        else:
            proposer.study.tell(proposer.trial, state=optuna.trial.TrialState.PRUNED)
    return ranked(world, complete or begun[:1])


PROPOSERS: dict[str, Search] = {
    "tpe": tpe,
    "mipro": mipro,
    "hyperband2": lambda world, seed: hyperband(world, seed, 2),
    "hyperband3": lambda world, seed: hyperband(world, seed, 3),
}
