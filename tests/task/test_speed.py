"""What was measured counts in the next dry run: in tokens, at the price of then and not of before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc.cli import plan as plan_view
from ragc.optimizers.plan.estimate import estimate
from tests.optimizers.colours import written
from tests.optimizers.priced import PRICE, compiled, priced_recipe

LIMIT = "budget.usd=0.001"


@pytest.fixture
def folder(home: Path) -> Path:
    return written(home)


def dry_run(folder: Path, *sets: str) -> tuple[dict[str, Any], str]:
    plan = estimate(priced_recipe(folder, *sets))
    return plan, "\n".join(plan_view.lines(plan))


def test_a_study_measured_without_a_price_is_priced_when_it_has_one(folder: Path) -> None:
    compiled(folder)
    plan, shown = dry_run(folder, PRICE, LIMIT)
    assert plan["measured"]
    assert plan["tokens_about"] / 1e6 < plan["usd_about"] < 2 * plan["tokens_about"] / 1e6
    assert "cost: about $0.00," not in shown
    assert plan["budget_pays"]["cost"] == pytest.approx(plan["usd_about"], rel=0.01)
    dear, _ = dry_run(folder, "targets.main.options.price={input=10000, output=20000}", LIMIT)
    assert dear["usd_about"] == pytest.approx(10_000 * plan["usd_about"], rel=0.01)


def test_a_study_measured_at_a_price_costs_nothing_at_a_price_of_0(folder: Path) -> None:
    compiled(folder, PRICE)
    plan, shown = dry_run(folder, "targets.main.options.price={input=0, output=0}", LIMIT)
    assert (plan["measured"], plan["usd_about"], plan["budget_pays"]) == (True, 0, None)
    assert "no target charges" in shown
    assert "pays for" not in shown


def test_cached_tokens_have_their_own_price(folder: Path) -> None:
    compiled(folder)
    plain, _ = dry_run(folder, PRICE)
    cached, _ = dry_run(folder, "targets.main.options.price={input=1.0, cached_input=0.0, output=2.0}")
    only_replies, _ = dry_run(folder, "targets.main.options.price={input=0.0, output=2.0}")
    prompts = plain["usd_about"] - only_replies["usd_about"]
    assert plain["usd_about"] - cached["usd_about"] == pytest.approx(prompts / 4, rel=0.05)


def test_what_was_kept_in_another_form_is_as_never_measured(folder: Path) -> None:
    compiled(folder)
    path = folder / "home" / "speeds.json"
    path.write_text(path.read_text("utf-8").replace('"used"', '"usd"'), "utf-8")
    assert not dry_run(folder, PRICE)[0]["measured"]
