"""python: 200 generated inputs and more replies, with the generated files run alone."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from ragc.exports.derive import derive_export
from tests.exports.common import (
    NASTY,
    capture_messages,
    programs,
)
from tests.exports.formats.python.test_format import nasty, run_alone, source

pytestmark = pytest.mark.integration


def test_all_programs_render_what_is_sent_with_the_standard_library_alone(tmp_path: Path) -> None:
    draw, work, wanted = random.Random(8), [], []
    for i, program in enumerate(programs()):
        out = derive_export(program)
        file = tmp_path / f"p{i}.py"
        file.write_text(source(out), "utf-8", newline="")
        calls = [(prompt.name, nasty(prompt, draw)) for prompt in out]
        work.append((str(file), calls))
        wanted.append([[list(m) for m in capture_messages(program, *call)] for call in calls])
    assert run_alone(work) == wanted


def test_ruff_and_the_compiler_have_nothing_to_say(tmp_path: Path) -> None:
    pytest.importorskip("ruff", reason="needs ruff")
    for i, program in enumerate(programs()):
        call = program.predictors()[0]
        call.signature = call.signature.with_instructions("".join(NASTY))
        (tmp_path / f"p{i}.py").write_text(source(derive_export(program)), "utf-8", newline="")
    files = "for f in pathlib.Path(sys.argv[1]).iterdir()"
    compiled = f"import pathlib, sys; [compile(f.read_bytes(), f.name, 'exec') {files}]"
    strict = "-m ruff check --isolated --no-cache --extend-select I,B,PL,RUF022 --ignore PLR"
    form = "-m ruff format --isolated --no-cache --line-length 110 --check"
    for command in (["-W", "error", "-c", compiled], strict.split(), form.split()):
        process = subprocess.run(
            [sys.executable, *command, str(tmp_path)], capture_output=True, encoding="utf-8", check=False
        )
        assert process.returncode == 0, process.stdout + process.stderr
