"""An index is there whole or not at all, is built once, and is the same folder for the same content."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ragc.core.progress import Silent
from ragc.corpora.storage.index_cache import Step, index_path, open_or_build
from ragc.errors import SourceError
from tests.paths import SRC

SETTINGS: dict[str, Any] = {"analyzer": "ragc", "cut": [100, 0.5]}

# A builder in a process of its own: says that it has begun, waits for a line, writes the rest.
BUILDER = """
import sys
from pathlib import Path
from ragc.corpora.storage.index_cache import open_or_build

def build(folder, step):
    (folder / "first").write_text("half")
    print("begun", flush=True)
    sys.stdin.readline()
    (folder / "second").write_text("rest")

made = open_or_build("toy", "c1", {"analyzer": "ragc", "cut": [100, 0.5]}, build, home=Path(sys.argv[1]))
print(made.built, made.size, flush=True)
"""


class Noted(Silent):
    """Says when it was told something."""

    def __init__(self) -> None:
        self.noted = threading.Event()

    def note(self, text: str) -> None:
        self.noted.set()


def writes(text: str = "abc") -> Callable[[Path, Step], None]:
    def build(folder: Path, step: Step) -> None:
        (folder / "deep").mkdir()
        (folder / "deep" / "postings").write_text(text)
        step(3)

    return build


def never(folder: Path, step: Step) -> None:
    raise AssertionError("built again")


def spawn(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def test_an_index_is_built_once_and_says_its_size(tmp_path: Path) -> None:
    index = open_or_build("toy", "c1", SETTINGS, writes(), home=tmp_path)
    assert index.built
    assert index.path == index_path("toy", "c1", SETTINGS, tmp_path)
    assert index.size == sum(file.stat().st_size for file in index.path.rglob("*") if file.is_file())
    again = open_or_build("toy", "c1", dict(reversed(SETTINGS.items())), never, home=tmp_path)
    assert (again.path, again.size, again.built) == (index.path, index.size, False)
    others = [
        ("toy", "c2", SETTINGS),
        ("other", "c1", SETTINGS),
        ("toy", "c1", SETTINGS | {"analyzer": "english"}),
    ]
    for kind, corpus, settings in others:
        assert open_or_build(kind, corpus, settings, writes(), home=tmp_path).built


@pytest.mark.parametrize("error", [ValueError("broken passage"), KeyboardInterrupt()])
def test_a_build_that_fails_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def build(folder: Path, step: Step) -> None:
        (folder / "postings").write_text("half")
        raise error

    with pytest.raises(type(error)) as caught:
        open_or_build("toy", "c1", SETTINGS, build, home=tmp_path)
    assert caught.value is error
    assert [path for path in (tmp_path / "toy").iterdir() if path.is_dir()] == []
    assert open_or_build("toy", "c1", SETTINGS, writes(), home=tmp_path).built


def test_a_killed_build_leaves_no_index_and_the_next_one_starts_clean(tmp_path: Path) -> None:
    with spawn(tmp_path) as process:
        assert line(process) == "begun"
        process.send_signal(signal.SIGKILL)
    path = index_path("toy", "c1", SETTINGS, tmp_path)
    assert not path.exists()
    (unfinished,) = path.parent.glob("*.building-*")
    assert (unfinished / "first").exists()
    index = open_or_build("toy", "c1", SETTINGS, writes(), home=tmp_path)
    assert index.built
    assert {file.name for file in index.path.rglob("*") if file.is_file()} == {"postings", "index.json"}
    assert not unfinished.exists()


def test_while_one_process_builds_another_waits_and_then_opens(tmp_path: Path) -> None:
    progress = Noted()
    with spawn(tmp_path) as process, ThreadPoolExecutor(1) as pool:
        assert line(process) == "begun"
        waiting = pool.submit(
            open_or_build, "toy", "c1", SETTINGS, never, home=tmp_path, progress=progress
        )  # fmt: skip
        assert progress.noted.wait(30)
        assert not index_path("toy", "c1", SETTINGS, tmp_path).exists()
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
        opened = waiting.result(30)
        assert line(process) == f"True {opened.size}"
    assert not opened.built
    assert (opened.path / "second").read_text() == "rest"


def test_a_disk_that_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match=r"toy index could not be written to .*RAGC_HOME"):
        open_or_build("toy", "c1", SETTINGS, writes(), home=tmp_path / "file")

    def full(folder: Path, step: Step) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(SourceError, match="No space left on device"):
        open_or_build("toy", "c1", SETTINGS, full, home=tmp_path)
    assert [path for path in (tmp_path / "toy").iterdir() if path.is_dir()] == []
