"""What goes to a worker and comes back: trials, errors by kind, and what a worker refuses to begin with."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.core.counters import Counters, counting
from ragc.core.progress import Silent
from ragc.errors import BudgetExhausted, RagcError, StoreError, UsageError
from ragc.optimizers.candidates.space import Candidate
from ragc.optimizers.candidates.trial import TrialResult
from ragc.optimizers.distributed import worker
from ragc.optimizers.distributed.runner import on_workers
from ragc.optimizers.distributed.worker import Job, join, read
from ragc.optimizers.distributed.worker import run_job as run_job_text
from ragc.store.call_store import CallStore
from ragc.task.base import prepare
from ragc.task.study_address import facts_differ
from tests.optimizers.colours import RECIPE


def run_job(job: Job) -> str:
    return run_job_text(job.text(), 7, json.dumps(Candidate().to_json()), "[]", "null")


def test_a_trial_and_its_cost_come_back_as_they_were() -> None:
    tried = TrialResult(
        7, Candidate({"top_k": 3}, 2, 1), ({"em": 1.0}, {"em": None}), (0.5,), True, {"lm_calls": 2}
    )
    with counting(Counters()) as spent:
        assert read(json.dumps({"tried": tried.to_json(), "spent": {"sent": 2}})) == tried
    assert spent.sent == 2


@pytest.mark.parametrize(
    ("name", "kind"), [("BudgetExhausted", BudgetExhausted), ("StoreError", StoreError), ("", RagcError)]
)
def test_an_error_comes_back_as_its_kind(name: str, kind: type[RagcError]) -> None:
    with counting(Counters()) as spent, pytest.raises(RagcError, match="said so") as caught:
        read(json.dumps({"error": name, "text": "said so", "spent": {"sent": 3}}))
    assert type(caught.value) is kind
    assert spent.sent == 3


def test_an_error_that_lists_problems_comes_back_as_a_wrong_request() -> None:
    with pytest.raises(UsageError, match="No program is named 'vanila'"):
        read(run_job(Job('program = "vanila"', ".", "n", {})))


def test_what_is_no_error_of_ragc_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(job: Job) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(worker, "_open", broken)
    with pytest.raises(ZeroDivisionError):
        run_job(Job("", ".", "n", {}))


def test_a_worker_of_another_version_says_so() -> None:
    with pytest.raises(UsageError, match=r"study was begun with 0\.0\.0; install the same version"):
        read(run_job(Job(RECIPE, ".", "n", {}, version="0.0.0")))


def test_a_worker_that_knows_no_address_names_the_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(RECIPE, str(folder), "n", {})
    with pytest.raises(UsageError, match="set RAGC_STORAGE in its environment"):
        read(run_job(job))
    monkeypatch.setenv("RAGC_STORAGE", "postgresql+psycopg://h/d")
    with pytest.raises(UsageError, match="set RAGC_STORE in its environment"):
        read(run_job(job))


def test_other_questions_on_a_worker_are_noticed(folder: Path) -> None:
    recipe = recipes.load(folder / "recipe.toml")
    mine = prepare(recipe, store=CallStore(None)).facts
    assert facts_differ(mine, json.loads(json.dumps(mine))) == ""
    lines = (folder / "questions.jsonl").read_text().splitlines()
    (folder / "questions.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    assert facts_differ(mine, prepare(recipe, store=CallStore(None)).facts) == "data"


def test_a_study_without_workers_runs_here(folder: Path) -> None:
    task = prepare(recipes.load(folder / "recipe.toml"), store=CallStore(None))

    async def runner() -> object:
        async with on_workers(task, folder / "study", Silent()) as workers:
            return workers

    assert asyncio.run(runner()) is None


def test_without_ray_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    task = prepare(recipes.load(folder / "recipe.toml", ('study.workers="ray"',)), store=CallStore(None))

    async def begin() -> None:
        async with on_workers(task, folder / "study", Silent()):
            raise AssertionError("there is no Ray")

    with pytest.raises(UsageError, match=r"pip install 'ragc\[ray,postgres,redis\]'"):
        asyncio.run(begin())


def test_a_worker_without_ray_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragc.optimizers.distributed.worker.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'ragc\[ray,postgres,redis\]'"):
        join("host:6379")
