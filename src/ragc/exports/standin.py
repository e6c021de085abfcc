"""A runtime that answers nothing: enough to build a program and read its prompts, never to run it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from ragc.errors import UsageError
from ragc.programs.method import Method
from ragc.programs.runtime import Runtime
from ragc.records import Hit, Passage
from ragc.store import CallStore
from ragc.targets.base import ROLES, Capability, ChatRequest, Reply, Watch


class Refusing:
    """A target and source that can do everything and refuses to do it, with UsageError."""

    name = model = identity = kind = fingerprint = "stand-in"
    capabilities: frozenset[Capability] = frozenset({"schema", "logprobs", "prompt_logprobs", "n", "seed"})
    context_tokens, concurrency = 10**9, 1

    def __deepcopy__(self, memo: object) -> Refusing:
        return self

    async def open(self, progress: Watch | None = None) -> None:
        """Nothing to make ready."""

    async def complete(self, request: ChatRequest) -> Reply:
        """Raises UsageError."""
        raise _refused("call")

    def count_tokens(self, text: str) -> int:
        """The number of words."""
        return len(text.split())

    async def aclose(self) -> None:
        """Nothing to free."""

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Raises UsageError."""
        raise _refused("search")

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Raises UsageError."""
        raise _refused("search")

    def rechunked(self, chunk_size: int, overlap: float) -> Refusing:
        """Itself: there is nothing to cut."""
        return self


def _refused(what: str) -> UsageError:
    return UsageError(f"An export makes no {what}; run the program itself to get an answer.")


def tables(recipe: str) -> Mapping[str, Any]:
    """The tables of a recipe's TOML text; none where it cannot be read."""
    try:
        return tomllib.loads(recipe)
    except tomllib.TOMLDecodeError:
        return {}


def runtime(entry: Method, recipe: Mapping[str, Any]) -> Runtime:
    """A runtime with the roles and sources that `recipe` names; where it names none, all that may be used."""
    roles: Iterable[Any] = recipe.get("targets") or ROLES
    sources: Iterable[str] = recipe.get("sources") or (*entry.sources, *entry.may_use)
    nothing = Refusing()
    return Runtime(dict.fromkeys(roles, nothing), dict.fromkeys(sources, nothing), store=CallStore(None))


def models(recipe: Mapping[str, Any], provenance: Mapping[str, Any]) -> dict[str, str]:
    """The id of the model of each role, without addresses, and of a path its last part only."""
    found = {}
    for role, table in (recipe.get("targets") or {}).items():
        id = str(table.get("model") or "")
        if not id:  # the default of its kind: its name ends with the model's
            told = ((provenance.get("targets") or {}).get(role) or {}).get("name") or ""
            id = str(told).rpartition(" ")[2]
        if table.get("kind") == "embedded" or id[:1] in ("/", "~", ".") or PureWindowsPath(id).drive:
            id = PurePosixPath(PureWindowsPath(id).as_posix()).name
        if id:
            found[str(role)] = id
    return found
