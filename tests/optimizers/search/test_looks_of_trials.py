"""Trials answer in looks: who falls behind is asked no more, and a spent budget still leaves a winner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.optimizers.search.storage import read_study, study_directory
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests.examples import thorough
from tests.optimizers.colours import Run, identical, needs_demos
from tests.optimizers.search.test_tell import SETS, needs_three
from tests.support.progress import Notes

DEV = 20


def looks(out: Path) -> list[list[tuple[int, int]]]:
    """By batch: the number of each trial that answered, and the questions that it had answered then."""
    study = read_study(study_directory(out))
    assert study is not None
    batches = [study.user_attrs[name] for name in sorted(study.user_attrs) if name.startswith("batch:")]
    return [[(value["number"], len(value["scores"])) for value in batch] for batch in batches]


def search_of(out: Path) -> dict[str, Any]:
    search: dict[str, Any] = json.loads((out / "provenance.json").read_text("utf-8"))["search"]
    return search


def test_trials_begin_with_few_questions_and_those_behind_answer_no_more(run: Run, folder: Path) -> None:
    run(sets=SETS, target=ScriptedTarget(needs_three))
    baseline, *batches = looks(folder / "out")
    assert baseline == [(0, DEV)]
    seen: dict[int, list[int]] = {}
    for batch in batches:
        assert len({number for number, _ in batch}) == len(batch) <= 2
        for number, questions in batch:
            seen.setdefault(number, []).append(questions)
    assert sorted(seen) == list(range(1, 11))
    for steps in seen.values():
        assert steps == sorted(set(steps))
        assert steps[0] in (6, DEV)  # all at once where the same candidate was answered before
    assert any(steps[-1] == DEV for steps in seen.values())
    assert any(steps == [6] for steps in seen.values())
    assert sum(steps[-1] for steps in seen.values()) < 10 * DEV


@thorough
@pytest.mark.parametrize("calls", range(85, 150, 10))
def test_a_spent_budget_leaves_a_winner_that_saw_enough(run: Run, folder: Path, calls: int) -> None:
    sets = (f"budget.lm_calls={calls}", "search.trials=12")
    compiled = run(sets=sets, target=ScriptedTarget(needs_demos))
    assert compiled.counters["sent"] <= calls
    assert compiled.verdict != "not measured"
    facts = search_of(folder / "out")
    winner = max(
        questions
        for batch in looks(folder / "out")
        for number, questions in batch
        if number == winning(folder / "out", facts["candidate"])
    )
    assert winner >= 10


def winning(out: Path, candidate: Any) -> int:
    study = read_study(study_directory(out))
    assert study is not None
    names = sorted(name for name in study.user_attrs if name.startswith("batch:"))
    values = [value for name in names for value in study.user_attrs[name]]
    return int(next(value["number"] for value in values if value["candidate"] == candidate))


SMALL = ("budget.lm_calls=140",)  # 25 test questions twice, and 90 answers for 20 dev questions


def test_a_small_budget_asks_fewer_dev_questions_and_says_so(run: Run, folder: Path) -> None:
    progress = Notes()
    run(sets=SMALL, progress=progress)
    assert looks(folder / "out")[:2] == [[(0, 15)], [(0, 15)]]
    assert max(seen for batch in looks(folder / "out") for _, seen in batch) == 15
    text = "15 of 20 dev questions are asked"
    assert text in search_of(folder / "out")["remarks"][0]
    assert sum(text in line for line in progress.notes) == 1
    dev = json.loads((folder / "out" / "provenance.json").read_text("utf-8"))["dev"]
    assert dev["baseline"]["em"]["n"] == 15


@thorough
@pytest.mark.parametrize("limit", ["lm_calls=170", "tokens=100000", "usd=100"])
def test_a_sufficient_budget_asks_all_after_a_first_look_at_its_cost(
    run: Run, folder: Path, limit: str
) -> None:
    target = ScriptedTarget(needs_demos)
    setattr(target, "price", {"input": 0.1, "output": 0.4})  # noqa: B010 - an attribute that a user gives
    run(sets=(f"budget.{limit}",), target=target)
    assert looks(folder / "out")[:2] == [[(0, 15)], [(0, 20)]]
    assert "remarks" not in search_of(folder / "out")


def test_with_a_greater_budget_a_small_study_begins_anew_and_sends_nothing_twice(
    run: Run, folder: Path
) -> None:
    progress = Notes()
    whole, small = ScriptedTarget(needs_demos), ScriptedTarget(needs_demos)
    run("whole", sets=("budget.lm_calls=400",), store=CallStore(None), target=whole)
    run("small", sets=SMALL, target=small)
    before = len(small.requests)
    run("small", sets=("budget.lm_calls=400",), target=small, resume=True, progress=progress)
    assert any("begins anew" in line for line in progress.notes)
    assert identical(folder / "whole", folder / "small")
    prompts = [json.dumps([m.content for m in request.messages]) for request in small.requests]
    assert before < len(prompts) == len(set(prompts))
    assert len(prompts) >= len(whole.requests)
