"""A grid with prompts of one's own: each setting sends what their files say, or the grid is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragc.compiled import contamination
from ragc.errors import UsageError
from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import method
from ragc.testing import ScriptedTarget
from tests.exports.common import build_program
from tests.optimizers.colours import needs_demos
from tests.optimizers.grids.common import RECIPE, Record

DEMO = {"question": "What colour is thing number0?", "passages": ["Thing 0: It is red."], "answer": "red"}

Name = Callable[..., Path]


@pytest.fixture
def name(folder: Path) -> Name:
    """Writes a prompt after `change` of its document, and a recipe that names it; returns the recipe."""

    def write(change: Callable[[Any], object] = len, *, demos: int = 0, knobs: str = "") -> Path:
        program = build_program(method("vanilla"), icl_n=demos)
        for call in program.predictors():
            call.demos = [dict(DEMO) for _ in range(demos)]
        ((_, content),) = format_of("openai-json").files(derive_export(program)).items()
        document = json.loads(content)
        change(document)
        (folder / "mine.openai.json").write_text(json.dumps(document), "utf-8")
        recipe = folder / "recipe.toml"
        recipe.write_text(f'{RECIPE}[prompts]\nanswer = "mine.openai.json"\n{knobs}', "utf-8")
        return recipe

    return write


def edit_messages(document: Any) -> None:
    document["request"]["messages"][0]["content"] = "Say."


def test_a_grid_whose_prompt_has_edited_messages_is_refused_before_anything_is_sent(
    record: Record, name: Name, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name(edit_messages)
    used: list[str] = []
    monkeypatch.setattr(contamination, "record", lambda task, use: used.append(use))
    target = ScriptedTarget(needs_demos)
    with pytest.raises(UsageError, match="edited beside its 'source'"):
        record(target=target)
    assert not target.requests
    assert not used, "questions that answered nothing are not used"
    assert not (folder / "grid").exists()


def test_an_edited_source_is_sent_in_every_setting(record: Record, name: Name) -> None:
    name(lambda document: document["source"]["fields"].update(answer="in capitals"))
    target = ScriptedTarget(needs_demos)
    record(target=target)
    assert target.requests
    assert all('"answer": in capitals' in one.messages[0].content for one in target.requests)


def test_a_prompt_that_does_not_fit_one_setting_is_refused_before_anything_is_sent(
    record: Record, name: Name
) -> None:
    path = name(demos=2, knobs="[knobs]\nicl_n = 2\n")
    text = path.read_text("utf-8")
    path.write_text(text.replace("settings = [{ top_k = 1 },", "settings = [{ icl_n = 1 },"), "utf-8")
    target = ScriptedTarget(needs_demos)
    with pytest.raises(UsageError, match="It has 2 demonstrations and the program shows 1"):
        record(target=target)
    assert not target.requests
