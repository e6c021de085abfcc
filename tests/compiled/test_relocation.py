"""A compiled program moves: it answers where only itself, its corpus and its target are."""

from __future__ import annotations

import asyncio
import copy
import json
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ragc
from ragc.cli.main import main
from ragc.errors import UsageError
from tests.security.foreign import (
    QUESTION,
    Recorded,
    command,
    python,
    write_data,
)
from tests.support.rows import write_rows


def test_a_program_copied_to_another_users_home_answers_there(
    compiled: Path, tmp_path: Path, server: Recorded
) -> None:
    home = tmp_path / "other-home"
    there = home / "programs" / "mine"
    shutil.copytree(compiled, there)
    shutil.copy(tmp_path / "origin" / "corpus.jsonl", there)
    shutil.rmtree(tmp_path / "origin")
    shutil.rmtree(tmp_path / "machine")
    shutil.rmtree(compiled)
    sets = ("--set", f"targets.main.base_url={server.url}")
    result = command("ask", there, QUESTION, "--json", *sets, home=home, cwd=home)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["prediction"] == "red"
    assert [row for row in server.seen if "The mug is red." in row]
    script = (
        "import asyncio, ragc\n"
        f"with ragc.load({str(there)!r}, sets=['targets.main.base_url={server.url}']) as program:\n"
        f"    print(program({QUESTION!r}).prediction)\n"
        f"    print(asyncio.run(program.acall({QUESTION!r})).prediction)\n"
    )
    result = python("-c", script, home=home, cwd=home)
    assert result.stdout.split() == ["red", "red"], result.stderr


def test_a_question_needs_no_dev_questions_and_eval_says_which_file_is_gone(
    compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "origin" / "questions.jsonl").unlink()
    assert main(["ask", str(compiled), QUESTION]) == 0
    capsys.readouterr()
    assert main(["eval", str(compiled), "--split", "dev"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"ragc: {compiled}/recipe.toml: ")
    assert "data.questions = 'questions.jsonl'" in err
    assert "--base DIR" in err
    assert f"{tempfile.gettempdir()}/tmp" not in err


def test_base_says_where_relative_paths_lead(
    compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "origin").rename(tmp_path / "moved")
    assert main(["ask", str(compiled), QUESTION]) == 2
    assert "say where relative paths lead from with --base DIR" in capsys.readouterr().err
    assert main(["ask", str(compiled), QUESTION, "--base", str(tmp_path / "moved")]) == 0
    assert main(["eval", str(compiled), "--split", "dev", "--base", str(tmp_path / "moved")]) == 0
    words = ["--to", "promptfoo", "--out", str(tmp_path / "x"), "--questions", "1"]
    assert main(["export", str(compiled), *words, "--base", str(tmp_path / "moved")]) == 0
    assert (
        ragc.evaluate(compiled, split="dev", access=ragc.Access(tmp_path / "moved")).metrics["em"].mean == 1
    )
    assert main(["ask", str(compiled), QUESTION, "--base", str(tmp_path / "gone")]) == 2
    assert "is no folder" in capsys.readouterr().err


def test_relative_paths_lead_from_where_it_was_compiled_and_else_from_itself(
    compiled: Path, tmp_path: Path
) -> None:
    write_data(compiled)
    own = {"id": "x", "title": "X", "text": "The mug is of the directory."}
    write_rows(compiled / "corpus.jsonl", [own])
    assert {p.text for p in ragc.ask(compiled, QUESTION).passages} == {"The mug is red."}
    renamed = compiled.with_name("renamed")
    compiled.rename(renamed)  # the record knows it by its digest
    assert {p.text for p in ragc.ask(renamed, QUESTION).passages} == {"The mug is red."}
    shutil.rmtree(tmp_path / "origin")
    assert {p.text for p in ragc.ask(renamed, QUESTION).passages} == {"The mug is of the directory."}


def test_a_loaded_program_answers_threads_and_loops_and_opens_once(compiled: Path, server: Recorded) -> None:
    program = ragc.load(compiled)
    assert server.paths == []
    questions = [f"{QUESTION} {number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert {row.prediction for row in pool.map(program, questions)} == {"red"}

    async def together() -> set[str | None]:
        return {row.prediction for row in await asyncio.gather(*map(program.acall, questions))}

    assert asyncio.run(together()) == {"red"}
    assert server.paths.count("/v1/models") == 1
    with pytest.raises(UsageError, match="empty"):
        program("  ")
    assert copy.deepcopy(program)(QUESTION).prediction == "red"
    program.close()
    program.close()
    assert program(QUESTION).prediction == "red"
    program.close()


def test_a_program_is_called_from_another_working_directory(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = ragc.load("compiled/mine", access=ragc.Access("origin"))
    monkeypatch.chdir(compiled)
    assert program(QUESTION).prediction == "red"
