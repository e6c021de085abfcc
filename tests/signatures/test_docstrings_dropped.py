"""Prompts are docstrings: a Python that drops them is refused, never asked with other prompts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.examples import cases, thorough
from tests.security.command_line import environment
from tests.security.foreign import RECIPE, target_table, write_data

TWICE = """
import ragc
for _ in range(2):
    try:
        ragc.program("vanilla", main=ragc.target("hosted", model="x", base_url="http://127.0.0.1:9/v1"))
    except ragc.UsageError as error:
        print(error)
"""

IN_ONE_PROCESS = """
from ragc.cli.main import main
wrong = main(["compile", "recipe.toml", "--dry-run", "--set", "knobs.top_k=-1"])
assert False, "-O drops this"
raise SystemExit(main(["compile", "recipe.toml", "--dry-run"]) * 10 + wrong)
"""


def python(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """An interpreter of its own: a forked one has imported everything with its docstrings."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    write_data(tmp_path)
    target = target_table(kind="hosted", model="openai/x", base_url="http://127.0.0.1:9/v1")
    (tmp_path / "recipe.toml").write_text(RECIPE + target, "utf-8")
    return tmp_path


@pytest.mark.parametrize(("option", "variable"), cases([("-OO", ""), ("-B", "2")], 1))
def test_a_python_without_docstrings_is_refused_in_one_sentence(
    option: str, variable: str, recipe: Path
) -> None:
    more = {"PYTHONOPTIMIZE": variable} if variable else {}
    ended = python(recipe, option, "-m", "ragc", "compile", "recipe.toml", "--out", "out", **more)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("ragc: ") == len(ended.stderr.splitlines()) == 1
    assert "-OO, or PYTHONOPTIMIZE=2" in ended.stderr
    assert not (recipe / "out").exists()


@thorough
def test_the_library_refuses_too_at_every_use(tmp_path: Path) -> None:
    ended = python(tmp_path, "-OO", "-c", TWICE)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("start it without that option") == 2


@thorough
def test_a_python_without_assertions_plans_the_same_and_refuses_the_same(recipe: Path) -> None:
    stripped = python(recipe, "-O", "-c", IN_ONE_PROCESS)
    whole = processes.run(
        ["-m", "ragc", "compile", "recipe.toml", "--dry-run"], cwd=recipe, environment=environment(recipe)
    )
    assert (stripped.returncode, whole.returncode) == (2, 0), stripped.stderr
    assert stripped.stdout == whole.stdout != ""
    assert "top_k" in stripped.stderr
