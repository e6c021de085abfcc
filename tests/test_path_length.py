"""How many files of ragc a question passes through, and the command around it."""

from __future__ import annotations

import pytest

from experiments.benchmarks.serving.path_length import PathLength, measure
from tests import processes
from tests.examples import thorough

PROGRAMS = ("a compiled program", "a recipe")
EACH_QUESTION = 32
WHOLE_COMMAND = 95


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
