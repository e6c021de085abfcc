"""A measured run: its state and budget, and what it counts."""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

from ragc import recipe as recipes
from ragc.core import event_loop
from ragc.core.counters import current
from ragc.errors import UsageError
from ragc.recipe import Recipe
from ragc.store.calls import CallStore
from ragc.targets.base import Target
from ragc.task.budget import BudgetFile
from ragc.task.run import MeasuredRun, Measurement, measure, open_run, open_state, state_folder
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import needs_demos, written


@pytest.fixture
def folder(home: Path) -> Path:
    return written(home)


def answering(folder: Path) -> Recipe:
    return recipes.load(folder / "recipe.toml")


def opened(folder: Path, target: Target) -> AbstractContextManager[MeasuredRun]:
    recipe = answering(folder)
    budget = BudgetFile(None, recipe.budget)
    return open_run(recipe, budget, store=CallStore(None), targets={"main": target})


async def answered(run: MeasuredRun) -> Measurement:
    program = run.task.method.build(run.task.runtime, run.task.recipe.fixed(run.task.method))
    await run.open()
    with measure() as measured:
        await run.answer(program, run.task.dev)
    return measured


def test_a_run_counts_what_it_sends(folder: Path) -> None:
    (folder / "home").mkdir()
    target = ScriptedTarget(needs_demos)
    with opened(folder, target) as run:
        measured = event_loop.run(answered(run))
        sent = len(target.requests)
        assert measured.brief() == {
            "sent": sent,
            "replayed": 0,
            "tokens": measured.spent.tokens,
            "usd": 0.0,
            "seconds": measured.seconds,
        }
        assert (sent >= len(run.task.dev), measured.spent.tokens > 0) == (True, True)


def test_a_run_that_fails_leaves_all_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), measure():
        raise ZeroDivisionError
    assert current.get() == ()
    assert gc.get_freeze_count() == 0


class ClosedBudget(BudgetFile):
    """Knows whether it was closed."""

    closed = False

    def close(self) -> None:
        super().close()
        self.closed = True


@pytest.mark.parametrize("targets", [{}, {"proxy": ScriptedTarget([])}, {"main": ScriptedTarget([])}])
def test_the_budget_is_closed_however_the_run_ends(folder: Path, targets: dict[str, Target]) -> None:
    recipe = answering(folder)
    budget = ClosedBudget(folder / "charges.sqlite3", recipe.budget)
    with suppress(UsageError, ZeroDivisionError), open_run(recipe, budget, targets=targets):
        raise ZeroDivisionError
    assert budget.closed


def test_the_state_of_an_output_is_locked_until_the_block_ends(home: Path) -> None:
    out = home / "out"
    with suppress(ZeroDivisionError), open_state("grids", out, "recording to") as state:
        assert state == state_folder("grids", out)
        assert state.is_dir()
        with (
            pytest.raises(UsageError, match=f"^Another process is recording to {out}; wait for it or"),
            open_state("grids", out, "recording to"),
        ):
            pytest.fail("two processes would write one output")
        raise ZeroDivisionError
