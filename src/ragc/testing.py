"""Fakes for tests of programs and optimizers: a scripted target, sources, replies that fit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.errors import SourceError
from ragc.records import Hit, Passage
from ragc.targets.base import Capability, ChatRequest, Reply, TokenLogprob, Usage, Watch
from ragc.targets.reasoning import take_off

Script = Iterable[str | dict[str, Any] | Reply] | Callable[[ChatRequest], "str | dict[str, Any] | Reply"]


class ScriptedTarget:
    """Answers from a script and records every request; running out of replies is a test failure.

    The script is a list of replies in order, or a function of the request. A reply is a text, an object that
    becomes JSON, or a whole `Reply`. Thoughts are removed from a text as from a model's reply. Tokens are
    counted in words. `peak` is the maximum number of requests in flight. With `hold` a reply waits until no
    further request arrives, and `steps` counts these waits: the depth of the call graph.
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

    def __repr__(self) -> str:
        return f"ScriptedTarget({self.identity!r}, {len(self.requests)} requests)"

    @property
    def replies_left(self) -> int:
        """The number of unused scripted replies."""
        return len(self._replies)

    async def open(self, progress: Watch | None = None) -> None:
        """Does nothing."""

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the next reply of the script."""
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
        """Waits until no further request joins those in flight, then continue all of them as one step."""
        if self._gate is None:
            self._gate = asyncio.ensure_future(self._wait_until_idle())
        await asyncio.shield(self._gate)

    async def _wait_until_idle(self) -> None:
        seen = 0
        while seen != self._flying:
            seen = self._flying
            await asyncio.sleep(0.02)
        self.steps, self._gate = self.steps + 1, None

    def _next(self, request: ChatRequest) -> Reply:
        if self._function is not None:
            reply = self._function(request)
        elif self._replies:
            reply = self._replies.pop(0)
        else:
            raise AssertionError(
                f"LM call {len(self.requests)} has no scripted reply: {request.messages[-1].content}"
            )
        if isinstance(reply, Reply):
            return reply
        text = reply if isinstance(reply, str) else json.dumps(reply)
        words = sum(len(m.content.split()) for m in request.messages)
        whole = Reply(text, usage=Usage(prompt=words, completion=len(text.split())))
        return take_off(whole, request, self.count_tokens)

    def count_tokens(self, text: str) -> int:
        """Returns the number of words."""
        return len(text.split())

    async def aclose(self) -> None:
        """Does nothing."""


class ListSource:
    """A source that always returns the first `k` of its passages.

    `queries` are those so far, each with its `k`.
    """

    kind = "list"

    def __init__(self, passages: Sequence[Passage], fingerprint: str = "list") -> None:
        self.passages, self.fingerprint = tuple(passages), fingerprint
        self.queries: list[tuple[str, int]] = []
        self.cut: tuple[int, float] | None = None
        self.titles: tuple[bool | None, bool | None] | None = None

    def __deepcopy__(self, memo: object) -> ListSource:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.passages)} passages)"

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Returns the first `k` passages, with descending scores."""
        self.queries.append((query, k))
        return tuple(Hit(p, 1.0 / (i + 1)) for i, p in enumerate(self.passages[:k]))

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Returns the last `n` passages that are not excluded."""
        free = [p for p in self.passages if p.id not in exclude and p.parent not in exclude]
        return tuple(free[-n:]) if n else ()

    def rechunk(self, chunk_size: int, overlap: float) -> ListSource:
        """Returns the source itself: its passages are not cut. The arguments are recorded in `cut`."""
        self.cut = (chunk_size, overlap)
        return self

    def with_titles(self, sections: bool | None, columns: bool | None) -> ListSource:
        """Returns the source itself; the arguments are recorded in `titles`."""
        self.titles = (sections, columns)
        return self


class FailingSource(ListSource):
    """A source that cannot be reached."""

    def __init__(self) -> None:
        super().__init__([])

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Raises SourceError."""
        raise SourceError("the source is down")


@dataclass(frozen=True)
class SchemaReplies:
    """Generates replies that fit any schema of ragc: a script for `ScriptedTarget`.

    By default: the first option, the minimum of a range, one list item. `last` takes the last option and the
    maximum, `full` as many items as allowed (5 without a bound), an empty `text` no items. `fields` are
    values by output field, or by field of an output that is one of several objects: a list is used in order,
    its last value repeatedly. Every token has the log probability `logprob`.
    """

    last: bool = False
    full: bool = False
    text: str = "text"
    fields: Mapping[str, Any] | None = None
    logprob: float = -0.01

    def __call__(self, request: ChatRequest) -> Reply:
        """Returns a reply that fits `request`; `text` itself without a schema."""
        text = self.text
        if request.schema:
            values = self.example(request.schema)
            fixed = self.fields or {}
            text = json.dumps(values | {name: _next(fixed[name]) for name in values.keys() & fixed.keys()})
        drawn = (TokenLogprob(text, self.logprob),) if request.logprobs else ()
        return Reply(text, usage=Usage(prompt=10, completion=5), logprobs=drawn)

    def example(self, schema: Mapping[str, Any]) -> Any:
        """Returns a value that fits a JSON `schema`; raises ValueError for a schema without a type."""
        return self._of(schema, schema.get("$defs") or {})

    def _of(self, schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
        if "$ref" in schema:
            return self._of(named[schema["$ref"].rsplit("/", 1)[-1]], named)
        if "enum" in schema or "const" in schema:
            options = schema.get("enum") or [schema["const"]]
            return options[-1 if self.last else 0]
        if parts := schema.get("anyOf") or schema.get("allOf"):
            value, fixed = self._of(parts[-1 if self.last else 0], named), self.fields or {}
            known = value.keys() & fixed.keys() if isinstance(value, dict) else ()
            return {**value, **{name: _next(fixed[name]) for name in known}} if known else value
        match schema.get("type"):
            case "object":
                return {
                    name: self._of(part, named) for name, part in (schema.get("properties") or {}).items()
                }
            case "array":
                most = schema.get("maxItems", 5 if self.full else 1)
                return [self._of(schema["items"], named)] * (
                    most if self.full else min(len(self.text), most, 1)
                )
            case "string":
                return self.text[: schema.get("maxLength", len(self.text))].ljust(
                    schema.get("minLength", 0), "t"
                )
            case "integer" | "number" if self.last:
                return schema.get("maximum", 1)
            case "integer" | "number":
                return schema.get("minimum", min(1, schema.get("maximum", 1)))
            case "boolean":
                return not self.last
            case "null":
                return None
            case kind:
                raise ValueError(f"No example of a value of type {kind!r}.")


def _next(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return value.pop(0) if len(value) > 1 else value[0]
