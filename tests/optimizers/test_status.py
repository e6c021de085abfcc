"""How a study stands: while it runs, after it was cut off, when it is finished, and where none is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import optuna
import pytest

from ragc.cli import console
from ragc.errors import ArtefactError, RagcError
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import StudyStatus, status
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Killed, Run, Unbroken, colour_of, dying, identical, needs_demos


@pytest.fixture
def cut(run: Run, folder: Path) -> Path:
    """The --out of a study that died while two trials began."""
    with pytest.raises((Killed, RagcError)):
        run("cut", target=dying(needs_demos, 40), sets=("budget.lm_calls=500",))
    return folder / "cut"


def test_a_finished_study_says_what_was_found_and_what_it_cost(run: Run, folder: Path) -> None:
    result = run()
    report = status(folder / "out")
    assert report == status(study_directory(folder / "out"))
    assert report.state == "finished"
    assert report.trials == {
        "done": 6,
        "baseline": 1,
        "wanted": 6,
        "stopped": report.trials["stopped"],
        "running": 0,
    } | {
        "stale": 0,
        "failed": report.trials["failed"],
    }
    searched = json.loads((folder / "out" / "provenance.json").read_text())["search"]
    assert report.best is not None
    assert report.best["candidate"] == searched["candidate"]
    assert report.budget["lm_calls"] == {"spent": result.counters["sent"], "limit": None}
    assert f"wins: em {report.best['values']['em']:.4g} on dev, where" in report.log[-1]
    assert json.loads(json.dumps(report.to_json()))["state"] == "finished"


def test_a_study_of_several_objectives_that_was_cut_off_in_its_baseline_can_be_seen(
    run: Run, folder: Path
) -> None:
    sets = ('search.objectives=["em","-tokens"]',)
    with pytest.raises((Killed, RagcError, BaseExceptionGroup)):
        run("early", target=dying(needs_demos, 3), sets=sets)
    report = status(folder / "early")
    assert (report.state, report.best, report.front) == ("cut off", None, ())


def test_a_study_that_was_cut_off_has_stale_trials_and_says_how_to_go_on(
    cut: Path, run: Run, folder: Path
) -> None:
    report = status(cut)
    assert report.state == "cut off"
    assert report.trials["stale"] == 2
    assert "2 cut off" in "\n".join(report.lines())
    assert report.trials["done"] < report.trials["wanted"] == 6
    assert report.budget["lm_calls"]["limit"] == 500
    assert "--resume" in report.next
    assert report.lines()[-1] == report.next
    run("cut", resume=True, sets=("budget.lm_calls=500",))
    again = status(folder / "cut")
    assert again.state == "finished"
    assert (again.trials["stale"], again.trials["done"]) == (0, 6)
    assert f"{again.trials['failed']} cut off" in "\n".join(again.lines())


def test_asking_changes_nothing(cut: Path) -> None:
    directory = study_directory(cut)
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    status(cut)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_a_study_in_the_hands_of_a_process_is_running(run: Run, folder: Path) -> None:
    seen: list[StudyStatus] = []

    def asked_meanwhile(request: ChatRequest) -> dict[str, Any]:
        if not seen:
            seen.append(status(folder / "out"))
        return needs_demos(request)

    run(target=ScriptedTarget(asked_meanwhile))
    assert (seen[0].state, seen[0].trials["running"], seen[0].best) == ("running", 1, None)


def test_the_highest_mean_is_named_where_the_choice_is_another(run: Run, folder: Path) -> None:
    def unsure(request: ChatRequest) -> dict[str, Any]:
        lucky = sum(map(ord, request.messages[-1].content))
        helped = len(request.messages) > 2 and lucky % 5 == 0
        return {"answer": colour_of(request) if lucky % 3 == 0 or helped else "no idea"}

    run(target=ScriptedTarget(unsure), sets=("search.risk=0.01",))
    report = status(folder / "out")
    assert report.best is not None
    assert report.highest is not None
    assert f"trial {report.best['trial']} wins" in report.log[-1]
    assert report.highest["trial"] != report.best["trial"]
    assert report.highest["values"]["em"] > report.best["values"]["em"]
    (line,) = (line for line in report.lines() if line.startswith("highest mean"))
    assert f"trial {report.highest['trial']}: em" in line
    assert "best in the lines of a compile; the choice goes by what is expected" in line


def test_a_study_without_out_is_found_by_its_recipe(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    run("compiled/recipe")
    assert status("recipe.toml").study == status("compiled/recipe").study


def test_where_no_study_is_that_is_said(run: Run, folder: Path) -> None:
    with pytest.raises(ArtefactError, match=r"No study is known at .*nothing.*--out directory"):
        status(folder / "nothing")


def test_a_compile_for_two_objectives_prints_the_front(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(sets=('search.objectives=["em","-tokens"]',))
    front = json.loads((folder / "out" / "provenance.json").read_text())["search"]["front"]
    console.print_compiled(result)
    text = capsys.readouterr().out
    assert "The front: no trial is better" in text
    listed = [line for line in text.splitlines() if line.startswith("  trial ")]
    assert [int(line.split()[1].rstrip(",:")) for line in listed] == [trial["trial"] for trial in front]
    assert sum(", compiled:" in line for line in listed) == 1
    for line, trial in zip(listed, front, strict=True):
        assert f"em {trial['values']['em']:.4g}, tokens {trial['values']['tokens']:.4g}" in line
    report = status(folder / "out")
    assert report.best is not None
    assert report.best["trial"] in [trial["trial"] for trial in report.front]


def test_a_study_in_a_database_of_others_is_one_of_its_own_however_often_it_begins(
    run: Run, unbroken: Unbroken, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = f"sqlite:///{folder / 'shared.db'}"
    monkeypatch.setenv("RAGC_STORAGE", shared)
    optuna.create_study(storage=shared, study_name="theirs")
    for sets in (("search.trials=3",), ()):
        run(sets=sets)
        assert len(optuna.get_all_study_names(shared)) == 2
    assert "theirs" in optuna.get_all_study_names(shared)
    assert status(folder / "out").trials["done"] == 6
    assert identical(unbroken()[0], folder / "out")
