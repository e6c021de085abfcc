"""A compile that starts from a prompt which a team has, and exports it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc import recipe as recipes
from ragc.cli.main import main
from ragc.compiled.base import load
from ragc.errors import UsageError
from ragc.optimizers import compile as compiling
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import RECIPE, Run, colour_of, needs_demos

HAND = [
    {
        "role": "system",
        "content": "Name the colour of the thing, in one word. Reply as JSON with the answer.",
    },
    {"role": "user", "content": "Question: {{ question }}\n{% for p in passages %}{{ p }}\n{% endfor %}"},
]


def hand_written(folder: Path) -> None:
    (folder / "mine.json").write_text(json.dumps(HAND), "utf-8")
    (folder / "recipe.toml").write_text(RECIPE + '[prompts]\nanswer = "mine.json"\n', "utf-8")


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


def test_what_was_compiled_is_exported_checked_and_listed(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(target=ScriptedTarget(needs_demos))
    out = str(folder / "out")
    assert main(["export", out, "--to", "all", "--out", str(folder / "prompts"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"jinja2", "openai-json", "python", "langchain"} <= report["written"].keys()
    assert "openai-batch" in report["refused"]
    assert main(["export", out, "--check", str(folder / "prompts")]) == 0
    assert main(["export", out, "--to", "jinja2", "--out", str(folder / "prompts")]) == 2
    assert "--force" in capsys.readouterr().err
    for name, format in (("kb.json", "openai-json"), ("kb.txt", "jinja2"), ("kb", "prompty")):
        ragc.export(out, format, folder / name)
        assert main(["export", out, "--check", str(folder / name)]) == 0
        assert format in capsys.readouterr().out
    changed = (folder / "kb.json").read_text("utf-8").replace("Answer the question", "Answer the query", 1)
    (folder / "kb.json").write_text(changed, "utf-8")
    assert main(["export", out, "--check", str(folder / "kb.json")]) == 2
    assert "Answer the query" in capsys.readouterr().err
    (folder / "kb.json").write_text('{"other": 1}', "utf-8")
    assert main(["export", out, "--check", str(folder / "kb.json")]) == 2
    assert "its content is that of none" in capsys.readouterr().err
    one = folder / "answer.openai.json"
    assert ragc.export(out, "openai-json", one).written == {"openai-json": one}
    one.write_text(one.read_text("utf-8").replace("Answer the question", "Answer the query", 1), "utf-8")
    assert main(["export", out, "--check", str(one)]) == 2
    assert "Answer the query" in capsys.readouterr().err
    assert main(["list", "exports", "--json"]) == 0
    assert {row["id"] for row in json.loads(capsys.readouterr().out)} == report["written"].keys() | report[
        "refused"
    ]
    assert main(["export", out, "--to", "yaml", "--out", str(folder / "x")]) == 2
    assert main(["export", out, "--to", "jinja2"]) == 2


def edited_export(folder: Path, run: Run, old: str, new: str) -> None:
    """A recipe whose prompt is an export of a compile, with `new` in the place of `old`."""
    run(target=ScriptedTarget(needs_demos))
    ragc.export(folder / "out", "openai-json", folder / "mine.openai.json")
    path = folder / "mine.openai.json"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    recipe = RECIPE + '[prompts]\nanswer = "mine.openai.json"\n'
    (folder / "edited.toml").write_text(recipe, "utf-8")


def test_a_prompt_that_would_lose_an_edit_is_refused_and_may_be_let_go(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edited_export(folder, run, "Reply with a JSON object:", "Reply in one line of JSON:")
    recipe = str(folder / "edited.toml")
    assert main(["compile", recipe, "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert "-Reply in one line of JSON:\n" in error
    assert "+Reply with a JSON object:\n" in error
    assert "--allow-loss" in error
    assert "allow_loss=True" in error
    assert main(["compile", recipe, "--dry-run", "--allow-loss"]) == 0
    assert "-Reply in one line of JSON:\n" in capsys.readouterr().err
    with pytest.raises(UsageError, match="Reply in one line of JSON"):
        ragc.compile(recipe, dry_run=True)
    with pytest.warns(UserWarning, match="Reply in one line of JSON"):
        ragc.compile(recipe, allow_loss=True, dry_run=True)
    resolved = recipes.load(recipe, ("search.demos=0", "search.trials=1"), allow_loss=True)
    with pytest.warns(UserWarning, match="Reply in one line of JSON"):
        compiling.compile(resolved, folder / "silent", targets={"main": ScriptedTarget(needs_demos)})


def test_an_edit_of_a_prompt_is_what_a_compile_sends(run: Run, folder: Path) -> None:
    edited_export(folder, run, '- \\"answer\\": ', '- \\"answer\\": in small letters, ')
    target = ScriptedTarget(needs_demos)
    run(sets=("search.demos=0", "search.trials=2", 'prompts.answer="mine.openai.json"'), target=target)
    assert all('"answer": in small letters, ' in r.messages[0].content for r in target.requests)
    saved = load(folder / "out").state.predictors["answer"].descriptions["answer"]
    assert saved.startswith("in small letters, ")
