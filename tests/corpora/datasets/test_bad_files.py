"""Truncated files of every data set: an error in a sentence, or the whole rows before the cut."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora import datasets
from ragc.corpora.datasets.base import Dataset
from ragc.errors import DataError

EXAMPLES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("examples.json").read_text(encoding="utf-8")
)
PACKINGS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress}


@pytest.fixture(scope="module", params=EXAMPLES)
def name(request: pytest.FixtureRequest) -> str:
    if request.param == "crag":
        pytest.importorskip("markdownify")
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
        return datasets.load(name, path)
    except DataError as error:
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
