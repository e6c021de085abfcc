"""What a study does with input that is too small, broken, taken or changed."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ragc.compiled.base import load
from ragc.errors import RecipeError, UsageError
from ragc.optimizers.search.storage import study_directory
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, Unbroken, identical, needs_demos, write_data
from tests.optimizers.search.test_storage import cut_off

PLAIN = ("search.demos=0", 'search.knobs=["top_k"]')


def trials_of(folder: Path) -> list[dict[str, Any]]:
    path = study_directory(folder / "out") / "trials.json"
    records: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return records


def test_a_space_with_one_point_costs_one_evaluation_and_claims_nothing(run: Run, folder: Path) -> None:
    target = ScriptedTarget(needs_demos)
    result = run(sets=(*PLAIN, "search.ranges.top_k=[3, 3]", "search.trials=4"), target=target)
    assert len(target.requests) == 20 + 25
    assert result.verdict == "not shown to be better"
    assert {trial["candidate"]["knobs"]["top_k"] for trial in trials_of(folder)} == {3}


@pytest.mark.parametrize("key", ["search.trials", "budget.trials", "search.batch"])
def test_zero_trials_are_refused_before_anything_is_sent(run: Run, key: str) -> None:
    target = ScriptedTarget([])
    with pytest.raises(RecipeError, match=key.rpartition(".")[2]):
        run(sets=(f"{key}=0",), target=target)
    assert not target.requests


@pytest.mark.parametrize("size", [1, 3])
def test_a_dev_set_of_three_questions_is_searched(run: Run, folder: Path, size: int) -> None:
    result = run(sets=("search.trials=4", f"data.dev={size}"))
    tried = trials_of(folder)
    assert len(tried) == 5
    assert all(len(trial["scores"]) == size for trial in tried if trial["complete"])
    assert result.program.provenance["data"]["dev"]["n"] == size
    assert load(folder / "out").state.method == "vanilla"


@pytest.mark.parametrize("reply", ["no idea", "red green blue black white"])
def test_a_constant_objective_ends_with_the_baseline_and_no_claim(run: Run, folder: Path, reply: str) -> None:
    result = run(sets=(*PLAIN, "search.trials=25"), target=ScriptedTarget(lambda request: {"answer": reply}))
    assert result.verdict == "not shown to be better"
    tried = trials_of(folder)
    assert {trial["values"][0] for trial in tried} == {0.0}
    chosen = load(folder / "out").state.knobs["top_k"]
    assert chosen == tried[0]["candidate"]["knobs"]["top_k"]
    assert chosen > min(trial["candidate"]["knobs"]["top_k"] for trial in tried)  # some cost less


def test_two_studies_of_one_directory_do_not_run_at_once(run: Run, unbroken: Unbroken, folder: Path) -> None:
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(UsageError, match="Another process is compiling") as error:
            run("out", target=ScriptedTarget([]))
        refused.append(str(error.value))

    def first(request: ChatRequest) -> dict[str, Any]:
        if not refused:
            other = threading.Thread(target=second)
            other.start()
            other.join(30)
        return needs_demos(request)

    run("out", target=ScriptedTarget(first))
    assert len(refused) == 1
    assert identical(unbroken()[0], folder / "out")


def test_studies_in_one_directory_that_differ_in_their_out_do_not_meet(
    run: Run, unbroken: Unbroken, folder: Path
) -> None:
    cut_off(run)
    run("other", sets=("search.trials=3",))
    run("out", resume=True)
    assert identical(unbroken()[0], folder / "out")


def test_a_recipe_that_changed_is_refused_with_every_difference(run: Run) -> None:
    cut_off(run)
    changed = ("search.trials=7", "seed=4")
    with pytest.raises(UsageError, match=r"- seed = 3; \+ seed = 4; - trials = 6; and 1 more"):
        run("out", resume=True, sets=changed)
    run("out", sets=changed)


@pytest.mark.parametrize("what", ["data", "sources"])
def test_questions_or_passages_that_changed_are_refused(run: Run, folder: Path, what: str) -> None:
    cut_off(run)
    path = folder / ("questions.jsonl" if what == "data" else "corpus.jsonl")
    before = path.read_text("utf-8")
    path.write_text(before.replace("number20", "number21"), "utf-8")
    with pytest.raises(UsageError, match=rf"The {what} of the recipe changed"):
        run("out", resume=True)
    write_data(folder)
    run("out", resume=True)
