"""Two versions side by side: turns, ratios, unknown names, and a line of its own process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from experiments.benchmarks.beside import __main__ as beside
from tests.examples import cases
from tests.paths import ROOT


def test_measure_takes_turns_after_a_run_of_each_that_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run_line(name: str, tree: Path, scratch: Path, shared: Path) -> dict[str, float]:
        ran.append(tree.name)
        return {"wall s": {"first": 2.0, "second": 3.0}[tree.name] + (10 if len(ran) <= 2 else 0)}

    monkeypatch.setattr(beside, "run_line", run_line)
    costs = beside.measure("ask", [tmp_path / "first", tmp_path / "second"], tmp_path, 2)
    assert ran == ["first", "second", "first", "second", "second", "first"]
    assert costs == [{"wall s": [2.0, 2.0]}, {"wall s": [3.0, 3.0]}]
    beside.print_line("ask", costs)
    assert capsys.readouterr().out.split() == ["ask", "wall", "s", "2", "3", "1.50", "1.50", "2"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["HEAD", "--only", "asked"], "there is no line 'asked'; the lines are typed, cached, "),
        (["HEAD", "HEAD", "HEAD"], "at most two commits are compared"),
    ],
)
def test_main_refuses_what_it_does_not_know(
    words: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["beside", *words])
    with pytest.raises(SystemExit):
        beside.main()
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("name", cases(["cached", "question", "programs"], 1))
def test_run_line_measures_the_tree_that_it_is_given(name: str, tmp_path: Path) -> None:
    costs = beside.run_line(name, ROOT, tmp_path / "scratch", tmp_path / "shared")
    assert costs
    assert all(cost > 0 for cost in costs.values())
