"""The memo: a repeated typed call is replayed whole, from its inputs, without formatting its prompt.

    inputs ─► key ─► memory: outputs, copied   or   the call store: replies, read again   or   a full call

A recording holds the replies, not the outputs read from them: outputs are read again in every process, so a
signature with changed validators never gets outputs of the old ones. In memory outputs are stored as read, as
long as the output fields are the same objects, and every call gets a copy.
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
from ragc.store.calls import CallStore
from ragc.targets.base import Sampling, Target
from ragc.targets.gateway import REPLY, GatewayReply

_ENTRIES = 10_000
_PROBE = "Tokens are counted: 1234567 คำ.\n"
_ATOMS = frozenset({str, int, float, bool, type(None)})
_SIMPLE = frozenset({str, int, bool, type(None)})


@dataclass(frozen=True, slots=True)
class Recording:
    """The replies of one typed call.

    `answers` are one, or two when the first was unreadable for the reason `error` and a second request fitted
    the context. `cut` says that inputs were cut to fit it. `raised_limit` is the limit in tokens of the
    second request if the first reached its own; 0 if the second is a repair.
    """

    answers: tuple[GatewayReply, ...]
    error: str = ""
    cut: bool = False
    raised_limit: int = 0

    def to_text(self) -> str:
        """Returns canonical JSON; `from_text` is its inverse."""
        answers = [
            [answer.key, REPLY.dump_python(answer.reply, mode="json", exclude_defaults=True)]
            for answer in self.answers
        ]
        raised = {"raised_limit": self.raised_limit} if self.raised_limit else {}
        return canonical({"answers": answers, "error": self.error, "cut": self.cut, **raised})

    @classmethod
    def from_text(cls, text: str) -> Recording | None:
        """Returns the recording that `to_text` wrote; None for any other text."""
        try:
            value = json.loads(text)
            answers = tuple(
                GatewayReply(str(key), REPLY.validate_python(reply)) for key, reply in value["answers"]
            )
            recording = cls(
                answers, str(value["error"]), bool(value["cut"]), int(value.get("raised_limit", 0))
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return recording if 1 <= len(answers) <= 2 else None


@dataclass(frozen=True, slots=True)
class ReadReply:
    """A recording and the result of reading it: `outputs` by field name, or the `failure` to read them.

    `to_plain` are the outputs as JSON values, `fields` the output fields they were read by. `mended` counts
    values that were changed when they were read, and `dropped` the list items that were left out.
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
        """Returns the outcome in memory under `key`, as read by `fields`, or None. Thread-safe."""
        outcome = self._held.get(key)
        return outcome if outcome is not None and outcome.fields == fields else None

    async def find(self, key: str, read: Callable[[Recording], ReadReply | None]) -> ReadReply | None:
        """Reads the recording under `key` by `read`; None if there is none, or it is unreadable."""
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
        """Holds `outcome` under `key`, and writes its recording to the store. Raises StoreError."""
        self._hold(key, outcome)
        await self._store.write(key, outcome.recording.to_text())

    def _hold(self, key: str, outcome: ReadReply) -> None:
        _put_bounded(self._held, key, outcome, self._entries)

    def put_size(self, key: str, size: int) -> None:
        """Stores that the call under `key` takes `size` tokens."""
        _put_bounded(self.sizes, key, size, self._entries)


def _put_bounded(table: dict[str, Any], key: str, value: Any, most: int) -> None:
    table[key] = value
    if len(table) > most:
        table.pop(next(iter(table)), None)


_memos: WeakKeyDictionary[CallStore, ReplayCache] = WeakKeyDictionary()


def replay_cache_of(store: CallStore) -> ReplayCache:
    """Returns the memo of `store`, the same for every program that uses it."""
    replay_cache = _memos.get(store)
    if replay_cache is None:
        replay_cache = _memos[store] = ReplayCache(store)
    return replay_cache


def prompt_digest(fingerprint: str, wording: str, sampling: Sampling, logprobs: bool, target: Target) -> str:
    """Returns a digest of everything that shapes a typed call and its reading, except inputs and draw.

    `fingerprint` is the predictor's, `wording` what else decides how its inputs are shown. Of the target it
    includes the identity, the enforced layouts, the context and the way of counting tokens.
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
    """Returns a digest of the code that formats prompts and reads replies: ours and its libraries."""
    libraries = [version(name) for name in ("dspy", "pydantic", "json_repair")]
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(__file__).parents[1] / "base.py"]
    return digest([__version__, libraries, [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]])


def call_key(mark: str, sample: int, inputs: Mapping[str, Any]) -> str | None:
    """Returns the store's key of a call with `inputs`, of the draw `sample`.

    None when the inputs hold anything but texts, finite numbers, truth values, None, and lists and
    dictionaries of such: the value of others does not determine how a prompt shows them.
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
    """Returns `values` as `plain` does, without its pydantic if they are JSON values already."""
    if all(map(_is_json, values.values())) and "augmented" not in values:
        return {name: fresh(value) for name, value in values.items()}
    return plain(values)


def fresh(value: Any) -> Any:
    """Returns an equal value that shares no mutable part with `value`."""
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
