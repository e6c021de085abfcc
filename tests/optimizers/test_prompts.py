"""A compile that starts from a prompt which a team has, and exports it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc.cli.main import main
from ragc.errors import UsageError
from ragc.optimizers.results.compiled import load
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
