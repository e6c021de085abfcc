"""The files of a grid: read by pydantic models, and written without replacing foreign files.

    DIR/provenance.json   what was recorded, where and when, and the digest of every file
    DIR/settings.json     the settings, the baseline first, and the ids of the questions
    DIR/NNN.jsonl         setting NNN: a line a question with its scores, counters and whether it failed

A setting that was not recorded has no file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragc.core.digest import digest, pretty
from ragc.core.files import (
    Foreign,
    check_folder,
    put_folder,
    read_bytes,
    resolve_out,
    sha256,
    with_manifest,
)
from ragc.errors import ArtefactError
from ragc.recipe.rules import MAX_SETTINGS
from ragc.recipe.values import DEMO_COLUMNS

FORMAT = "ragc.grid/1"
PROVENANCE, SETTINGS = "provenance.json", "settings.json"

MAX_CELLS = 20_000_000
"""The most cells of a grid: each array of it takes 8 bytes a cell."""


Parsed = TypeVar("Parsed", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")


class GridRow(_Strict):
    """A setting on a question: None is the score of a metric that does not apply."""

    id: str
    scores: dict[str, float | None]
    counters: dict[str, float]
    failure: bool


class _Run(_Strict):
    machine: str
    versions: dict[str, str]
    begun: str
    settings: int


class _Provenance(_Strict):
    format: str
    program: str
    metrics: list[str]
    models: dict[str, dict[str, str]]
    data: dict[str, str | int | dict[str, str]]
    sources: dict[str, str]
    in_flight: int
    identity: dict[str, Any]
    demonstrations: dict[str, str]
    runs: list[_Run]
    files: dict[str, str]


class _Setting(_Strict):
    knobs: dict[str, bool | int | Annotated[float, Field(allow_inf_nan=False)] | str]
    demos: int
    demo_set: int
    demo_kind: str = ""
    program: str = ""


class _Settings(_Strict):
    columns: list[str]
    settings: Annotated[list[_Setting], Field(min_length=1)]
    questions: Annotated[list[str], Field(min_length=1)]


@dataclass(slots=True)
class GridFiles:
    """The content of a grid's folder.

    `candidates` are the settings as `Candidate.to_json` writes them, and `columns` the names of the values in
    which they differ. `rows` are by number of the setting, in the order of `questions`.
    """

    columns: tuple[str, ...]
    candidates: list[Mapping[str, Any]]
    questions: tuple[str, ...]
    provenance: dict[str, Any]
    rows: dict[int, list[GridRow]] = field(default_factory=dict)
    _content: dict[int, bytes] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The ids of the metrics."""
        return tuple(self.provenance["metrics"])

    @property
    def missing(self) -> list[int]:
        """The numbers of the settings without rows."""
        return [number for number in range(len(self.candidates)) if number not in self.rows]

    def add(self, number: int, rows: Sequence[GridRow]) -> None:
        """Adds the rows of setting `number`."""
        self.rows[number] = list(rows)
        self._content[number] = "".join(f"{row.model_dump_json()}\n" for row in rows).encode()

    def save(self, out: Path) -> None:
        """Writes everything to `out`, which `check_out` accepted.

        Raises OSError, and ArtefactError if `out` was changed by another program meanwhile.
        """
        settings = {"columns": self.columns, "settings": self.candidates, "questions": self.questions}
        files = {f"{number:03d}.jsonl": content for number, content in self._content.items()}
        files[SETTINGS] = pretty(settings).encode()
        try:
            put_folder(out, with_manifest(PROVENANCE, self.provenance, files), PROVENANCE)
        except Foreign as error:
            raise ArtefactError(str(error)) from None


def check_out(out: str | Path) -> Path:
    """Returns the folder that `out` names.

    Raises ArtefactError if it holds anything but a grid as ragc wrote it, and UsageError if it cannot be
    written.
    """
    where = resolve_out(out)
    try:
        check_folder(where, PROVENANCE, what="a grid", ours=is_grid)
    except Foreign as error:
        raise ArtefactError(str(error)) from None
    return where


def is_grid(folder: Path) -> bool:
    """Returns whether `folder` has the `provenance.json` of a grid."""
    try:
        provenance = json.loads(read_bytes(folder / PROVENANCE))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(provenance, dict) and provenance.get("format") == FORMAT


def read_files(path: str | Path) -> GridFiles:
    """Reads the grid in the folder `path`. A setting whose file was removed has no rows.

    Raises ArtefactError in one sentence for another folder and for a damaged file.
    """
    folder = Path(path)
    if not is_grid(folder):
        raise ArtefactError(f"{folder} is no grid: it has no {PROVENANCE} of `ragc grid`; check the path.")
    provenance = _parse(folder / PROVENANCE, _read(folder, PROVENANCE), _Provenance).model_dump()
    listed = provenance.pop("files")
    settings = _parse(folder / SETTINGS, _read(folder, SETTINGS, listed), _Settings)
    if reason := _settings_problem(settings, provenance["metrics"]):
        raise damaged(folder / SETTINGS, reason)
    candidates: list[Mapping[str, Any]] = [one.model_dump(exclude_unset=True) for one in settings.settings]
    files = GridFiles(tuple(settings.columns), candidates, tuple(settings.questions), provenance)
    for number in range(len(candidates)):
        name = f"{number:03d}.jsonl"
        if name in listed and (folder / name).exists():
            lines = _read(folder, name, listed).splitlines()
            files.add(number, [_parse(folder / name, line, GridRow) for line in lines])
            _check_rows(folder / name, files, files.rows[number])
    return files


def too_large(settings: int, questions: int) -> str:
    """Returns which limit a grid of this size exceeds; "" if it fits."""
    if max(settings, questions) > MAX_SETTINGS:
        return f"more than {MAX_SETTINGS:,} settings or questions"
    if settings * questions > MAX_CELLS:
        return f"{settings:,} settings on {questions:,} questions, more than memory is meant to hold"
    return ""


def _settings_problem(content: _Settings, metrics: Sequence[str]) -> str:
    """Returns why `settings.json` is not that of a grid; "" if it is."""
    if reason := too_large(len(content.settings), len(content.questions)):
        return f"it is of a grid with {reason}"
    digests = [mark(one.model_dump(exclude_unset=True)) for one in content.settings]
    if any(len(set(names)) < len(names) for names in (content.columns, content.questions, metrics, digests)):
        return "a setting, a question, a metric or a column stands twice"
    known = {*DEMO_COLUMNS}.union(*(setting.knobs for setting in content.settings))
    return "" if known.issuperset(content.columns) else "its columns are not knobs of its settings"


def _check_rows(path: Path, files: GridFiles, rows: Sequence[GridRow]) -> None:
    """Raises ArtefactError unless `rows` are a row a question, with a score a metric."""
    if tuple(row.id for row in rows) != files.questions:
        raise damaged(path, "its lines are not those of the questions of the grid")
    if any(tuple(row.scores) != files.metrics or "tokens" not in row.counters for row in rows):
        raise damaged(path, f"a line lacks tokens, or its metrics are not {', '.join(files.metrics)}")


def _read(folder: Path, name: str, listed: Mapping[str, str] | None = None) -> bytes:
    """Returns the file `name`, whose digest must be `listed` where there is a list. Raises ArtefactError."""
    path = folder / name
    try:
        content = read_bytes(path, within=folder)
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror or error}.") from None
    if listed is not None and sha256(content) != listed.get(name):
        raise damaged(path, f"its digest is not the one that {PROVENANCE} lists")
    return content


def damaged(path: Path, reason: str) -> ArtefactError:
    """Returns the error for a damaged file of a grid."""
    again = (
        "delete it and run `ragc grid` once more, which replays what was answered"
        if path.suffix == ".jsonl"
        else "take the folder from where it was recorded"
    )
    return ArtefactError(f"{path} is damaged ({reason}); {again}.")


def _parse(path: Path, content: bytes, model: type[Parsed]) -> Parsed:
    """Reads `content` of the file at `path` by `model`. Raises ArtefactError."""
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise damaged(path, f"{at}: {first['msg']}" if at else first["msg"]) from None


def flat(candidate: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Returns the values of a setting by column; None for a knob that it does not have."""
    values = {**candidate["knobs"], "demo_kind": "filled", **candidate}
    return {name: values.get(name) for name in columns}


def mark(candidate: Mapping[str, Any]) -> str:
    """Returns a digest of a setting; equal settings have equal ones."""
    return digest(candidate)[:12]
