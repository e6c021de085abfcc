"""Asking the command line for help or a list is quick, because no LM library is imported for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ragc.cli.commands import COMMANDS
from tests.paths import ROOT

HEAVY = ("dspy", "litellm", "optuna", "numpy", "xllamacpp", "pydantic")

PROGRAM = """\
import sys
from ragc.cli.main import main
try:
    status = main(sys.argv[1:])
except SystemExit as stop:
    status = stop.code
heavy = [name for name in %r if name in sys.modules]
print("imported:", *heavy, file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["compile", "--help"],
        ["list", "programs"],
        ["list", "programs", "--json"],
        ["list", "knobs", "vanilla"],
        ["list", "metrics"],
        ["list", "datasets"],
        ["list", "sources"],
        ["list", "targets"],
    ],
    ids=" ".join,
)
def test_help_and_lists_import_no_heavy_library(arguments: list[str]) -> None:
    done = run("-c", PROGRAM % (HEAVY,), *arguments)
    assert (done.returncode, done.stderr.strip()) == (0, "imported:")
    assert done.stdout


def test_every_command_has_a_file_and_every_file_a_command() -> None:
    folder = ROOT / "src/ragc/cli/commands"
    assert {path.stem for path in folder.rglob("*.py")} - {"__init__"} == COMMANDS.keys()


def test_the_module_runs_as_the_command_does() -> None:
    done = run("-m", "ragc", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: ragc")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that finds this working tree first."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_search_in_short_passages_loads_neither_scipy_nor_a_tokenizer() -> None:
    done = run("-c", SEARCH)
    assert (done.returncode, done.stdout.split()) == (0, ["d1", "False", "False"]), done.stderr


SEARCH = """\
import asyncio, sys
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.records import Passage
source = Bm25Source([Passage("d1", "", "a red thing"), Passage("d2", "", "a blue one")]).rechunk(200, 0.0)
print(*(hit.passage.parent for hit in asyncio.run(source.search("red", 1))))
print("scipy.sparse" in sys.modules, "tiktoken" in sys.modules)
"""
