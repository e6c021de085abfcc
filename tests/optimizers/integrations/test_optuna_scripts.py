"""Scripts that people with Optuna write, run as they are against a server on this machine."""

from __future__ import annotations

import re
import signal
import sqlite3
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

import ragc
from ragc.cli.main import main
from ragc.compiled.base import load
from ragc.errors import ArtefactError, UsageError
from ragc.optimizers.integrations.optuna_objective import BASELINE, PATH
from ragc.optimizers.status import status
from tests import processes
from tests.examples import cases, thorough
from tests.optimizers.colours import RECIPE, write_data
from tests.paths import ROOT
from tests.support.loopback import MODEL, Loopback

GUIDE = (ROOT / "docs/guide/integrations.md").read_text("utf-8")


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with Loopback(latency_s=0.001) as endpoint:
        yield endpoint


@pytest.fixture
def project(tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe and data, which is the working directory; the cache is in it too."""
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path, 30)
    target = f'[targets.main]\nkind = "vllm"\nmodel = "{MODEL}"\nbase_url = "{server.url}"'
    text = RECIPE.replace('[targets.main]\nkind = "embedded"', target).replace("demos = 2", "demos = 0")
    (tmp_path / "recipe.toml").write_text(text, "utf-8")
    server.latency_s = 0.001
    return tmp_path


def script(project: Path, text: str) -> processes.Process:
    """`text` as a process of its own in `project`."""
    environment = processes.environment_of()
    return processes.start(["-c", textwrap.dedent(text)], cwd=project, environment=environment)


def tried(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return [trial for trial in study.trials if BASELINE not in trial.user_attrs]


def states(study: optuna.Study) -> list[str]:
    return [trial.state.name for trial in study.trials]


def test_the_script_of_the_guide_runs_and_goes_on(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(import ragc\n\nstudy, .*?)```", GUIDE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)
    message = capsys.readouterr().err
    study, objective = names["study"], names["objective"]
    assert study.study_name == "first"
    assert study.user_attrs[PATH] == str(objective.path)
    assert str(objective.path) in message
    assert len(study.trials) == 20
    assert load(project / "compiled" / "best").provenance["search"]["optuna"] == study.best_trial.number
    exec(block, names)
    assert len(names["study"].trials) == 40
    assert main(["study", "status", "first"]) == 0
    assert re.search(r"trials +39 of 39, and the baseline", capsys.readouterr().out)


@thorough
def test_the_guides_study_with_a_sampler_pruner_and_storage_of_its_own_runs_and_goes_on(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(import optuna\n.*?)```", GUIDE, re.DOTALL)
    for runs in (1, 2):
        names: dict[str, Any] = {}
        exec(block, names)
        assert len(names["study"].trials) == 20 * runs
        assert [BASELINE in trial.user_attrs for trial in names["study"].trials[:2]] == [True, False]
    assert len(tried(names["study"])) == 39
    assert (project / "mine.db").exists()
    assert main(["study", "status", "mine"]) == 0
    assert "cut off" not in capsys.readouterr().out


@pytest.mark.parametrize("what", ["lm_calls", "tokens", "minutes"])
def test_every_other_budget_stops_it_too(project: Path, what: str, server: Loopback) -> None:
    limit = {"lm_calls": 25, "tokens": 9000, "minutes": 0.002}[what]
    server.latency_s = 0.05 if what == "minutes" else 0.001
    sets = (f"budget.{what}={limit}", "search.ranges.top_k=[1, 9]")
    study = optuna.create_study(direction="maximize")
    before = server.log.requests
    study.optimize(ragc.objective("recipe.toml", sets=sets), n_trials=30)
    assert 1 <= len(study.trials) < 30
    if what == "lm_calls":
        assert server.log.requests - before <= 25


def test_directions_that_do_not_fit_are_refused_in_one_sentence(project: Path) -> None:
    two = ('search.objectives=["em", "-tokens"]',)
    cases: list[tuple[Mapping[str, Any], tuple[str, ...], str]] = [
        ({"direction": "minimize"}, (), "The study minimizes em"),
        ({"directions": ["maximize", "minimize"]}, two, "The study minimizes -tokens"),
        ({"direction": "maximize"}, two, "1 direction and the recipe 2 objectives"),
        ({"directions": ["maximize"] * 2}, (), "2 directions and the recipe 1 objective"),
    ]
    for directions, sets, expected in cases:
        study = optuna.create_study(**directions)
        with pytest.raises(UsageError, match=expected) as caught:
            study.optimize(ragc.objective("recipe.toml", sets=sets), n_trials=3)
        assert str(caught.value).count(". ") == 0
        assert len(study.trials) == 1


def test_storages_of_ones_own_keep_the_study_and_refuse_a_changed_recipe(project: Path) -> None:
    storages: dict[str, Callable[[], Any]] = {
        "sqlite": lambda: "sqlite:///own.db",
        "journal": lambda: JournalStorage(JournalFileBackend("own.journal")),
    }
    for open_storage in storages.values():
        for trials in (3, 5):
            study = optuna.create_study(
                direction="maximize", storage=open_storage(), study_name="mine", load_if_exists=True
            )
            study.optimize(ragc.objective("recipe.toml"), n_trials=trials - len(study.trials), n_jobs=2)
            assert states(study) == ["COMPLETE"] * trials
        study = optuna.load_study(storage=open_storage(), study_name="mine")
        with pytest.raises(UsageError, match="begun with another recipe"):
            study.optimize(ragc.objective("recipe.toml", sets=("knobs.noise_n=1",)), n_trials=1)
    ragc.objective("recipe.toml")
    assert "storage of its own" in status("recipe.toml").next
    with sqlite3.connect("own.db") as rows:
        assert rows.execute("SELECT count(*) FROM trials").fetchone()[0] == 6


def test_names_are_those_of_recipes_and_do_not_collide(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_data(other, 30)
    (other / "recipe.toml").write_bytes((project / "recipe.toml").read_bytes())
    (project / "second.toml").write_bytes((project / "recipe.toml").read_bytes())
    studies = [ragc.study(path) for path in ("recipe.toml", other / "recipe.toml", "second.toml")]
    assert len({study.study_name for study in studies}) == 3
    assert len({study.user_attrs[PATH] for study in studies}) == 3
    assert [study.study_name.rpartition("-")[0] for study in studies] == ["recipe", "recipe", "second"]
    assert status("second.toml").study == studies[2].user_attrs[PATH]
    assert status(studies[0].study_name).study == studies[0].user_attrs[PATH]
    assert status(studies[0].user_attrs[PATH]).study == studies[0].user_attrs[PATH]
    with pytest.raises(ArtefactError, match="No study is known at nothing"):
        status("nothing")
    with pytest.raises(UsageError, match="letters, digits"):
        ragc.study("recipe.toml", name="../up")


def test_a_name_is_kept_for_one_recipe(project: Path) -> None:
    ragc.study("recipe.toml", name="mine")
    ragc.study("recipe.toml", name="mine", sets=("budget.lm_calls=900",))
    with pytest.raises(
        UsageError, match=r"changed since the study 'mine' began \(- top_k|changed since.*noise"
    ):
        ragc.study("recipe.toml", name="mine", sets=("knobs.noise_n=1",))
    with pytest.raises(UsageError, match="make both of the same recipe"):
        ragc.study("recipe.toml", name="mine").optimize(ragc.objective("recipe.toml"), n_trials=1)


def test_pruned_trials_are_pruned_and_the_status_counts_them(project: Path) -> None:
    class Never(optuna.pruners.BasePruner):
        def prune(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> bool:
            return BASELINE not in trial.user_attrs

    study = ragc.study("recipe.toml")
    study.pruner = Never()
    study.optimize(ragc.objective("recipe.toml"), n_trials=3)
    assert states(study) == ["COMPLETE", "PRUNED", "PRUNED"]
    report = status("recipe.toml")
    assert report.trials["stopped"] == report.trials["done"] == 2
    assert report.best is not None
    assert report.best["trial"] == 0
    assert report.lines()[-1] == "Run the script that optimizes it to go on."


def test_no_dominated_trial_of_two_objectives_is_called_the_best(project: Path) -> None:
    sets = ('search.objectives=["em", "-tokens"]',)
    study = ragc.study("recipe.toml", sets=sets)
    objective = ragc.objective("recipe.toml", sets=sets)
    study.optimize(objective, n_trials=1)
    (first,) = study.get_trials()
    better = optuna.trial.create_trial(
        values=[first.values[0], first.values[1] + 5],
        params=first.params,
        distributions=first.distributions,
        user_attrs=first.user_attrs,
    )
    study.add_trial(better)
    report = status(objective.path)
    assert report.best is not None
    assert [trial["trial"] for trial in report.front] == [1]
    assert report.best["trial"] == 1


INTERRUPTED = """
    import ragc
    study = ragc.study("recipe.toml")
    study.optimize(ragc.objective("recipe.toml"), n_trials={trials}, n_jobs={jobs})
    print(len(study.trials))
"""


@pytest.mark.parametrize(("how", "jobs"), cases([("SIGINT", 1), ("SIGKILL", 1), ("SIGKILL", 2)], 2))
def test_after_an_interrupt_the_baseline_is_asked_again(
    project: Path, server: Loopback, how: str, jobs: int
) -> None:
    server.latency_s = 0.4
    before = server.log.requests
    process = script(project, INTERRUPTED.format(trials=9, jobs=jobs))
    deadline = time.monotonic() + 60
    while server.log.requests - before < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(getattr(signal, how))
    _, stderr = process.communicate(timeout=60)
    assert process.returncode != 0, stderr
    server.latency_s = 0.001
    report = status("recipe.toml")
    assert report.state == "cut off"
    assert report.trials["stale"] == (jobs if how == "SIGKILL" else 0)
    study = ragc.study("recipe.toml")
    assert TrialState.RUNNING not in {trial.state for trial in study.trials}
    study.optimize(ragc.objective("recipe.toml"), n_trials=4, n_jobs=jobs)
    baselines = [trial.state.name for trial in study.trials if BASELINE in trial.user_attrs]
    assert baselines == ["FAIL", "COMPLETE"]
    assert states(study).count("COMPLETE") == 4
    again = ragc.study("recipe.toml")
    assert len(again.trials) == len(study.trials)
    assert status("recipe.toml").state == "at rest"
