"""The runtime of a program: its targets and sources by role, and the gateway they share."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ragc.core import event_loop
from ragc.core.digest import digest
from ragc.core.progress import SILENT, listening, notify
from ragc.corpora.sources.base import Source
from ragc.errors import CapabilityMissing, TargetStopped, TargetUnavailable, UsageError
from ragc.store.calls import CallStore
from ragc.targets.base import Target, Watch
from ragc.targets.gateway import Budget, Gateway, check_contexts, fallback_chains
from ragc.targets.reasoning import check_reasoning

if TYPE_CHECKING:
    from ragc.programs.method import Method


class Runtime:
    """Targets and sources by role. Copying a program shares its runtime.

    `target_names` names the target of a role if it is not the role's own. `advice` says what to do about a
    missing target or source; `{kind}` and `{name}` are filled in. A runtime that nobody opened opens its
    targets at the first question. Raises UsageError when a target names a fallback that is not among them.
    """

    def __init__(
        self,
        targets: Mapping[str, Target],
        sources: Mapping[str, Source] | None = None,
        *,
        store: CallStore | None = None,
        budget: Budget | None = None,
        advice: str = "add [{kind}s.{name}]",
    ) -> None:
        self.targets = dict(targets)
        self.target_names: dict[str, str] = {}
        self.sources = dict(sources or {})
        self.gateway = Gateway(store or CallStore(None), budget)
        self.gateway.fallbacks = fallback_chains(self.targets)
        self._advice = advice
        self._is_open = False
        self._opening: asyncio.Future[None] | None = None

    def __deepcopy__(self, memo: object) -> Runtime:
        return self

    def with_targets(self, players: Mapping[str, str]) -> Runtime:
        """Returns the same runtime with other targets in roles, as `target_names` says; the rest is shared.

        Raises UsageError when a target is not configured.
        """
        if dict(players) == self.target_names:
            return self
        other = copy.copy(self)
        other.target_names = dict(players)
        for role in players:
            other.target(role)
        return other

    def with_sources(self, sources: Mapping[str, Source]) -> Runtime:
        """Returns the same runtime with `sources` replacing its own by name; the rest is shared."""
        other = copy.copy(self)
        other.sources = {**self.sources, **sources}
        return other

    def with_salt(self, salt: str) -> Runtime:
        """Returns the same runtime with the replies of another `salt` (`Gateway`); the rest is shared."""
        if salt == self.gateway.salt:
            return self
        other = copy.copy(self)
        other.gateway = copy.copy(self.gateway)
        other.gateway.salt = salt
        return other

    def repeated(self, number: int = 1, *, judge: bool = False) -> Runtime:
        """Returns the same runtime with replies drawn anew, for the `number`th time.

        With `judge` only those of the judge, else all others: a judge that is not repeated judges equal
        answers equally.
        """
        other = copy.copy(self)
        other.gateway = copy.copy(self.gateway)
        other.gateway.repeats = {
            target: number for role, target in self.targets.items() if (role == "judge") == judge
        }
        other.gateway.sent, other.gateway.cached, other.gateway.used = 0, 0, {}
        return other

    async def open(self, watch: Watch | None = None) -> None:
        """Opens every target, fallbacks too; `watch` is told of downloads.

        A server that is down and was open before is taken as it was then, so that stored replies need no
        server; its fallbacks need none either. Raises TargetUnavailable, and UsageError if a fallback has a
        smaller context than the target it replaces, or reasoning takes the whole context.
        """
        for target in self.targets.values():
            await self._open_one(target, watch)
        check_reasoning(self.targets.values())
        check_contexts(self.gateway.fallbacks)
        self._is_open = True

    async def _open_one(self, target: Target, watch: Watch | None) -> None:
        store, server = self.gateway.store, cast(Any, target)
        key = digest(["card", server.plain_identity]) if hasattr(target, "use_card") else ""
        stored = await store.read(key) if key else None
        try:
            await target.open(watch)
        except TargetUnavailable as error:
            if isinstance(error, TargetStopped) or not (stored or self.gateway.fallbacks.get(target)):
                raise
            notify(f"{error} Until then stored replies and fallbacks answer.")
            if stored:
                server.use_card(json.loads(stored))
        else:
            if key and (card := json.dumps(server.card)) != stored:
                await store.write(key, card)

    async def aclose(self) -> None:
        """Frees targets and sources; a later question opens them again."""
        self._is_open = False
        for target in self.targets.values():
            await target.aclose()
        await self.close_sources()

    async def close_sources(self) -> None:
        """Frees the sources that hold connections."""
        for source in self.sources.values():
            if (aclose := getattr(source, "aclose", None)) is not None:
                await aclose()

    async def ready(self) -> None:
        """Opens every target unless that was done, in silence. Questions at the same time wait for one try.

        Raises as `open`.
        """
        if not self._is_open:
            await event_loop.wait(self._open_once())

    async def _open_once(self) -> None:
        if self._opening is None or self._opening.done():
            self._opening = asyncio.ensure_future(self._open_in_silence())
        await asyncio.shield(self._opening)

    async def _open_in_silence(self) -> None:
        with listening(SILENT.note):
            await self.open()

    def target(self, role: str) -> Target:
        """Returns the target of `role`; raises UsageError naming the targets that are configured."""
        name = self.target_names.get(role, role)
        if name not in self.targets:
            raise self._missing("target", name, f"A target with the role {name!r}", self.targets)
        return self.targets[name]

    def source(self, name: str) -> Source:
        """Returns the source called `name`; raises UsageError naming the sources that are configured."""
        if name not in self.sources:
            raise self._missing("source", name, f"A source named {name!r}", self.sources)
        return self.sources[name]

    def _missing(self, kind: str, name: str, what: str, names: Iterable[str]) -> UsageError:
        advice = self._advice.format(kind=kind, name=name)
        return UsageError(f"{what} is needed, found {', '.join(names) or 'none'}; {advice}.")

    def require(self, method: Method) -> None:
        """Checks, before anything is sent, that everything `method` needs is configured."""
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
