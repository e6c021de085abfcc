"""The result of a table: our figures with intervals beside the paper's, and the differences in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc import metrics
from ragc.core.display import describe, quantity, spent
from ragc.metrics.stats.resample import Interval
from ragc.optimizers.grids.tables.table import Table

PERCENT = 100.0
"""The papers print shares as per cent."""

RULER = ("data set", "row", "metric", "paper", "ours (95% interval)", "the paper is")


@dataclass(frozen=True, slots=True)
class Cell:
    """A row on a data set: `means` in our units by metric, over `n` questions; `failed` got no answer.

    `there` is the number of questions in the data set's file, `passages` the number of its passages, 0 if the
    sources have none of their own. `sources` names the kind of each source. `path` is the file of the rows.
    The row learned from `train` questions, which were `held_out` of those in the file, and showed `demos`
    demonstrations.
    """

    row: str
    data: str
    means: Mapping[str, Interval]
    n: int
    failed: int
    there: int
    passages: int
    sources: Mapping[str, str]
    questions: str
    path: Path
    train: int = 0
    demos: int = 0
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A table, or a part of it, on the user's models.

    `beside` is the paper's model whose figures are compared. `left_out` says why cells were not run, by row
    and data set. `differs` are sentences on model, corpus, sample, metric and setting.
    """

    table: Table
    beside: str
    cells: tuple[Cell, ...]
    left_out: tuple[str, ...]
    differs: tuple[str, ...]
    counters: Mapping[str, float]
    path: Path
    targets: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return describe("Reproduction", self.table.id, quantity(len(self.cells), "cell"), beside=self.beside)

    def figures(self, cell: Cell) -> list[dict[str, Any]]:
        """Returns the figures of a cell as JSON objects: metric, the paper's, ours with its interval, in one
        unit.
        """
        row = self.table.row(cell.row)
        model = row.model_beside(self.beside)
        printed = self.table.expected(row, model).get(cell.data, {})
        out = []
        for name in self.table.use(cell.data).metrics:
            mean, scale = cell.means.get(name), scale_of(name)
            out.append(
                {
                    "metric": name,
                    "unit": "percent" if scale == PERCENT else metrics.get(name).unit,
                    "paper": printed.get(name),
                    "model": model if name in printed else "",
                    "ours": None if mean is None else round(mean.mean * scale, 4),
                    "ci": None if mean is None else [round(mean.low * scale, 4), round(mean.high * scale, 4)],
                    "n": 0 if mean is None else mean.n,
                }
            )
        return out

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc reproduce TABLE --json`."""
        return {
            "table": self.table.id,
            "paper": self.table.paper,
            "beside": self.beside,
            "targets": dict(self.targets),
            "rows": [
                {
                    "id": row.id,
                    "program": row.program,
                    "expected": self.table.expected(row, row.model_beside(self.beside)),
                    "data": {
                        cell.data: {
                            "questions": cell.n,
                            "there": cell.there,
                            "failed": cell.failed,
                            "figures": self.figures(cell),
                            "rows": str(cell.path),
                        }
                        for cell in self.cells
                        if cell.row == row.id
                    },
                }
                for row in self.table.rows
                if any(cell.row == row.id for cell in self.cells)
            ],
            "left_out": list(self.left_out),
            "differs": list(self.differs),
            "counters": dict(self.counters),
            "path": str(self.path),
        }

    def grid(self) -> list[tuple[str, ...]]:
        """Returns the figures as a table of texts, with its head."""
        return [RULER, *self._lines()]

    def _lines(self) -> Iterator[tuple[str, ...]]:
        for cell in self.cells:
            for figure in self.figures(cell):
                ours, paper, ci = figure["ours"], figure["paper"], figure["ci"]
                shown = "not measured" if ours is None else f"{ours:.1f} [{ci[0]:.1f}, {ci[1]:.1f}]"
                yield (
                    cell.data,
                    cell.row,
                    figure["metric"],
                    "-" if paper is None else f"{paper:g}",
                    shown,
                    _relation(paper, ci, figure["n"]),
                )

    def lines(self) -> list[str]:
        """Returns the lines below the table: its unit, the differences from the paper, and the files."""
        out = [f"{self.table.paper}: {self.table.about}. Shares are per cent."]
        if any(figure["paper"] is not None for cell in self.cells for figure in self.figures(cell)):
            out.append("Inside: the paper's figure is in our interval; below or above: it is outside.")
            if any(0 < figure["n"] < MIN_QUESTIONS for cell in self.cells for figure in self.figures(cell)):
                out.append(f"Below {MIN_QUESTIONS} questions an interval holds nearly any figure: {TOO_FEW}.")
        out += ["", "What differs from the paper:"]
        out += [f"- {text}" for text in self.differs]
        if self.left_out:
            out += ["", "Left out:"]
            out += [f"- {text}" for text in self.left_out]
        out += ["", f"Rows: {self.path}"]
        out.append(spent(self.counters))
        return out


def scale_of(metric: str) -> float:
    """Returns the factor from our unit of `metric` to the papers': 100 for shares, 1 for counts."""
    return PERCENT if metrics.get(metric).bounds is not None else 1.0


MIN_QUESTIONS = 30
"""Questions below which nothing is said of the paper's figure: an interval of fewer holds nearly any."""

TOO_FEW = "too few questions to tell"


def _relation(paper: float | None, ci: Sequence[float] | None, n: int) -> str:
    """Returns where the paper's figure is, relative to our interval of `n` questions; "" if one is absent."""
    if paper is None or ci is None:
        return ""
    if n < MIN_QUESTIONS:
        return TOO_FEW
    return "below" if paper < ci[0] else "above" if paper > ci[1] else "inside"
