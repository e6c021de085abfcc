"""Which worlds are open, and which are closed: a lot of a committed seed, within each family.

Searches are tuned on open worlds. Closed ones run with `--final` only, once a search is fixed. Families: the
known grids, the kinds of `kinds`, and tables of measurements. The kinds of `later` were written after the
closed run; they are open and take no part in the lot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.benchmarks.search.choosing.generator import GeneratedGrid, generated
from experiments.benchmarks.search.choosing.kinds import KINDS, kind_world
from experiments.benchmarks.search.choosing.later import LATER, later_world
from experiments.benchmarks.search.choosing.pools import DOMAINS, GRIDS, ragsmith_world, recorded_world
from experiments.benchmarks.search.choosing.worlds import World

SEED = 29
"""The seed of the lot."""


@dataclass(frozen=True)
class Source:
    """A kind or table. `world(seed, share)` is one task on it."""

    name: str
    family: str
    is_open: bool
    world: Callable[[int, float], World]


def _known(grid: GeneratedGrid) -> Callable[[int, float], World]:
    def world(seed: int, share: float) -> World:
        # The 31 keeps these questions apart from those that earlier searches were tuned on.
        scores = grid.draw(60, np.random.default_rng([grid.parameters.seed, seed, 31]))
        return World(grid.settings, grid.baseline, scores, grid.true, int(share * scores.size))

    return world


def _kind(name: str) -> Callable[[int, float], World]:
    return lambda seed, share: kind_world(name, seed, share)


def _later(name: str) -> Callable[[int, float], World]:
    return lambda seed, share: later_world(name, seed, share)


def _pool(path: Path, domain: str) -> Callable[[int, float], World]:
    return lambda seed, share: ragsmith_world(path, domain, seed, share)


def _table(folder: Path) -> Callable[[int, float], World]:
    return lambda seed, share: recorded_world(folder, seed, share)


def sources(ragsmith: Path | None = None) -> tuple[list[Source], str]:
    """All kinds and tables, and why any were left out, "" for none. `ragsmith` is the path of its table."""
    known = {kind.name: _known(GeneratedGrid(kind)) for kind in generated() if kind.name != "many"}
    kinds = {name: _kind(name) for name in KINDS}
    # Both domains take part in the lot, whether the file is there or not.
    path = ragsmith or Path("ragsmith")
    tables = {f"ragsmith-{domain}": _pool(path, domain) for domain in DOMAINS}
    tables |= {path.parent.name: _table(path.parent) for path in sorted(GRIDS.glob("*/settings.json"))}
    rng, drawn = np.random.default_rng(SEED), []
    for family, members in (("known", known), ("kinds", kinds), ("tables", tables)):
        order = rng.permutation(len(members))
        opened = {list(members)[index] for index in order[: len(members) // 2]}
        drawn += [Source(name, family, name in opened, world) for name, world in members.items()]
    drawn += [Source(name, "later", True, _later(name)) for name in LATER]
    if ragsmith and ragsmith.is_file():
        return drawn, ""
    why = f"no file is at {ragsmith}" if ragsmith else "no --ragsmith was given"
    return [s for s in drawn if not s.name.startswith("ragsmith")], f"RAGSmith's pools are left out: {why}."


def outside_tables(folder: Path) -> list[Source]:
    """The grids in the folders of `folder`, which take no part in the lot. Raises SystemExit for none."""
    folders = sorted(path.parent for path in folder.glob("*/settings.json"))
    if not folders:
        raise SystemExit(f"No folder in {folder} holds a grid, of which settings.json is a part.")
    return [Source(path.name, "outside", True, _table(path)) for path in folders]
