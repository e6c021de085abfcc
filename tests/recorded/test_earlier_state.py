"""What an earlier version of ragc left on a machine is resumed and opened, and nothing is sent again.

The files in `earlier/` were written by `write.py` with the version before the code moved to `task/` and
`compiled/`: a call store, a study that was cut off, one that ended, its compiled program, and the record that
trusts it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import ragc
from ragc import recipe as recipes
from ragc.compiled.access import Access
from ragc.compiled.opened import ask, open_program
from ragc.errors import Untrusted
from ragc.optimizers import compile as compiling
from ragc.optimizers.search.storage import study_directory
from ragc.store.call_store import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import needs_demos
from tests.recorded.write import RECORDED, write_recipe

REQUESTS = json.loads((RECORDED / "requests.json").read_text("utf-8"))
RENAMED = {"half": "half-09c0eec84b29", "whole": "whole-908c6371e080"}
"""The folders of the studies, named for where their programs were to be written."""


def without_versions(folder: Path) -> dict[str, object]:
    """A compiled program as text by file, its provenance without the versions of what compiled it."""
    names = [
        "program.json",
        "recipe.toml",
        *(f"prompts/{path.name}" for path in (folder / "prompts").iterdir()),
    ]
    texts: dict[str, object] = {name: (folder / name).read_text("utf-8") for name in names}
    provenance: dict[str, object] = json.loads((folder / "provenance.json").read_text("utf-8"))
    del provenance["versions"]
    return texts | provenance


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data and recipe, and the recorded files of a user, whose programs are now in it."""
    home = tmp_path / "home"
    shutil.copytree(RECORDED / "home", home, symlinks=True)
    monkeypatch.setenv("RAGC_HOME", str(home))
    for path in (home, *home.rglob("*")):  # a checkout forgets who may write
        path.chmod(0o700 if path.is_dir() else 0o600)
    for name, recorded in RENAMED.items():
        (home / "studies" / recorded).rename(study_directory(tmp_path / name))
    shutil.copytree(RECORDED / "whole", tmp_path / "whole")
    write_recipe(tmp_path)
    return tmp_path


@pytest.fixture
def resume(machine: Path) -> Callable[[str, str], int]:
    """Resumes a study on a store; returns how many requests it sent."""

    def go(name: str, store: str) -> int:
        target = ScriptedTarget(needs_demos)
        shutil.copytree(RECORDED / store, machine / store)
        recipe = recipes.load(machine / "recipe.toml")
        calls = CallStore(machine / store)
        compiling.compile(recipe, machine / name, store=calls, targets={"main": target}, resume=True)
        return len(target.requests)

    return go


def test_a_study_that_was_cut_off_sends_the_rest_and_ends_as_it_would_have(
    machine: Path, resume: Callable[[str, str], int]
) -> None:
    assert resume("half", "store_half") == REQUESTS["after it"]
    assert without_versions(machine / "half") == without_versions(RECORDED / "whole")


@pytest.mark.parametrize("name", RENAMED)
def test_nothing_is_sent_where_the_store_has_all_replies(
    name: str, machine: Path, resume: Callable[[str, str], int]
) -> None:
    assert resume(name, "store_whole") == 0
    assert without_versions(machine / name) == without_versions(RECORDED / "whole")


def test_a_compiled_program_answers_from_the_store(machine: Path) -> None:
    shutil.copytree(RECORDED / "store_whole", machine / "store")
    target = ScriptedTarget([])
    program = open_program(
        machine / "whole",
        store=CallStore(machine / "store"),
        targets={"main": target},
        access=Access(base=machine),
    )
    test = program.task.test[0]
    assert ask(program, test.question).prediction in test.answers
    assert target.requests == []
    program.close()


def test_a_compiled_program_is_trusted_by_the_record_alone(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ragc.load(machine / "whole").close()
    monkeypatch.setenv("RAGC_HOME", str(machine / "another user"))
    with pytest.raises(Untrusted, match="base_url"):
        ragc.load(machine / "whole")


def test_the_folder_of_a_study_has_the_name_it_had() -> None:
    for name, recorded in RENAMED.items():
        assert study_directory(Path("/tmp/ragc-recorded") / name).name == recorded
