"""What callers may pass as `progress`, and what they see then."""

from __future__ import annotations

import io
import itertools
import re
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import dspy
import pytest

import ragc
from ragc.core.progress import Silent, showing
from ragc.testing import ScriptedTarget

EXAMPLES = [
    dspy.Example(question=f"What is number {n}?", answer="yes").with_inputs("question") for n in range(4)
]


class Kept(Silent):
    """A Progress that keeps the names of phases."""

    def __init__(self) -> None:
        self.phases: list[str] = []

    def phase(self, name: str, total: int | None, unit: str = "questions") -> None:
        """Kept."""
        self.phases.append(name)


def compiled(progress: Any) -> None:
    target = ScriptedTarget(lambda request: {"answer": "yes"})
    program = ragc.program("no_retrieval", main=target, store=False)
    optimizer = ragc.Compile(metric="em", demos=0, trials=1, progress=progress)
    optimizer.compile(program, trainset=[], valset=EXAMPLES)


@pytest.mark.parametrize(("progress", "shows"), [(True, True), (False, False), (None, False)])
def test_compile_shows_what_the_command_line_shows_where_it_is_asked_to(
    progress: Any, shows: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled(progress)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert bool(re.search(r"baseline on dev: 4 questions\n.*trial 0/1 +1\.000", shown.err)) == shows
    assert shows or not shown.err


def test_compile_takes_a_function_of_a_line_and_a_progress(capsys: pytest.CaptureFixture[str]) -> None:
    lines = list[str]()
    compiled(lines.append)
    assert lines[0] == "baseline on dev: 4 questions"
    progress = Kept()
    compiled(progress)
    assert progress.phases[0] == "baseline on dev"
    assert not capsys.readouterr().err


def test_none_is_a_display_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    with showing(None) as shown:
        assert isinstance(shown, Silent)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with showing(None) as shown:
        assert not isinstance(shown, Silent)


def notebook(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Makes this process a notebook's kernel; returns what a cell shows of stderr, which is no terminal."""
    shell = type("ZMQInteractiveShell", (), {"config": {}})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    return cast(io.StringIO, sys.stderr)


def test_a_notebook_gets_one_line_that_is_drawn_again_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    err, before = notebook(monkeypatch), set(threading.enumerate())
    with showing(None) as progress:
        for name in ("answering dev", "answering test"):
            progress.phase(name, 40)
            for _ in range(40):
                progress.step()
                time.sleep(0.01)
        assert len(re.findall(r"\ranswering \w+: +\d+%", err.getvalue())) >= 4
        assert "\n" not in err.getvalue()
        progress.note("a note")
        progress.trial(1, 2, 0.5, 0.5, "a trial")
    kept = [line.rpartition("\r")[2] for line in err.getvalue().split("\n")]
    assert [line for line in kept if line] == ["a note", "trial 1/2  0.500  best 0.500  a trial"]
    assert not set(threading.enumerate()) - before


def test_a_bar_shows_phases_and_downloads_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    err = notebook(monkeypatch)
    with showing(True) as progress:
        progress.phase("opening the model", None)
        progress.download(3 << 20, 9 << 20)
        progress.download(9 << 20, 9 << 20)
        progress.phase("answering dev", 2)
        progress.close()
        progress.phase("answering test", 1)  # as of work that goes on
        progress.step()
    drawn = re.findall(r"\r(opening the model|downloading|answering \w+): ", err.getvalue())
    names = [name for name, _ in itertools.groupby(drawn)]
    assert names == ["opening the model", "downloading", "answering dev", "answering test"]


def test_without_a_terminal_a_phase_says_every_ten_seconds_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SimpleNamespace(monotonic=iter(itertools.count(0, 0.01)).__next__)
    monkeypatch.setattr("ragc.core.progress.time", clock)
    with showing(True) as progress:
        progress.phase("answering dev", 5000)
        for _ in range(5000):
            progress.step()
    shown = capsys.readouterr().err
    lines = [line.partition("] ")[2] for line in shown.splitlines()]
    assert lines[0] == "answering dev: 5,000 questions"
    assert 4 <= len(lines) <= 6
    assert all(re.fullmatch(r"answering dev: [\d,]+ of 5,000", line) for line in lines[1:])
    assert not re.search("[\x1b\r]", shown)


def test_a_display_that_fails_does_not_end_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    with showing(True) as progress:
        progress.phase("answering dev", 2)
        progress.step()
        progress.note("a note")
