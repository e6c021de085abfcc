"""The interface of entailment backends, the lexical backend, a cache, and helpers of model runners."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from ragc.core.digest import digest
from ragc.errors import UsageError

if TYPE_CHECKING:
    from ragc.store.calls import CallStore

VERSION = 1
"""Incremented when a backend's verdicts change; part of every key in a store."""

THETA = 0.65
"""Share of content words that the lexical backend requires.

With it, 90% of the cited sentences and items in ALCE's example answers are entailed by the passages they
cite. By three other passages of the question, 15% of the sentences are, and 47% of QAMPARI's items, which are
prefixed with the question.
"""

Pair = tuple[str, str]
"""A premise (the given text) and a hypothesis (the statement that may follow from it)."""

Verdict = bool | None
"""Whether the premise entails the hypothesis; None for an unreadable verdict, which counts as no."""

BATCH = 32
"""Pairs per batch of a model; they are sorted by length first to reduce padding."""

TOKENS = 512
"""Context of a classifier in tokens, if its configuration does not give it."""

_WORD = re.compile(r"\w+(?:[.,]\d+)*")
_STOP_WORDS = """
    a about after all also although an and any are as at be because been before being between both but by
    can could did do does during each for from had has have having he her him his how however i if in into
    is it its itself many may me might more most must my no nor not of off on one only or other our out
    over own same she should so some such than that the their them then there these they this those
    through to too under until up upon us very was we were what when where whether which while who whom
    whose why will with would you your
"""
_STOP = frozenset(_STOP_WORDS.split())


class Entailer(Protocol):
    """Decides which premises entail their hypotheses."""

    @property
    def name(self) -> str:
        """The backend and every setting that affects a verdict, as printed in reports."""
        ...

    async def entails(self, pairs: Sequence[Pair], /) -> Sequence[Verdict]:
        """Returns a verdict for each of `pairs`, in order. Pairs must be distinct.

        Raises RagcError when the model cannot be loaded, run or reached.
        """
        ...


class Runner(Protocol):
    """A model in memory."""

    def verdicts(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order. Called by one thread at a time."""
        ...


class LexicalEntailer:
    """A rule on words, for trials and tests; it does not replace a model in published results.

    A hypothesis is entailed if the premise contains every number in it, and at least the share `theta` (over
    0, at most 1) of its other content words, each counted once. Words are compared in lower case without a
    final s, numbers without commas between digits; articles, pronouns and the like are not content. Word
    order and negation are ignored. A hypothesis without content is not entailed. Longer premises entail no
    less.
    """

    def __init__(self, theta: float = THETA) -> None:
        if not 0 < theta <= 1:
            raise UsageError(f"The lexical backend's theta lies over 0 and is at most 1, got {theta}.")
        self.theta = theta

    @property
    def name(self) -> str:
        """The rule and its threshold."""
        return f"lexical {self.theta:g}"

    async def entails(self, pairs: Sequence[Pair], /) -> list[bool]:
        """Returns a verdict for each of `pairs`, in order."""
        premises = {premise: _words(premise) for premise in dict.fromkeys(premise for premise, _ in pairs)}
        return [self._follows(premises[premise], _words(hypothesis)) for premise, hypothesis in pairs]

    def _follows(self, premise: frozenset[str], claim: frozenset[str]) -> bool:
        numbers = {word for word in claim if word[0].isdigit()}
        words = claim - numbers
        if not claim or not numbers <= premise:
            return False
        return len(words & premise) >= self.theta * len(words) - 1e-9


class CachedEntailer:
    """An entailer with a cache, which never decides a pair twice.

    Verdicts are cached in memory as long as this object lives, and in `store` for later runs, under the
    entailer's name; unreadable ones are not stored.
    """

    def __init__(self, entailer: Entailer, store: CallStore | None = None) -> None:
        self._entailer, self._store = entailer, store
        self._known: dict[Pair, Verdict] = {}

    @property
    def name(self) -> str:
        """The entailer's own name."""
        return self._entailer.name

    async def entails(self, pairs: Sequence[Pair], /) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order; calls the entailer once, for those not cached."""
        self._recall(pair for pair in pairs if pair not in self._known)
        unknown = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if unknown:
            verdicts = await self._entailer.entails(unknown)
            for pair, verdict in zip(unknown, verdicts, strict=True):
                self._keep(pair, verdict)
        return [self._known[pair] for pair in pairs]

    def _recall(self, pairs: Iterable[Pair]) -> None:
        if self._store is None:
            return
        for pair in pairs:
            text = self._store.get(self._key(pair))
            if text in ("true", "false"):
                self._known[pair] = text == "true"

    def _keep(self, pair: Pair, verdict: Verdict) -> None:
        self._known[pair] = verdict
        if self._store is not None and verdict is not None:
            self._store.put(self._key(pair), "true" if verdict else "false")

    def _key(self, pair: Pair) -> str:
        return digest(["entailment", VERSION, self.name, *pair])


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Returns the indexes of all items, in batches of `BATCH` of similar length, shortest first."""
    order = sorted(range(len(lengths)), key=lambda at: lengths[at])
    return [order[start : start + BATCH] for start in range(0, len(order), BATCH)]


def longest(folder: Path, config: Mapping[str, Any]) -> int:
    """Returns a classifier's context in tokens with special ones: from its configuration, else `TOKENS`."""
    tokenizer = folder / "tokenizer_config.json"
    tokens = json_settings(tokenizer).get("model_max_length") if tokenizer.is_file() else None
    positions = config.get("max_position_embeddings")
    if not _is_limit(tokens):
        tokens = TOKENS  # RoBERTa reserves two of its 514 positions, which only its tokenizer reports
    return int(min(tokens, positions) if _is_limit(positions) else tokens)


def json_settings(path: Path) -> dict[str, Any]:
    """Returns the JSON object in the file `path`; empty for other JSON. Raises UsageError when it cannot be
    read.
    """
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
    return settings if isinstance(settings, dict) else {}


def _is_limit(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and 2 < value < 10**6


def _words(text: str) -> frozenset[str]:
    words = (word.replace(",", "") for word in _WORD.findall(text.lower()))
    return frozenset(_singular(word) for word in words if word not in _STOP)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
