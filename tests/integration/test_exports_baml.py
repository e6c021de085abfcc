"""BAML's own tools take the exports: `baml-cli check` and `generate`, and the client that it generates.

The generated client renders the messages that are sent and reads replies as the program does, but for the
limits that every export states.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.exports.formats.baml import functions_of, inputs_of
from ragc.exports.write import export
from ragc.programs import method
from ragc.prompts.model import ExportedProgram
from tests.exports.common import draw_program, inputs_for
from tests.exports.formats.baml_runs import ENV, draw_values, limited, read_messages, wired

pytest.importorskip("baml_py", reason="baml-py is not installed")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
SIX = ["vanilla", "prefrag", "ragx", "ggatrieval", "rqrag", "slimplm"]
EACH = 40
"""Inputs for each of the six methods, shared among its prompts."""


def cli(command: str, at: Path) -> None:
    """Run a command of baml-cli in the folder `at`; fails when it does."""
    run = "from baml_py import invoke_runtime_cli; invoke_runtime_cli()"
    args = [sys.executable, "-c", run, command]
    process = subprocess.run(args, cwd=at, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "warning" not in (process.stdout + process.stderr).lower()


@contextmanager
def client(program: ExportedProgram, at: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The client `b` that BAML generates from the export of `program`."""
    export(program, "baml", at)
    cli("check", at)
    cli("generate", at)
    for name, setting in ENV.items():
        monkeypatch.setenv(name, setting)
    with monkeypatch.context() as path:
        path.syspath_prepend(str(at))
        try:
            yield importlib.import_module("baml_client").b
        finally:
            for name in [name for name in sys.modules if name.partition(".")[0] == "baml_client"]:
                del sys.modules[name]


@pytest.mark.parametrize("id", SIX)
def test_rendered_messages_are_those_sent(tmp_path: Path, id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_examples(data: Any) -> Any:
        return draw_program(method(id), data)

    for number, program in enumerate(draw_values(st.data(), 2, with_examples)):
        out = derive_export(program)
        functions = functions_of(out)
        with client(out, tmp_path / str(number), monkeypatch) as b:
            for prompt in out:
                called = inputs_of(prompt)
                for inputs in draw_values(inputs_for(prompt), -(-EACH // 2 // len(out.prompts))):
                    arguments = {called[name]: value for name, value in inputs.items()}
                    request = getattr(b.request, functions[prompt.name])(**arguments)
                    body = json.loads(request.body.text())
                    assert read_messages(body) == limited(wired(program, prompt.name, inputs))
                    rest = {name: value for name, value in body.items() if name != "messages"}
                    assert rest == {"model": prompt.model, **prompt.parameters}
