"""The text output of `ragc compile --dry-run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragc.core.display import dollars, quantity


def lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines for an estimate of `ragc.optimizers.plan.estimate.estimate`."""
    programs = ", ".join(plan["programs"])
    targets = ", ".join(dict.fromkeys(plan["targets"].values()))
    folds = f", and as many without each of {plan['folds']} folds" if plan["folds"] else ""
    yield f"{programs} on {targets}: {quantity(plan['trials'], 'trial')}{folds}"
    yield _calls(plan)
    for name, phase in plan["phases"].items():
        calls = phase["lm_calls_about"]
        size = f" ({quantity(phase['questions'], 'question')})" if phase["questions"] else ""
        yield f"  {name:<15} " + ("unknown" if calls is None else f"about {calls:,}") + size
    yield from _costs(plan)


def grid_lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines for an estimate of `ragc.optimizers.grids.plan.estimate`."""
    sizes = f"{quantity(plan['settings'], 'setting')} on {quantity(plan['questions'], 'question')}"
    yield f"{plan['program']} on {', '.join(dict.fromkeys(plan['targets'].values()))}: {sizes}"
    yield f"{plan['recorded']:,} settings are recorded in {plan['out']}, {plan['cells']:,} cells are missing"
    yield _calls(plan, "replies can be read and settings share no request")
    for name, calls in plan["phases"].items():
        if calls != 0:
            yield f"  {name:<15} " + ("unknown" if calls is None else f"about {calls:,}")
    yield from _costs(plan)


def headroom_lines(planned: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines for a plan of `ragc.optimizers.plan.headroom.probe.plan`, in two columns."""
    targets = ", ".join(dict.fromkeys(planned["targets"].values()))
    yield f"{'program':<14}{planned['program']} on {targets}"
    yield f"{'calls':<14}at most {planned['calls']:,}"
    yield (
        f"{'settings':<14}about {planned['settings_about']} of these on {planned['questions']} dev "
        f"questions, {planned['repeats']} of them twice by the baseline"
    )
    yield from (f"{'':<14}{what}" for what in planned["settings"])
    if planned["left_out"]:
        yield f"{'not tried':<14}{planned['left_out']}"
    shown = [
        f"{quantity(planned[split]['n'], f'{split} question')} can show "
        + ("no gain" if (gain := planned[split]["shows"]) is None else f"a gain of {gain:.3f}")
        for split in ("dev", "test")
        if planned[split]["n"]
    ]
    needed = planned["needed"]
    number = "more than can be counted" if needed["n"] is None else quantity(needed["n"], "question")
    yield (
        f"{'shown':<14}{' and '.join(shown)} with 80% probability; a gain of {needed['gain']:g} needs "
        f"{number} (in exact match, if one question in ten gets worse)"
    )


_AVERAGE = "replies can be read, settings are average and no trial is stopped"


def _calls(plan: Mapping[str, Any], conditions: str = _AVERAGE) -> str:
    if plan["unknown_because"]:
        why = "; ".join(plan["unknown_because"])
        return f"the number of LM calls is unknown: {why}; set budget.lm_calls"
    return f"about {plan['lm_calls_about']:,} LM calls if {conditions}"


def _costs(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yields what the calls take, and the budget that ends them."""
    yield _tokens(plan)
    yield _money(plan)
    if plan["budget"]:
        limits = ", ".join(f"{name} {amount:g}" for name, amount in plan["budget"].items())
        paid = f"; {plan['budget_pays']['text']}" if plan.get("budget_pays") else ""
        yield f"budget: it stops at {limits}{paid}"


def _tokens(plan: Mapping[str, Any]) -> str:
    about = plan["tokens_about"]
    return f"tokens: about {about:,} if passages are as long as their chunks" if about else "tokens: unknown"


def _money(plan: Mapping[str, Any]) -> str:
    if plan["unpriced"]:
        return f"cost: unknown, LiteLLM's table has no price for {', '.join(plan['unpriced'])}"
    if plan["usd_about"] is None:
        return "cost: unknown" + ("" if "usd" in plan["budget"] else "; set budget.usd")
    if not plan["usd_about"]:
        return f"cost: {dollars(0)}, no target charges for tokens"
    return f"cost: about {dollars(plan['usd_about'])} by {_source(plan)}"


def _source(plan: Mapping[str, Any]) -> str:
    """Returns the origin of the prices."""
    typed = " and ".join(plan.get("typed_prices", ()))
    return f"the price of {typed} in the recipe, else LiteLLM's" if typed else "LiteLLM's prices"
