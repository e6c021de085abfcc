"""A study of a model that thinks: its room is fixed, counted, said and exported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ragc
from ragc import recipe as recipes
from ragc.cli.main import main
from ragc.compiled import evaluate
from ragc.compiled.base import load
from ragc.compiled.opened import open_program
from ragc.errors import RagcError, UsageError
from ragc.exports.derive import derive_export
from ragc.exports.write import format_of, graph_json
from ragc.optimizers import compile as compiling
from ragc.optimizers.plan.estimate import estimate
from ragc.recipe import parse
from ragc.targets.reasoning import BY_EFFORT
from tests.support.rows import write_rows
from tests.support.server import MODEL, Answer, Asked, ScriptedServer, failing, fitting, serving

THOUGHT = 200
RECIPE = """
program = "no_retrieval"
[knobs]
layout = "json"
[search]
knobs = ["wording"]
trials = 2
objectives = ["em"]
[data]
questions = "questions.jsonl"
dev = 6
test = 3
[targets.main]
kind = "vllm"
model = "{model}"
base_url = "{url}"
options = {{ thinking_tokens = "auto" }}
"""


def thinking(request: Asked) -> Answer:
    """A model that thinks before it answers, and needs a limit that leaves it room."""
    if request.body["max_tokens"] <= THOUGHT:
        return failing(400, "no room to think")
    number = request.text.partition("item ")[2][:2]
    reply = json.loads(fitting(request, answer=f"a{number}").body)
    reply["usage"] |= {"completion_tokens": THOUGHT + 3}
    return Answer(json.dumps(reply).encode())


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with serving(thinking) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> Path:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    rows = [
        {"id": f"q{n}", "question": f"What is item {n:02}?", "answers": [f"a{n:02}"], "gold_ids": []}
        for n in range(9)
    ]
    write_rows(tmp_path / "questions.jsonl", rows)
    passage = {"id": "p", "title": "Items", "text": "Items have numbers."}
    write_rows(tmp_path / "corpus.jsonl", [passage])
    (tmp_path / "recipe.toml").write_text(RECIPE.format(url=server.url, model=MODEL))
    return tmp_path


def compiled(folder: Path, *sets: str, **how: Any) -> Any:
    return compiling.compile(recipes.load(folder / "recipe.toml", sets), folder / "out", **how)


def limits(server: ScriptedServer) -> set[int]:
    return {body["max_tokens"] for body in server.bodies}


def test_the_room_holds_on_resume_and_in_what_is_compiled(folder: Path, server: ScriptedServer) -> None:
    with pytest.raises(RagcError, match="budget"):
        compiled(folder, "budget.lm_calls=3")
    sent_before = len(server.prompts)
    (limit,) = limits(server)
    result = compiled(folder, resume=True)
    assert sent_before < len(server.prompts)
    assert limits(server) == {limit}
    assert result.test["em"].mean == 1
    facts = json.loads((folder / "out" / "provenance.json").read_text())["targets"]["main"]
    assert facts["thinking_tokens"] == BY_EFFORT["medium"]
    sent_before = len(server.prompts)
    evaluate.score(open_program(folder / "out"), include_seen=True)
    assert len(server.prompts) == sent_before
    evaluate.score(
        open_program(folder / "out", ("targets.main.options.thinking_tokens=900",)),
        include_seen=True,
    )
    assert len(limits(server)) == 2


def test_the_dry_run_says_the_room_and_counts_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def planned(*sets: str) -> dict[str, Any]:
        return estimate(recipes.load(folder / "recipe.toml", sets))

    price = "targets.main.options.price={input=1.0, output=10.0}"
    context = "targets.main.options.context_tokens=8192"
    plain, roomy = (
        planned(f"targets.main.options.thinking_tokens={tokens}", price, context) for tokens in (0, 2000)
    )
    assert "thoughts" not in plain["note"]
    assert plain["thinking_tokens"] == {}
    assert f"main (vllm {MODEL}) has 2,000 tokens for reasoning in every call." in roomy["note"]
    assert roomy["thinking_tokens"] == {"main": 2000}
    about = roomy["lm_calls_about"]
    assert roomy["usd_about"] - plain["usd_about"] == pytest.approx(about * 2000 * 10 / 1e6, rel=0.01)
    assert roomy["tokens_about"] - plain["tokens_about"] == about * 2000
    assert main(["compile", str(folder / "recipe.toml"), "--out", str(folder / "out"), "--dry-run"]) == 0
    assert f"has {BY_EFFORT['medium']:,} tokens for reasoning" in capsys.readouterr().out


def test_exports_have_the_room_in_their_limit_and_no_thoughts(folder: Path, server: ScriptedServer) -> None:
    compiled(folder)
    program = derive_export(load(folder / "out"))
    (prompt,) = program.prompts
    (limit,) = limits(server)
    assert prompt.parameters["max_tokens"] == limit
    ragc.export(folder / "out", "openai-json", folder / "export")
    text = (folder / "export").read_text()
    assert json.loads(text)["request"]["max_tokens"] == limit
    assert "reasoning" not in text
    graph = graph_json(format_of("openai-json"), program)
    assert graph["prompts"][prompt.name]["thinking_tokens"] == BY_EFFORT["medium"]


def test_effort_is_set_from_the_command_line(folder: Path) -> None:
    sets = (
        "targets.main.options.reasoning_effort=high",
        "targets.main.options.chat_template_kwargs.deep=true",
    )
    spec = recipes.load(folder / "recipe.toml", sets).targets["main"]
    assert spec.options["reasoning_effort"] == "high"
    assert spec.options["chat_template_kwargs"] == {"deep": True}
    with pytest.raises(UsageError, match=r"reasoning_effort.*hgh"):
        recipes.load(folder / "recipe.toml", ("targets.main.options.reasoning_effort=hgh",))
    with pytest.raises(UsageError, match=r'thinking_tokens must be a whole number of at least 0, or "auto"'):
        recipes.load(folder / "recipe.toml", ("targets.main.options.thinking_tokens=-5",))


def test_efforts_of_a_role_become_targets_that_may_play_it(folder: Path, server: ScriptedServer) -> None:
    sets = ('search.efforts.main=["low", "high"]', "search.knobs=[]", "search.trials=3")
    low = (*sets, 'targets.main.options={ reasoning_effort = "low" }')
    recipe = recipes.load(folder / "recipe.toml", low)
    assert recipe.search.targets == {"main": ("main", "main-high")}
    assert parse(recipe.to_toml(), base=folder) == recipe
    compiled(folder, *low)
    efforts = {body["reasoning_effort"]: body["max_tokens"] for body in server.bodies}
    assert efforts.keys() == {"low", "high"}
    assert efforts["high"] - efforts["low"] == BY_EFFORT["high"] - BY_EFFORT["low"]
    assert estimate(recipe)["thinking_tokens"] == {
        "main": BY_EFFORT["low"],
        "main-high": BY_EFFORT["high"],
    }
    for wrong, sentence in (
        ('search.efforts.main=["hgh"]', r"hgh.*high"),
        (
            'search.efforts.proxy=["high"]',
            r"search.efforts.proxy names \[targets.proxy\], and there is no other",
        ),
    ):
        with pytest.raises(UsageError, match=sentence):
            recipes.load(folder / "recipe.toml", (wrong,))
