"""Damaged files of every data set and form: records that hold, or one clear error; never anything else."""

from __future__ import annotations

import bz2
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora import datasets
from ragc.corpora.datasets.base import Dataset
from ragc.corpora.files.records import content_fingerprint
from ragc.errors import DataError
from tests.examples import examples

EXAMPLES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("examples.json").read_text(encoding="utf-8")
)
PACKINGS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


@pytest.fixture(scope="module", params=EXAMPLES)
def name(request: pytest.FixtureRequest) -> str:
    if request.param == "crag":
        pytest.importorskip("trafilatura")
    return str(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def official(name: str) -> str:
    """The text of a file with four rows."""
    example = EXAMPLES[name]
    rows = [example["row"] | {example["key"]: f"row{n}"} for n in range(4)]
    if example["file"].endswith(".tsv"):
        quoted = ["\t".join('"' + str(v).replace('"', '""') + '"' for v in row.values()) for row in rows]
        return "\n".join(["\t".join(example["row"]), *quoted]) + "\n"
    if example["file"].endswith(".json"):
        under = datasets.card(name).under
        return json.dumps({under: rows} if under else rows, ensure_ascii=False)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read(folder: Path, name: str, data: bytes, packing: str = "") -> Dataset | str:
    """What a file of `data` gives: records, or the message of its error."""
    path = folder / (EXAMPLES[name]["file"] + packing)
    path.write_bytes(data)
    try:
        loaded = datasets.load(name, path)
    except DataError as error:
        return problem(error, path)
    content_fingerprint((*loaded.questions, *loaded.passages))
    return loaded


def problem(error: DataError, path: Path) -> str:
    assert str(error).startswith(f"{path}: ")
    assert len(str(error)) < 3000
    return str(error).removeprefix(f"{path}: ")


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_truncated_file_is_an_error_or_ends_at_a_whole_row(folder: Path, name: str, packing: str) -> None:
    plain = official(name).encode()
    whole = read(folder, name, plain)
    assert isinstance(whole, Dataset)
    data = PACKINGS[packing](plain)
    assert read(folder, name, data, packing) == whole
    for end in {0, 1, 2, 3, 10, *(len(data) * n // 16 for n in range(16)), len(data) - 2, len(data) - 1}:
        outcome = read(folder, name, data[:end], packing)
        if isinstance(outcome, Dataset):
            assert not packing, end
            assert not EXAMPLES[name]["file"].endswith(".json"), end
            assert outcome.questions == whole.questions[: len(outcome.questions)], end
        elif packing and end > 10:
            assert "the packed stream ends early" in outcome, end
        elif end > 10 and not EXAMPLES[name]["file"].endswith(".tsv"):
            assert re.match(r"(line \d+: )?not JSON: ", outcome), end
            assert "\n" not in outcome, end


@settings(max_examples=examples(25))
@given(data=st.data())
@pytest.mark.parametrize("packing", PACKINGS)
def test_damaged_bytes_are_an_error_or_leave_records(
    folder: Path, name: str, packing: str, data: st.DataObject
) -> None:
    whole = PACKINGS[packing](official(name).encode())
    at = data.draw(st.integers(0, len(whole) - 1))
    read(folder, name, whole[:at] + data.draw(st.binary(max_size=8)) + whole[at + 3 :], packing)


def test_places_that_hold_no_file(tmp_path: Path, name: str) -> None:
    for path, message in ((tmp_path, "is a folder"), (tmp_path / "none.json", "no such file")):
        with pytest.raises(DataError) as caught:
            datasets.load(name, path)
        assert message in problem(caught.value, path)
