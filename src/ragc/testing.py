"""Fakes for tests of programs and optimizers: a scripted target, a source of given hits, replies that fit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ragc.records import Hit, Passage
from ragc.targets.base import Capability, ChatRequest, Reply, Usage, Watch

Script = Iterable[str | dict[str, Any] | Reply] | Callable[[ChatRequest], "str | dict[str, Any] | Reply"]


class ScriptedTarget:
    """Answers from a script and keeps every request; running out of replies is a test failure.

    The script is a list of replies in order, or a function of the request. A reply is a text, an
    object that becomes JSON, or a whole `Reply`. Tokens are counted in words. `peak` is the most
    requests ever in flight. With `hold` a reply waits until no further request comes, and `steps`
    counts how often that was: the depth of the call graph.
    """

    def __init__(
        self,
        script: Script,
        *,
        capabilities: Sequence[Capability] = ("schema", "logprobs", "seed"),
        context_tokens: int = 100_000,
        concurrency: int = 64,
        identity: str = "scripted",
        hold: bool = False,
    ) -> None:
        self.name, self.model, self.identity = "scripted", "scripted", identity
        self.capabilities = frozenset(capabilities)
        self.context_tokens, self.concurrency = context_tokens, concurrency
        self.requests: list[ChatRequest] = []
        self.peak = self.steps = self._flying = 0
        self._hold = hold
        self._gate: asyncio.Future[None] | None = None
        self._function = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)

    def __deepcopy__(self, memo: object) -> ScriptedTarget:
        return self

    @property
    def left(self) -> int:
        """How many scripted replies have not been used."""
        return len(self._replies)

    async def open(self, progress: Watch | None = None) -> None:
        """Nothing to make ready."""

    async def complete(self, request: ChatRequest) -> Reply:
        """The next reply of the script."""
        self.requests.append(request)
        self._flying += 1
        self.peak = max(self.peak, self._flying)
        try:
            if self._hold:
                await self._together()
            return self._next(request)
        finally:
            self._flying -= 1

    async def _together(self) -> None:
        """Wait until no further request joins those in flight, then go on with all of them as one step."""
        if self._gate is None:
            self._gate = asyncio.ensure_future(self._settled())
        await asyncio.shield(self._gate)

    async def _settled(self) -> None:
        seen = 0
        while seen != self._flying:
            seen = self._flying
            await asyncio.sleep(0.02)
        self.steps, self._gate = self.steps + 1, None

    def _next(self, request: ChatRequest) -> Reply:
        if self._function is not None:
            said = self._function(request)
        elif self._replies:
            said = self._replies.pop(0)
        else:
            raise AssertionError(
                f"LM call {len(self.requests)} has no scripted reply: {request.messages[-1].content}"
            )
        if isinstance(said, Reply):
            return said
        text = said if isinstance(said, str) else json.dumps(said)
        words = sum(len(m.content.split()) for m in request.messages)
        return Reply(text, usage=Usage(prompt=words, completion=len(text.split())))

    def count_tokens(self, text: str) -> int:
        """The number of words."""
        return len(text.split())

    async def aclose(self) -> None:
        """Nothing to free."""


class ListSource:
    """A source that always finds the first `k` of the passages it was given."""

    kind = "list"

    def __init__(self, passages: Sequence[Passage], fingerprint: str = "list") -> None:
        self.passages, self.fingerprint = tuple(passages), fingerprint

    def __deepcopy__(self, memo: object) -> ListSource:
        return self

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """The first `k` passages, with falling scores."""
        return tuple(Hit(p, 1.0 / (i + 1)) for i, p in enumerate(self.passages[:k]))

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """The last `n` passages that are not excluded."""
        free = [p for p in self.passages if p.id not in exclude and p.parent not in exclude]
        return tuple(free[-n:]) if n else ()

    def rechunked(self, chunk_size: int, overlap: float) -> ListSource:
        """The source itself."""
        return self


def example_of(schema: Mapping[str, Any]) -> Any:
    """The plainest value that fits a JSON `schema` of ours: first of an enum, least number, "text", one item.

    Raises ValueError for a schema without a type.
    """
    return _example(schema, schema.get("$defs") or {})


def _example(schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _example(named[schema["$ref"].rsplit("/", 1)[-1]], named)
    if "const" in schema or "enum" in schema:
        return schema.get("const", next(iter(schema.get("enum", ())), None))
    if parts := schema.get("anyOf") or schema.get("allOf"):
        return _example(parts[0], named)
    match schema.get("type"):
        case "object":
            return {name: _example(part, named) for name, part in (schema.get("properties") or {}).items()}
        case "array":
            return [_example(schema["items"], named)] * min(1, schema.get("maxItems", 1))
        case "string":
            return "text"[: schema.get("maxLength", 4)].ljust(schema.get("minLength", 0), "t")
        case "integer" | "number":
            return schema.get("minimum", min(1, schema.get("maximum", 1)))
        case "boolean":
            return True
        case "null":
            return None
        case kind:
            raise ValueError(f"No example of a value of type {kind!r}.")
