"""The command line: exit statuses, one clear sentence, JSON alone on stdout, nothing half-written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ragc
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


@pytest.mark.parametrize("kind", ["programs", "metrics", "datasets", "sources", "targets"])
def test_lists_are_json_objects_with_ids(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert all(row["id"] for row in rows)


def test_knobs_say_range_default_and_condition(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "knobs", "vanilla"]) == 0
    listed = capsys.readouterr().out
    assert "top_k" in listed
    assert "[1 to 20; default 3]" in listed
    assert "if temperature > 0" in listed


def test_list_knobs_says_each_condition_that_lets_one_matter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "knobs", "prefrag"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "if pref is [True] or free_choice is [True] or preferred_source is not ['local']]" in out
    assert "if temperature > 0]" in out


def test_unknown_names_come_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "knobs", "vanila"]) == 2
    assert "Did you mean 'vanilla'?" in read_error(capsys)


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("ollama", 'write kind = "vllm", base_url = "http://127.0.0.1:11434/v1" and the model\'s name there'),
        ("Ollama", "Ollama's server has OpenAI's chat API"),
        ("openai", 'A hosted model is kind = "hosted" with a model such as "openai/gpt-4o-mini"'),
    ],
)
def test_a_kind_of_target_that_people_expect_comes_with_what_to_write(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str, advice: str
) -> None:
    assert main(["ask", "recipe.toml", "Which colour?", "--set", f"targets.main.kind={kind}"]) == 2
    error = " ".join(read_error(capsys).split())
    assert f"No target kind is named '{kind}'. " in error
    assert advice in error
    assert "Did you mean" not in error
    with pytest.raises(ragc.UsageError, match=re.escape(advice)):
        ragc.target(kind)


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (lambda f: (f / "recipe.toml").unlink(), "there is no such file"),
        (lambda f: (f / "corpus.jsonl").unlink(), "corpus.jsonl"),
        (lambda f: write_rows(f / "corpus.jsonl", []), "corpus.jsonl"),
        (
            lambda f: (f / "corpus.jsonl").write_text('{"id": "d1", "title": "T", "text": "x"}\n{oops\n'),
            "line 2",
        ),
        (lambda f: write_rows(f / "questions.jsonl", [QUESTION, QUESTION]), "q1"),
        (lambda f: (f / "questions.jsonl").write_bytes(b'{"id": "\xff"}\n'), "UTF-8"),
        (lambda f: write_rows(f / "questions.jsonl", [{**QUESTION, "gold_ids": ["d9"]}]), "d9"),
        (lambda f: (f / "recipe.toml").write_text(RECIPE + "[knobs]\ntop_kk = 2\n"), "Did you mean 'top_k'"),
        (lambda f: (f / "recipe.toml").write_text(RECIPE + "[knobs]\ntop_k = 99\n"), "between 1 and 20"),
        (
            lambda f: (f / "recipe.toml").write_text(RECIPE.replace("targets.main", "targets.judge")),
            "targets.main",
        ),
        (lambda f: None, "is no GGUF file"),
    ],
)
def test_bad_input_is_said_clearly_and_leaves_nothing_behind(
    folder: Path, break_it: Any, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    break_it(folder)
    assert main(["compile", "recipe.toml", "--out", "out"]) in (1, 2)
    assert expected in read_error(capsys)
    assert not (folder / "out").exists()


def test_all_problems_of_a_file_come_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(
        folder / "questions.jsonl",
        [
            {**QUESTION, "answers": []},
            {**QUESTION, "id": "q2", "gold_ids": ["d7"]},
            5,
        ],
    )
    assert main(["compile", "recipe.toml", "--out", "out"]) == 2
    error = read_error(capsys)
    assert all(line in error for line in ("line 1", "line 2", "line 3"))


def test_overlapping_splits_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(folder / "other.jsonl", [{**QUESTION, "id": "q2", "question": "which   COLOUR"}])
    sets = ["--set", "data.dev=questions.jsonl", "--set", "data.test=other.jsonl"]
    assert main(["compile", "recipe.toml", *sets, "--out", "out"]) == 2
    assert "dev" in read_error(capsys)


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


def test_asking_what_does_not_exist_is_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "nowhere", "Why?"]) == 2
    assert "nowhere" in read_error(capsys)
    assert main(["eval", str(folder)]) == 2
    assert f"holds no compiled program (no program.json); it holds a recipe: name {folder}" in read_error(
        capsys
    )
