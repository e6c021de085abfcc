"""Prices and budgets of recipes: what is refused, what is remarked, and what share of a study is paid for."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc import recipe as recipes
from ragc.cli import plan as plan_view
from ragc.errors import UsageError
from ragc.optimizers.plan.estimate import estimate
from ragc.store.calls import CallStore
from ragc.task.base import prepare
from ragc.testing import ScriptedTarget
from tests.optimizers.plan.test_estimate import small

MAIN = (
    'targets.main.kind="hosted"',
    'targets.main.base_url="http://127.0.0.1:9/v1"',
    "search.demos=0",
)
PRICE = "targets.main.options.price={input=0.15, output=0.6}"


def recipe(folder: Path, *sets: str, model: str = "openai/our-own-model") -> recipes.Recipe:
    small(folder, 6, 20, 10)
    return recipes.load(folder / "recipe.toml", (*MAIN, f'targets.main.model="{model}"', *sets))


def test_a_budget_in_dollars_needs_every_price(tmp_path: Path) -> None:
    unknown = r"budget\.usd .*main \(hosted openai/our-own-model\) is not known; set targets\.main\.options"
    with pytest.raises(UsageError, match=unknown):
        prepare(recipe(tmp_path, "budget.usd=5"), store=CallStore(None))
    prepare(recipe(tmp_path, "budget.usd=5", PRICE), store=CallStore(None))
    prepare(recipe(tmp_path, "budget.lm_calls=5"), store=CallStore(None))


@pytest.mark.parametrize(
    "other",
    [
        (
            'targets.judge.kind="hosted"',
            'targets.judge.model="openai/theirs"',
            'metrics.report=["em", "judge_acc"]',
        ),
        (
            'targets.spare.kind="hosted"',
            'targets.spare.model="openai/theirs"',
            'targets.main.options.fallbacks=["spare"]',
        ),
    ],
)
def test_a_judge_and_a_fallback_need_one_too(other: tuple[str, ...], tmp_path: Path) -> None:
    where = f'targets.{other[0].split(".")[1]}.base_url="http://127.0.0.1:9/v1"'
    name = other[0].split(".")[1]
    with pytest.raises(UsageError, match=rf"the price of {name} \(hosted openai/theirs\) is not known"):
        prepare(recipe(tmp_path, "budget.usd=5", PRICE, *other, where), store=CallStore(None))


def test_a_target_that_is_not_asked_needs_none(tmp_path: Path) -> None:
    unused = ('targets.proxy.kind="hosted"', 'targets.proxy.model="openai/theirs"')
    prepare(
        recipe(tmp_path, "budget.usd=5", PRICE, *unused, 'targets.proxy.base_url="http://127.0.0.1:9/v1"'),
        store=CallStore(None),
    )


def test_a_target_of_ones_own_says_how_it_is_priced(tmp_path: Path) -> None:
    target = ScriptedTarget([])
    with pytest.raises(
        UsageError, match=r"price of main \(scripted\) is not known; .*give a target of your own an attribute"
    ):
        prepare(recipe(tmp_path, "budget.usd=5"), store=CallStore(None), targets={"main": target})
    target.price = {"input": 0, "output": 0}  # type: ignore[attr-defined]
    prepare(recipe(tmp_path, "budget.usd=5"), store=CallStore(None), targets={"main": target})


def test_the_dry_run_says_what_the_budget_pays_for(tmp_path: Path) -> None:
    whole = estimate(recipe(tmp_path, PRICE))
    assert whole["budget_pays"] is None
    context = "targets.main.options.context_tokens=4096"
    known = estimate(recipe(tmp_path, PRICE, context, "budget.usd=100"))["budget_pays"]
    limit = known["cost"] / 2 + known["spare"]
    half = estimate(recipe(tmp_path, PRICE, context, f"budget.usd={limit}"))
    assert half["budget_pays"]["share"] == pytest.approx(0.5, abs=0.02)
    assert half["budget_pays"]["cost"] == pytest.approx(whole["usd_about"], rel=0.01)
    assert half["budget_pays"]["trials"] < half["trials"]
    shown = "\n".join(plan_view.lines(half))
    assert "the budget pays for about 50% of this study" in shown
    assert "by the price of hosted openai/our-own-model in the recipe, else LiteLLM's" in shown
    much = estimate(recipe(tmp_path, PRICE, "budget.usd=100"))
    assert "the budget pays for the whole study" in "\n".join(plan_view.lines(much))
