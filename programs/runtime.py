"""What a program runs on: its targets and sources by role, and the gateway they share."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ragc.corpora.sources.base import Source
from ragc.errors import CapabilityMissing, UsageError
from ragc.store.call_store import CallStore
from ragc.targets.base import Target, Watch
from ragc.targets.gateway import Gateway, Ledger, chains, check_contexts

if TYPE_CHECKING:
    from ragc.programs.method import Method


class Runtime:
    """Targets and sources by role. Copying a program shares its runtime.

    `players` says which of the targets plays a role where it is not the role's own. Raises UsageError when
    a target names a fallback that is not among them.
    """

    def __init__(
        self,
        targets: Mapping[str, Target],
        sources: Mapping[str, Source] | None = None,
        *,
        store: CallStore | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.targets = dict(targets)
        self.players: dict[str, str] = {}
        self.sources = dict(sources or {})
        self.gateway = Gateway(store or CallStore(None), ledger)
        self.gateway.fallbacks = chains(self.targets)

    def __deepcopy__(self, memo: object) -> Runtime:
        return self

    def playing(self, players: Mapping[str, str]) -> Runtime:
        """The same runtime with `players`, a target's name by role, in their roles; the rest is shared.

        Raises UsageError when a target is not configured.
        """
        if dict(players) == self.players:
            return self
        other = copy.copy(self)
        other.players = dict(players)
        for role in players:
            other.target(role)
        return other

    def searching(self, sources: Mapping[str, Source]) -> Runtime:
        """The same runtime with `sources` in the place of its own by those names; the rest is shared."""
        other = copy.copy(self)
        other.sources = {**self.sources, **sources}
        return other

    async def open(self, watch: Watch | None = None) -> None:
        """Open every target, fallbacks too; `watch` is told of downloads.

        Raises TargetUnavailable, and UsageError where a fallback reads less than whom it stands in for.
        """
        for target in self.targets.values():
            await target.open(watch)
        check_contexts(self.gateway.fallbacks)

    def target(self, role: str) -> Target:
        """The target that plays `role`; raises UsageError naming the targets that are configured."""
        name = self.players.get(role, role)
        if name not in self.targets:
            found = ", ".join(self.targets) or "none"
            raise UsageError(
                f"A target with the role {name!r} is needed, found {found}; add [targets.{name}]."
            )
        return self.targets[name]

    def source(self, name: str) -> Source:
        """The source called `name`; raises UsageError naming the sources that are configured."""
        if name not in self.sources:
            found = ", ".join(self.sources) or "none"
            raise UsageError(f"A source named {name!r} is needed, found {found}; add [sources.{name}].")
        return self.sources[name]

    def require(self, method: Method) -> None:
        """Check, before anything is sent, that `method` finds what it needs."""
        for role in method.roles:
            player = self.target(role)
            for target in (player, *self.gateway.fallbacks.get(player, ())):
                missing = sorted(set(method.capabilities) - target.capabilities)
                if missing:
                    raise CapabilityMissing(
                        f"Program {method.id!r} needs {', '.join(missing)} from [targets.{role}], and "
                        f"{target.name} does not offer it; choose another target."
                    )
        for name in method.sources:
            self.source(name)
