"""python: the written files are clean by ruff and compile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ragc.exports.derive import derive_export
from tests.exports.common import (
    NASTY,
    programs,
)
from tests.exports.formats.python.test_format import source

pytestmark = pytest.mark.integration


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
