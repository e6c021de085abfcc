"""How many files of ragc a question and its command pass through, and how many modules it imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.benchmarks.house.warm import QUESTION
from experiments.benchmarks.serving.path_length import (
    PathLength,
    compile_in,
    in_process,
    measure,
    profiled,
)
from tests import processes
from tests.examples import thorough

PROGRAMS = ("a compiled program", "a recipe")
EACH_QUESTION = 31
WHOLE_COMMAND = 87
WARM_ASK = 126
"""Modules that `ragc ask` imports where the reply is in the store."""
WARM_QUESTION = 21
"""Files that run for a question whose reply a loaded program holds."""


@pytest.fixture(scope="module")
def paths() -> dict[str, PathLength]:
    compiled, recipe, _ = measure(processes.run)
    return dict(zip(PROGRAMS, (compiled, recipe), strict=True))


@thorough
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_question_passes_few_files(program: str, paths: dict[str, PathLength]) -> None:
    files = paths[program].each_question
    assert len(files) <= EACH_QUESTION, "\n".join(files)
    assert "programs/baselines/vanilla.py" in files


@pytest.mark.parametrize("program", PROGRAMS)
@thorough
def test_a_command_passes_few_files(program: str, paths: dict[str, PathLength]) -> None:
    files = paths[program].whole_command
    assert len(files) <= WHOLE_COMMAND, "\n".join(files)
    assert "src/ragc/cli/main.py" in files


@thorough
def test_a_warm_question_imports_few_modules_and_passes_few_files(tmp_path: Path) -> None:
    compile_in(processes.run, tmp_path)
    profiled(processes.run, tmp_path, "home", "ask", "compiled", QUESTION)
    modules = profiled(processes.run, tmp_path, "home", "ask", "compiled", QUESTION)["modules"]
    assert len(modules) <= WARM_ASK, "\n".join(modules)
    files = in_process(processes.run, tmp_path, "home", "experiments.benchmarks.house.warm", "compiled")[
        "files"
    ]
    assert len(files) <= WARM_QUESTION, "\n".join(files)
