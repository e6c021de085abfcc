"""A compile that starts from a prompt which a team has, and exports it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled.base import load
from ragc.errors import UsageError
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import RECIPE, Run, colour_of, needs_demos


def hand_written(folder: Path) -> None:
    (folder / "mine.txt").write_text("Name the colour of the thing, in one word.", "utf-8")
    (folder / "recipe.toml").write_text(RECIPE + '[prompts]\nanswer = "mine.txt"\n', "utf-8")


def follows(request: ChatRequest) -> dict[str, Any]:
    return {"answer": colour_of(request) if "Name the colour" in request.messages[0].content else "a colour"}


def test_the_search_begins_with_the_prompt_of_the_recipe(run: Run, folder: Path) -> None:
    hand_written(folder)
    run(sets=("search.demos=0", "search.trials=2"), target=ScriptedTarget(follows))
    compiled = load(folder / "out")
    assert compiled.state.predictors["answer"].instructions.startswith("Name the colour of the thing")
    assert compiled.provenance["dev"]["baseline"]["em"]["mean"] == 1
    assert set(compiled.provenance["prompts"]) == {"answer"}


def test_a_prompt_for_another_predictor_is_refused_before_anything_is_sent(run: Run, folder: Path) -> None:
    hand_written(folder)
    text = (folder / "recipe.toml").read_text("utf-8")
    (folder / "recipe.toml").write_text(text.replace("answer = ", "judge = "), "utf-8")
    with pytest.raises(UsageError, match="predictor of 'vanilla'"):
        run(target=ScriptedTarget([]))


def edited_export(folder: Path, run: Run, change: Callable[[dict[str, Any]], object]) -> None:
    """A recipe whose prompt is an export of a compile, after `change` of its document."""
    run(target=ScriptedTarget(needs_demos))
    path = folder / "mine.openai.json"
    ragc.export(folder / "out", "openai-json", path)
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(json.dumps(document), "utf-8")
    (folder / "edited.toml").write_text(RECIPE + '[prompts]\nanswer = "mine.openai.json"\n', "utf-8")


def test_a_prompt_whose_messages_were_edited_is_refused(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited_export(folder, run, lambda document: document["request"]["messages"][0].update(content="Say."))
    recipe = str(folder / "edited.toml")
    assert main(["compile", recipe, "--dry-run"]) == 2
    assert "edit the instructions, fields and demonstrations in 'source'" in capsys.readouterr().err
    with pytest.raises(UsageError, match="edited beside its 'source'"):
        ragc.compile(recipe, dry_run=True)


def test_an_edited_source_is_what_a_compile_sends(run: Run, folder: Path) -> None:
    edited_export(folder, run, lambda document: document["source"]["fields"].update(answer="in capitals"))
    target = ScriptedTarget(needs_demos)
    run(sets=("search.demos=0", "search.trials=2", 'prompts.answer="mine.openai.json"'), target=target)
    assert all('"answer": in capitals' in r.messages[0].content for r in target.requests)
    assert load(folder / "out").state.predictors["answer"].descriptions["answer"] == "in capitals"


def test_an_export_that_the_recipe_lays_out_otherwise_is_refused_unless_it_is_told_to(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = RECIPE.replace('"query_pos"', '"temperature"')
    (folder / "recipe.toml").write_text(fixed, "utf-8")
    run(sets=("search.trials=1",), target=ScriptedTarget(needs_demos))
    path = folder / "mine.openai.json"
    ragc.export(folder / "out", "openai-json", path)
    (folder / "again.toml").write_text(fixed + '[prompts]\nanswer = "mine.openai.json"\n', "utf-8")
    again = ["compile", str(folder / "again.toml"), "--dry-run", "--set"]
    assert main([*again, 'knobs.query_pos="before"']) == 0, "as it was exported"
    assert main([*again, 'knobs.query_pos="both"']) == 2
    assert "lay its messages out otherwise than those of this recipe" in capsys.readouterr().err
    searched = ['search.knobs=["query_pos"]', "--set", "search.trials=3"]
    assert main([*again, *searched]) == 0, "a search lays it out in many ways"
    sets = ('search.knobs=["own_knowledge", "top_k"]', "search.trials=3", 'prompts.answer="mine.openai.json"')
    run("other", sets=sets, target=ScriptedTarget(needs_demos))
    document = json.loads(path.read_text("utf-8"))
    del document["source"]["laid_out"]
    path.write_text(json.dumps(document), "utf-8")
    assert main([*again, 'knobs.query_pos="both"']) == 0
