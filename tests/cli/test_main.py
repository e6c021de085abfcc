"""The command line: exit statuses, one clear sentence, JSON alone on stdout, nothing half-written."""

from __future__ import annotations

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
    assert read_error(capsys).splitlines()[-1].startswith("ragc: ")
    assert not (folder / "out").exists()
