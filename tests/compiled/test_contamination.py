"""No question that taught or chose a program tests it unmarked, nor one that an earlier search used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.cli import console
from ragc.compiled import comparison
from ragc.compiled.access import Access
from ragc.compiled.contamination import FORMAT, UNCHECKED
from ragc.compiled.evaluate import OPTIMISM_NOTE, Evaluation, score
from ragc.compiled.opened import open_program
from ragc.errors import ArtefactError, UsageError
from ragc.metrics import runs
from ragc.optimizers import compile as compiling
from ragc.optimizers.search.storage import study_directory
from ragc.reports.rows import summarize
from ragc.store.calls import CallStore
from ragc.store.used_questions import question_digest
from ragc.testing import ScriptedTarget
from tests.examples import cases
from tests.optimizers.colours import RECIPE, Killed, Run, begun, dying, identical, needs_demos, write_data
from tests.support.progress import Notes
from tests.support.rows import read_rows, write_rows
from tests.support.used import searched_questions

DRAWN = RECIPE + "[budget]\nlm_calls = 400\n"
SIZES = (
    "data.train=8",
    "data.dev=12",
    "data.test=30",
    "search.trials=2",
    "search.demos=0",
    'search.knobs=["top_k"]',
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    write_data(tmp_path)
    edit(tmp_path, lambda row: {name: value for name, value in row.items() if name != "split"})
    (tmp_path / "recipe.toml").write_text(DRAWN, "utf-8")
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    compile_here = begun(folder)

    def go(out: str = "out", *, sets: tuple[str, ...] = (), **more: Any) -> compiling.Compiled:
        return compile_here(out, sets=(*SIZES, *sets), **more)

    return go


def edit(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    path = folder / "questions.jsonl"
    rows = [change(json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    write_rows(path, rows)


def evaluated(folder: Path, what: str, *sets: str, split: str = "test", **more: Any) -> Evaluation:
    store, targets = CallStore(folder / "store"), {"main": ScriptedTarget(needs_demos)}
    every = sets if (folder / what).is_dir() else (*SIZES, *sets)
    return score(open_program(folder / what, every, store=store, targets=targets), split, **more)


def provenance(compiled: compiling.Compiled) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((compiled.path / "provenance.json").read_text("utf-8"))
    return held


def test_a_new_seed_leaves_out_what_an_earlier_search_used(run: Run, folder: Path) -> None:
    first = run("one")
    assert not first.contamination
    assert first.test["em"].n == 30
    assert "contamination" not in provenance(first)
    progress = Notes()
    second = run("two", sets=("seed=4",), progress=progress)
    seen = second.contamination
    assert seen.used
    assert second.test["em"].n == 30 - len(seen.used)
    assert {role.removesuffix(" by an earlier search") for role in seen.used.values()} == {"dev", "train"}
    assert provenance(second)["contamination"] == seen.to_json() == second.to_json()["contamination"]
    assert "(" not in second.verdict
    sentence = f"{len(seen.used)} of 30 test questions were used as train or dev before ("
    assert [note for note in progress.notes if note.startswith(sentence)]
    assert any(remark.startswith(sentence) for remark in provenance(second)["remarks"])
    assert evaluated(folder, "two").remark.startswith(sentence)


def test_seen_questions_are_scored_and_marked_on_demand(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("one")
    second = run("two", sets=("seed=4",), include_seen=True)
    used = second.contamination.used
    assert used
    assert second.contamination.scored
    assert second.test["em"].n == 30
    assert second.verdict.endswith(f"({len(used)} of 30 test questions were seen before)")
    assert provenance(second)["verdict"] == second.verdict
    console.print_compiled(second)
    assert "scored nevertheless, so these scores flatter" in " ".join(capsys.readouterr().out.split())
    rows = study_directory(second.path) / "test-winner.jsonl"
    marked = {row.id: row.seen for row in runs.read(rows).answered.values() if row.seen}
    assert marked == dict(used)
    (remark,) = (text for text in summarize(rows).run.remarks if "used as train" in text)
    assert remark.startswith(f"{len(used)} of 30 questions were used as train or dev before")
    report = ragc.report(second.path, out=folder / "report.html")
    assert f"{len(used)} of 30 test questions were seen before" in report.headline
    assert "scored nevertheless" in (folder / "report.html").read_text("utf-8")
    compared = comparison.compare(rows, rows, lambda path, _: evaluated(folder, path.name))
    assert any("were used as train or dev before" in note for note in compared.notes())


def test_a_program_is_not_tested_on_what_chose_it_after_a_new_split(run: Run, folder: Path) -> None:
    compiled = run("out")
    marks = provenance(compiled)["questions"]
    joined = marks["train"] + marks["dev"]
    chosen = {joined[at : at + 16] for at in range(0, len(joined), 16)}
    assert len(chosen) == 20
    new = evaluated(folder, "out", "seed=2")
    assert new.contamination.used
    assert not [row for row in new.rows if question_digest(row.question.question) in chosen]
    assert len(new.rows) == 30 - len(new.contamination.used)
    every = evaluated(folder, "out", "seed=2", include_seen=True)
    assert len(every.rows) == 30
    assert {row.question.id: row.seen for row in every.rows if row.seen} == dict(every.contamination.used)
    assert "so these scores flatter" in every.remark
    assert every.rows[0].to_json().get("seen", "") == every.rows[0].seen
    on_dev = evaluated(folder, "out", split="dev")
    assert on_dev.remark == OPTIMISM_NOTE
    assert all(row.seen == "dev" for row in on_dev.rows)
    part = evaluated(folder, "out", "seed=2", split="dev").remark
    assert "of these 12 questions taught or chose the program" in part


@pytest.mark.parametrize("home", ["home", "another"])
def test_another_machine_knows_what_chose_the_program(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    run()
    monkeypatch.setenv("RAGC_HOME", str(folder / home))
    numbers = iter(range(1, 100))

    def respelled(row: dict[str, Any]) -> dict[str, Any]:
        text = row["question"].replace("What colour", "WHAT co\u200blOUR")
        return row | {"id": f"new-{row['id']}", "question": f"{next(numbers)}. {text}"}

    edit(folder, respelled)
    store, targets = CallStore(folder / "store"), {"main": ScriptedTarget(needs_demos)}
    sizes = ("data.test=50", "data.dev=5", "data.train=0")
    opened = open_program(
        folder / "out", sizes, store=store, targets=targets, access=Access(folder, targets=True)
    )
    result = score(opened)
    assert len(result.contamination.used) >= 10
    assert len(result.rows) == 50 - len(result.contamination.used)


def test_a_split_that_is_left_empty_is_refused_with_the_way_out(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("one", sets=("data.dev=30", "data.train=0", "data.test=0"))
    edit(folder, lambda row: row | {"id": f"x{row['id']}"})
    target = ScriptedTarget(needs_demos)
    with pytest.raises(UsageError, match=r"All \d+ test questions .*, so none is left .* --include-seen"):
        run("two", sets=("data.dev=29", "data.train=0", *leaving_only_seen(folder)), target=target)
    assert not target.requests


def leaving_only_seen(folder: Path) -> tuple[str, ...]:
    """Overrides that make the test split of questions that the record knows as dev."""
    known = searched_questions()
    rows = read_rows(folder / "questions.jsonl")
    seen = [row for row in rows if question_digest(row["question"]) in known]
    other = [row for row in rows if row not in seen]
    write_rows(folder / "seen.jsonl", seen)
    write_rows(folder / "other.jsonl", other)
    return 'data.questions="other.jsonl"', 'data.test="seen.jsonl"'


@pytest.mark.parametrize("after", cases([5, 40], 1))
def test_a_resumed_study_tests_on_what_it_read_when_it_began(run: Run, folder: Path, after: int) -> None:
    run("before", sets=("seed=4",))
    whole = run("whole")
    shutil.rmtree(folder / "home")
    run("before", sets=("seed=4",))
    with pytest.raises((Killed, BaseExceptionGroup)):
        run("cut", target=dying(needs_demos, after), store=CallStore(folder / "fresh"))
    run("between", sets=("seed=5",))
    resumed = run("cut", resume=True, store=CallStore(folder / "fresh"))
    assert resumed.contamination == whole.contamination
    assert identical(folder / "whole", folder / "cut")
    assert len(run("cut").contamination.used) > len(whole.contamination.used), "a new study reads it anew"


def test_a_program_without_digests_is_scored_and_said_to_be_unchecked(run: Run, folder: Path) -> None:
    run("out")
    path = folder / "out" / "provenance.json"
    facts = json.loads(path.read_text("utf-8"))
    del facts["questions"]
    path.write_text(json.dumps(facts), "utf-8")
    result = evaluated_elsewhere(folder)
    assert len(result.rows) == 30
    assert UNCHECKED in result.remark
    facts["questions"] = {"marks": FORMAT, "dev": "12345"}
    path.write_text(json.dumps(facts), "utf-8")
    with pytest.raises(ArtefactError, match=r"digests of questions in provenance\.json are damaged"):
        evaluated_elsewhere(folder)


def evaluated_elsewhere(folder: Path, *sets: str) -> Evaluation:
    store, targets = CallStore(folder / "store"), {"main": ScriptedTarget(needs_demos)}
    opened = open_program(
        folder / "out", sets, store=store, targets=targets, access=Access(folder, targets=True)
    )
    return score(opened)


def test_a_spelling_in_the_own_dev_questions_is_left_out_too(run: Run, folder: Path) -> None:
    rows = read_rows(folder / "questions.jsonl")
    twins = [row | {"id": f"t{row['id']}", "question": f"Q: {row['question']}"} for row in rows]
    write_rows(folder / "questions.jsonl", rows + twins)
    sets = ("data.test=60", "data.dev=50", "data.fields.group=''")  # else twins are one group
    result = run("out", sets=sets)
    used = result.contamination.used
    assert used
    assert set(used.values()) <= {"dev", "train", "train and dev"}
    assert identical(folder / "out", run("again", sets=sets).path)


def test_near_duplicates_are_named_and_scored(run: Run, folder: Path) -> None:
    def long(row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["id"][1:])
        words = ("ancient harbour wall", "silent mountain railway", "painted wooden bridge")[number % 3]
        ending = "says" if number < 30 else "said"
        return row | {
            "question": f"What colour, as the {words} guide {ending}, is thing number{number % 30}?"
        }

    edit(folder, long)
    result = run("out")
    assert result.contamination.near
    assert result.test["em"].n == 30
    assert "whose text is nearly that of a question seen before" in " ".join(result.contamination.sentences)
