"""Probes the actual capabilities of an endpoint with a few tiny requests, and caches the result.

A server may accept a parameter and ignore it, so each probe checks the reply and never only a status.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, get_args

from ragc.core.digest import digest
from ragc.core.home.private import make_private, write_private
from ragc.errors import TargetError, TargetUnavailable
from ragc.targets.base import Capability, ChatRequest, Message, Sampling, token_count
from ragc.targets.openai_wire import Unreadable, part, read_json

FORMAT = "ragc.probe/1"
_WORD = "ultramarine"
_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": [_WORD]}},
    "required": ["colour"],
    "additionalProperties": False,
}
_LONG = "The library keeps one book for every day of the year and lends none of them. " * 12


class RawTarget(Protocol):
    """A target that exposes the raw body of a reply."""

    model: str

    @property
    def identity(self) -> str:
        """Identifies the model in the store's key."""
        ...

    async def raw(self, request: ChatRequest, extra: Mapping[str, Any]) -> Any:
        """The raw body, in OpenAI's format, for `request` with `extra` in its body."""
        ...


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Capabilities that were confirmed, and those that could not be tested."""

    able: frozenset[Capability]
    unsure: frozenset[Capability] = frozenset()


async def load_or_probe(target: RawTarget, folder: Path, *, again: bool = False) -> ProbeResult:
    """The capabilities of `target`, from `folder` when it was probed before, unless `again`.

    The file name is a digest of identity and model. The file contains neither key nor address. Raises
    TargetUnavailable, and TargetError when the endpoint refuses even a plain request.
    """
    file = folder / f"{digest({'endpoint': target.identity, 'model': target.model})[:32]}.json"
    known = None if again else _read(file)
    if known is not None:
        return known
    probe_result = await probe(target)
    await asyncio.to_thread(_write, file, probe_result)
    return probe_result


async def probe(target: RawTarget) -> ProbeResult:
    """Probe `target` with ten requests of at most 24 tokens each."""
    await target.raw(_request("Say yes.", tokens=4), {})  # a failure here is not about capabilities
    seen: dict[Capability, bool | None] = {
        "schema": await _schema(target),
        "logprobs": await _logprobs(target),
        "n": len(_choices(await _ask(target, _request("Say a word.", heat=1.0), n=2))) == 2,
        "prompt_logprobs": bool(
            (await _ask(target, _request("Say yes."), prompt_logprobs=0)).get("prompt_logprobs")
        ),
        "seed": await _seed(target),
        "prefix_cache": await _prefix_cache(target),
    }
    return ProbeResult(
        frozenset(name for name, there in seen.items() if there),
        frozenset(name for name, there in seen.items() if there is None),
    )


def _request(text: str, *, heat: float = 0.0, seed: int = 0, tokens: int = 4, **more: Any) -> ChatRequest:
    sampling = Sampling(temperature=heat, max_tokens=tokens, seed=seed)
    return ChatRequest((Message("user", text),), sampling=sampling, **more)


async def _ask(target: RawTarget, request: ChatRequest, **extra: Any) -> dict[str, Any]:
    """The body; empty when the endpoint refuses the request."""
    try:
        body = await target.raw(request, extra)
    except TargetUnavailable:
        raise
    except TargetError:
        return {}
    return body if isinstance(body, dict) else {}


def _choices(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = part(body, "choices")
    return [choice for choice in listed if isinstance(choice, dict)] if isinstance(listed, list) else []


def _text(body: Mapping[str, Any]) -> str:
    text = part(_choices(body), 0, "message", "content")
    return text if isinstance(text, str) else ""


async def _schema(target: RawTarget) -> bool:
    request = _request("What is two and two? Answer with one word.", tokens=24, schema=_SCHEMA)
    try:
        return bool(read_json(_text(await _ask(target, request))) == {"colour": _WORD})
    except Unreadable:
        return False


async def _logprobs(target: RawTarget) -> bool:
    choices = _choices(await _ask(target, _request("Say yes.", logprobs=True)))
    return bool(part(choices, 0, "logprobs", "content"))


async def _seed(target: RawTarget) -> bool | None:
    """Whether seeds are respected; None when samples with different seeds are equal, which shows nothing."""
    words = "Write ten random words, any that come to mind."
    first, again, other = [
        _text(await _ask(target, _request(words, heat=1.0, seed=seed, tokens=24))) for seed in (11, 11, 12)
    ]
    if not first or first != again:
        return False
    return True if other != first else None


async def _prefix_cache(target: RawTarget) -> bool | None:
    """Whether prefixes are cached; None when the endpoint does not report cached tokens."""
    counts: list[int | None] = []
    for question in ("How many books are there?", "How many are lent?"):
        body = await _ask(target, _request(_LONG + question))
        cached = part(body, "usage", "prompt_tokens_details", "cached_tokens")
        counts.append(token_count(part(body, "timings", "cache_n") if cached is None else cached))
    return True if counts[-1] else None


def _write(file: Path, probe_result: ProbeResult) -> None:
    body = {"format": FORMAT, "able": sorted(probe_result.able), "unsure": sorted(probe_result.unsure)}
    make_private(file.parent)
    written = file.with_suffix(f".{os.getpid()}")
    write_private(written, json.dumps(body))
    written.replace(file)


def _read(file: Path) -> ProbeResult | None:
    """The result of an earlier probe, or None; an invalid file counts as absent."""
    try:
        body = json.loads(file.read_text("utf-8"))
        able, unsure = (frozenset(map(str, body[name])) for name in ("able", "unsure"))
        known = body["format"] == FORMAT and able | unsure <= set(get_args(Capability))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return ProbeResult(*(cast(frozenset[Capability], names) for names in (able, unsure))) if known else None
