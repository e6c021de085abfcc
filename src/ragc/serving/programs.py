"""The open programs of a server, and the rule which replies may be replayed to which client.

Replies that the call store held before are replayed to every client, as `ragc ask` does. New replies for a
client's question stay in bounded memory, or with `keep` in the store, and are replayed to the same key only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ragc.compiled.access import Access
from ragc.compiled.opened import OpenProgram, open_program
from ragc.core.digest import digest
from ragc.errors import UnknownName, UsageError
from ragc.programs.calls.predict import RagPredict
from ragc.programs.calls.standalone import rewriter
from ragc.serving.guards import client
from ragc.serving.settings import Settings
from ragc.store.calls import CallStore
from ragc.targets.base import Target
from ragc.task.rehearsal import writers_of

T = TypeVar("T")

MEMORY = 2_000
"""New replies in memory for each program, at most."""


class ClientStore(CallStore):
    """The call store of one server: `shared` is read, and new replies belong to the client's key."""

    def __init__(self, shared: CallStore, *, keep: bool) -> None:
        super().__init__(None, memory=MEMORY)
        self._shared, self._keep = shared, keep

    async def get_or_make(
        self,
        key: str,
        make: Callable[[], Awaitable[T]],
        read: Callable[[str], T | None],
        write: Callable[[T], str],
    ) -> tuple[T, bool]:
        """As the base class; the key of the present client is part of `key` for all that is new."""
        stored = await self._shared.read(key)
        if stored is not None and (value := read(stored)) is not None:
            return value, True
        own = self._own(key)
        if self._keep:
            return await self._shared.get_or_make(own, make, read, write)
        return await super().get_or_make(own, make, read, write)

    @staticmethod
    def _own(key: str) -> str:
        owner = client.get()
        return digest({"client": owner, "request": key}) if owner else key

    def close(self) -> None:
        """Closes the shared store too."""
        self._shared.close()


@dataclass(frozen=True, slots=True)
class ServedProgram:
    """One program: its model id, the time it was written, and the typed calls whose text is streamed.

    `rewriter` is the call that makes the last turn of a conversation a question that stands alone; None
    where it is answered as it is.
    """

    id: str
    created: int
    opened: OpenProgram
    streamed: tuple[Any, ...]
    rewriter: RagPredict | None

    def close(self) -> None:
        """Frees models, connections and files."""
        self.opened.close()


def open_programs(
    paths: Sequence[str | Path],
    settings: Settings,
    *,
    sets: Sequence[str] = (),
    access: Access = Access(),
    targets: Mapping[str, Target] | None = None,
) -> dict[str, ServedProgram]:
    """Opens the compiled programs in `paths`, by model id: the name of the folder. Nothing is sent.

    Raises UsageError for two of one name or for none, and what `ragc.ask` raises for each.
    """
    programs: dict[str, ServedProgram] = {}
    if not paths:
        raise UsageError("No compiled program is named; write ragc serve compiled/mine.")
    try:
        for path in paths:
            where = Path(path).resolve()
            name = where.name if where.is_dir() else where.stem
            if name in programs:
                raise UsageError(
                    f"Two programs are called {name!r}, and clients choose by that name; rename a folder."
                )
            opened = open_program(path, sets, questions=False, access=access, targets=targets)
            gateway = opened.task.runtime.gateway
            gateway.store = ClientStore(gateway.store, keep=settings.keep)
            created = int(where.stat().st_mtime)
            programs[name] = ServedProgram(
                name, created, opened, tuple(_streamed(opened)), _rewriter(opened, settings)
            )
    except BaseException:
        for served in programs.values():
            served.close()
        raise
    return programs


def _rewriter(opened: OpenProgram, settings: Settings) -> RagPredict | None:
    """Returns the call that rewrites last turns; None where the settings, or the program, want none."""
    knobs: Any = getattr(opened.program, "knobs", None)
    compiled = getattr(knobs, "history", "last")
    history = compiled if settings.history == "compiled" else settings.history
    return rewriter(opened.task.runtime, knobs) if history == "rewrite" else None


def program_named(programs: Mapping[str, ServedProgram], name: str) -> ServedProgram:
    """Returns the program `name`. Raises UnknownName."""
    if name not in programs:
        raise UnknownName("model", name[:80], programs)
    return programs[name]


def _streamed(opened: OpenProgram) -> list[Any]:
    """Returns the typed calls whose output `answer` is the program's answer; calls that write drafts are not
    shown.
    """
    predictors = dict(opened.program.named_predictors())
    called = [predictors[name] for name in writers_of(opened.program) if name in predictors]
    return [call for call in called if "answer" in call.signature.output_fields]
