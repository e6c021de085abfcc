"""Few questions without splits: all choose, and each is answered by a program chosen without it."""

from __future__ import annotations

import re
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.cli import plan as plan_view
from ragc.compiled.evaluate import Evaluation, score
from ragc.compiled.opened import open_program
from ragc.errors import UsageError
from ragc.optimizers.plan.estimate import estimate
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import StudyStatus, status
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.task.base import prepare
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import RECIPE, Killed, Run, begun, dying, needs_demos, write_data
from tests.support.rows import read_rows, write_rows


def small(folder: Path, questions: int = 30, documents: int = 8) -> Run:
    """A recipe over so few questions that it names no splits, in groups by document; 0 is no group."""
    write_data(folder, questions)
    path = folder / "questions.jsonl"
    rows = read_rows(path)
    for at, row in enumerate(rows):
        del row["split"]
        row["document"] = f"doc{at % documents}" if documents else f"doc{at}"
    write_rows(path, rows)
    text = RECIPE + '[data.fields]\ngroup = "document"\n'
    (folder / "recipe.toml").write_text(text.replace("trials = 6", "trials = 4"), "utf-8")
    return begun(folder)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return small(tmp_path)


def test_every_question_is_answered_by_a_program_chosen_without_it(run: Run, tmp_path: Path) -> None:
    target = ScriptedTarget(needs_demos)
    compiled = run(target=target)
    assert compiled.verdict == "better (by cross-validation)"
    assert "programs chosen this way" in compiled.note
    assert (compiled.test["em"].n, compiled.test["em"].groups) == (30, 8)
    folds = compiled.program.provenance["cross_validation"]
    assert sorted(one["questions"] for one in folds) == sorted(compiled.program.provenance["folds"])
    task, whole = prepare(recipes.load(tmp_path / "recipe.toml")), study_directory(tmp_path / "out")
    texts = {question.id: question.question for question in (*task.train, *task.dev)}
    for number, ids in enumerate(task.folds, start=1):
        chosen = (whole / f"fold-{number}" / "best" / "program.json").read_text("utf-8")
        assert '"What colour is thing' in chosen  # demonstrations, none of the fold
        assert not [name for name in ids if f'"{texts[name]}"' in chosen]
    assert max(Counter(map(repr, target.requests)).values()) == 1  # the folds replay what was asked before


def row_of(report: StudyStatus, name: str) -> str:
    """The value of a row of `ragc study status`."""
    return next(line.removeprefix(name).strip() for line in report.lines() if line.startswith(f"{name} "))


def test_the_status_says_which_fold_is_searched(run: Run, tmp_path: Path) -> None:
    reports: list[StudyStatus] = []
    numbers = count()

    def watched(request: ChatRequest) -> dict[str, Any]:
        if next(numbers) % 10 == 0:
            reports.append(status(tmp_path / "out"))
        return needs_demos(request)

    run(target=ScriptedTarget(watched))
    rows = [row_of(report, "folds") for report in reports]
    assert rows[0] == "none of 5 searched; they follow the search on all questions"
    assert re.match(r"fold [2-5] of 5 is searched: trials \d of 4", rows[-1])
    assert reports[-1].folds is not None
    assert reports[-1].folds["trials"]["wanted"] == 4
    assert reports[-1].log[-1].endswith("questions")
    assert row_of(status(tmp_path / "out"), "folds") == "5 of 5 searched"


def test_the_status_says_in_which_fold_a_study_was_cut_off(run: Run, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        run("cut", target=dying(needs_demos, 150))
    report = status(tmp_path / "cut")
    assert report.state == "cut off"
    assert report.folds is not None
    assert row_of(report, "folds").startswith(f"fold {report.folds['fold']} of 5 was the last that began: ")


def scored(folder: Path, *sets: str) -> Evaluation:
    """The compiled program on test, with what the recipe sets anew."""
    targets = {"main": ScriptedTarget(needs_demos)}
    return score(open_program(folder / "out", sets, store=CallStore(None), targets=targets))


def test_all_questions_are_used_and_new_ones_test_what_was_chosen(run: Run, tmp_path: Path) -> None:
    run()
    with pytest.raises(UsageError, match=r"chooses a program by all of its questions .* data.test=FILE"):
        scored(tmp_path)
    old = read_rows(tmp_path / "questions.jsonl")
    write_rows(tmp_path / "all.jsonl", [{**row, "id": f"new {row['id']}"} for row in old])
    write_rows(tmp_path / "dev.jsonl", [{**old[0], "id": "d", "question": "What is blue?", "document": ""}])
    with pytest.raises(UsageError, match="All 30 test questions were used as train or dev before"):
        scored(tmp_path, "data.dev=dev.jsonl", "data.test=all.jsonl")
    new = {"id": "n", "question": "And what colour is thing number3?", "answers": ["black"], "document": "x"}
    write_rows(tmp_path / "new.jsonl", [new])
    evaluation = scored(tmp_path, "data.test=new.jsonl")
    assert [row.question.id for row in evaluation.rows] == ["n"]
    assert not evaluation.contamination.used


def test_few_documents_show_a_difference_and_no_verdict(tmp_path: Path) -> None:
    compiled = small(tmp_path, 20, documents=4)()
    assert compiled.verdict == "cannot tell (by cross-validation)"
    assert compiled.differences["em"]["mean"] == 0.5
    assert "6 groups must all change in one direction" in compiled.note


def test_the_dry_run_estimates_the_folds(run: Run, tmp_path: Path) -> None:
    planned = estimate(recipes.load(tmp_path / "recipe.toml"))
    assert planned["phases"]["folds"]["lm_calls_about"] > planned["phases"]["trials"]["lm_calls_about"]
    assert "30 questions are cross-validated in 5 folds" in planned["note"]
    lines = list(plan_view.lines(planned))
    assert planned["folds"] == 5
    assert lines[0].endswith("4 trials, and as many without each of 5 folds")


def test_folds_in_a_database_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="state in a file"):
        prepare(recipes.load(tmp_path / "recipe.toml", ["study.storage=postgresql://h/d"]))


def test_many_questions_ask_for_splits(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no dev questions were named"):
        small(tmp_path, 60)()


def test_a_recipe_without_questions_asks_for_some(run: Run, tmp_path: Path) -> None:
    text = (tmp_path / "recipe.toml").read_text("utf-8")
    (tmp_path / "recipe.toml").write_text(text.replace('questions = "questions.jsonl"\n', ""), "utf-8")
    with pytest.raises(UsageError, match="the recipe names no questions"):
        run()
