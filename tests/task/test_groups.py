"""Questions of one document stay in one split, count together, and are named in the verdict."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.cli.main import main
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.errors import DataError, RecipeError
from ragc.optimizers import compile as compiling
from ragc.optimizers.plan.headroom import probe
from ragc.recipe import Recipe
from ragc.reports.rows import summarize
from ragc.store.calls import CallStore
from ragc.task.base import Task, prepare
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import RECIPE, needs_demos
from tests.support.colours import COLOURS
from tests.support.recipes import write_files
from tests.support.rows import read_rows, write_rows

DOCUMENTS, EACH = 30, 5
SIZES = 'train = 15\ndev = 40\ntest = 60\nquestions = "questions.jsonl"'
GROUPED = RECIPE.replace('questions = "questions.jsonl"', SIZES)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Documents of five things each, with a question about each thing, and a recipe without named splits."""
    corpus = [
        {
            "id": f"d{d}",
            "title": f"Things {d}",
            "text": " ".join(
                f"Thing number{i} is {COLOURS[i % 5]}." for i in range(EACH * d, EACH * (d + 1))
            ),
        }
        for d in range(DOCUMENTS)
    ]
    questions = [
        {
            "id": f"q{i}",
            "question": f"What colour is thing number{i}?",
            "answers": [COLOURS[i % 5]],
            "gold_ids": [f"d{i // EACH}"],
            "page": f"page {i // EACH % 4}",
        }
        for i in range(DOCUMENTS * EACH)
    ]
    write_files(tmp_path, recipe=GROUPED, questions=questions, corpus=corpus)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recipe_of(folder: Path, *sets: str) -> Recipe:
    return recipes.load(folder / "recipe.toml", sets)


def task_of(folder: Path, *sets: str) -> Task:
    target = {"main": ScriptedTarget(needs_demos)}
    return prepare(recipe_of(folder, *sets), store=CallStore(None), targets=target)


def ids(task: Task) -> dict[str, list[str]]:
    return {name: [question.id for question in questions] for name, questions in task.splits.items()}


def compiled(folder: Path, *sets: str, target: ScriptedTarget | None = None, **more: Any) -> Any:
    store = CallStore(folder / "store")
    targets = {"main": target or ScriptedTarget(needs_demos)}
    return compiling.compile(recipe_of(folder, *sets), folder / "out", store=store, targets=targets, **more)


def test_splits_keep_questions_of_one_document_together(folder: Path) -> None:
    task = task_of(folder)
    assert {name: len(questions) for name, questions in task.splits.items()} == {
        "train": 15, "dev": 40, "test": 60
    }  # fmt: skip
    where: dict[str, set[str]] = {}
    for name, questions in task.splits.items():
        for question in questions:
            where.setdefault(question.gold_ids[0], set()).add(name)
            assert question.group == question.gold_ids[0]
    assert all(len(splits) == 1 for splits in where.values())
    assert task.facts["groups"]["n"] == {"train": 3, "dev": 8, "test": 12}
    assert "40 dev questions in 8 groups" in task.note


def test_groups_can_be_turned_off_and_named(folder: Path) -> None:
    off = task_of(folder, 'data.fields.group=""')
    assert ids(off) != ids(task_of(folder))
    assert "groups" not in off.facts
    by_page = task_of(folder, "data.fields.group=page", "data.dev=35", "data.test=40", "data.train=35")
    assert {question.group for question in by_page.dev} <= {f"page {n}" for n in range(4)}
    assert len({q.group for questions in by_page.splits.values() for q in questions}) == 3
    assert recipe_of(folder, 'data.fields.group=""').data.fields.explicit == {"group": ""}
    again = recipes.parse(recipe_of(folder, 'data.fields.group=""').to_toml(), base=folder)
    assert again.data.fields.explicit == {"group": ""}


def test_bad_groups_are_one_sentence(folder: Path) -> None:
    with pytest.raises(DataError, match="pgae"):
        task_of(folder, "data.fields.group=pgae")
    with pytest.raises(RecipeError, match="group"):
        task_of(folder, "data.fields.group=7")
    with pytest.raises(DataError, match=r'fill 0 of them.*data\.fields\.group = ""'):
        task_of(folder, "data.fields.group=page", "data.dev=20")


def test_named_splits_stay_and_have_groups_only_by_a_column(folder: Path) -> None:
    rows = read_rows(folder / "questions.jsonl")
    for at, row in enumerate(rows):
        row["split"] = ("train", "dev", "test")[at // 50]
    write_rows(folder / "questions.jsonl", rows)
    all_of_test = "data.test=50"
    plain = task_of(folder, all_of_test)
    assert "groups" not in plain.facts
    assert sorted(ids(plain)["test"]) == sorted(row["id"] for row in rows[100:])
    named = task_of(folder, all_of_test, "data.fields.group=gold_ids")
    assert named.facts["groups"]["by"] == "gold_ids"
    assert set(Counter(question.group for question in named.dev).values()) == {5}
    with pytest.raises(DataError, match="share the group"):
        task_of(folder, all_of_test, "data.fields.group=page")


def test_questions_alone_in_their_groups_leave_the_same_bytes(folder: Path) -> None:
    rows = read_rows(folder / "questions.jsonl")
    write_rows(folder / "questions.jsonl", [{**row, "gold_ids": row["gold_ids"][:1]} for row in rows[::5]])
    small = ("data.train=5", "data.dev=12", "data.test=12")
    first = compiled(folder, *small, 'data.fields.group=""')
    alone = compiled(folder, *small)
    assert {**first.program.provenance} == {**alone.program.provenance}
    assert (first.verdict, first.note) == (alone.verdict, alone.note)


def test_the_verdict_names_groups_and_rows_give_the_same_interval(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = compiled(folder)
    assert result.test["em"].groups == 12
    assert result.differences["em"]["groups"] == 12
    assert "60 questions in 12 groups" in result.note
    provenance = result.program.provenance
    assert provenance["dev"]["winner"]["em"]["groups"] == 8
    opened = open_program(
        folder / "out", store=CallStore(folder / "store"), targets={"main": ScriptedTarget(needs_demos)}
    )
    evaluation = score(opened)
    opened.close()
    assert evaluation.metrics["em"] == result.test["em"]
    write_rows(folder / "rows.jsonl", [row.to_json() for row in evaluation.rows])
    assert summarize(folder / "rows.jsonl").metrics["em"].groups == 12
    assert main(["eval", "rows.jsonl"]) == 0
    assert "n=60 in 12 groups" in capsys.readouterr().out


def test_too_few_groups_cannot_tell(folder: Path) -> None:
    result = compiled(folder, "data.test=25")
    assert result.verdict == "cannot tell"
    assert "25 questions in 5 groups cannot show a difference" in result.note


def test_headroom_takes_groups_whole(folder: Path) -> None:
    result = probe.headroom(
        recipe_of(folder), calls=200, store=CallStore(None), targets={"main": ScriptedTarget(needs_demos)}
    )
    assert result.questions % EACH == 0
    assert result.groups == {"dev": 8, "test": 12}
    assert 8 <= result.independent["dev"] <= 40
    assert "40 dev questions in 8 groups" in " ".join(result.lines())
