"""The command line: exit statuses, one clear sentence, JSON alone on stdout, nothing half-written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.cli.main import main
from tests.support.recipes import recipe_toml, write_files
from tests.support.rows import write_rows

QUESTION = {"id": "q1", "question": "Which colour?", "answers": ["red"], "gold_ids": ["d1"]}
RECIPE = recipe_toml(data={"dev": 1}, targets={"main": {"kind": "embedded", "model": "model.gguf"}})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    passage = {"id": "d1", "title": "T", "text": "red"}
    write_files(tmp_path, recipe=RECIPE, questions=[QUESTION], corpus=[passage])
    (tmp_path / "model.gguf").write_bytes(b"not a model" * 1000)
    return tmp_path


def read_error(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


def test_knobs_say_range_default_and_condition(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "knobs", "vanilla"]) == 0
    listed = capsys.readouterr().out
    assert "top_k" in listed
    assert "[1 to 20; default 3]" in listed
    assert "if temperature > 0" in listed


@pytest.mark.parametrize(
    "break_it",
    [
        lambda f: (f / "recipe.toml").unlink(),
        lambda f: (f / "corpus.jsonl").unlink(),
        lambda f: write_rows(f / "questions.jsonl", [QUESTION, QUESTION]),
        lambda f: (f / "questions.jsonl").write_bytes(b'{"id": "\xff"}\n'),
        lambda f: (f / "recipe.toml").write_text(RECIPE + "[knobs]\ntop_k = 99\n"),
        lambda f: None,  # its model is no GGUF file
    ],
)
def test_bad_input_leaves_nothing_behind(
    folder: Path, break_it: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    break_it(folder)
    assert main(["compile", "recipe.toml", "--out", "out"]) in (1, 2)
    assert read_error(capsys).startswith("ragc: ")
    assert not (folder / "out").exists()


def test_a_dry_run_sends_nothing_and_prints_one_document(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "recipe.toml").write_text(
        """
program = "vanilla"
search = {trials = 3, knobs = ["top_k"]}
data = {dataset = "pydocs", dev = 10, test = 10}
sources.local.kind = "bm25"
targets.main = {kind = "vllm", model = "m", base_url = "http://127.0.0.1:9/v1"}
"""
    )
    assert main(["compile", "recipe.toml", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["questions"] == {"demonstrations": 0, "dev": 40, "test": 20}
    assert (plan["lm_calls_readable"], plan["lm_calls"], plan["bounded"]) == (60, 120, True)
