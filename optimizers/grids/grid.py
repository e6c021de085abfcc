"""A grid as arrays: the scores and tokens of every setting on every question."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragc.core.display import describe, quantity
from ragc.errors import UnknownName, UsageError
from ragc.optimizers.grids.files import GridFiles, flat, mark, read_files, too_large
from ragc.optimizers.grids.provenance import check_same

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Grid:
    """Settings of one program, evaluated on the same questions, in the folder `path`.

    `settings` have the same columns each: knobs, and `demos`, `demo_set` and `demo_kind` if they are varied;
    setting 0 is the baseline. `questions` are ids. All arrays have the shape (settings, questions) and cannot
    be changed. `values` are the scores by metric; `tokens` are the cost of a question. NaN marks a cell that
    was not recorded, and a score whose metric does not apply to the question. `failed` questions had no
    readable answer, and are scored so. `provenance` describes what was recorded, where and when. `counters`
    are what this recording sent: requests sent and replayed, tokens, US dollars and seconds.
    """

    path: Path
    settings: tuple[Mapping[str, Any], ...]
    questions: tuple[str, ...]
    values: Mapping[str, Floats]
    tokens: Floats
    failed: npt.NDArray[np.bool_]
    provenance: Mapping[str, Any]
    counters: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = f"{quantity(len(self.settings), 'setting')} on {quantity(len(self.questions), 'question')}"
        return describe("Grid", repr(str(self.path)), sizes, metrics=", ".join(self.metrics))

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc grid --json`."""
        return {
            "grid": str(self.path),
            "settings": len(self.settings),
            "questions": len(self.questions),
            "complete": self.complete,
            "remarks": list(self.remarks),
            "metrics": {name: self._spread(name) for name in self.metrics},
            "counters": dict(self.counters),
        }

    def _spread(self, metric: str) -> dict[str, float | None]:
        """Returns the baseline's mean, and the least, middle and greatest mean of the settings; None for no
        number.
        """
        means = self.means(metric)
        known = means[~np.isnan(means)]
        shown = {"baseline": means[0]}
        shown |= (
            {"least": known.min(), "median": np.median(known), "greatest": known.max()} if len(known) else {}
        )
        return {name: None if math.isnan(value) else round(float(value), 6) for name, value in shown.items()}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The ids of the metrics; the first is the one that decides in the recipe."""
        return tuple(self.values)

    def scores(self, metric: str) -> Floats:
        """Returns the scores by `metric`, of the shape (settings, questions). Raises UnknownName."""
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
        """Returns a sentence on each fact that limits comparisons of settings."""
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
        """Returns the mean score of each setting over its cells with a score; NaN without such cells."""
        scores = self.scores(metric)
        counts = (~np.isnan(scores)).sum(axis=1)
        sums = np.nansum(scores, axis=1)
        means: Floats = np.full(len(sums), np.nan)
        np.divide(sums, counts, out=means, where=counts > 0)
        return means


def read(*folders: str | Path) -> Grid:
    """Reads the grid in a folder, complete or not; several are read as one, with the settings of all.

    A setting in several folders is taken from the first. Raises ArtefactError in one sentence for a folder
    that is no grid and for a damaged file, and UsageError for grids of other questions, data, models or
    metrics.
    """
    if not folders:
        raise UsageError("There is no grid to read; name one folder or more.")
    files = read_files(folders[0])
    for folder in folders[1:]:
        other = read_files(folder)
        advice = f"only equal ones are read with {folders[0]}."
        check_same(files.provenance, other.provenance, f"{folder} holds a grid with", advice)
        _add(files, other)
    if reason := too_large(len(files.candidates), len(files.questions)):
        raise UsageError(f"The grids together have {reason}; read fewer.")
    return grid_of(files, Path(folders[0]).resolve())


def _add(files: GridFiles, other: GridFiles) -> None:
    """Adds the settings and rows of `other`, which has the same identity, to `files`."""
    numbers = {mark(candidate): number for number, candidate in enumerate(files.candidates)}
    for number, candidate in enumerate(other.candidates):
        at = numbers.setdefault(mark(candidate), len(files.candidates))
        if at == len(files.candidates):
            files.candidates.append(candidate)
        if number in other.rows:
            files.rows.setdefault(at, other.rows[number])
    files.columns = tuple(dict.fromkeys((*files.columns, *other.columns)))
    runs: Sequence[Mapping[str, Any]] = [*files.provenance["runs"], *other.provenance["runs"]]
    files.provenance["runs"] = sorted(runs, key=lambda run: str(run["begun"]))
    files.provenance["demonstrations"] = {
        **other.provenance["demonstrations"],
        **files.provenance["demonstrations"],
    }


def grid_of(files: GridFiles, path: Path, counters: Mapping[str, float] | None = None) -> Grid:
    """Returns the grid that `files` hold, in the folder `path`."""
    shape = (len(files.candidates), len(files.questions))
    tokens, failed = np.full(shape, np.nan), np.zeros(shape, np.bool_)
    values = {metric: np.full(shape, np.nan) for metric in files.metrics}
    for number, rows in files.rows.items():
        tokens[number] = [row.counters["tokens"] for row in rows]
        failed[number] = [row.failure for row in rows]
        for metric, scores in values.items():
            scores[number] = [math.nan if (score := row.scores[metric]) is None else score for row in rows]
    for array in (tokens, failed, *values.values()):
        array.setflags(write=False)
    settings = tuple(flat(candidate, files.columns) for candidate in files.candidates)
    return Grid(path, settings, files.questions, values, tokens, failed, files.provenance, counters or {})
