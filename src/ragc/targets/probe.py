"""Probes the actual capabilities of an endpoint with a few tiny requests, and caches the result.

A server may accept a parameter and ignore it, so each probe checks the reply and never only a status.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast, get_args

from ragc.core.digest import digest
from ragc.core.home import make_private, write_private
from ragc.errors import TargetError, TargetUnavailable
from ragc.targets.base import Capability, ChatRequest, Message, Sampling, token_count
from ragc.targets.openai_wire import Unreadable, part, read_json
from ragc.targets.thoughts import separate

FORMAT = "ragc.probe/1"
_WORD = "ultramarine"
_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": [_WORD]}},
    "required": ["colour"],
    "additionalProperties": False,
}
_QUESTIONS = (
    "What is seventeen times three? Answer with the number alone.",
    "Ann is older than Ben, and Cem is younger than Ben. Who is the oldest? Answer with the name alone.",
)
"""What a model is asked so that it thinks, if it does."""

GENEROUS = 4096
"""The limit of tokens on replies to these questions."""

_LONG = "The library keeps one book for every day of the year and lends none of them. " * 12


class RawTarget(Protocol):
    """A target that exposes the raw body of a reply."""

    model: str

    @property
    def plain_identity(self) -> str:
        """The identity of the model in the store's key, without its tokens for thoughts."""
        ...

    @property
    def whole_context(self) -> int:
        """The context size in tokens; 0 if unknown."""
        ...

    async def raw(self, request: ChatRequest, extra: Mapping[str, Any]) -> Any:
        """Returns the raw body, in OpenAI's format, for `request` with `extra` in its body."""
        ...


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Capabilities that were confirmed, and those that could not be tested.

    `thinking` is the most tokens of thoughts before an answer; None if they were not measured.
    """

    able: frozenset[Capability]
    unsure: frozenset[Capability] = frozenset()
    thinking: int | None = None


async def load_or_probe(target: RawTarget, folder: Path, *, again: bool = False) -> ProbeResult:
    """Returns what `target` can do and how much it thinks; probes unless `folder` has it, or if `again`.

    The file name is a digest of identity and model. The file contains neither key nor address. Raises
    TargetUnavailable, and TargetError when the endpoint refuses even a plain request.
    """
    file = probe_file(target.plain_identity, target.model, folder)
    known = None if again else _read(file)
    if known is not None and known.thinking is not None:
        return known
    probe_result = await probe(target) if known is None else replace(known, thinking=await _thinking(target))
    await asyncio.to_thread(_write, file, probe_result)
    return probe_result


def probe_file(identity: str, model: str, folder: Path) -> Path:
    """Returns the file of the probe of a target with the plain `identity` and `model`."""
    return folder / f"{digest({'endpoint': identity, 'model': model})[:32]}.json"


def stored_thinking(identity: str, model: str, folder: Path) -> int | None:
    """Returns the tokens of thoughts that an earlier probe measured; None if none did."""
    known = _read(probe_file(identity, model, folder))
    return None if known is None else known.thinking


async def probe(target: RawTarget) -> ProbeResult:
    """Probes `target`: two short questions with tokens for thoughts, then nine requests of at most 24 tokens.

    A model that thinks gets as many tokens for thoughts in those nine.
    """
    thinking = await _thinking(target)
    if thinking is None:
        await target.raw(_request("Say yes."), {})  # a failure here is not about capabilities
    if thinking:
        target = _Roomy(target)
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
        thinking,
    )


class _Roomy:
    """A target whose requests have a higher token limit, for thoughts."""

    def __init__(self, target: RawTarget) -> None:
        self._target, self.model = target, target.model
        self.plain_identity, self.whole_context = target.plain_identity, target.whole_context

    async def raw(self, request: ChatRequest, extra: Mapping[str, Any]) -> Any:
        """Sends as the target does, with a higher token limit for thoughts."""
        limit = request.sampling.max_tokens + min(GENEROUS, self.whole_context // 2 or GENEROUS)
        roomy = replace(request, sampling=replace(request.sampling, max_tokens=limit))
        return await self._target.raw(roomy, extra)


async def _thinking(target: RawTarget) -> int | None:
    """Measures the most tokens of thoughts before the answers to two short questions; None if refused.

    A reply that ends within its thoughts counts whole.
    """
    limit = min(GENEROUS, target.whole_context // 2 or GENEROUS)
    bodies = [await _ask(target, _request(text, tokens=limit)) for text in _QUESTIONS]
    return max(map(thought_tokens, bodies)) if all(bodies) else None


def thought_tokens(body: Any) -> int:
    """Returns the tokens of thoughts in a raw reply: reported ones, else by their share of its text."""
    reported = token_count(part(body, "usage", "completion_tokens_details", "reasoning_tokens"))
    if reported:
        return reported
    message = part(_choices(body if isinstance(body, dict) else {}), 0, "message")
    texts = [part(message, name) for name in ("reasoning_content", "reasoning", "content")]
    apart, also, content = (text if isinstance(text, str) else "" for text in texts)
    thoughts = apart or also
    if not thoughts:
        thoughts, content = separate(content)
    written = token_count(part(body, "usage", "completion_tokens")) or -(-len(thoughts + content) // 4)
    return -(-written * len(thoughts) // len(thoughts + content)) if thoughts else 0


def _request(text: str, *, heat: float = 0.0, seed: int = 0, tokens: int = 4, **more: Any) -> ChatRequest:
    sampling = Sampling(temperature=heat, max_tokens=tokens, seed=seed)
    return ChatRequest((Message("user", text),), sampling=sampling, **more)


async def _ask(target: RawTarget, request: ChatRequest, **extra: Any) -> dict[str, Any]:
    """Returns the body; empty when the endpoint refuses the request."""
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
    """Returns whether seeds are respected; None when samples with different seeds are equal, which shows
    nothing.
    """
    words = "Write ten random words, any that come to mind."
    first, again, other = [
        _text(await _ask(target, _request(words, heat=1.0, seed=seed, tokens=24))) for seed in (11, 11, 12)
    ]
    if not first or first != again:
        return False
    return True if other != first else None


async def _prefix_cache(target: RawTarget) -> bool | None:
    """Returns whether prefixes are cached; None when the endpoint does not report cached tokens."""
    counts: list[int | None] = []
    for question in ("How many books are there?", "How many are lent?"):
        body = await _ask(target, _request(_LONG + question))
        cached = part(body, "usage", "prompt_tokens_details", "cached_tokens")
        counts.append(token_count(part(body, "timings", "cache_n") if cached is None else cached))
    return True if counts[-1] else None


def _write(file: Path, probe_result: ProbeResult) -> None:
    body: dict[str, Any] = {
        "format": FORMAT,
        "able": sorted(probe_result.able),
        "unsure": sorted(probe_result.unsure),
        "thinking": probe_result.thinking,
    }
    make_private(file.parent)
    written = file.with_suffix(f".{os.getpid()}")
    write_private(written, json.dumps(body))
    written.replace(file)


def _read(file: Path) -> ProbeResult | None:
    """Returns the result of an earlier probe, or None; an invalid file counts as absent."""
    try:
        body = json.loads(file.read_text("utf-8"))
        able, unsure = (frozenset(map(str, body[name])) for name in ("able", "unsure"))
        thinking = token_count(body.get("thinking"))
        known = body["format"] == FORMAT and able | unsure <= set(get_args(Capability))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if not known:
        return None
    return ProbeResult(cast(frozenset[Capability], able), cast(frozenset[Capability], unsure), thinking)
