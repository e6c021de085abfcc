"""optuna-dashboard opens a study as ragc leaves it: its journal, and its storage in PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragc.optimizers.search.storage import study_directory
from tests.integration.consumers import missing, serving, tool
from tests.optimizers.colours import begun, written
from tests.processes import PATH
from tests.support import postgres
from tests.support.postgres import free_port

DASHBOARD = "optuna-dashboard"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing(DASHBOARD)), reason=missing(DASHBOARD)),
    pytest.mark.timeout(600),
]

COMPILE = """
import sys
from pathlib import Path
from tests.optimizers.colours import begun, written
begun(written(Path(sys.argv[1])))(sets=(f'study.storage="{sys.argv[2]}"',))
"""
KNOBS = {"knob.query_pos": "query_pos", "knob.top_k": "top_k"}
"""What a parameter is called in Optuna, and the knob that it sets."""


@contextmanager
def dashboard(storage: str, log: Path, **environment: str) -> Iterator[httpx.Client]:
    """A client of optuna-dashboard on `storage`."""
    port = free_port()
    command = [tool(DASHBOARD), storage, "--host", "127.0.0.1", "--port", str(port)]
    with serving(command, f"http://127.0.0.1:{port}", log, environment) as client:
        yield client


def shown_study(client: httpx.Client) -> dict[str, Any]:
    """The one study that the dashboard has, with its trials."""
    (summary,) = client.get("/api/studies").raise_for_status().json()["study_summaries"]
    study: dict[str, Any] = client.get(f"/api/studies/{summary['study_id']}").raise_for_status().json()
    return study


def check(study: dict[str, Any], trials: list[dict[str, Any]], objectives: list[str]) -> None:
    """`study`, as the dashboard shows it, has our `trials` under our names."""
    assert study["objective_names"] == objectives
    assert study["directions"] == ["maximize"] * len(objectives)
    assert len(study["trials"]) == len(trials) == 7
    states = {True: "Complete", False: "Pruned"}
    for shown, ours in zip(study["trials"], trials, strict=True):
        assert shown["state"] == states[ours["complete"]]
        assert shown["number"] == ours["number"]
        params = {one["name"]: one["param_external_value"] for one in shown["params"]}
        assert {name: params[name] for name in KNOBS} == {
            name: str(ours["candidate"]["knobs"][knob]) for name, knob in KNOBS.items()
        }
        assert params["demos"] == str(ours["candidate"]["demos"])
        if ours["complete"]:
            assert shown["values"] == pytest.approx(ours["values"])
        attributes = {one["key"]: json.loads(one["value"]) for one in shown["user_attrs"]}
        seen = len(ours["scores"])
        assert attributes["questions"] == seen
        for metric in ("em", "f1"):
            mean = sum(score[metric] for score in ours["scores"]) / seen
            assert attributes[f"mean {metric}"] == pytest.approx(mean)
        assert attributes["total lm_calls"] == ours["counters"]["lm_calls"]
        curve = {one["step"]: one["value"] for one in shown["intermediate_values"]}
        if len(objectives) == 1:
            series = [score["em"] for score in ours["scores"]]
            assert {n for n in (5, 10, 20, seen) if n <= seen} <= curve.keys() <= {*range(1, seen + 1)}
            assert curve == pytest.approx({n: sum(series[:n]) / n for n in curve})  # also after each look
        else:
            assert curve == {}


def trials_of(out: Path) -> list[dict[str, Any]]:
    trials: list[dict[str, Any]] = json.loads((study_directory(out) / "trials.json").read_text("utf-8"))
    return trials


@pytest.mark.parametrize("objectives", [["em"], ["em", "-tokens"]])
def test_the_journal_of_a_study_is_shown(
    objectives: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    begun(written(tmp_path))(sets=(f"search.objectives={json.dumps(objectives)}",))
    journal = study_directory(tmp_path / "out") / "study.journal"
    before = journal.read_bytes()
    with dashboard(str(journal), tmp_path / "dashboard.log") as client:
        check(shown_study(client), trials_of(tmp_path / "out"), objectives)
    assert journal.read_bytes() == before


@pytest.mark.skipif(postgres.INITDB is None, reason="PostgreSQL is not installed (Debian package postgresql)")
@pytest.mark.skipif(find_spec("psycopg") is None, reason="psycopg is not installed")
def test_a_study_in_postgresql_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    monkeypatch.setenv("PYTHONPATH", PATH)
    with postgres.postgres() as address:
        # In a process of its own, which closes its connections when it ends.
        subprocess.run([sys.executable, "-c", COMPILE, str(tmp_path), address], check=True)
        with dashboard(address, tmp_path / "dashboard.log", PGPASSWORD=postgres.PASSWORD) as client:
            check(shown_study(client), trials_of(tmp_path / "out"), ["em"])
