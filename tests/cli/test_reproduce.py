"""`ragc reproduce` in processes of its own: listed and run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import processes
from tests.optimizers.grids.tables.common import write_data
from tests.support.loopback import MODEL, Loopback


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback(latency_s=0.05) as endpoint:
        yield endpoint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_data(tmp_path / "data")
    return tmp_path


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """What `ragc reproduce` exits with, writes and complains of."""
    return processes.ragc(folder, "reproduce", *words)


def on(server: Loopback) -> list[str]:
    """The options that make the server the main target, one question after the other."""
    settings = {"kind": "vllm", "model": MODEL, "base_url": server.url}
    return [
        *(word for key, value in settings.items() for word in ("--set", f'targets.main.{key}="{value}"')),
        *("--set", "concurrency=1"),
    ]


def test_the_tables_are_listed_with_their_data(folder: Path) -> None:
    status, out, err = run(folder)
    assert (status, err) == (0, "")
    text = " ".join(out.split())
    assert "prefrag-main PrefRAG and its baselines on five models" in text
    assert "Data: hotpotqa; absent: 2wikimultihopqa, musique, bioasq." in text
    assert "NQ-open.dev.jsonl" in text
    status, out, err = run(folder, "--json")
    tables = json.loads(out)["tables"]
    assert all({"id", "paper", "rows", "data", "available"} <= entry.keys() for entry in tables)
    assert all({"id", "expected"} <= row.keys() for entry in tables for row in entry["rows"])
    by_id = {entry["id"]: entry["available"] for entry in tables}
    assert (by_id["ragx-main"], by_id["ggatrieval-nq"]) == (True, False)


def test_a_row_is_run_written_shown_and_asked_for_once(folder: Path, server: Loopback) -> None:
    words = ("prefrag-main", "--row", "vanilla_local", "--data-set", "hotpotqa", *on(server))
    status, out, _ = run(folder, *words, "--json")
    assert status == 0
    report = json.loads(out)
    assert report["table"] == "prefrag-main"
    assert MODEL in report["targets"]["main"]
    (row,) = report["rows"]
    assert (row["id"], row["data"]["hotpotqa"]["questions"]) == ("vanilla_local", 10)
    assert report["counters"]["sent"] == server.answer_count == 10
    written = folder / "reproduced/prefrag-main"
    assert (written / "vanilla_local.hotpotqa.jsonl").read_bytes().count(b"\n") == 10
    assert json.loads((written / "result.json").read_text("utf-8"))["rows"] == report["rows"]
    status, out, _ = run(folder, *words)
    assert status == 0
    assert out.splitlines()[0].split()[:5] == ["data", "set", "row", "metric", "paper"]
    assert "Below 30 questions" in out
    assert "What differs from the paper:" in out
    assert "0 requests sent, 0 replayed" in out
    status, out, _ = run(folder, *words, "--dry-run")
    assert status == 0
    assert out.splitlines()[2].split() == ["hotpotqa", "vanilla_local", "10", "10", "0"]
    assert "About 0 LM calls if every reply can be read" in out
