"""Checks of a recipe's targets: whether they answer, and their actual capabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from ragc import targets
from ragc.core import event_loop
from ragc.core.home import cache_home
from ragc.doctor.check import Check
from ragc.errors import RagcError
from ragc.recipe import Recipe
from ragc.targets.base import Capability, Target
from ragc.targets.options import ServerOptions, TargetSpec
from ragc.targets.probe import ProbeResult, load_or_probe
from ragc.targets.thinking import check_rooms, room_of
from ragc.task.requirements import lacking

_USED: tuple[Capability, ...] = ("schema", "logprobs", "seed")
"""Capabilities that improve programs, and so are worth declaring."""


@dataclass(frozen=True, slots=True)
class TargetCheck(Check):
    """The check of one target: `id` is its name in the recipe, `found` a one-line verdict.

    `thinking` are the most tokens of thoughts that a probe saw, None without a probe; `thinking_tokens` are
    the tokens for thoughts of every call.
    """

    capabilities: tuple[Capability, ...] = ()
    thinking: int | None = None
    thinking_tokens: int = 0


def examine_recipe(recipe: Recipe) -> Check:
    """Returns whether this machine has the libraries, keys and roles that `recipe` needs. Sends nothing."""
    problems = lacking(recipe)
    return Check("recipe", not problems, ". ".join(problems) or "nothing that it needs is missing here")


def examine_targets(recipe: Recipe, *, again: bool = False) -> list[TargetCheck]:
    """Opens and probes each target of `recipe`, in order; `again` repeats cached probes.

    Servers and hosted models receive a few tiny requests, at their usual price. Only the capabilities are
    stored.
    """
    return [event_loop.run(_examine(name, spec, again=again)) for name, spec in recipe.target_specs().items()]


async def _examine(name: str, spec: TargetSpec, *, again: bool) -> TargetCheck:
    label = f"{spec.kind} {spec.model}".strip()
    opened: list[Target] = []
    try:
        target = targets.build(spec)
        opened.append(target)
        await target.open()
        check_rooms([target])
        options = getattr(target, "options", None)
        if not isinstance(options, ServerOptions) or not hasattr(target, "raw"):
            able, thinking_tokens = _in_order(target.capabilities), room_of(target)
            line = f"{target.name}: ready; {', '.join(able)}{_thoughts(target, None)}"
            return TargetCheck(name, True, line, capabilities=able, thinking_tokens=thinking_tokens)
        # Probe every capability, whatever the recipe's `has` and `lacks` say.
        every = {"has": list(get_args(Capability)), "lacks": []}
        whole: Any = targets.build(spec.replace(options={**spec.options, **every}))
        opened.append(whole)
        await whole.open()  # which tells its context, that a request must fit
        probe_result = await load_or_probe(whole, cache_home() / "probes", again=again)
    except (RagcError, ModuleNotFoundError) as error:
        return TargetCheck(name, False, f"{label}: {' '.join(str(error).split())}")
    finally:
        for target in opened:
            await target.aclose()
    return _verdict(name, opened[0], options.lacks, probe_result)


def _verdict(
    name: str, target: Target, lacks: tuple[Capability, ...], probe_result: ProbeResult
) -> TargetCheck:
    able = probe_result.able | (probe_result.unsure & target.capabilities)
    shown = _in_order(able)
    listed = ", ".join(shown) or "no capabilities"
    false = _in_order(target.capabilities - able)
    more = [cap for cap in _in_order(probe_result.able - target.capabilities - set(lacks)) if cap in _USED]
    if false:
        advice = f"it does not do {', '.join(false)}: add lacks = {_toml(false)} to its options"
        listed = f"it does {listed}"
    elif more:
        advice = f"ready; it can do more: add has = {_toml(more)} to its options"
    else:
        advice = "ready"
    line, thinking = f"{target.name}: {advice}; {listed}", probe_result.thinking
    return TargetCheck(
        name, not false, f"{line}{_thoughts(target, thinking)}", True, shown, thinking, room_of(target)
    )


def _thoughts(target: Target, thinking: int | None) -> str:
    """Returns clauses on the thoughts of `target`: their length, their token limit, unsupported options."""
    thinking_tokens = room_of(target)
    clauses = [f"thought for up to {thinking:,} tokens"] if thinking else []
    if thinking_tokens:
        clauses.append(f"room for {thinking_tokens:,} tokens of thoughts in every call")
    elif thinking:
        clauses.append('no room for thoughts: add thinking_tokens = "auto" to its options')
    if refused := getattr(target, "refused_by_thinking", ()):
        clauses.append(f"it takes no {' and no '.join(refused)}")
    return "".join(f"; {clause}" for clause in clauses)


def _in_order(names: frozenset[Capability] | Mapping[Capability, Any]) -> tuple[Capability, ...]:
    return tuple(name for name in get_args(Capability) if name in names)


def _toml(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
