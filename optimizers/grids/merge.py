"""Merges grids of the same questions, data, models and program: settings of each are rows of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ragc.core import extras
from ragc.errors import UsageError
from ragc.optimizers.grids import card as cards
from ragc.optimizers.grids.files import Cells, GridFiles, check_out, is_grid, mark, read_files, too_large
from ragc.optimizers.grids.grid import grid_of
from ragc.optimizers.grids.record import RecordedGrid, locked


def merge(paths: Sequence[str | Path], out: str | Path | None = None) -> RecordedGrid:
    """Writes the grids in the folders `paths` as one to `out`, by default the first of them, in one file.

    A grid that is in `out` already is the first part. A cell that several grids have is taken from the first.
    Raises UsageError for grids of other questions, data, models or metrics, and ArtefactError for a damaged
    one; nothing is written then.
    """
    extras.require("pyarrow", "A grid")
    if not paths:
        raise UsageError("There is no grid to merge; name one folder or more.")
    with locked(check_out(paths[0] if out is None else out)):
        # Looked at once more: what another process wrote meanwhile may not be replaced by older cells.
        return _merge(paths, check_out(paths[0] if out is None else out))


def _merge(paths: Sequence[str | Path], where: Path) -> RecordedGrid:
    folders = list(dict.fromkeys([*([where] if is_grid(where) else []), *(Path(p).resolve() for p in paths)]))
    first, *others = ((folder, read_files(folder)) for folder in folders)
    files = first[1]
    for folder, other in others:
        what = f"{folder} holds a grid with"
        cards.check_same(files.card, other.card, what, f"only equal ones can be merged with {first[0]}.")
        _add(files, other)
    if reason := too_large(len(files.candidates), len(files.questions), len(files.metrics)):
        raise UsageError(f"The grids together have {reason}; merge fewer.")
    files.merge()
    grid = grid_of(files, where.name)
    files.save(where, cards.text_of(grid))
    return RecordedGrid(where, grid, {})


def _add(files: GridFiles, other: GridFiles) -> None:
    """Adds the settings and cells of `other`, which has the same identity, to `files`."""
    numbers = {mark(candidate): number for number, candidate in enumerate(files.candidates)}
    for number, candidate in enumerate(other.candidates):
        at = numbers.setdefault(mark(candidate), len(files.candidates))
        if at == len(files.candidates):
            files.candidates.append(candidate)
        if number in other.cells:
            cells = other.cells[number]
            files.cells[at] = _joined(files.cells[at], cells) if at in files.cells else cells
    files.columns = tuple(dict.fromkeys((*files.columns, *other.columns)))
    files.card["demonstrations"] = {**other.card["demonstrations"], **files.card["demonstrations"]}
    files.card["runs"] = cards.same_runs([*files.card["runs"], *other.card["runs"]])


def _joined(first: Cells, second: Cells) -> Cells:
    """The cells of `first`, and those of `second` on the other questions."""
    new = ~np.isin(second.questions, first.questions)
    order = np.argsort(np.concatenate([first.questions, second.questions[new]]))

    def join(name: str) -> np.ndarray:
        return np.concatenate([getattr(first, name), getattr(second, name)[new]])[order]

    scores = {
        name: np.concatenate([values, second.scores[name][new]])[order]
        for name, values in first.scores.items()
    }
    parts = {name: join(name) for name in ("questions", "failed", "tokens", "seconds")}
    return replace(first, **parts, scores=scores)
