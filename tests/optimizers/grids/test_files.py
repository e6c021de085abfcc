"""Grids from elsewhere: whatever their files hold, reading them gives a grid or one sentence."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ragc
from ragc.core.files import with_manifest
from ragc.errors import ArtefactError
from ragc.optimizers.grids.grid import Grid
from tests.examples import examples
from tests.optimizers.colours import written
from tests.optimizers.grids.common import RECIPE, recorder

NAMES = ("settings.json", "001.jsonl")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete grid of three settings on eight questions."""
    folder = written(tmp_path_factory.mktemp("grids"), RECIPE)
    return recorder(folder)(sets=("grid.product=[]",)).path


@pytest.fixture
def grid(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "grid"))


def rewrite(folder: Path, facts: dict[str, Any] | None = None, **content: bytes) -> None:
    """Replaces files of a grid, and lists their digests as a forger would."""
    before = json.loads((folder / "provenance.json").read_bytes())
    files = {name: (folder / name).read_bytes() for name in before.pop("files") if name != "provenance.json"}
    files |= {name.removeprefix("_").replace("_", "."): value for name, value in content.items()}
    for name, data in with_manifest("provenance.json", facts or before, files).items():
        (folder / name).write_bytes(data)


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


FORGED: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "Invalid JSON"),
    "a key more": ({"text": "a question"}, "text: Extra inputs"),
    "a text": ({"counters": {"tokens": "many"}}, "counters.tokens: Input should be a valid number"),
    "another question": ({"id": "q999"}, "not those of the questions"),
    "another metric": ({"scores": {"em": 1.0}}, "its metrics are not em, f1, recall@5"),
    "no tokens": ({"counters": {}}, "lacks tokens"),
    "no finite number": ({"counters": {"tokens": float("inf")}}, "finite number"),
    "no number": ({"counters": {"tokens": float("nan")}}, "finite number"),
}


@pytest.mark.parametrize("name", FORGED)
def test_rows_that_cannot_be_are_refused(grid: Path, name: str) -> None:
    change, reason = FORGED[name]
    first, *rest = (grid / "001.jsonl").read_text("utf-8").splitlines()
    forged = change if isinstance(change, str) else json.dumps(json.loads(first) | change)
    rewrite(grid, _001_jsonl="\n".join([forged, *rest]).encode())
    with pytest.raises(ArtefactError) as caught:
        ragc.read_grid(grid)
    assert "001.jsonl is damaged (" in str(caught.value)
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
    rewrite(grid, settings_json=json.dumps({**settings, key: value}).encode())
    with pytest.raises(ArtefactError, match=r"settings\.json is damaged"):
        ragc.read_grid(grid)


def test_a_file_that_leads_out_of_the_folder_is_not_read(grid: Path, tmp_path: Path) -> None:
    shutil.move(grid / "001.jsonl", tmp_path / "elsewhere.jsonl")
    (grid / "001.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(ArtefactError, match=r"001\.jsonl cannot be read"):
        ragc.read_grid(grid)


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
        Path("drawn"),
        ({"a": 1}, {"a": 2}),
        ("q1", "q2"),
        {"f1": scores},
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
