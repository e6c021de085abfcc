"""Folders in the format of the `datasets` library are read with that library, and the Hub is asked once.

The Hub of these tests is a server on this machine, or nothing that listens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.files.hub import HubData, HubRows, parse
from ragc.corpora.files.records import is_address, read_corpus, read_questions
from ragc.corpora.files.splits import check_disjoint
from ragc.errors import DataError, UsageError
from ragc.records import Passage, Question
from tests.examples import thorough
from tests.support.server import Answer, ScriptedServer, serving

ADDRESS = "hf:org/name"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library, with its caches in a folder of the test."""
    datasets = pytest.importorskip("datasets", reason="the extra `hub` is not installed")
    from huggingface_hub import constants

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return datasets


def row(n: int, **more: Any) -> dict[str, Any]:
    return {"qid": n, "query": f"Who {n}?", "gold": {"text": ["Ada", "Byron"], "start": [1, 2]}, **more}


FIELDS = {"id": "qid", "question": "query", "answers": "gold.text"}


def make_question(n: int, split: str) -> Question:
    return Question(
        str(n),
        f"Who {n}?",
        ("Ada", "Byron"),
        split,
        extra={"gold": {"text": ["Ada", "Byron"], "start": [1, 2]}},
    )


def folder(library: Any, path: Path, **splits: list[dict[str, Any]]) -> Path:
    for name, rows in splits.items():
        path.mkdir(exist_ok=True)
        library.Dataset.from_list(rows).to_parquet(str(path / f"{name}-00000-of-00001.parquet"))
    return path


def questions(address: str, base: Path = Path()) -> tuple[Question, ...]:
    return read_questions(HubRows(address, base), address, fields=FIELDS).questions


def problem(address: str, base: Path = Path()) -> str:
    with pytest.raises(DataError) as caught:
        list(HubRows(address, base))
    (only,) = caught.value.problems
    assert "\n" not in only
    return only


def test_a_folder_of_parquet_files_gives_its_splits_by_our_names_and_draws_no_progress(
    library: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder(library, tmp_path / "set", train=[row(1), row(2)], validation=[row(3)])
    capfd.readouterr()
    all_questions = questions("hf:./set", tmp_path)
    assert all_questions == (make_question(1, "train"), make_question(2, "train"), make_question(3, "dev"))
    assert questions("hf:./set?split=validation", tmp_path) == (make_question(3, "dev"),)
    assert questions(f"hf:{tmp_path / 'set'}?split=train[1:]") == (make_question(2, "train"),)
    assert questions("hf:./set?split=train&streaming=true", tmp_path) == all_questions[:2]
    splits = {name: [q for q in all_questions if q.split == name] for name in ("train", "dev")}
    check_disjoint(splits)
    assert capfd.readouterr() == ("", "")
    folder(library, tmp_path / "set", train=[row(1), {**row(2), "query": " "}])
    with pytest.raises(DataError, match="train, item 2: `query` is empty"):
        questions("hf:./set", tmp_path)


def test_a_folder_written_by_save_to_disk_is_read(library: Any, tmp_path: Path) -> None:
    one = library.Dataset.from_list([row(1)])
    library.DatasetDict(test=one, validation=library.Dataset.from_list([row(2)])).save_to_disk(
        tmp_path / "all"
    )
    one.save_to_disk(tmp_path / "one")
    assert questions("hf:./all", tmp_path) == (make_question(1, "test"), make_question(2, "dev"))
    assert questions("hf:./all?split=test", tmp_path) == (make_question(1, "test"),)
    assert questions("hf:./one", tmp_path) == (make_question(1, ""),)
    assert "No split is named 'tests'. Did you mean 'test'?" in problem("hf:./all?split=tests", tmp_path)


def test_configurations_are_chosen_by_name_and_a_corpus_is_one(library: Any, tmp_path: Path) -> None:
    path = tmp_path / "set"
    (path / "q").mkdir(parents=True)
    (path / "c").mkdir()
    (path / "q/test.jsonl").write_text(json.dumps(row(1)), "utf-8")
    (path / "c/passages.jsonl").write_text(json.dumps({"doc": 5, "body": "text"}), "utf-8")
    configs = "".join(f"- config_name: {name}\n  data_dir: {name}\n" for name in ("q", "c"))
    (path / "README.md").write_text(f"---\nconfigs:\n{configs}---\n", "utf-8")
    assert questions("hf:./set?config=q", tmp_path) == (make_question(1, "test"),)
    rows = HubRows("hf:./set?config=c", tmp_path)
    passages = read_corpus(rows, "c", fields={"id": "doc", "text": "body"})
    assert passages == (Passage("5", "", "text"),)
    assert "Config name is missing" in problem("hf:./set", tmp_path)
    assert "'qq' not found" in problem("hf:./set?config=qq", tmp_path)


def test_labels_get_their_names_and_a_split_column_stays(library: Any, tmp_path: Path) -> None:
    label = library.ClassLabel(names=["easy", "hard"])
    features = library.Features(
        {"qid": library.Value("int64"), "level": label, "split": library.Value("string")}
    )
    rows = [{"qid": 1, "level": 1, "split": "mine"}, {"qid": 2, "level": None, "split": None}]
    library.Dataset.from_list(rows, features=features).save_to_disk(tmp_path / "set")
    assert [record.values for record in HubRows("hf:./set", tmp_path)] == [
        {"qid": 1, "level": "hard", "split": "mine"},
        {"qid": 2, "level": None, "split": None},
    ]


def test_folders_that_cannot_be_read_are_said_to_be_so(library: Any, tmp_path: Path) -> None:
    assert problem("hf:./nowhere", tmp_path) == f"there is no folder {str(tmp_path / 'nowhere')!r}"
    (tmp_path / "empty").mkdir()
    assert "it cannot be read: " in problem("hf:./empty", tmp_path)
    path = folder(library, tmp_path / "cut", train=[row(1)])
    (file,) = path.iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    assert "it cannot be read: " in problem("hf:./cut", tmp_path)
    assert 'Unknown split "tain"' in problem(
        f"hf:{folder(library, tmp_path / 'set', train=[row(1)])}?split=tain"
    )


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("hf:squad", HubData(name="squad")),
        (
            "hf:org/name?config=a b&split=train[:10]",
            HubData(name="org/name", config="a b", split="train[:10]"),
        ),
        ("hf:org/name?revision=v1&streaming=true", HubData(name="org/name", revision="v1", streaming="true")),
    ],
)
def test_an_address_says_what_to_read(address: str, expected: HubData) -> None:
    assert is_address(address)
    assert parse(address) == expected


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("org/name", "names no data set"),
        ("hf:", "names no data set"),
        ("hf:a/b/c", "names no data set; write hf:org/name"),
        ("hf:org/name?splt=train", "Did you mean 'split'?"),
        ("hf:org/name?split=", "split must be a text that is not empty"),
        ("hf:org/name?streaming=perhaps", "streaming must be '', 'true' or 'false'"),
        ("hf:./folder?revision=v1", "A folder has no revisions"),
    ],
)
def test_addresses_that_cannot_be_are_refused(address: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(address)
    assert message in str(caught.value)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"install ragc\[hub\]"):
        HubRows(ADDRESS)


@pytest.fixture
def server(library: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A Hub that answers what the test says, for every address."""
    with serving() as hub:
        point_to(monkeypatch, library, hub.base)
        yield hub


def point_to(monkeypatch: pytest.MonkeyPatch, library: Any, endpoint: str) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(library.config, "HF_ENDPOINT", endpoint)


@thorough
@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (401, "GatedRepo", "its owner gives access on request"),
        (404, "RepoNotFound", "the Hub has no data set of this name"),
        (404, "RevisionNotFound", "the data set has no such revision"),
        (429, "", "cannot be reached"),
        (500, "", "cannot be reached"),
    ],
)
def test_what_the_hub_refuses_is_said_in_one_sentence(
    server: ScriptedServer, status: int, code: str, message: str
) -> None:
    server.pages[""] = Answer(b"{}", status, headers=(("X-Error-Code", code),) if code else ())
    assert message in problem(f"{ADDRESS}?revision=v1")
    assert [path for path in server.paths if "org/name" in path] == ["/api/datasets/org/name/revision/v1"]


def test_the_commit_is_recorded_and_a_hub_that_then_fails_ends_the_reading(
    library: Any, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not even rows that the library keeps of the same name are read then: they may be of any commit."""
    old = folder(library, tmp_path / "name", train=[row(1)])
    builder = library.load_dataset_builder(str(old))
    builder.download_and_prepare()
    older_cache = tmp_path / "cache" / "org___name" / "default" / "0.0.0" / "older"
    older_cache.parent.mkdir(parents=True)
    Path(builder.cache_dir).rename(older_cache)
    server.pages[""] = Answer(json.dumps({"id": "org/name", "sha": COMMIT}).encode())
    rows = HubRows(ADDRESS)

    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("gone")

    monkeypatch.setattr("huggingface_hub.HfApi.hf_hub_download", refuse)
    with pytest.raises(DataError, match=r"hf:org/name: the Hugging Face Hub cannot be reached"):
        list(rows)
    assert rows.revision == COMMIT
    assert "/api/datasets/org/name" in server.paths


def test_without_a_network_one_sentence_says_so(
    library: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    point_to(monkeypatch, library, "http://127.0.0.1:9")
    assert problem(ADDRESS).startswith("the Hugging Face Hub cannot be reached (")
    assert "hf:./folder" in problem(ADDRESS)
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "(HF_HUB_OFFLINE is set)" in problem(ADDRESS)
