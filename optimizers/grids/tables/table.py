"""Tables of the papers, as in the files of `experiments/tables`: rows, columns and printed figures.

A row is a setting of a program. A column is a metric of ours on a data set. A figure is what the paper prints
for a row and a column with one of its models, in the paper's unit: per cent for our shares.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from ragc.errors import ArtefactError, UnknownName

_Named = TypeVar("_Named", "DataUse", "TableRow", "Table")


def _named(id: str, entries: Sequence[_Named], what: str) -> _Named:
    """Returns the one of `entries` called `id`. Raises UnknownName, with the nearest name."""
    by_id = {entry.id: entry for entry in entries}
    if id not in by_id:
        raise UnknownName(what, id, by_id)
    return by_id[id]


@dataclass(frozen=True, slots=True)
class DataUse:
    """How a table uses a data set.

    `metrics` are its columns. `knobs` are set for every program that has them, and `model_knobs` if the
    figures of that model of the paper are compared. `sample` is the number of questions in the paper, 0 if it
    is not known; `corpus` are the paper's passages, in words. `demos` names the demonstrations
    (`ragc.optimizers.grids.tables.demonstrations`) of rows that show some.
    """

    id: str
    metrics: tuple[str, ...]
    knobs: Mapping[str, Any] = field(default_factory=dict)
    model_knobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sample: int = 0
    corpus: str = ""
    demos: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A setting of a program.

    `figures` has the paper's figures by model, in the order of the table's columns; NaN if it prints none.
    `needs` names what the user adds: sources that the table does not configure, or a `train` file. `train` is
    the number of questions that the row learns from, taken from the data set if it has no train file. `demos`
    is the number of demonstrations of the answering call. `note` is a remark on the row in words.
    """

    id: str
    program: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    figures: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    demos: int = 0
    train: int = 0
    note: str = ""

    def model_beside(self, model: str) -> str:
        """Returns the model whose figures are compared: `model`, or the row's first if `model` has none."""
        return model if model in self.figures or not self.figures else next(iter(self.figures))


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a paper, or the points of a curve.

    `model` is the paper's model whose figures are compared unless another is named. `setting` says in words
    what the paper used, by the name of a role, of a source, or of a family of metrics. `stand_ins` maps a
    source that the user may lack to another source. Until it is configured, the two share the passages of the
    other source: each searches one half. `notes` are sentences on differences of our programs, metrics and
    knobs.
    """

    id: str
    paper: str
    about: str
    model: str
    data: tuple[DataUse, ...]
    rows: tuple[TableRow, ...]
    roles: tuple[str, ...] = ("main",)
    knobs: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    setting: Mapping[str, str] = field(default_factory=dict)
    train: int = 0
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def with_model(self, model: str) -> Table:
        """Returns the table with the knobs that the paper's runs with `model` have."""
        uses = (replace(use, knobs={**use.knobs, **use.model_knobs.get(model, {})}) for use in self.data)
        return replace(self, data=tuple(uses))

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The data set and the metric of every column, in order."""
        return tuple((use.id, metric) for use in self.data for metric in use.metrics)

    @property
    def models(self) -> tuple[str, ...]:
        """The paper's models with figures, the table's own first."""
        return tuple(dict.fromkeys((self.model, *(name for row in self.rows for name in row.figures))))

    def row(self, id: str) -> TableRow:
        """Returns the row called `id`. Raises UnknownName, with the nearest name."""
        return _named(id, self.rows, f"row of {self.id}")

    def use(self, id: str) -> DataUse:
        """Returns how the table uses the data set `id`. Raises UnknownName, with the nearest name."""
        return _named(id, self.data, f"data set of {self.id}")

    def expected(self, row: TableRow, model: str = "") -> dict[str, dict[str, float]]:
        """Returns the paper's figures of `row` with `model`, by data set and metric, without missing ones."""
        printed: dict[str, dict[str, float]] = {}
        for (data, metric), figure in zip(
            self.columns, row.figures.get(model or self.model, ()), strict=False
        ):
            if not math.isnan(figure):
                printed.setdefault(data, {})[metric] = figure
        return printed

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only: the table without its data files."""
        return {
            "id": self.id,
            "paper": self.paper,
            "about": self.about,
            "model": self.model,
            "rows": [self._row_json(row) for row in self.rows],
        }

    def _row_json(self, row: TableRow) -> dict[str, Any]:
        model = row.model_beside(self.model)
        others = {name: self.expected(row, name) for name in row.figures if name != model}
        return {
            "id": row.id,
            "program": row.program,
            "knobs": dict(row.knobs),
            "model": model if row.figures else "",
            "expected": self.expected(row, model),
            **({"expected_of": others} if others else {}),
            **({"needs": list(row.needs)} if row.needs else {}),
            **({"note": row.note} if row.note else {}),
        }


@cache
def tables() -> tuple[Table, ...]:
    """Returns all tables, in the order of their papers and, within one, of their `order`."""
    folder = files("ragc.experiments") / "tables"
    entries = [
        (values.get("order", 0), parse(values, entry.name))
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
        for values in [tomllib.loads(entry.read_text("utf-8"))]
    ]
    papers = ("prefrag", "ragx", "ggatrieval", "rqrag", "slimplm")
    entries.sort(key=lambda pair: (papers.index(pair[1].id.partition("-")[0]), pair[0], pair[1].id))
    return tuple(entry for _, entry in entries)


def load(id: str) -> Table:
    """Returns the table called `id`. Raises UnknownName, with the nearest name."""
    return _named(id, tables(), "table")


_ROW_KEYS = {one.name for one in fields(TableRow)}
_USE_KEYS = {one.name for one in fields(DataUse)} - {"id"}
_TABLE_KEYS = {one.name for one in fields(Table)} - {"id"} | {"order"}


def parse(values: Mapping[str, Any], name: str) -> Table:
    """Parses the table in the values of the TOML file `name`; its id is the name without the suffix.

    Raises ArtefactError with one sentence for values that describe none.
    """
    try:
        return _table(values, name.removesuffix(".toml"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtefactError(f"{name} does not hold a table of a paper: {error}; restore the file.") from None


def _table(values: Mapping[str, Any], id: str) -> Table:
    _check_keys(values, _TABLE_KEYS, "the table")
    uses = tuple(_use(name, entry) for name, entry in values["data"].items())
    width = sum(len(use.metrics) for use in uses)
    rows = tuple(_row(entry, width) for entry in values["rows"])
    ids = [row.id for row in rows]
    if len(set(ids)) < len(ids) or not rows or not uses:
        raise ValueError("it needs data, and rows with different ids")
    return Table(
        id=id,
        paper=values["paper"],
        about=values["about"],
        model=values["model"],
        data=uses,
        rows=rows,
        roles=tuple(values.get("roles", ("main",))),
        knobs=values.get("knobs", {}),
        sources=values.get("sources", {}),
        setting=values.get("setting", {}),
        train=values.get("train", 0),
        stand_ins=_stand_ins(values),
        notes=tuple(values.get("notes", ())),
    )


def _stand_ins(values: Mapping[str, Any]) -> Mapping[str, str]:
    stand_ins: Mapping[str, str] = values.get("stand_ins", {})
    for name, other in stand_ins.items():
        if name in values.get("sources", {}) or other not in values.get("sources", {}):
            raise ValueError(f"the stand-in {name!r} takes the place of a source beside {other!r}")
    return stand_ins


def _use(id: str, values: Mapping[str, Any]) -> DataUse:
    _check_keys(values, _USE_KEYS, f"data.{id}")
    rest = {key: value for key, value in values.items() if key != "metrics"}
    return DataUse(id, tuple(values["metrics"]), **rest)


def _row(values: Mapping[str, Any], width: int) -> TableRow:
    _check_keys(values, _ROW_KEYS, f"row {values.get('id')!r}")
    figures = {name: _figures(numbers, width, name) for name, numbers in values.get("figures", {}).items()}
    rest = {key: value for key, value in values.items() if key not in ("figures", "needs")}
    return TableRow(**rest, figures=figures, needs=tuple(values.get("needs", ())))


def _figures(numbers: Sequence[float], width: int, model: str) -> tuple[float, ...]:
    if len(numbers) != width:
        raise ValueError(f"{model} has {len(numbers)} figures in a row, {width} are needed")
    return tuple(map(float, numbers))


def _check_keys(values: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(values.keys() - known):
        raise ValueError(f"{where} has the unknown key {unknown[0]!r}")
