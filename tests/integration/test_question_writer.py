"""Questions that the real SmolLM2 writes: few are good, and the set says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragc
from tests.integration.fetched import fetch_default_weights, fetch_minilm
from tests.support.rows import read_rows

pytest.importorskip("xllamacpp")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

FACTS = (
    "The ferry from Tarnsey to Holm sails at 7:40 and takes 55 minutes. A ticket costs 12 crowns.",
    "The library of Tarnsey was founded by Edda Lund in 1911. It lends 40,000 books to 3,200 readers.",
    "The lighthouse on Holm is 38 metres high and was built from red granite in 1866.",
    "The brewery of Kalle Berg makes a dark beer called Night Tide, which is sold in Oslo and Bergen.",
    "The observatory on Mount Skarv has a telescope of 1.5 metres, a gift of the University of Graz.",
)


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    for number, fact in enumerate(FACTS):
        (folder / f"{number}.md").write_text(f"# Guide {number}\n\n{fact}\n")
    return folder


def test_a_small_model_writes_in_the_form_that_its_schema_wants(docs: Path) -> None:
    fetch_default_weights()
    fetch_minilm()
    project = ragc.new("docs", count=4)
    written = [*read_rows(project.folder / "questions.jsonl"), *read_rows(project.folder / "set_aside.jsonl")]
    assert len(written) >= 4
    readable = [row for row in written if row.get("reason") != "failed unreadable"]
    assert len(readable) >= len(written) - 1
    assert sum(row["question"].endswith("?") for row in readable) >= len(readable) - 1
    good = {row["id"] for row in read_rows(project.folder / "questions.jsonl")}
    again = ragc.new("docs", count=4)
    sent = [line for line in again.question_lines if "requests were sent" in line]
    assert not sent or sent[0].startswith("0 requests") or again.questions > project.questions
    assert {row["id"] for row in read_rows(project.folder / "questions.jsonl")} >= good
