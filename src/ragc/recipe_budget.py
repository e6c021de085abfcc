"""The part of a recipe that limits what a study may spend."""

from __future__ import annotations

from ragc.recipe_spec import Budget
from ragc.recipe_table import Table


def read_budget(table: Table) -> Budget:
    """The hard limits in `table`; what is wrong is noted there."""
    budget = Budget(
        lm_calls=table.integer("lm_calls", None, low=1),
        tokens=table.integer("tokens", None, low=1),
        usd=table.amount("usd"),
        minutes=table.amount("minutes"),
        trials=table.integer("trials", None, low=1),
    )
    table.close()
    return budget
