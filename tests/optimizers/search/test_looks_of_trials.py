"""Trials answer in looks: who falls behind is asked no more, and a spent budget still leaves a winner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.optimizers.search.storage import read_study, study_directory
from ragc.store.call_store import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, needs_demos
from tests.optimizers.search.test_tell import SETS, needs_three

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


def test_what_answers_in_looks_sends_nothing_twice(run: Run) -> None:
    target = ScriptedTarget(needs_three)
    run(sets=SETS, target=target, store=CallStore(None))
    prompts = [json.dumps([m.content for m in request.messages]) for request in target.requests]
    assert len(prompts) == len(set(prompts))


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
