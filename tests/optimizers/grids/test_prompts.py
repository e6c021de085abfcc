"""A grid with prompts of one's own: each setting sends what their files say, or the grid is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc import recipe as recipes
from ragc.cli.main import main
from ragc.compiled import contamination
from ragc.errors import UsageError
from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.optimizers.grids import record as recording
from ragc.programs import method
from ragc.store.call_store import CallStore
from ragc.testing import ScriptedTarget
from tests.exports.common import build_program
from tests.optimizers.colours import needs_demos
from tests.optimizers.grids.common import RECIPE, Record

REPLY = "Reply with a JSON object:"
LOST = "Reply in one line of JSON:"
DEMO = {"question": "What colour is thing number0?", "passages": ["Thing 0: It is red."], "answer": "red"}

Name = Callable[..., Path]


@pytest.fixture
def name(folder: Path) -> Name:
    """Writes a prompt with `new` in the place of `old`, and a recipe that names it; returns the recipe."""

    def write(old: str, new: str, *, demos: int = 0, knobs: str = "") -> Path:
        program = build_program(method("vanilla"), icl_n=demos)
        for call in program.predictors():
            call.demos = [dict(DEMO) for _ in range(demos)]
        ((_, content),) = format_of("openai-json").files(derive_export(program)).items()
        text = content.decode()
        assert old in text
        (folder / "mine.openai.json").write_text(text.replace(old, new, 1), "utf-8")
        recipe = folder / "recipe.toml"
        recipe.write_text(f'{RECIPE}[prompts]\nanswer = "mine.openai.json"\n{knobs}', "utf-8")
        return recipe

    return write


def test_a_grid_whose_prompt_would_lose_an_edit_is_refused_before_anything_is_sent(
    record: Record, name: Name, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name(REPLY, LOST)
    used: list[str] = []
    monkeypatch.setattr(contamination, "record", lambda task, use: used.append(use))
    target = ScriptedTarget(needs_demos)
    with pytest.raises(UsageError, match=rf"-{LOST}\n.*\+{REPLY}"):
        record(target=target)
    assert not target.requests
    assert not used, "questions that answered nothing are not used"
    assert not (folder / "grid").exists()


def test_the_dry_run_of_a_grid_refuses_it_too_and_a_loss_may_be_allowed(
    name: Name, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, out = str(name(REPLY, LOST)), str(folder / "grid")
    command = ["grid", recipe, "--out", out, "--dry-run"]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert f"-{LOST}\n" in error
    assert "--allow-loss" in error
    assert main([*command, "--allow-loss"]) == 0
    assert capsys.readouterr().err.count(f"-{LOST}\n") == 1
    with pytest.raises(UsageError, match=LOST):
        ragc.grid(recipe, out=out, dry_run=True)
    with pytest.warns(UserWarning, match=LOST):
        ragc.grid(recipe, out=out, allow_loss=True, dry_run=True)
    with pytest.raises(UsageError, match=LOST):
        ragc.grid(recipe, out=out)


def test_an_edit_that_can_be_sent_is_sent_in_every_setting(record: Record, name: Name) -> None:
    name('- \\"answer\\": ', '- \\"answer\\": in small letters, ')
    target = ScriptedTarget(needs_demos)
    record(target=target)
    assert target.requests
    assert all('"answer": in small letters, ' in one.messages[0].content for one in target.requests)


def test_a_prompt_that_does_not_fit_one_setting_is_refused_before_anything_is_sent(
    record: Record, name: Name
) -> None:
    path = name(REPLY, REPLY, demos=2, knobs="[knobs]\nicl_n = 2\n")
    text = path.read_text("utf-8")
    path.write_text(text.replace("settings = [{ top_k = 1 },", "settings = [{ icl_n = 1 },"), "utf-8")
    target = ScriptedTarget(needs_demos)
    with pytest.raises(UsageError, match="it has 2 demonstrations and the program shows 1"):
        record(target=target)
    assert not target.requests


def test_a_grid_that_may_lose_an_edit_says_so_once_and_is_recorded(name: Name, folder: Path) -> None:
    resolved = recipes.load(name(REPLY, LOST), allow_loss=True)
    target: Any = ScriptedTarget(needs_demos)
    with pytest.warns(UserWarning, match="taken with losses") as warned:
        grid = recording.record(
            resolved, folder / "grid", store=CallStore(folder / "store"), targets={"main": target}
        )
    assert len(warned) == 1
    assert grid.complete
    assert json.loads((folder / "grid" / "provenance.json").read_bytes())["identity"]["prompts"]
