"""Grids from elsewhere: whatever their files hold, reading them gives a grid or one sentence."""

from __future__ import annotations

import json
import random
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import ragc
from ragc.core import outputs
from ragc.core.digest import pretty
from ragc.errors import ArtefactError
from ragc.optimizers.grids.files import check_out, read_files
from ragc.optimizers.grids.grid import Grid
from tests.examples import examples, thorough
from tests.optimizers.colours import written
from tests.optimizers.grids.common import RECIPE, recorder
from tests.security.command_line import contents

NAMES = ("card.json", "settings.json", "cells.parquet")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete grid of three settings on eight questions."""
    folder = written(tmp_path_factory.mktemp("grids"), RECIPE)
    return recorder(folder)(sets=("grid.product=[]",)).path


@pytest.fixture
def grid(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "grid"))


def rewrite(folder: Path, *, card: dict[str, Any] | None = None, **content: bytes | dict[str, Any]) -> None:
    """Replaces files of a grid, and lists their digests as the card of a forger would."""
    before = json.loads((folder / "card.json").read_bytes())
    del before["files"]
    names = {name: f"{name}.{'parquet' if name == 'cells' else 'json'}" for name in content}
    files = {name: (folder / name).read_bytes() for name in ("settings.json", "card.md", "cells.parquet")}
    for name, value in content.items():
        files[names[name]] = value if isinstance(value, bytes) else json.dumps(value).encode()
    for name, data in outputs.with_manifest("card.json", card or before, files).items():
        (folder / name).write_bytes(data)


def table(folder: Path, **columns: Any) -> bytes:
    """The file of cells with other columns; None takes one away."""
    held = parquet.read_table(folder / "cells.parquet")
    values = {name: held.column(name) for name in held.column_names} | columns
    stream = pa.BufferOutputStream()
    parquet.write_table(pa.table({n: v for n, v in values.items() if v is not None}), stream)
    return bytes(stream.getvalue())


@pytest.mark.parametrize("seed", range(examples(60)))
def test_a_file_with_other_bytes_is_refused_in_one_sentence(grid: Path, seed: int) -> None:
    draw = random.Random(seed)
    path = grid / draw.choice(NAMES)
    content = bytearray(path.read_bytes())
    if draw.random() < 0.3:
        del content[draw.randrange(len(content)) :]
    else:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)
    with pytest.raises(ArtefactError) as caught:
        ragc.read_grid(grid)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (": ", ":  ", "not as ragc writes it"),
        ("cells.parquet", "cells.parquep", r"lists 'cells\.parquep', which no grid has"),
    ],
    ids=["another spelling of the same values", "another file"],
)
def test_a_card_with_other_bytes_is_damaged(grid: Path, old: str, new: str, sentence: str) -> None:
    path = grid / "card.json"
    text = path.read_text("utf-8")
    path.write_text(text.replace(old, new, 1 if old == ": " else -1), "utf-8")
    with pytest.raises(ArtefactError, match=sentence):
        ragc.read_grid(grid)


INT16 = pa.int16()
FORGED: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "no Parquet": (lambda folder: b"PAR1 and no more PAR1", "arquet"),
    "another column": (lambda folder: table(folder, more=pa.array([1] * 24)), "its columns are"),
    "a column less": (lambda folder: table(folder, failed=None), "its columns are"),
    "texts": (lambda folder: table(folder, tokens=pa.array(["many"] * 24)), "its columns are"),
    "large numbers": (
        lambda folder: table(folder, setting=pa.array([0] * 24, pa.int64())),
        "its columns are",
    ),
    "no such setting": (lambda folder: table(folder, setting=pa.array([3] * 24, INT16)), "of no setting"),
    "a negative setting": (lambda folder: table(folder, setting=pa.array([-1] * 24, INT16)), "of no setting"),
    "no such question": (lambda folder: table(folder, question=pa.array([8] * 24, INT16)), "of no question"),
    "a cell twice": (lambda folder: table(folder, question=pa.array([0] * 24, INT16)), "stands twice"),
    "null": (lambda folder: table(folder, tokens=pa.array([None] * 24, pa.float32())), "a value is null"),
    "infinite": (
        lambda folder: table(folder, **{"score:em": pa.array([float("inf")] * 24, pa.float32())}),
        "a number is infinite",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_cells_that_cannot_be_are_refused(grid: Path, name: str) -> None:
    forge, reason = FORGED[name]
    rewrite(grid, cells=forge(grid))
    with pytest.raises(ArtefactError) as caught:
        ragc.read_grid(grid)
    assert "cells.parquet is damaged (" in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("columns", "top_k"),
        ("settings", []),
        ("settings", [{"knobs": {"top_k": [1]}, "demos": 0, "demo_set": 0}]),
        ("settings", [{"demos": 0, "demo_set": 0}]),
        ("questions", []),
        ("questions", ["q1", "q1"]),
        ("questions", [1]),
        ("settings", [{"knobs": {"top_k": float("nan")}, "demos": 0, "demo_set": 0}] * 3),
        ("settings", [{"knobs": {"top_k": float("inf")}, "demos": 0, "demo_set": 0}] * 3),
        ("settings", [{"knobs": {"top_k": 1}, "demos": 0, "demo_set": 0}] * 3),
        ("settings", [{"knobs": {"top_k": 1}, "demos": 0, "demo_set": 0, "demo_kind": {"a": 1}}]),
        ("settings", [{"knobs": {"top_k": 1}, "demos": 0, "demo_set": 0, "own_demos": 7}]),
        ("columns", ["top_k", "knobs"]),
        ("columns", ["top_k", "no knob of it"]),
        ("columns", ["top_k", "top_k"]),
    ],
)
def test_settings_that_cannot_be_are_refused(grid: Path, key: str, value: Any) -> None:
    settings = json.loads((grid / "settings.json").read_bytes())
    rewrite(grid, settings={**settings, key: value})
    with pytest.raises(ArtefactError, match=r"settings\.json is damaged"):
        ragc.read_grid(grid)


PARTS = ("identity", "demonstrations", "models", "data", "sources", "runs", "metrics")
LACKING = "lacking"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, LACKING) for key in PARTS),
        ("models", {"main": {}}),
        ("models", {"main": {"name": "a", "model": 1}}),
        ("runs", [{"machine": "m", "versions": {}, "begun": "b", "settings": 1}]),
    ],
)
def test_a_card_without_its_parts_or_that_cannot_be_shown_is_refused(
    grid: Path, key: str, value: Any
) -> None:
    card = json.loads((grid / "card.json").read_bytes())
    del card["files"], card[key]
    rewrite(grid, card=card if value is LACKING else {**card, key: value})
    with pytest.raises(ArtefactError, match=rf"card\.json is damaged \({key}"):
        ragc.merge_grids([grid])


def test_cells_of_a_setting_in_two_files_are_refused(grid: Path) -> None:
    card = json.loads((grid / "card.json").read_bytes())
    (grid / "shards").mkdir()
    content = (grid / "cells.parquet").read_bytes()
    (grid / "shards" / "000.parquet").write_bytes(content)
    card["files"]["shards/000.parquet"] = outputs.sha256(content)
    (grid / "card.json").write_text(pretty(card), "utf-8")
    with pytest.raises(ArtefactError, match="the cells of setting 0 are in another file too"):
        ragc.read_grid(grid)


@thorough
@pytest.mark.parametrize(("settings", "questions"), [(20_000, 20_000), (9, 40_000)])
def test_a_small_file_that_names_a_huge_grid_takes_no_memory(
    grid: Path, settings: int, questions: int
) -> None:
    lines = [{"knobs": {"top_k": number}, "demos": 0, "demo_set": 0} for number in range(settings)]
    ids = [str(number) for number in range(questions)]
    rewrite(grid, settings={"columns": ["top_k"], "settings": lines, "questions": ids})
    tracemalloc.start()
    try:
        with pytest.raises(ArtefactError, match=r"settings\.json is damaged \(it is of a grid with"):
            ragc.read_grid(grid)
        assert tracemalloc.get_traced_memory()[1] < 400_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("renames", range(4))
def test_a_write_that_was_killed_is_refused_by_a_reader_and_completed_by_a_writer(
    grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """The files of a write are moved to their names one by one; some are there, some are not."""
    files = read_files(grid)
    changed = Path(shutil.copytree(grid, tmp_path / "changed"))
    files.cells[0] = replace(files.cells[0], tokens=files.cells[0].tokens + 1)
    files.merge()
    replaced = Path.replace
    moves = 0

    def dying(self: Path, target: Any) -> Any:
        nonlocal moves
        moves += 1
        if moves > renames:
            raise KeyboardInterrupt
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", dying)
    with pytest.raises(KeyboardInterrupt):
        files.save(changed, "about")
    monkeypatch.undo()
    before = contents(changed)
    with pytest.raises(ArtefactError, match=r"is half written: .* run `ragc grid` with --out .* again"):
        ragc.read_grid(changed)
    assert contents(changed) == before
    assert check_out(changed) == changed.resolve()
    assert ragc.read_grid(changed).tokens[0].tolist() == files.cells[0].tokens.tolist()


def test_a_plan_that_a_stranger_laid_into_a_grid_is_carried_out_by_nobody(grid: Path) -> None:
    digest = outputs.sha256((grid / "card.md").read_bytes())
    write = grid / ".ragc-evil"
    write.mkdir()
    plan = {
        "format": outputs.FORMAT,
        "write": write.name,
        "manifest": "card.json",
        "new": {},
        "old": {"card.md": digest},
    }
    (write / "ready.json").write_text(json.dumps(plan))
    before = contents(grid)
    for reader in (ragc.read_grid, check_out):
        with pytest.raises(ArtefactError, match="does not know, so it is not carried out"):
            reader(grid)
    assert contents(grid) == before


def test_a_file_that_leads_out_of_the_folder_is_not_read(grid: Path, tmp_path: Path) -> None:
    shutil.move(grid / "cells.parquet", tmp_path / "elsewhere.parquet")
    (grid / "cells.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(ArtefactError, match=r"cells\.parquet cannot be read"):
        ragc.read_grid(grid)


def test_arrays_cannot_be_changed(grid: Path) -> None:
    held = ragc.read_grid(grid)
    for array in (held.scores("em"), held.tokens, held.seconds, held.failed):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1


def test_an_unknown_metric_is_named_with_the_known_ones(grid: Path) -> None:
    with pytest.raises(
        ragc.UnknownName, match=r"No metric of this grid is named 'f2'\. Known: em, f1, recall@5"
    ):
        ragc.read_grid(grid).scores("f2")


def test_a_grid_made_of_arrays_is_one_as_those_that_were_recorded() -> None:
    """As a generator of grids builds it."""
    scores = np.array([[0.5, np.nan], [np.nan, np.nan]])
    tokens = np.array([[10.0, 12.0], [np.nan, np.nan]])
    grid = Grid(
        "drawn",
        ({"a": 1}, {"a": 2}),
        ("q1", "q2"),
        {"f1": scores},
        tokens,
        tokens,
        np.zeros((2, 2), bool),
        {},
    )
    assert not grid.complete
    assert grid.recorded.tolist() == [[True, True], [False, False]]
    assert grid.means("f1")[0] == 0.5
    assert np.isnan(grid.means("f1")[1])
    assert grid.remarks == (
        "2 of 4 cells are missing, of 1 setting.",
        "f1 is not defined in 1 of 2 recorded cells.",
    )
    assert repr(grid) == "Grid('drawn', 2 settings on 2 questions, metrics=f1)"
