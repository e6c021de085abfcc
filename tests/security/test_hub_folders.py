"""A folder in the format of the Hub is a stranger's: its card names files, and only its own are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.files.hub import HubRows
from ragc.errors import DataError
from tests.support.rows import write_rows
from tests.support.server import Visit, serving

SECRET = "the secret of this machine"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = pytest.importorskip("datasets", reason="the extra `hub` is not installed")
    monkeypatch.setattr(module.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return module


@pytest.fixture
def folder(library: Any, tmp_path: Path) -> Path:
    write_rows(tmp_path / "secret.jsonl", [{"text": SECRET}])
    path = tmp_path / "data" / "set"
    path.mkdir(parents=True)
    (path / "own.jsonl").write_text('{"text": "own"}\n')
    return path


@pytest.fixture
def forbidden_server() -> Iterator[tuple[str, list[Visit]]]:
    """A server that must not be asked, and the paths it was asked for."""
    with serving() as server:
        yield f"{server.base}/secret.jsonl", server.visits


def problem(folder: Path, options: str = "") -> str:
    with pytest.raises(DataError) as caught:
        list(HubRows(f"hf:{folder}{options}"))
    (only,) = caught.value.problems
    assert SECRET not in only
    assert "\n" not in only
    return only


def card(folder: Path, name: str, configs: Any) -> None:
    import yaml

    text = yaml.safe_dump({"configs": configs})
    (folder / name).write_text(text if name.endswith(".yaml") else f"---\n{text}---\n")


@pytest.mark.parametrize("options", ["", "?split=train&streaming=true"])
@pytest.mark.parametrize("name", ["README.md", ".huggingface.yaml"])
@pytest.mark.parametrize(
    "path",
    [
        "{secret}",
        "../../secret.jsonl",
        "x/../../../secret.jsonl",
        "~/secret.jsonl",
        "file://{secret}",
        "{url}",
        "zip://a.jsonl::{url}",
        "hf://datasets/a/b/c.jsonl",
    ],
)
def test_a_card_leads_to_no_file_outside(
    folder: Path, forbidden_server: tuple[str, list[Visit]], path: str, name: str, options: str
) -> None:
    url, paths = forbidden_server
    path = path.format(secret=folder.parents[1] / "secret.jsonl", url=url)
    for files in (
        {"data_files": [{"split": "train", "path": ["own.jsonl", path]}]},
        {"data_files": path},
        {"data_dir": "../.."},
    ):
        card(folder, name, [{"config_name": "default", **files}])
        assert f"`{name}` names" in problem(folder, options)
    assert paths == []


@pytest.mark.parametrize("target", ["../../secret.jsonl", "../.."])
def test_links_are_resolved(folder: Path, target: str) -> None:
    (folder / "linked.jsonl").symlink_to(target)
    assert "`linked.jsonl` is a link to a place outside the folder" in problem(folder)


def test_links_within_the_folder_are_read(folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "own.jsonl").rename(folder / "parts" / "a.jsonl")
    (folder / "train.jsonl").symlink_to("parts/a.jsonl")
    card(folder, "README.md", [{"config_name": "default", "data_files": "train.jsonl"}])
    assert [row.values["text"] for row in HubRows(f"hf:{folder}")] == ["own"]


def test_what_save_to_disk_notes_stays_within(library: Any, folder: Path, tmp_path: Path) -> None:
    library.Dataset.from_list([{"text": SECRET}]).save_to_disk(str(tmp_path / "other"))
    saved = tmp_path / "data" / "saved"
    library.Dataset.from_list([{"text": "own"}]).save_to_disk(str(saved))
    assert [row.values["text"] for row in HubRows(f"hf:{saved}")] == ["own"]
    (arrow,) = (tmp_path / "other").glob("*.arrow")
    state = json.loads((saved / "state.json").read_text())
    for name in (str(arrow), f"../../other/{arrow.name}"):
        (saved / "state.json").write_text(json.dumps(state | {"_data_files": [{"filename": name}]}))
        assert "`state.json` names" in problem(saved)
    for split in ("../../other", str(tmp_path / "other")):
        (folder / "dataset_dict.json").write_text(json.dumps({"splits": [split]}))
        assert "`dataset_dict.json` names" in problem(folder)


@pytest.mark.parametrize(
    "text", ["---\n: [\n---\n", "---\n- 1\n---\n", "---\nconfigs: 3\n---\n", "---\n" + "[" * 5000 + "\n---\n"]
)
def test_a_card_of_any_shape_is_one_sentence_or_read(folder: Path, text: str) -> None:
    (folder / "README.md").write_text(text)
    try:
        texts = [row.values["text"] for row in HubRows(f"hf:{folder}")]
    except DataError as error:
        texts = [str(error)]
    assert texts == ["own"] or (len(texts) == 1 and "\n" not in texts[0])
