"""How many files of ragc a question passes through, and the command around it."""

from __future__ import annotations

import pytest

from experiments.benchmarks.serving.path_length import PathLength, measure
from tests import processes

EACH_QUESTION = 35
"""It should be 32, as it was before replies were mended, LMs of DSPy chosen and settings saved."""

WHOLE_COMMAND = {"a compiled program": 96, "a recipe": 92}
"""It should be 74: a change that shortens the way lowers these."""


@pytest.fixture(scope="module")
def paths() -> dict[str, PathLength]:
    compiled, recipe, _ = measure(processes.run)
    return {"a compiled program": compiled, "a recipe": recipe}


@pytest.mark.parametrize("program", WHOLE_COMMAND)
def test_a_question_passes_few_files(program: str, paths: dict[str, PathLength]) -> None:
    files = paths[program].each_question
    assert len(files) <= EACH_QUESTION, "\n".join(files)
    assert "programs/baselines/vanilla.py" in files


@pytest.mark.parametrize("program", WHOLE_COMMAND)
def test_a_command_passes_few_files(program: str, paths: dict[str, PathLength]) -> None:
    files = paths[program].whole_command
    assert len(files) <= WHOLE_COMMAND[program], "\n".join(files)
    assert "src/ragc/cli/main.py" in files
