"""A grid as arrays: the scores, tokens and seconds of every setting on every question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragc.core.display import describe, quantity
from ragc.errors import UnknownName
from ragc.optimizers.grids.files import GridFiles, flat, read_files

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Grid:
    """Settings of one program, evaluated on the same questions.

    `settings` have the same columns each: knobs, and `demos`, `demo_set` and `demo_kind` where they are
    varied; setting 0 is the baseline. `questions` are ids. All arrays have the shape (settings, questions)
    and cannot be changed. `values` are the scores by metric; `tokens` and `seconds` are what a question took.
    NaN marks a cell that was not recorded, a score where the metric does not apply to the question, and
    seconds where the reply came from before the recording. `failed` questions had no readable answer, and
    score as such. `card` says what was recorded, where and when.
    """

    name: str
    settings: tuple[Mapping[str, Any], ...]
    questions: tuple[str, ...]
    values: Mapping[str, Floats]
    tokens: Floats
    seconds: Floats
    failed: npt.NDArray[np.bool_]
    card: Mapping[str, Any]

    def __repr__(self) -> str:
        sizes = f"{quantity(len(self.settings), 'setting')} on {quantity(len(self.questions), 'question')}"
        return describe("Grid", repr(self.name), sizes, metrics=", ".join(self.metrics))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The ids of the metrics; the first is the one that the recipe decides by."""
        return tuple(self.values)

    def scores(self, metric: str) -> Floats:
        """The scores by `metric`, of the shape (settings, questions). Raises UnknownName."""
        if metric not in self.values:
            raise UnknownName("metric of this grid", metric, self.metrics)
        return self.values[metric]

    @property
    def recorded(self) -> npt.NDArray[np.bool_]:
        """Which cells were recorded."""
        return ~np.isnan(self.tokens)

    @property
    def complete(self) -> bool:
        """Whether every cell was recorded."""
        return bool(self.recorded.all())

    @property
    def remarks(self) -> tuple[str, ...]:
        """A sentence on each thing that limits comparisons of settings; empty if there is none."""
        texts = []
        cells, missing = self.recorded.size, int((~self.recorded).sum())
        if missing:
            lacking = int((~self.recorded).any(axis=1).sum())
            texts.append(f"{missing:,} of {cells:,} cells are missing, of {quantity(lacking, 'setting')}.")
        if len(self.settings) < 2:
            texts.append("There is one setting, and nothing to compare it with.")
        for name, scores in self.values.items():
            here = scores[self.recorded]
            undefined = int(np.isnan(here).sum())
            if undefined:
                texts.append(f"{name} is not defined in {undefined:,} of {len(here):,} recorded cells.")
            known = here[~np.isnan(here)]
            if len(known) > 1 and known.min() == known.max():
                texts.append(f"{name} is {known[0]:g} in every cell, so it tells no settings apart.")
        failed = int(self.failed.sum())
        if failed:
            texts.append(f"{failed:,} of {cells:,} cells have no readable answer.")
        return tuple(texts)

    def means(self, metric: str) -> Floats:
        """The mean score of each setting over its cells with a score; NaN where there is none."""
        scores = self.scores(metric)
        counts = (~np.isnan(scores)).sum(axis=1)
        sums = np.nansum(scores, axis=1)
        means: Floats = np.full(len(sums), np.nan)
        np.divide(sums, counts, out=means, where=counts > 0)
        return means


def read(path: str | Path) -> Grid:
    """The grid in the folder `path`, in shards, merged, or partly either.

    Raises ArtefactError in one sentence for a folder that is no grid and for a damaged file, and UsageError
    without pyarrow (extra `parquet`).
    """
    return grid_of(read_files(path), Path(path).resolve().name)


def grid_of(files: GridFiles, name: str) -> Grid:
    """The grid that `files` hold, called `name`."""
    shape = (len(files.candidates), len(files.questions))

    def filled(column: str, metric: str = "") -> Floats:
        array = np.full(shape, np.nan)
        for number, cells in files.cells.items():
            array[number, cells.questions] = cells.scores[metric] if metric else getattr(cells, column)
        array.setflags(write=False)
        return array

    failed = np.zeros(shape, np.bool_)
    for number, cells in files.cells.items():
        failed[number, cells.questions] = cells.failed
    failed.setflags(write=False)
    return Grid(
        name=name,
        settings=tuple(flat(candidate, files.columns) for candidate in files.candidates),
        questions=files.questions,
        values={metric: filled("scores", metric) for metric in files.metrics},
        tokens=filled("tokens"),
        seconds=filled("seconds"),
        failed=failed,
        card=files.card,
    )
