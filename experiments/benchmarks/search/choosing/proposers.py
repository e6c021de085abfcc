"""Searches whose settings come from a sampler: Optuna's, or one of a package in another environment.

- `tpe`: Optuna's TPE (its defaults), each trial on all dev questions.
- `mipro`: MIPROv2's rule (DSPy 3.4.1, defaults): TPE over minibatches of 35 questions; after every five the
  setting with the best mean of minibatches answers all questions; the best full mean wins.
- `hyperband2`, `hyperband3`: Optuna's HyperbandPruner over random settings, with five questions a step.
- `bohb`: HpBandSter's proposer (kernel densities) in brackets of Hyperband with factor 3.
- `smac`: SMAC3's facade for hyperparameters (a random forest), each trial on all dev questions.

The last two run in `outside.py` under another Python, which has their packages; `--outside` names it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import optuna

from experiments.benchmarks.search.choosing.peers import STEP, Search, ranked
from experiments.benchmarks.search.choosing.worlds import World

MINIBATCH, FULL_EVERY = 35, 5
OUTSIDE = Path(__file__).with_name("outside.py")


class Proposer(Protocol):
    """Proposes settings as numbers of values, and learns of their means."""

    def ask(self) -> list[int]:
        """The next proposal."""
        ...

    def tell(self, mean: float, questions: int, setting: Sequence[int]) -> None:
        """The mean over so many questions of `setting`, the last proposal or what stood in for it."""
        ...


class OptunaProposer:
    """Proposes by an Optuna sampler."""

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
        """See `Proposer`."""
        self.trial = self.study.ask()
        return [int(self.trial.suggest_categorical(f"{n}", range(k))) for n, k in enumerate(self._sizes)]

    def tell(self, mean: float, questions: int, setting: Sequence[int]) -> None:
        """See `Proposer`. Optuna learns of its own proposal."""
        self.study.tell(self.trial, mean)


class OutsideProposer:
    """Proposes by a package that runs under `python`. Raises RuntimeError where that ends with an error."""

    def __init__(self, python: Path, package: str, world: World, seed: int) -> None:
        command = [str(python), str(OUTSIDE), package]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        sizes = [len(options) for options in world.columns.values()]
        self._send({"sizes": sizes, "seed": seed, "questions": world.shape[1], "trials": world.shape[0]})

    def _send(self, value: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._fail()

    def _fail(self) -> None:
        assert self._process.stderr is not None
        raise RuntimeError(f"The outside proposer ended: {self._process.stderr.read()[-500:]}")

    def ask(self) -> list[int]:
        """See `Proposer`."""
        assert self._process.stdout is not None
        self._send("ask")
        line = self._process.stdout.readline()
        if not line:
            self._fail()
        codes: list[int] = json.loads(line)
        return codes

    def tell(self, mean: float, questions: int, setting: Sequence[int]) -> None:
        """See `Proposer`; BOHB also learns of earlier settings."""
        self._send({"mean": mean, "questions": questions, "setting": [int(code) for code in setting]})

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate("", timeout=30)


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


def _whole(world: World, proposer: Proposer) -> list[int]:
    """Proposals on all dev questions, one after another, the baseline first."""
    free, done, questions = _Free(world), list[int](), world.shape[1]
    while not free.exhausted:
        codes = proposer.ask()
        setting = free.take(codes if done else world.codes[world.baseline].tolist())
        if not world.affords(setting, questions):
            break
        mean = float(world.answer(setting, range(questions)).mean())
        proposer.tell(mean, questions, world.codes[setting])
        done.append(setting)
    return ranked(world, done)


def tpe(world: World, seed: int) -> list[int]:
    """Optuna's TPE in full."""
    return _whole(world, OptunaProposer(world, optuna.samplers.TPESampler(seed=seed)))


def mipro(world: World, seed: int) -> list[int]:
    """MIPROv2's minibatches."""
    rng, questions = np.random.default_rng([seed, 2]), world.shape[1]
    size = min(MINIBATCH, questions)
    proposer = OptunaProposer(world, optuna.samplers.TPESampler(seed=seed))
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
        proposer.tell(score, size, world.codes[setting])
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
    proposer = OptunaProposer(world, optuna.samplers.RandomSampler(seed=seed), pruner)
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
            proposer.tell(world.mean(setting), questions, world.codes[setting])
        else:
            proposer.study.tell(proposer.trial, state=optuna.trial.TrialState.PRUNED)
    return ranked(world, complete or begun[:1])


def brackets(world: World, proposer: Proposer, factor: int = 3) -> list[int]:
    """Hyperband's brackets over the settings of `proposer`, one bracket after another."""
    questions, free = world.shape[1], _Free(world)
    rungs = [questions]
    while rungs[0] // factor >= min(STEP, questions) and rungs[0] > 1:
        rungs.insert(0, rungs[0] // factor)
    begun: list[int] = []
    while world.left > 0 and not free.exhausted:
        for first in range(len(rungs)):
            size = -(-len(rungs) * factor ** (len(rungs) - first - 1) // (len(rungs) - first))
            arms: list[int] = []
            while len(arms) < size and world.left > 0 and not free.exhausted:
                codes = proposer.ask()
                arms.append(free.take(codes if begun else world.codes[world.baseline].tolist()))
                begun.append(arms[-1])
                world.answer(arms[-1], range(rungs[first]))
                proposer.tell(world.mean(arms[-1]), rungs[first], world.codes[arms[-1]])
            for length in rungs[first + 1 :]:
                arms = ranked(world, arms)[: max(1, len(arms) // factor)] if arms else []
                for setting in arms:
                    world.answer(setting, range(length))
                    proposer.tell(world.mean(setting), int(world.seen[setting].sum()), world.codes[setting])
    most = max((int(world.seen[s].sum()) for s in begun), default=0)
    return ranked(world, [s for s in begun if most and int(world.seen[s].sum()) == most])


PROPOSERS: dict[str, Search] = {
    "tpe": tpe,
    "mipro": mipro,
    "hyperband2": lambda world, seed: hyperband(world, seed, 2),
    "hyperband3": lambda world, seed: hyperband(world, seed, 3),
}


def outside(python: Path) -> dict[str, Search]:
    """The searches whose packages `python` has."""

    def search(package: str, run: Callable[[World, Proposer], list[int]]) -> Search:
        def go(world: World, seed: int) -> list[int]:
            proposer = OutsideProposer(python, package, world, seed)
            try:
                return run(world, proposer)
            finally:
                proposer.close()

        return go

    return {"bohb": search("bohb", brackets), "smac": search("smac", _whole)}
