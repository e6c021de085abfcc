"""Over random histories no question that taught or chose a program tests it unmarked (a sample of them)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.examples import cases
from tests.task import histories
from tests.task.histories import Broken, History, Program, run_history


@pytest.mark.parametrize("seed", cases(range(25), 3))
def test_a_history_scores_nothing_unmarked_that_was_used_before(seed: int, tmp_path: Path) -> None:
    history = run_history(seed, tmp_path)
    assert history.rows or not history.programs, "what was compiled is scored"


def test_the_check_of_histories_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetting(self: History, name: str, step: int) -> None:
        compiled(self, name, step)
        if self.programs:
            forget(self.programs[-1])

    def forget(program: Program) -> None:
        path = program.path / "provenance.json"
        facts = json.loads(path.read_text("utf-8"))
        facts.pop("questions", None)
        path.write_text(json.dumps(facts), "utf-8")

    compiled = History._compile
    monkeypatch.setattr(histories.History, "_compile", forgetting)
    with pytest.raises(Broken, match=r"scored unmarked though used"):
        run_all(range(8), tmp_path)


def run_all(seeds: Iterable[int], folder: Path) -> None:
    for seed in seeds:
        (folder / str(seed)).mkdir()
        run_history(seed, folder / str(seed))
