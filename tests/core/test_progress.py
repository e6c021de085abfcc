"""What callers may pass as `progress`, and what they see then."""

from __future__ import annotations

import re
from typing import Any

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
