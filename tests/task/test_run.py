"""A measured run: its state and ledger, what it counts, and that the next dry run knows what it took."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.cli import plan as plan_view
from ragc.core import event_loop
from ragc.core.counters import current
from ragc.errors import UsageError
from ragc.optimizers.plan.estimate import estimate
from ragc.recipe import Recipe
from ragc.store.call_store import CallStore
from ragc.targets.base import Target
from ragc.task.budget import FileLedger
from ragc.task.run import MeasuredRun, Measurement, open_run, open_state, seconds_per_request, state_folder
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import needs_demos, written
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


def answering(folder: Path) -> Recipe:
    return recipes.load(folder / "recipe.toml")


def opened(folder: Path, target: Target) -> AbstractContextManager[MeasuredRun]:
    recipe = answering(folder)
    ledger = FileLedger(None, recipe.budget)
    return open_run(recipe, ledger, store=CallStore(None), targets={"main": target})


async def answered(run: MeasuredRun) -> Measurement:
    program = run.task.method.build(run.task.runtime, run.task.recipe.fixed(run.task.method))
    await run.open()
    async with run.measuring() as measured:
        await run.answer(program, run.task.dev)
    return measured


def test_a_run_counts_what_it_sends_and_records_its_speed(folder: Path) -> None:
    (folder / "home").mkdir()
    target = ScriptedTarget(needs_demos)
    with opened(folder, target) as run:
        assert seconds_per_request(run.task) is None
        measured = event_loop.run(answered(run))
        sent = len(target.requests)
        assert measured.brief() == {
            "sent": sent,
            "replayed": 0,
            "tokens": measured.spent.tokens,
            "usd": 0.0,
            "seconds": measured.seconds,
        }
        assert (sent >= len(run.task.dev), measured.spent.tokens > 0, measured.cached) == (True, True, {})
        assert seconds_per_request(run.task) == pytest.approx(measured.seconds / sent, abs=1e-3)


def test_the_speed_of_a_target_alone_stands_in_beside_other_roles(folder: Path) -> None:
    (folder / "home").mkdir()
    target, judge = ScriptedTarget(needs_demos), ScriptedTarget(needs_demos, identity="judge")
    recipe = answering(folder)
    with opened(folder, target) as run:
        event_loop.run(answered(run))
        alone = seconds_per_request(run.task)
    both = open_run(
        recipe,
        FileLedger(None, recipe.budget),
        store=CallStore(None),
        targets={"main": target, "judge": judge},
    )
    with both as run:
        assert alone is not None
        assert seconds_per_request(run.task) == alone


def test_a_run_that_fails_records_no_speed_and_leaves_all_as_it_was(folder: Path) -> None:
    target = ScriptedTarget(needs_demos)

    async def broken_off(run: MeasuredRun) -> None:
        with pytest.raises(ZeroDivisionError):
            async with run.measuring():
                raise ZeroDivisionError
        assert current.get() == ()

    with opened(folder, target) as run:
        event_loop.run(broken_off(run))
        assert seconds_per_request(run.task) is None
    assert gc.get_freeze_count() == 0


class ClosedLedger(FileLedger):
    """Knows whether it was closed."""

    closed = False

    def close(self) -> None:
        super().close()
        self.closed = True


@pytest.mark.parametrize("targets", [{}, {"proxy": ScriptedTarget([])}, {"main": ScriptedTarget([])}])
def test_the_ledger_is_closed_however_the_run_ends(folder: Path, targets: dict[str, Target]) -> None:
    recipe = answering(folder)
    ledger = ClosedLedger(folder / "charges.jsonl", recipe.budget)
    with suppress(UsageError, ZeroDivisionError), open_run(recipe, ledger, targets=targets):
        raise ZeroDivisionError
    assert ledger.closed


def test_the_state_of_an_output_is_locked_until_the_block_ends(home: Path) -> None:
    out = home / "out"
    with suppress(ZeroDivisionError), open_state("grids", out, "recording to", keep=True) as state:
        assert state == state_folder("grids", out)
        assert state is not None
        assert state.is_dir()
        with (
            pytest.raises(UsageError, match=f"^Another process is recording to {out}; wait for it or"),
            open_state("grids", out, "recording to", keep=True),
        ):
            pytest.fail("two processes would write one output")
        raise ZeroDivisionError
    with open_state("grids", out, "recording to", keep=False) as nothing:
        assert nothing is None


def test_nothing_is_kept_of_an_output_without_keep(home: Path) -> None:
    with open_state("training_data", home / "out", "writing", keep=False):
        assert not state_folder("training_data", home / "out").exists()
