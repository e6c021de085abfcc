"""Uses of test questions are counted on this machine, over recipes, studies and evaluations."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.cli import console
from ragc.cli.main import main
from ragc.compiled import comparison
from ragc.compiled.access import Access
from ragc.compiled.evaluate import Evaluation, score
from ragc.compiled.opened import open_program
from ragc.errors import StoreError
from ragc.metrics import runs
from ragc.store import used_questions
from ragc.store.calls import CallStore
from ragc.store.used_questions import TestUse, database
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, identical, needs_demos, written
from tests.support.progress import Notes
from tests.support.rows import read_rows, write_rows
from tests.support.used import count_use, uses_counted

OTHER = ("knobs.top_k=7", "search.demos=0", "search.knobs=[]")
PLAIN = ("search.demos=0", "search.knobs=[]")


@pytest.fixture
def folder(home: Path) -> Path:
    return written(home)


def evaluated(folder: Path, what: str, *sets: str, split: str = "test") -> Evaluation:
    store, targets = CallStore(folder / "store"), {"main": ScriptedTarget(needs_demos)}
    return score(open_program(folder / what, sets, store=store, targets=targets), split)


def number(look: TestUse | None) -> int | None:
    assert look is not None
    return look.number


def questions(*numbers: int) -> list[str]:
    return [f"what is thing {n}" for n in numbers]


def test_a_compile_is_one_look_and_what_it_showed_is_no_new_one(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run()
    assert result.look == TestUse(1, 25)
    assert evaluated(folder, "out").look == TestUse(1, 25, again=True)
    assert evaluated(folder, "recipe.toml").look == TestUse(1, 25, again=True)
    assert number(run("again").look) == 1
    assert json.loads((folder / "out" / "run.json").read_text())["look"]["number"] == 1
    assert "look" not in json.loads((folder / "out" / "provenance.json").read_text())
    assert identical(folder / "out", folder / "again")
    console.print_compiled(result)
    assert "Test use 1 of these questions.\n" in capsys.readouterr().out


def test_other_programs_recipes_and_seeds_are_further_looks(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    assert number(evaluated(folder, "recipe.toml", *OTHER).look) == 2
    third = run("other", sets=("seed=4", "knobs.top_k=6", *PLAIN))
    assert number(third.look) == 3
    assert third.to_json()["look"] == {"number": 3, "questions": 25, "seen": 25} | {
        "again": False,
        "problem": "",
    }
    console.print_compiled(third)
    sentence = "Test use 3 of these questions; p is multiplied by 5 for the uses before."
    assert sentence in capsys.readouterr().out
    console.print_evaluation(evaluated(folder, "recipe.toml", *OTHER))
    assert "Test use 2 of these questions, the same again." in capsys.readouterr().out


def test_other_ids_and_files_are_the_same_questions_and_a_part_overlaps(run: Run, folder: Path) -> None:
    run(sets=PLAIN)
    rows = read_rows(folder / "questions.jsonl")
    fresh = [row for row in rows if row["split"] != "test"]
    test = [{**row, "id": f"x{row['id']}"} for row in rows if row["split"] == "test"]
    test[0]["question"] = f"  {test[0]['question'].replace('What', 'WHAT  ')} "
    new = [{**test[0], "id": f"n{n}", "question": f"What colour is thing number{n + 90}?"} for n in range(5)]
    write_rows(folder / "renamed.jsonl", [*fresh, *test[:20]])
    write_rows(folder / "wider.jsonl", [*fresh, *test, *new])
    renamed = evaluated(folder, "recipe.toml", 'data.questions="renamed.jsonl"', *PLAIN).look
    assert renamed == TestUse(2, 20, seen=20)  # the model answers the other spelling in another way
    test[0]["question"] = rows[[row["split"] for row in rows].index("test")]["question"]
    write_rows(folder / "renamed.jsonl", [*fresh, *test[:20]])
    renamed = evaluated(folder, "recipe.toml", 'data.questions="renamed.jsonl"', *PLAIN).look
    assert renamed == TestUse(1, 20, again=True)
    test[0]["question"] = f"  {test[0]['question']} "
    write_rows(folder / "wider.jsonl", [*fresh, *test, *new])
    wider = evaluated(folder, "recipe.toml", 'data.questions="wider.jsonl"', *PLAIN).look
    assert wider is not None
    assert wider == TestUse(3, 30, seen=25)
    assert wider.text == "test use 3 of these questions, 25 of which were used before"


def test_asked_anew_with_other_replies_is_a_further_look(folder: Path) -> None:
    replies = iter(range(1000))

    def restless(request: ChatRequest) -> dict[str, Any]:
        return {"answer": f"colour {next(replies)}"}

    def again(*, anew: bool) -> TestUse | None:
        store, targets = CallStore(folder / "store"), {"main": ScriptedTarget(restless)}
        opened = open_program(folder / "recipe.toml", PLAIN, store=store, targets=targets)
        if anew:
            opened.ask_anew()
        return score(opened).look

    assert again(anew=False) == TestUse(1, 25)
    assert again(anew=False) == TestUse(1, 25, again=True)
    assert again(anew=True) == TestUse(2, 25, seen=25)


def test_factors_of_looks_add_up_to_two_and_a_fifth() -> None:
    factors = [used_questions.adjustment(number) for number in range(1, 200)]
    assert factors[:8] == [1, 2, 5, 5, 5, 20, 40, 80]
    assert sum(1 / factor for factor in factors) == pytest.approx(2.2)


def test_p_after_earlier_looks_is_shown_and_provenance_has_that_of_one_look(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(30):
        count_use([f"What colour is thing number{n}?" for n in range(60)], [f"other {n}"])
    result = run()
    assert number(result.look) == 31
    written_run = json.loads((folder / "out" / "run.json").read_text())
    provenance = json.loads((folder / "out" / "provenance.json").read_text())
    assert provenance["verdict"] == "better"
    assert provenance["test"]["differences"]["em"]["p"] < 0.05
    assert "p_looks" not in provenance["test"]["differences"]["em"]
    assert result.verdict == written_run["after_looks"]["verdict"] == "not shown to be better"
    gap = written_run["after_looks"]["differences"]["em"]
    assert gap["p_looks"] == result.differences["em"]["p_looks"] == 1
    assert gap["ci_looks"][0] <= 0 <= gap["ci_looks"][1]
    console.print_compiled(result)
    assert "Verdict on test (25 questions): not shown to be better." in capsys.readouterr().out
    page = ragc.report(folder / "out", out=folder / "r.html").page.read_text("utf-8")
    assert "Not shown to be better than the baseline" in page


def test_two_new_programs_in_one_comparison_are_one_look(folder: Path) -> None:
    (folder / "other.toml").write_text((folder / "recipe.toml").read_text(), "utf-8")

    def scored(path: Path, _: runs.ScoredRun | None) -> Evaluation:
        sets = OTHER if path.name == "other.toml" else PLAIN
        store, targets = CallStore(folder / "store"), {"main": ScriptedTarget(needs_demos)}
        return score(open_program(path, sets, store=store, targets=targets), count=False)

    first = comparison.compare(folder / "recipe.toml", folder / "other.toml", scored)
    assert first.look == TestUse(1, 25)
    assert uses_counted() == 1
    again = comparison.compare(folder / "recipe.toml", folder / "other.toml", scored)
    assert again.look == TestUse(1, 25, again=True)


def test_a_comparison_at_a_later_look_multiplies_p_and_widens_the_interval(folder: Path) -> None:
    for name, scores in (("a", "0010010010"), ("b", "1111111110")):
        common = {"answers": ["x"], "prediction": "x"}
        rows = [
            {"id": str(n), "question": f"q{n}", "scores": {"em": int(s)}, **common}
            for n, s in enumerate(scores)
        ]
        write_rows(folder / f"{name}.jsonl", rows)
    alone = ragc.compare(folder / "a.jsonl", folder / "b.jsonl")
    before, after = alone.rows[0], alone.at(TestUse(3, 10, seen=10)).rows[0]
    assert before.judged is not None
    assert after.judged is not None
    assert (before.verdict, after.verdict) == ("better", "not shown to be better")
    assert after.judged.adjusted == pytest.approx(5 * before.judged.adjusted)
    assert after.judged.low <= 0 < before.judged.low


def test_dev_questions_are_no_look_and_the_chosen_program_is_flattered_there(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(sets=("data.test=0",))
    assert uses_counted() == 0
    on_dev = evaluated(folder, "out", split="dev")
    assert on_dev.look is None
    console.print_evaluation(on_dev)
    assert "chosen by its scores on these questions" in capsys.readouterr().out
    assert on_dev.to_json()["remark"] == on_dev.remark
    assert evaluated(folder, "recipe.toml", split="dev").remark == ""
    assert "flatter" in json.loads((folder / "out" / "provenance.json").read_text())["remarks"][0]


def test_the_record_holds_no_text(run: Run, folder: Path) -> None:
    run(sets=PLAIN)
    content = database().read_bytes()
    assert b"colour" not in content
    assert b"number35" not in content
    assert len(content) < 50_000


def test_a_record_in_the_compiled_directory_is_not_believed(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(sets=PLAIN)
    monkeypatch.setenv("RAGC_HOME", str(folder / "out" / "home"))
    store, targets = CallStore(folder / "store"), {"main": ScriptedTarget(needs_demos)}
    opened = open_program(folder / "out", access=Access(folder, targets=True), store=store, targets=targets)
    look = score(opened).look
    assert number(look) is None
    assert look is not None
    assert "not believed" in look.warning


def put_folder(path: Path) -> None:
    path.mkdir(parents=True)


def put_file_above(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("a file")


@pytest.mark.parametrize("spoil", [put_folder, put_file_above])
def test_without_a_record_nothing_is_compiled_and_an_evaluation_says_so(
    run: Run, folder: Path, spoil: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(database())
    progress = Notes()
    main_target = ScriptedTarget(needs_demos)
    with pytest.raises(StoreError, match=r"The record of used questions .* cannot be read or written"):
        run(sets=PLAIN, target=main_target)
    assert not main_target.requests
    store, targets = CallStore(folder / "store"), {"main": main_target}
    opened = open_program(folder / "recipe.toml", PLAIN, store=store, targets=targets)
    result = score(opened, progress=progress)
    assert result.metrics["em"].n == 25
    assert number(result.look) is None
    assert [note for note in progress.notes if note.startswith("Test uses are not counted: ")]
    console.print_evaluation(result)
    assert "em" in capsys.readouterr().out


@pytest.mark.parametrize("harm", ["no database", "a page", "half"])
def test_a_damaged_record_is_named_with_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str], harm: str
) -> None:
    for name in ("one", "two", "three"):
        count_use(questions(*range(100)), [name])
    whole = database().read_bytes()
    damaged = {
        "no database": b"no database" * 2000,
        "a page": whole[:8192] + bytes(4096) + whole[12288:],
        "half": whole[: len(whole) // 2],
    }
    database().write_bytes(damaged[harm])
    look = count_use(questions(*range(100)), ["four"])
    assert look.number is None
    assert "delete it" in look.warning
    assert "\n" not in look.warning
    assert database().read_bytes() == damaged[harm], "what may be recovered is left"
    main(["doctor", "--json"])
    checks = {check["id"]: check for check in json.loads(capsys.readouterr().out)}
    assert not checks["uses"]["ok"]
    assert not checks["uses"]["needed"]
    database().unlink()
    assert count_use(questions(*range(100)), ["four"]) == TestUse(1, 100)
