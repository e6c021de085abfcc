"""Prices of the targets of a study: whether a dollar budget can be enforced, and which prices look wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ragc.core.display import dollars
from ragc.errors import UsageError
from ragc.programs.runtime import Runtime
from ragc.recipe import Recipe
from ragc.recipe.values import OWN_OPTIMIZER
from ragc.targets.base import Target
from ragc.targets.token_price import Price, price_of, table_price, typed_price

UNIT_ERROR_FACTOR = 1000
"""A typed price so many times that of LiteLLM's table, or less than its so-many-th part, is a wrong unit."""


def reachable_targets(recipe: Recipe, runtime: Runtime, chosen: Collection[object] = ()) -> dict[str, Target]:
    """Returns by name the targets that may be called: those in a used role or `chosen`, and fallbacks."""
    targets, roles = runtime.targets, recipe.search.targets
    used = {"main", "judge", *roles, *(name for names in roles.values() for name in names)}
    used |= {name for name in chosen if isinstance(name, str)}
    for method in recipe.methods:
        used |= {*method.roles, *method.optional_roles}
    if recipe.search.instructions or recipe.search.optimizer != OWN_OPTIMIZER:
        used.add("teacher")
    found_targets = {name: target for name, target in targets.items() if name in used}
    for target in tuple(found_targets.values()):
        others = runtime.gateway.fallbacks.get(target, ())
        found_targets |= {name: other for name, other in targets.items() if other in others}
    return found_targets


def check_prices(recipe: Recipe, targets: Mapping[str, Target]) -> None:
    """Raises UsageError if `budget.usd` cannot be enforced, because a target has no known price.

    Also for a typed price so far below the table's that it must be the price of a single token.
    """
    if recipe.budget.usd is None:
        return
    unknown = {name: target for name, target in targets.items() if price_of(target) is None}
    if unknown:
        named = ", ".join(f"{name} ({target.name})" for name, target in unknown.items())
        raise UsageError(
            f"budget.usd = {recipe.budget.usd:g} cannot be held to: the price of {named} is not known; "
            f"{_way_out(unknown)}, or limit budget.lm_calls or budget.tokens in the place of dollars."
        )
    for name, target in targets.items():
        typed, table = _both(target)
        if typed is not None and table is not None and _has_thousandth_part(typed, table):
            raise UsageError(
                f"The price of {name} ({target.name}) is less than a thousandth of that in LiteLLM's table, "
                f"which has {_shown(table)} a million tokens of input and output; prices are in dollars per "
                "million tokens, so correct it, or write 0 for what costs nothing."
            )


def _way_out(unknown: Mapping[str, Target]) -> str:
    """Returns what to do about targets without a price."""
    table = "{input = ..., output = ...}"
    from ragc.targets.hosted import HostedTarget

    if any(isinstance(target, HostedTarget) for target in unknown.values()):
        name = next(name for name, target in unknown.items() if isinstance(target, HostedTarget))
        return f"set targets.{name}.options.price = {table}, in dollars per million tokens, 0 if it is free"
    return (
        "give the target an attribute `price` = {'input': ..., 'output': ...}, in dollars per million tokens "
        "(of a dspy.LM: ragc.target(lm, price=...)), 0 if it is free"
    )


def price_notes(targets: Mapping[str, Target]) -> Iterator[str]:
    """Returns a sentence for each suspicious typed price: a price of 0, and one in a wrong unit."""
    for name, target in targets.items():
        typed = typed_price(target)
        if typed is None:
            continue
        if typed.is_free:
            yield f"{name} ({target.name}) is priced at 0, so its tokens count as no dollars."
            continue
        typed, table = _both(target)
        if typed is not None and table is not None and _has_thousandth_part(table, typed):
            yield (
                f"The price of {name} ({target.name}) is at least {UNIT_ERROR_FACTOR} times that in "
                f"LiteLLM's table, which has {_shown(table)} a million tokens of input and output: is it in "
                "dollars per million tokens?"
            )


def _both(target: Target) -> tuple[Price | None, Price | None]:
    """Returns the typed price and the table's; the table's is None if either is free."""
    typed = typed_price(target)
    table = None if typed is None or typed.is_free else table_price(target)
    return typed, None if table is None or table.is_free else table


def _has_thousandth_part(one: Price, other: Price) -> bool:
    """Returns whether a part of `one` above 0 is a thousandth of the `other` or less."""
    parts = ((one.input, other.input), (one.output, other.output))
    return any(0 < price * UNIT_ERROR_FACTOR <= of * (1 + 1e-9) for price, of in parts)


def _shown(price: Price) -> str:
    return f"{dollars(price.input)} and {dollars(price.output)}"
