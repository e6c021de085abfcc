"""What a dry run estimates is near what is sent, whatever is searched."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.cli import plan as plan_view
from ragc.cli.main import main
from ragc.core.digest import digest
from ragc.errors import NothingAnswered, RecipeError, UsageError
from ragc.optimizers import compile as compiling
from ragc.optimizers.plan.estimate import estimate
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.optimizers.colours import RECIPE
from tests.support.colours import COLOURS, colour_passages, colour_questions
from tests.support.recipes import write_files

SMALL = RECIPE.replace("concurrency = 8", "concurrency = 16")


def small(folder: Path, train: int, dev: int, test: int) -> None:
    """Questions and passages on so many things, and the recipe."""
    n = train + dev + test
    passages = colour_passages(n, "Thing number{i} is {colour}.")
    write_files(folder, recipe=SMALL, questions=colour_questions(n, train, dev), corpus=passages)


def fickle(seed: int, rubbish: float) -> Callable[[ChatRequest], Reply | str]:
    """Replies that depend on the request alone: fits of any kind, right answers, and a share of rubbish."""

    def reply(request: ChatRequest) -> Reply | str:
        drawn = int(digest([seed, [list(m) for m in request.messages], request.sample])[:8], 16)
        if drawn % 100 < rubbish * 100:
            return ("[[[", "I cannot say", "{}", "")[drawn % 4]
        colour = COLOURS[drawn % 5]
        fields = {"answer": colour, "query": f"number{drawn % 9}", "action_input": f"number{drawn % 9}"}
        filling = SchemaReplies(
            last=bool(drawn & 256),
            full=bool(drawn & 512),
            text=f"thing {drawn % 7}",
            fields=fields,
            logprob=-3.0 if drawn & 1024 else -0.01,
        )
        return filling(request)

    return reply


def charged(
    folder: Path, sets: Sequence[str], reply: Callable[[ChatRequest], Any], *, schema: bool = True
) -> tuple[int, Any]:
    """The requests that a compile of the recipe in `folder` sent, all of which are charged, and its plan."""
    target = ScriptedTarget(reply, capabilities=("logprobs", "seed", *(("schema",) if schema else ())))
    recipe = recipes.load(folder / "recipe.toml", sets)
    plan = estimate(recipe)
    roles = dict.fromkeys(plan["targets"], target)
    with suppress(NothingAnswered):  # rubbish alone; what was sent is charged all the same
        compiling.compile(recipe, folder / "out", store=CallStore(folder / "store"), targets=roles)
    return len(target.requests), plan


SENDING: list[tuple[str, ...]] = [
    ("search.demos=0", 'search.programs=["rqrag"]', "search.trials=2"),
    ("search.demos=2", 'search.programs=["skr", "self_ask"]', "search.trials=4"),
    ('program="skr"', 'search.knobs=["skr_k", "top_k"]', "search.trials=5"),
    ('search.optimizer="random"', "search.trials=1"),
    ('search.optimizer="random"', "search.trials=4"),
    ('search.optimizer="random"', 'program="skr"', "search.trials=3"),
    ('metrics.report=["em", "judge_acc"]', 'targets.judge.kind="embedded"'),
    (
        'metrics.report=["crag_score"]',
        'targets.judge.kind="embedded"',
        'search.objectives=["crag_score"]',
    ),
    ('search.demo_kinds=["cross-domain", "filled"]', 'data.cross_domain="other.jsonl"'),
    ('search.targets={main=["main", "small"]}', 'targets.small.kind="embedded"', "search.instructions=1"),
    ("search.knobs=[]", "search.demos=0", "search.instructions=2", "search.trials=3"),
    ("search.knobs=[]", "search.instructions=2", "search.instruction_rounds=3", "search.trials=6"),
]
"""Each thing that sends requests: programs, optimizers, judges, demonstrations, targets, instructions."""


@pytest.mark.parametrize("sets", SENDING, ids=str)
def test_the_estimate_is_near_what_is_sent(tmp_path: Path, sets: tuple[str, ...]) -> None:
    small(tmp_path, train=4, dev=5, test=3)
    other = {
        "id": "o1",
        "question": "What is the colour of the sea?",
        "answers": ["blue"],
        "gold_ids": ["d1"],
    }
    (tmp_path / "other.jsonl").write_text(json.dumps(other) + "\n", "utf-8")
    sent, plan = charged(tmp_path, sets, fickle(1, 0.0))
    assert sent / 2 < plan["lm_calls_about"] < sent * 3, plan["phases"]


def test_what_is_unknown_is_said_with_the_reason(folder: Path) -> None:
    for name in ("mipro", "gepa"):
        sets = (f'search.optimizer="{name}"',)
        plan = estimate(recipes.load(folder / "recipe.toml", sets))
        assert (plan["lm_calls_about"], plan["tokens_about"]) == (None, None)
        assert "decides itself how much it asks; set budget.lm_calls" in "\n".join(plan_view.lines(plan))
    judged = (
        'metrics.report=["em", "alce_cite_f1"]',
        'metrics.entailment="judge"',
        'targets.judge.kind="embedded"',
    )
    plan = estimate(recipes.load(folder / "recipe.toml", judged))
    assert "sentences" in plan["unknown_because"][0]


def test_money_is_estimated_by_the_table_of_prices_or_said_to_be_unknown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "nobody's")

    def plan(model: str) -> dict[str, Any]:
        target = f'targets.main={{kind="hosted", model="{model}"}}'
        return estimate(recipes.load(folder / "recipe.toml", (target,)))

    known = plan("openai/gpt-4o-mini")
    assert known["tokens_about"] > 0
    assert known["usd_about"] > 0
    assert "cost: about $" in "\n".join(plan_view.lines(known))
    unknown = plan("openai/gpt-that-nobody-has")
    assert (unknown["usd_about"], unknown["unpriced"]) == (None, ["hosted openai/gpt-that-nobody-has"])
    assert "no price" in "\n".join(plan_view.lines(unknown))
    assert estimate(recipes.load(folder / "recipe.toml"))["usd_about"] == 0


def test_what_is_wrong_with_prompts_is_said_by_the_dry_run_with_the_name_of_each_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed = [
        {"role": "system", "content": "Name the colour. Reply as JSON with the answer."},
        {"role": "user", "content": "Asked: {{ query }}\n{% for p in passages %}{{ p }}\n{% endfor %}"},
    ]
    (folder / "renamed.json").write_text(json.dumps(renamed), "utf-8")

    def refused(table: str) -> str:
        (folder / "recipe.toml").write_text(f"{RECIPE}[prompts]\n{table}\n", "utf-8")
        assert main(["compile", str(folder / "recipe.toml"), "--dry-run"]) == 2
        return capsys.readouterr().err

    message = refused('answer = "renamed.json"')
    assert "renamed.json" in message
    assert "'source'" in message
    message = refused('judge = "renamed.json"\nanswer = "renamed.json"')
    assert "2 problems" in message
    assert "prompts.judge" in message
    with pytest.raises(RecipeError):
        compiling.compile(recipes.load(folder / "recipe.toml"), folder / "out", store=CallStore(None))


def test_an_estimate_is_that_of_average_settings_and_always_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ('program="rqrag"', 'search.knobs="all"', "search.demos=0")
    recipe = recipes.load(folder / "recipe.toml", sets)
    plan = estimate(recipe)
    assert plan == estimate(recipe)
    override = [text for one in sets for text in ("--set", one)]
    assert main(["compile", str(folder / "recipe.toml"), "--dry-run", *override]) == 0
    assert f"about {plan['lm_calls_about']:,} LM calls if replies can be read" in capsys.readouterr().out


@pytest.mark.parametrize("program", ["rqrag", "flare", "selfrag"])
def test_hosted_programs_that_need_log_probabilities_are_planned_before_anything_is_opened(
    program: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "nobody's")

    def planned(lacks: str) -> dict[str, Any]:
        options = f"options={{lacks={lacks}}}"
        target = f'targets.main={{kind="hosted", model="openai/gpt-4o-mini", {options}}}'
        sets = (f'program="{program}"', 'search.knobs="all"', target)
        return estimate(recipes.load(folder / "recipe.toml", sets))

    assert planned("[]")["lm_calls_about"] > 0
    if program != "selfrag":
        with pytest.raises(UsageError, match="log probabilities"):
            planned('["logprobs"]')
