"""A folder that one stands in is a stranger's: no process that ragc starts imports what lies there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragc.core import children
from tests.paths import SRC

PLANTED = (
    "pip", "json", "ragc", "sitecustomize", "usercustomize", "encodings", "runpy", "logging",
    "pypdfium2", "prometheus_client", "fastapi", "docx", "zipfile", "resource",
)  # fmt: skip

FETCH = """
from ragc.errors import TargetUnavailable
from ragc.downloads import default_weights
try:
    default_weights()
except TargetUnavailable as error:
    print(error)
"""
READ = """
from pathlib import Path
from ragc.corpora.documents.reading import DocumentReader
with DocumentReader() as reader:
    document = reader.read(Path("note.txt"), "ragc.corpora.documents.text:read", b"A note of some words.")
    print(document.pages[0].text)
"""
OWN_READER = """
from pathlib import Path
from ragc.corpora.documents.reading import DocumentReader
with DocumentReader() as reader:
    print(reader.read(Path("note.txt"), "mine:read", b"A note of some words.").pages[0].text)
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with modules that leave a file behind when they are imported."""
    folder = tmp_path / "planted"
    folder.mkdir()
    for name in PLANTED:
        source = f"open({str(tmp_path / f'imported-{name}')!r}, 'w').close()\n"
        (folder / f"{name}.py").write_text(source)
    (folder / "note.txt").write_text("A note of some words.")
    (folder / "mine.py").write_text("def read(path):\n    return 'mine ' + open('note.txt').read()\n")
    return folder


def run(program: str, planted: Path) -> str:
    """What `program` prints, run as the command `ragc` is: the folder is not on its own path."""
    variables = {**os.environ, "PYTHONPATH": str(SRC), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"}
    variables |= {"RAGC_HOME": str(planted.parent / "home")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=planted, env=variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path.name for path in planted.parent.glob("imported-*")] == []
    return done.stdout


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (FETCH, "could not be fetched"),
        (READ, "A note of some words."),
        (OWN_READER, "mine A note of some words."),  # which is found here, as the user named it
    ],
)
def test_what_runs_apart_imports_nothing_that_lies_here(program: str, printed: str, planted: Path) -> None:
    assert printed in run(program, planted)


def test_a_relative_path_of_modules_means_what_it_means_here(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty entries, which mean the folder that one stands in, are left out."""
    monkeypatch.chdir(planted)
    (planted / "lib").mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("", "lib")))
    program = "import json, os, sys; print(json.dumps([os.getcwd(), *sys.path]))"
    done = subprocess.run(
        children.command("-c", program), **children.surroundings(), capture_output=True, text=True, check=True
    )
    at, *path = json.loads(done.stdout)
    assert str(planted / "lib") in path
    assert not {"", str(planted), at} & set(path)
    assert list(planted.parent.glob("imported-*")) == []
