"""Who answers in the place of a target that is not available."""

from __future__ import annotations

from collections.abc import Mapping

from ragc.errors import UnknownName, UsageError
from ragc.targets.base import Target


def names_of(target: Target) -> tuple[str, ...]:
    """The names in the option `fallbacks` of `target`, best first."""
    return tuple(getattr(getattr(target, "options", None), "fallbacks", ()))


def chains(targets: Mapping[str, Target]) -> dict[Target, tuple[Target, ...]]:
    """The fallbacks of each of `targets`, by name, that has any.

    Raises UnknownName for a fallback that is not among them, UsageError for a target that is its own.
    """
    found: dict[Target, tuple[Target, ...]] = {}
    for name, target in targets.items():
        for other in names_of(target):
            if other == name:
                raise UsageError(f"Target {name!r} lists itself in fallbacks; name other targets there.")
            if other not in targets:
                raise UnknownName(f"target (in fallbacks of [targets.{name}])", other, targets)
        if names_of(target):
            found[target] = tuple(targets[other] for other in names_of(target))
    return found


def check_contexts(found: Mapping[Target, tuple[Target, ...]]) -> None:
    """Raise UsageError where a fallback, opened, reads less than the target whose prompts it gets."""
    for target, others in found.items():
        for other in others:
            if other.context_tokens < target.context_tokens:
                raise UsageError(
                    f"{other.name} is a fallback of {target.name} and reads {other.context_tokens} tokens, "
                    f"which is less than its {target.context_tokens}; set context_tokens = "
                    f"{other.context_tokens} for {target.name}, so that its prompts fit both."
                )
