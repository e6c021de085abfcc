"""`[study] keep = false`: of questions, prompts and replies nothing is left on disk."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from ragc import doctor
from ragc import recipe as recipes
from ragc.compiled.base import load
from ragc.errors import UsageError
from ragc.optimizers import compile as compiling
from ragc.optimizers.integrations.optuna_objective import study
from ragc.optimizers.search.storage import study_directory
from ragc.store.call_store import CallStore
from ragc.targets.embedded.target import EmbeddedTarget
from ragc.task.base import prepare
from ragc.testing import ScriptedTarget
from tests import processes
from tests.examples import thorough
from tests.optimizers.colours import RECIPE, Run, begun, needs_demos, written
from tests.processes import environment_of
from tests.support.server import MODEL, ScriptedServer, serving, word_of_prompt

NOT_KEPT = ("study.keep=false",)
SERVED = f"""
[targets.main]
kind = "vllm"
model = "{MODEL}"
base_url = "%s"
"""


@pytest.fixture
def folder(home: Path) -> Path:
    return written(home)


@pytest.fixture
def run(folder: Path) -> Run:
    return begun(folder)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with serving(word_of_prompt) as endpoint:
        yield endpoint


def holding(folder: Path, text: bytes) -> list[Path]:
    """The files anywhere in `folder` that hold `text`."""
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def compiled_here(folder: Path, name: str, *sets: str) -> compiling.Compiled:
    """The recipe of `folder` compiled with the store that its `[study]` table asks for."""
    recipe = recipes.load(folder / "recipe.toml", sets)
    return compiling.compile(recipe, folder / name, targets={"main": ScriptedTarget(needs_demos)})


def test_what_is_not_kept_is_compiled_alike(folder: Path) -> None:
    with_store = compiled_here(folder, "kept")
    left = {path.name for path in (folder / "home").iterdir()}
    assert {"store", "studies"} <= left
    assert holding(folder / "home", b"I think it may be")
    shutil.rmtree(folder / "home")
    gone = compiled_here(folder, "gone", *NOT_KEPT)
    assert not holding(folder / "home", b"I think it may be")
    assert {path.name for path in (folder / "home").iterdir()} <= {"studies", "trusted", "uses"}
    assert gone.program.state == with_store.program.state
    assert gone.test == with_store.test
    assert gone.counters["sent"] == with_store.counters["sent"]
    assert not study_directory(folder / "gone").exists()
    assert "keep = false" in load(folder / "gone").recipe
    assert "keep" not in load(folder / "kept").recipe


def test_the_budget_holds_and_equal_requests_are_sent_once(folder: Path) -> None:
    target = ScriptedTarget(needs_demos)
    recipe = recipes.load(folder / "recipe.toml", (*NOT_KEPT, "budget.lm_calls=60"))
    result = compiling.compile(recipe, folder / "out", targets={"main": target})
    assert result.counters["sent"] == len(target.requests) <= 60
    assert result.counters["replayed"] > 0


def test_an_error_of_the_run_leaves_nothing_either(folder: Path) -> None:
    from ragc.errors import TargetError

    def fails(request: object) -> dict[str, str]:
        raise TargetError("the model went away")

    recipe = recipes.load(folder / "recipe.toml", NOT_KEPT)
    with pytest.raises(TargetError):
        compiling.compile(recipe, folder / "out", targets={"main": ScriptedTarget(fails)})
    assert not study_directory(folder / "out").exists()


def test_there_is_nothing_to_resume(run: Run, folder: Path) -> None:
    with pytest.raises(UsageError, match=r"--resume goes on with .* study\.keep = false"):
        run(resume=True, sets=NOT_KEPT)


def test_an_optuna_study_on_disk_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"study\.keep = false"):
        study(recipes.load(folder / "recipe.toml", NOT_KEPT))


def test_the_key_survives_being_written() -> None:
    recipe = recipes.parse(f"{RECIPE}[study]\nkeep = false\n", files=False)
    assert recipes.parse(recipe.to_toml(), files=False) == recipe


@thorough
def test_the_command_line_leaves_no_question_prompt_or_reply(folder: Path, server: ScriptedServer) -> None:
    served(folder, server)
    home = folder / "home"
    for args in (
        ("compile", "recipe.toml", "--out", "out", "--set", "study.keep=false"),
        ("ask", "out", "What colour is thing number99?"),
        ("eval", "out", "--split", "dev"),
        ("ask", "recipe.toml", "What colour is thing number99?", "--set", "study.keep=false"),
    ):
        done = processes.run(command(*args), cwd=folder, environment=environment_of(folder))
        assert done.returncode == 0, done.stderr
        assert holding(home, b"What colour") == []
        assert not (home / "store").exists()
    assert [path.name for path in (home / "studies").iterdir() if path.is_dir()] == []


def test_an_interrupt_leaves_nothing(folder: Path, server: ScriptedServer) -> None:
    served(folder, server)
    args = ("compile", "recipe.toml", "--out", "out", "--set", "study.keep=false")
    job = processes.start(command(*args), cwd=folder, environment=environment_of(folder))
    while len(server.requests) < 40 and job.poll() is None:
        time.sleep(0.01)
    job.send_signal(signal.SIGINT)
    _, error = job.communicate(timeout=60)
    assert job.returncode == 130
    assert error.splitlines()[-1] == "ragc: Interrupted; nothing is kept, as study.keep = false says."
    assert [path for path in (folder / "home" / "studies").iterdir() if path.is_dir()] == []
    assert holding(folder / "home", b"What colour") == []


def served(folder: Path, server: ScriptedServer) -> None:
    """Let the recipe of `folder` ask `server`."""
    text = RECIPE.partition("[targets.main]")[0] + SERVED % server.url
    (folder / "recipe.toml").write_text(text, "utf-8")


def command(*args: str) -> list[str]:
    return ["-m", "ragc", *args]


def test_doctor_says_where_it_is_and_how_large(folder: Path) -> None:
    def describe_home() -> str:
        return next(check.found for check in doctor.examine_machine() if check.id == "kept")

    home = folder / "home"
    assert describe_home().startswith(f"{home}: ")
    (home / "studies" / "s-1").mkdir(parents=True)
    (home / "studies" / "s-1" / "study.log").write_bytes(b"x" * 3 * 2**20)
    assert "studies 3.0 MiB" in describe_home()


@pytest.mark.parametrize("sets", [(), NOT_KEPT])
def test_the_state_of_a_prompt_is_kept_only_with_the_rest(folder: Path, sets: tuple[str, ...]) -> None:
    recipe = recipes.load(folder / "recipe.toml", (*sets, "targets.main.kind=embedded"))
    task = prepare(recipe, store=CallStore(None), questions=False, answering=False)
    assert cast(EmbeddedTarget, task.runtime.target("main"))._keep_prefixes is (sets == ())
