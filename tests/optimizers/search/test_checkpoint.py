"""While a study runs its directory holds a compiled program of the leader, however it is stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dspy
import pytest

import ragc
from ragc.compiled.base import load
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.errors import RagcError
from ragc.optimizers.search import checkpoint
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import status
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Killed, Run, dying, needs_demos


def best_of(out: Path) -> Path:
    return study_directory(out) / checkpoint.BEST


def mean(path: Path) -> float:
    provenance = json.loads((path / "provenance.json").read_text("utf-8"))
    return float(provenance["dev"]["winner"]["em"]["mean"])


@pytest.mark.parametrize("after", [25, 100])
def test_a_study_that_is_cut_off_leaves_the_best_so_far(run: Run, folder: Path, after: int) -> None:
    with pytest.raises((Killed, RagcError)):
        run("cut", target=dying(needs_demos, after))
    best = best_of(folder / "cut")
    report = status(folder / "cut")
    assert report.best is not None
    assert ragc.load(best).provenance["search"]["trial"] == report.best["trial"]
    assert mean(best) == pytest.approx(report.best["values"]["em"])
    assert any(str(best) in line for line in report.lines())
    opened = open_program(best, store=CallStore(None), targets={"main": ScriptedTarget(needs_demos)})
    assert score(opened, "dev").metrics["em"].mean == pytest.approx(mean(best))


def test_its_scores_are_those_of_all_questions_that_the_leader_answered(folder: Path) -> None:
    def script(request: Any) -> dict[str, Any]:
        return {"answer": "x" if "[2]" in request.messages[-1].content else "y"}

    def score(example: Any, prediction: Any, trace: Any = None) -> float:
        return int(example.number % 7) / 10 + (0.2 if prediction.answer == "x" else 0.0)

    local = ragc.source("bm25", corpus=[ragc.Passage(f"p{n}", "", f"Thing number{n}.") for n in range(30)])
    program = ragc.program("vanilla", main=ScriptedTarget(script), local=local, top_k=1, store=False)
    rows = [dspy.Example(question=f"Which thing is number{n}?", answer="x", number=n) for n in range(30)]
    optimizer = ragc.Compile(metric=score, trials=1, demos=0, knobs=["top_k"], out=folder / "out")
    optimizer.compile(program, trainset=[], valset=rows)
    assert optimizer.compiled is not None
    assert load(best_of(folder / "out")).provenance["search"]["trial"] == 1
    assert load(best_of(folder / "out")).provenance["dev"] == optimizer.compiled.provenance["dev"]


def test_before_the_baseline_is_done_there_is_none(run: Run, folder: Path) -> None:
    with pytest.raises((Killed, RagcError)):
        run("cut", target=dying(needs_demos, 10))
    assert not best_of(folder / "cut").exists()
