"""The files of a grid: read with every number checked, and written without replacing foreign files.

    DIR/card.json            the manifest: what was recorded, where and when, and the digest of every file
    DIR/card.md              the same for people
    DIR/settings.json        the settings, the baseline first, and the ids of the questions
    DIR/shards/NNN.parquet   the cells of setting NNN
    DIR/cells.parquet        the cells of several settings

A cell is one setting on one question: whether it failed, its tokens and seconds, and a score a metric. A
setting has its cells in one of the files, or none so far.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragc.core import extras, inputs, outputs
from ragc.core.activity import doing
from ragc.core.digest import digest, pretty
from ragc.core.text import first_line
from ragc.errors import ArtefactError
from ragc.recipe.knobs import MOST_SETTINGS
from ragc.recipe.values import DEMO_COLUMNS

FORMAT = "ragc.grid/1"
CARD, ABOUT, SETTINGS, CELLS = "card.json", "card.md", "settings.json", "cells.parquet"
_NAMES = re.compile(r"card\.json|card\.md|settings\.json|cells\.parquet|shards/[0-9]{3,}\.parquet")
WHAT = "a grid"

MAX_NUMBERS = 100_000_000
"""Most numbers of a grid: its cells times the arrays that it has of them, which take 8 bytes a number."""

MAX_SHARDS = 64
"""The number of shards at which they become one file, because every write looks at all files."""

_FIXED = {"setting": "int16", "question": "int16", "failed": "bool", "tokens": "float", "seconds": "float"}
"""The columns of a file of cells beside its scores, with Arrow's names of their types."""

_SCORE = "score:"
"""What the column of a metric begins with, because a metric may be called `tokens`."""


class _Versions(BaseModel):
    ragc: str
    python: str
    commit: str = ""


class _RecordedRun(BaseModel):
    machine: str
    versions: _Versions
    begun: str
    settings: int


class _Data(BaseModel):
    dataset: str
    train: int
    licence: Mapping[str, str] = {}
    home: str = ""


class _Model(BaseModel):
    name: str
    model: str
    sha256: str = ""
    identity: str = ""


class _Card(BaseModel):
    """What `card.json` must hold for a grid to be read, shown and merged."""

    model_config = ConfigDict(strict=True)

    program: str
    metrics: list[str]
    models: Mapping[str, _Model]
    data: _Data
    sources: Mapping[str, str]
    in_flight: int
    identity: Mapping[str, Any]
    demonstrations: Mapping[str, str]
    runs: list[_RecordedRun]


class _Setting(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="forbid")

    knobs: Mapping[str, bool | int | Annotated[float, Field(allow_inf_nan=False)] | str]
    demos: int
    demo_set: int
    demo_kind: str = ""
    program: str = ""


class _Settings(BaseModel):
    model_config = ConfigDict(strict=True)

    columns: list[str]
    settings: list[_Setting]
    questions: list[str]


Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one setting: an entry for each question in `questions`, which are numbers from 0.

    Numbers are of 32 bits, as in the files. `seconds` are NaN where a reply came from before the recording,
    `scores` where a metric does not apply.
    """

    questions: Array
    failed: Array
    tokens: Array
    seconds: Array
    scores: Mapping[str, Array]


@dataclass(slots=True)
class GridFiles:
    """The content of a grid's folder.

    `candidates` are the settings as `Candidate.to_json` writes them, and `columns` the names of what they
    vary. `card` is what `card.json` says beside its list of files. `cells` are by number of the setting, and
    `parquet` holds the files that they stand in.
    """

    columns: tuple[str, ...]
    candidates: list[Mapping[str, Any]]
    questions: tuple[str, ...]
    metrics: tuple[str, ...]
    card: dict[str, Any]
    cells: dict[int, Cells] = field(default_factory=dict)
    parquet: dict[str, bytes] = field(default_factory=dict)

    @property
    def missing(self) -> list[int]:
        """The numbers of the settings that lack a cell."""
        return [
            number
            for number in range(len(self.candidates))
            if number not in self.cells or len(self.cells[number].questions) < len(self.questions)
        ]

    def add(self, number: int, cells: Cells) -> None:
        """Adds the shard of setting `number`."""
        self.cells[number] = cells
        self.parquet[f"shards/{number:03d}.parquet"] = encode({number: cells}, self.metrics)
        if len(self.parquet) > MAX_SHARDS:
            self.merge()

    def merge(self) -> None:
        """Puts all cells into one file."""
        self.parquet = {CELLS: encode(self.cells, self.metrics)} if self.cells else {}

    def save(self, out: Path, about: str) -> None:
        """Writes everything to `out`, which `check_out` accepted, with `about` as the card for people.

        Raises OSError, and ArtefactError if `out` was changed by another program meanwhile.
        """
        settings = {"columns": self.columns, "settings": self.candidates, "questions": self.questions}
        files = {SETTINGS: pretty(settings).encode(), ABOUT: about.encode(), **self.parquet}
        try:
            with doing(f"Writing the grid to {out}", "free space there; the same command goes on"):
                outputs.put_folder(out, outputs.with_manifest(CARD, self.card, files), CARD)
        except outputs.Foreign as error:
            raise ArtefactError(str(error)) from None


def check_out(out: str | Path) -> Path:
    """The folder that `out` names. Raises ArtefactError if it holds anything but a grid as ragc wrote it,
    and UsageError if it cannot be written.
    """
    where = outputs.resolve_out(out)
    try:
        outputs.check_folder(where, CARD, what=WHAT, ours=is_grid, names=_NAMES)
    except outputs.Foreign as error:
        raise ArtefactError(str(error)) from None
    outputs.check_writable(where)
    return where


def is_grid(folder: Path) -> bool:
    """Whether `card.json` in `folder` is that of a grid."""
    try:
        card = json.loads(inputs.read_bytes(folder / CARD))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(card, dict) and card.get("format") == FORMAT


def read_files(path: str | Path) -> GridFiles:
    """The grid in the folder `path`. A shard that was removed is a setting without cells.

    Raises ArtefactError in one sentence for another folder and for a damaged file.
    """
    extras.require("pyarrow", "A grid")
    folder = Path(path)
    if not is_grid(folder):
        raise ArtefactError(f"{folder} is no grid: it has no {CARD} of `ragc grid`; check the path.")
    try:
        _refuse_unfinished(folder)
        return _read(folder)
    except ArtefactError:  # perhaps another process was just writing it
        _refuse_unfinished(folder)
    return _read(folder)


def _refuse_unfinished(folder: Path) -> None:
    """Raises ArtefactError if a write into `folder` was cut off."""
    if cut_off := outputs.unfinished(folder, f"`ragc grid` with --out {folder}"):
        raise ArtefactError(cut_off)


def _read(folder: Path) -> GridFiles:
    listed = outputs.own_files(folder, CARD)
    if strange := sorted(name for name in listed if not _NAMES.fullmatch(name)):
        raise damaged(folder / CARD, f"it lists {strange[0]!r}, which no grid has")
    card = _checked(folder / CARD, _content(folder, CARD, listed), _Card)
    settings = _checked(folder / SETTINGS, _content(folder, SETTINGS, listed), _Settings)
    names = (settings["columns"], settings["questions"], card["metrics"])
    if not settings["settings"] or any(len(set(each)) < len(each) or not each for each in names[1:]):
        raise damaged(folder / SETTINGS, "it lists no setting or question, or one twice")
    if reason := too_large(len(settings["settings"]), len(settings["questions"]), len(card["metrics"])):
        raise damaged(folder / SETTINGS, f"it is of a grid with {reason}")
    columns, questions, metrics = map(tuple, names)
    if len({mark(setting) for setting in settings["settings"]}) < len(settings["settings"]):
        raise damaged(folder / SETTINGS, "it lists a setting twice")
    known = {*DEMO_COLUMNS}.union(*(setting["knobs"] for setting in settings["settings"]))
    if len(set(columns)) < len(columns) or not known.issuperset(columns):
        raise damaged(folder / SETTINGS, "its columns are not knobs of its settings, or one stands twice")
    facts = {key: value for key, value in card.items() if key != outputs.FILES}
    files = GridFiles(columns, settings["settings"], questions, metrics, facts)
    for name in sorted(name for name in listed if name.endswith(".parquet")):
        if (folder / name).exists():
            content = _content(folder, name, listed)
            cells = decode(content, folder / name, files)
            if both := cells.keys() & files.cells.keys():
                raise damaged(folder / name, f"the cells of setting {min(both)} are in another file too")
            files.parquet[name] = content
            files.cells |= cells
    return files


def too_large(settings: int, questions: int, metrics: int) -> str:
    """What a grid of such a size has too many of; "" if it fits."""
    if max(settings, questions) > MOST_SETTINGS:
        return f"more than {MOST_SETTINGS:,} settings or questions"
    if settings * questions * (metrics + 3) > MAX_NUMBERS:  # tokens, seconds and failed beside the scores
        return f"{settings:,} settings on {questions:,} questions, more than memory is meant to hold"
    return ""


def _content(folder: Path, name: str, listed: Mapping[str, str]) -> bytes:
    """The file `name`, whose digest must be the one `listed`. Raises ArtefactError."""
    path = folder / name
    try:
        content = inputs.read_bytes(path, within=folder)
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror or error}.") from None
    plain = content
    if name == CARD:  # it lists its own digest without the list
        try:
            whole = json.loads(content)
            card = {key: value for key, value in whole.items() if key != outputs.FILES}
            plain = pretty(card).encode("utf-8", "surrogatepass")
            written = pretty(whole).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError) as error:
            raise damaged(path, first_line(error)) from None
        if written != content:  # 1e-5 and 1E-5 are one value
            raise damaged(path, "it is not as ragc writes it")
    if outputs.sha256(plain) != listed.get(name):
        raise damaged(path, "its digest is not the one that the card lists")
    return content


def damaged(path: Path, reason: str) -> ArtefactError:
    """The error of a file of a grid that cannot be used."""
    again = (
        "delete it and run `ragc grid` once more, which replays what was answered"
        if path.suffix == ".parquet"
        else "take the folder from where it was recorded"
    )
    return ArtefactError(f"{path} is damaged ({reason}); {again}.")


def _checked(path: Path, content: bytes, model: type[BaseModel]) -> Any:
    """The JSON object `content` of the file at `path`, which fits `model`. Raises ArtefactError."""
    try:
        model.model_validate_json(content)
        return json.loads(content)
    except ValidationError as error:
        at = error.errors()[0]
        reason = f"{'.'.join(map(str, at['loc']))}: {at['msg']}"
    except (ValueError, RecursionError) as error:
        reason = first_line(error)
    raise damaged(path, reason)


def flat(candidate: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """The values of a setting by column; None for a knob that it does not have."""
    values = {**candidate["knobs"], "demo_kind": "filled", **candidate}
    return {name: values.get(name) for name in columns}


def mark(candidate: Mapping[str, Any]) -> str:
    """A digest of a setting; equal settings have equal ones."""
    return digest(candidate)[:12]


def encode(cells: Mapping[int, Cells], metrics: Sequence[str]) -> bytes:
    """A Parquet file of the cells of some settings, in the order of settings and questions."""
    import pyarrow as pa
    from pyarrow import parquet

    parts = sorted(cells.items())
    numbers = [np.full(len(part.questions), number, np.int16) for number, part in parts]
    columns: dict[str, Array] = {
        "setting": np.concatenate(numbers),
        "question": np.concatenate([part.questions for _, part in parts]).astype(np.int16),
        "failed": np.concatenate([part.failed for _, part in parts]).astype(np.bool_),
        "tokens": np.concatenate([part.tokens for _, part in parts]).astype(np.float32),
        "seconds": np.concatenate([part.seconds for _, part in parts]).astype(np.float32),
    }
    for name in metrics:
        columns[_SCORE + name] = np.concatenate([part.scores[name] for _, part in parts]).astype(np.float32)
    stream = io.BytesIO()
    parquet.write_table(pa.table(columns), stream, compression="zstd")
    return stream.getvalue()


def decode(content: bytes, path: Path, files: GridFiles) -> dict[int, Cells]:
    """The cells in the Parquet file `content`, by setting. Raises ArtefactError, naming `path`.

    Numbers of settings and questions are within `files`, no cell is there twice, no number is infinite.
    """
    import pyarrow as pa
    from pyarrow import parquet

    scores = {name: _SCORE + name for name in files.metrics}
    expected = _FIXED | dict.fromkeys(scores.values(), "float")
    try:
        file = parquet.ParquetFile(pa.BufferReader(content))
        types = {column.name: str(column.type) for column in file.schema_arrow}
        if types != expected or len(file.schema_arrow) != len(expected):
            raise damaged(path, f"its columns are {', '.join(types)} and not {', '.join(expected)}")
        if file.metadata.num_rows > len(files.candidates) * len(files.questions):
            raise damaged(path, f"it has {file.metadata.num_rows:,} cells, more than the grid")
        table = file.read(use_threads=False)
        if any(column.null_count for column in table.columns):
            raise damaged(path, "a value is null")
        columns = {name: table.column(name).to_numpy() for name in expected}
    except (pa.ArrowException, OSError, ValueError, LookupError, OverflowError) as error:
        if isinstance(error, ArtefactError):
            raise
        raise damaged(path, first_line(error)) from None
    settings, questions = columns["setting"], columns["question"]
    ids = settings.astype(np.int64) * len(files.questions) + questions
    if len(ids) and (min(settings.min(), questions.min()) < 0 or settings.max() >= len(files.candidates)):
        raise damaged(path, "a cell is of no setting")
    if len(ids) and questions.max() >= len(files.questions):
        raise damaged(path, "a cell is of no question")
    if len(np.unique(ids)) < len(ids):
        raise damaged(path, "a cell stands twice")
    if any(np.isinf(columns[name]).any() for name in ("tokens", "seconds", *scores.values())):
        raise damaged(path, "a number is infinite")
    cells = {}
    for number in np.unique(settings):
        rows = np.flatnonzero(settings == number)
        cells[int(number)] = Cells(
            questions[rows],
            columns["failed"][rows],
            columns["tokens"][rows],
            columns["seconds"][rows],
            {name: columns[column][rows] for name, column in scores.items()},
        )
    return cells
