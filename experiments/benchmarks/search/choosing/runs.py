"""Runs searches on worlds, and the rows that come of it: JSON lines, one a run.

    {"source", "seed", "budget", "search", "spent", "seconds", "luck", "picks": {RULE: [regret, gain, error]}}

A rule is the greatest probability of being more than `MARGIN` below the baseline that a choice may have, as
the model of scores (`ragc.optimizers.search.score_model`) computes it from the answers of the search; "1" is
none. Every search chooses by every rule from the same answers. `gain` is the true mean less the baseline's,
`error` the expected less the true mean, `luck` how much easier the dev questions are than all. Closed rows
have `run`, the label of the final run.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from experiments.benchmarks.search.choosing.lot import Source, outside_tables, sources
from experiments.benchmarks.search.choosing.peers import PEERS
from experiments.benchmarks.search.choosing.proposers import PROPOSERS
from experiments.benchmarks.search.choosing.table_study import study_picks
from experiments.benchmarks.search.choosing.worlds import Array, Pick, World, regret
from ragc.optimizers.search.allocation import MARGIN, affordable_questions
from ragc.optimizers.search.score_model import ScoreModel

RISKS = (0.05, 0.1, 0.15, 0.3, 1.0)
"""The rules by which each search chooses."""

CUT = "+cut"
"""Ends the name of a peer that asks as many dev questions as ragc would."""

RAGC, EXHAUSTIVE = "ragc", "exhaustive"
NAMES = (RAGC, *(name + end for name in (*PEERS, *PROPOSERS) for end in ("", CUT)))

Key = tuple[str, int, float, str, str]


def key_of(row: dict[str, Any]) -> Key:
    """What one run is: source, seed, budget, search, label."""
    return row["source"], row["seed"], row["budget"], row["search"], row.get("run", "")


def risks(world: World) -> Array:
    """The probability that each setting is worse than the baseline by more than the margin; 1 if unseen."""
    out: Array = np.ones(world.shape[0])
    begun = np.union1d(np.flatnonzero(world.seen.any(axis=1)), [world.baseline])
    scores = np.where(world.seen[begun], world.scores[begun], np.nan)
    scale = float(np.nanstd(scores)) if world.seen.any() else 0.0
    if scale:
        model = ScoreModel([world.settings[index] for index in begun])
        posterior = model.fit((scores - np.nanmean(scores)) / scale)
        reference = int(np.flatnonzero(begun == world.baseline)[0])
        out[begun] = posterior.worse_than(reference, MARGIN / scale)
    out[world.baseline] = 0.0
    return out


def peer_picks(name: str, world: World, seed: int) -> dict[str, Pick]:
    """The choices of a peer by rule: the first of its ranking that the rule allows, else the baseline."""
    base = name.removesuffix(CUT)
    search = (PEERS | PROPOSERS)[base]
    task = world.cut(affordable_questions(world.shape[1], world.budget)) if name.endswith(CUT) else world
    order = search(task, seed)
    world.seen[:, : task.shape[1]] = task.seen
    chance = risks(task)
    picks = {}
    for risk in RISKS:
        safe = [s for s in order if chance[s] <= risk] or [world.baseline]
        picks[f"{risk:g}"] = Pick(safe[0], task.mean(safe[0]))
    return picks


def _picks(name: str, world: World, seed: int) -> dict[str, Pick]:
    if name.split(maxsplit=1)[0] == RAGC:
        return study_picks(world, seed, RISKS, name.removeprefix(RAGC).strip())
    if name == EXHAUSTIVE:
        world.seen[:] = True
        best = int(world.scores.mean(1).argmax())
        return {"1": Pick(best, world.mean(best))}
    return peer_picks(name, world, seed)


def run(source: Source, seed: int, budget: float, name: str) -> dict[str, Any]:
    """The row of one run."""
    world = source.world(seed, budget)
    started = time.process_time()
    picks = _picks(name, world, seed)
    values = world.values
    return {
        "source": source.name,
        "seed": seed,
        "budget": budget,
        "search": name,
        "spent": int(world.seen.sum()),
        "seconds": round(time.process_time() - started, 3),
        "luck": round(float((world.scores - values[:, None]).mean()), 4),
        "picks": {
            rule: [
                round(regret(world, pick.setting), 4),
                round(float(values[pick.setting] - values[world.baseline]), 4),
                round(pick.expected - float(values[pick.setting]), 4),
            ]
            for rule, pick in picks.items()
        },
    }


@cache
def _sources(ragsmith: Path | None, tables: Path | None) -> dict[str, Source]:
    known = outside_tables(tables) if tables else sources(ragsmith)[0]
    return {source.name: source for source in known}


def _job(
    name: str, seed: int, budget: float, names: Sequence[str], ragsmith: Path | None, tables: Path | None
) -> list[dict[str, Any]]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [run(_sources(ragsmith, tables)[name], seed, budget, search) for search in names]


def rows(
    chosen: Sequence[Source], names: Sequence[str], budgets: Sequence[float], seeds: Iterable[int],
    done: set[Key], *, label: str = "", ragsmith: Path | None = None, tables: Path | None = None,
    processes: int = 1,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """The rows of all runs that are not `done`, as they come; `label` is that of closed rows."""
    jobs = []
    for seed in seeds:
        for source in chosen:
            run_label = "" if source.is_open else label
            for budget in budgets:
                left = [n for n in names if (source.name, seed, budget, n, run_label) not in done]
                if left:
                    jobs.append((source.name, seed, budget, left, run_label))
    with ProcessPoolExecutor(processes) as pool:
        futures = {pool.submit(_job, *job[:4], ragsmith, tables): job[4] for job in jobs}
        try:
            for future in as_completed(futures):
                run_label = futures[future]
                for row in future.result():
                    yield {**row, "run": run_label} if run_label else row
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file; none if it is not there. A line that was cut off is left out."""
    lines = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return lines


def append(path: Path, row: dict[str, Any]) -> None:
    """Appends `row`, after a line that was cut off on a line of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) is not None and file.read(1) != b"\n":
            file.write(b"\n")
        file.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
