"""The memo: a typed call made before is replayed whole, from its inputs, without its prompt being formatted.

    inputs ─► key ─► memory: outputs, copied   or   the call store: replies, read again   or   the long way

A recording holds the replies, not what was read from them: outputs are read again in every process, so a
signature whose validators changed is never served what the old ones made. In memory they are kept as
read, for as long as the output fields stay the same objects, and every call gets a copy.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, proxy

import orjson
import pydantic

from ragc.core.digest import canonical, digest
from ragc.core.extras import __version__
from ragc.programs.calls.demos import plain
from ragc.store.call_store import CallStore
from ragc.targets.base import Reply, Sampling, Target
from ragc.targets.gateway import Answer

_ENTRIES = 10_000
_PROBE = "Straightforward tokenization, counted: 1234567 words.\n"
_ATOMS = frozenset({str, int, float, bool, type(None)})
_SIMPLE = frozenset({str, int, bool, type(None)})


@dataclass(frozen=True, slots=True)
class Recording:
    """What one typed call asked and was told.

    `answers` are one, or two when the first could not be read for the reason `error` and asking again fitted
    the context. `cut` tells that inputs were cut to fit it. `raised_limit` is the limit in tokens of the
    second request where the first ran out of its own; 0 where the second is a repair.
    """

    answers: tuple[Answer, ...]
    error: str = ""
    cut: bool = False
    raised_limit: int = 0

    def to_text(self) -> str:
        """Canonical JSON; `from_text` is its inverse."""
        answers = [[answer.key, answer.reply.to_json()] for answer in self.answers]
        raised = {"raised_limit": self.raised_limit} if self.raised_limit else {}
        return canonical({"answers": answers, "error": self.error, "cut": self.cut, **raised})

    @classmethod
    def from_text(cls, text: str) -> Recording | None:
        """The recording that `to_text` wrote; None for any other text."""
        try:
            value = json.loads(text)
            answers = tuple(Answer(str(key), Reply.from_json(reply)) for key, reply in value["answers"])
            recording = cls(
                answers, str(value["error"]), bool(value["cut"]), int(value.get("raised_limit", 0))
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return recording if 1 <= len(answers) <= 2 else None


@dataclass(frozen=True, slots=True)
class ReadReply:
    """A recording and what was read from it: `outputs` by field name, or the `failure` to read them.

    `to_plain` are the outputs as JSON values, `fields` the output fields they were read by. `mended` values
    did not stand in the reply as they were read, and `dropped` items of its lists were left out.
    """

    recording: Recording
    outputs: Mapping[str, Any]
    shown: Mapping[str, Any]
    failure: str
    fields: tuple[Any, ...]
    mended: int = 0
    dropped: int = 0


class ReplayCache:
    """The recordings of one call store, `entries` of them in memory. To be changed on the process's loop."""

    def __init__(self, store: CallStore, entries: int = _ENTRIES) -> None:
        self._store: CallStore = proxy(store)
        self._entries = entries
        self._held: dict[str, ReadReply] = {}
        self.sizes: dict[str, int] = {}

    def recall(self, key: str, fields: tuple[Any, ...]) -> ReadReply | None:
        """What memory holds under `key` as read by `fields`, or None. Safe in any thread."""
        outcome = self._held.get(key)
        return outcome if outcome is not None and outcome.fields == fields else None

    async def find(self, key: str, read: Callable[[Recording], ReadReply | None]) -> ReadReply | None:
        """The recording under `key` as `read` reads it; None when there is none, or it cannot."""
        known = self._held.get(key)
        if known is not None:
            recording: Recording | None = known.recording
        else:
            text = await self._store.read(key)
            recording = None if text is None else Recording.from_text(text)
        outcome = None if recording is None else read(recording)
        if outcome is not None:
            self._hold(key, outcome)
        return outcome

    async def keep(self, key: str, outcome: ReadReply) -> None:
        """Hold `outcome` under `key`, and write its recording to the store. Raises StoreError."""
        self._hold(key, outcome)
        await self._store.write(key, outcome.recording.to_text())

    def _hold(self, key: str, outcome: ReadReply) -> None:
        _put_bounded(self._held, key, outcome, self._entries)

    def put_size(self, key: str, size: int) -> None:
        """Remember that the call under `key` takes `size` tokens."""
        _put_bounded(self.sizes, key, size, self._entries)


def _put_bounded(table: dict[str, Any], key: str, value: Any, most: int) -> None:
    table[key] = value
    if len(table) > most:
        table.pop(next(iter(table)), None)


_memos: WeakKeyDictionary[CallStore, ReplayCache] = WeakKeyDictionary()


def replay_cache_of(store: CallStore) -> ReplayCache:
    """The memo of `store`, the same for every program that uses it."""
    replay_cache = _memos.get(store)
    if replay_cache is None:
        replay_cache = _memos[store] = ReplayCache(store)
    return replay_cache


def prompt_digest(fingerprint: str, wording: str, sampling: Sampling, logprobs: bool, target: Target) -> str:
    """A digest of all that shapes a typed call and its reading, apart from its inputs and the draw.

    `fingerprint` is the predictor's, `wording` what else decides how its inputs are shown. Of the target
    it holds what answers, what it can enforce, its context and how it counts tokens at present.
    """
    counted = target.count_tokens(_PROBE)
    able = "schema" in target.capabilities
    return _mark(
        fingerprint,
        wording,
        sampling,
        logprobs,
        target.identity,
        target.model,
        target.context_tokens,
        counted,
        able,
    )


@lru_cache(maxsize=4096)
def _mark(fingerprint: str, wording: str, sampling: Sampling, *target: Any) -> str:
    return digest([_code(), fingerprint, wording, asdict(sampling), *target])


@cache
def _code() -> str:
    """A digest of the code that formats prompts and reads replies: ours and the libraries under it."""
    libraries = [version(name) for name in ("dspy", "pydantic", "json_repair")]
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(__file__).parents[1] / "base.py"]
    return digest([__version__, libraries, [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]])


def call_key(mark: str, sample: int, inputs: Mapping[str, Any]) -> str | None:
    """The store's key of a call with `inputs`, the draw `sample` of it.

    None when the inputs hold anything but texts, finite numbers, truth values, None, and lists and
    dictionaries of such: how others are shown in a prompt is not told by their value alone.
    """
    if not all(map(_is_json, inputs.values())):
        return None
    try:
        body = orjson.dumps(inputs)
    except TypeError:  # an integer of more than 64 bits, or half of a surrogate pair
        return None
    return hashlib.sha256(f"memo {mark} {sample} ".encode() + body).hexdigest()


def _is_json(value: Any) -> bool:
    kind = type(value)
    if kind in _SIMPLE:
        return True
    if kind is list:
        return all(map(_is_json, value))
    if kind is dict:
        return all(type(name) is str and _is_json(item) for name, item in value.items())
    return kind is float and math.isfinite(value)


def to_plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """What `plain` makes of `values`, without its pydantic where they are JSON values already."""
    if all(map(_is_json, values.values())) and "augmented" not in values:
        return {name: fresh(value) for name, value in values.items()}
    return plain(values)


def fresh(value: Any) -> Any:
    """An equal value that shares nothing that can be changed with `value`."""
    kind = type(value)
    if kind in _ATOMS or isinstance(value, Enum):
        return value
    if kind is list:
        return [fresh(item) for item in value]
    if kind is dict:
        return {name: fresh(item) for name, item in value.items()}
    if isinstance(value, pydantic.BaseModel) and not (value.__pydantic_private__ or value.__pydantic_extra__):
        twin = value.model_copy()
        inside = vars(twin)
        for name, item in inside.items():
            if type(item) not in _ATOMS:
                inside[name] = fresh(item)
        return twin
    return copy.deepcopy(value)
