"""Entailment backends: does a premise text entail a statement? Used by ALCE's claim and citation metrics.

    lexical          all numbers and most content words of the statement are in the text: fast, rough, free
    judge            a language model with a typed verdict
    nli:PATH_OR_ID   a natural language inference model (`ragc.metrics.nli`)

Scores from different backends cannot be compared; each is printed with its backend. ALCE's own backend is
nli:google/t5_xxl_true_nli_mixture.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragc.core.digest import digest
from ragc.errors import UnknownName, UsageError
from ragc.metrics.base import Entailer, JudgeCall, Pair, Verdict
from ragc.metrics.judge import LONGEST, ask_judge

if TYPE_CHECKING:
    from ragc.store.calls import CallStore

VERSION = 2
"""Incremented when a backend's verdicts change; part of every key in a store."""

THETA = 0.65
"""Share of content words that the lexical backend requires.

With it, 90% of the cited sentences and items in ALCE's example answers are entailed by the passages they
cite. By three other passages of the question, 15% of the sentences are, and 47% of QAMPARI's items, which are
prefixed with the question.
"""

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


def make(name: str, ask: JudgeCall | None = None, *, store: CallStore | None = None) -> Entailer:
    """Returns the backend `name`, "lexical", "judge" or "nli:PATH_OR_ID", with cached verdicts.

    `ask` calls the judge; those calls are in the call store. `store` stores the verdicts of NLI models.
    Raises UsageError for "judge" without `ask`, for a model that is not here or is not an entailment model,
    and when a library is missing; UnknownName for any other name.
    """
    if name == "lexical":
        return LexicalEntailer()
    if name == "judge":
        if ask is None:
            raise UsageError(
                "The entailment backend judge asks a judge, and there is none; add [targets.judge]."
            )
        return CachedEntailer(JudgeEntailer(ask))
    kind, _, model = name.partition(":")
    if kind == "nli" and model:
        from ragc.metrics.nli import nli

        return CachedEntailer(nli(model), store)
    raise UnknownName("entailment backend", name, ("lexical", "judge", "nli:PATH_OR_ID"))


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
        verdicts = []
        for premise, claim in ((premises[text], _words(hypothesis)) for text, hypothesis in pairs):
            numbers = {word for word in claim if word[0].isdigit()}
            shared, needed = len((claim - numbers) & premise), self.theta * len(claim - numbers) - 1e-9
            verdicts.append(bool(claim) and numbers <= premise and shared >= needed)
        return verdicts


def _words(text: str) -> frozenset[str]:
    words = (word.replace(",", "") for word in _WORD.findall(text.lower()))
    return frozenset(
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in words
        if word not in _STOP
    )


class JudgeEntailer:
    """Calls the judge for each pair; the calls of one `entails` run concurrently, as the target allows.

    Premise and hypothesis are inserted as data: on one line, markers of chat templates defused. A premise is
    cut to its first `longest` characters (at least 1), at a space where there is one: of several long
    passages the later ones may be lost. An unreadable reply is None, and counted as dropped.
    """

    def __init__(self, ask: JudgeCall, longest: int = LONGEST) -> None:
        self._ask, self._longest = ask, longest

    @property
    def name(self) -> str:
        """The judge, its prompt, and the maximum premise."""
        return f"judge {self._ask.name}, prompt entails, {self._longest} characters"

    async def entails(self, pairs: Sequence[Pair], /) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order.

        Raises TargetError and its subclasses when the endpoint fails.
        """
        return list(await asyncio.gather(*(self._judge(premise, claim) for premise, claim in pairs)))

    async def _judge(self, premise: str, hypothesis: str) -> Verdict:
        from ragc.signatures.judge import TextEntails

        reply = await ask_judge(self._ask, TextEntails, self._longest, text=premise, statement=hypothesis)
        return None if reply is None else bool(reply["entailed"])


class CachedEntailer:
    """An entailer with a cache, which never decides a pair twice.

    Verdicts are cached in memory as long as this object lives, and in `store` for later runs, under the
    entailer's name; unreadable ones are not stored.
    """

    def __init__(self, entailer: Entailer, store: CallStore | None = None) -> None:
        self._entailer, self._store = entailer, store
        self._cached: dict[Pair, Verdict] = {}

    @property
    def name(self) -> str:
        """The entailer's own name."""
        return self._entailer.name

    async def entails(self, pairs: Sequence[Pair], /) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order; calls the entailer once, for those not cached."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._cached]
        keys = {pair: digest(["entailment", VERSION, self.name, *pair]) for pair in new if self._store}
        if self._store:
            stored = {pair: self._store.get(key) for pair, key in keys.items()}
            self._cached |= {pair: text == "true" for pair, text in stored.items() if text is not None}
        if left := [pair for pair in new if pair not in self._cached]:
            for pair, verdict in zip(left, await self._entailer.entails(left), strict=True):
                self._cached[pair] = verdict
                if self._store and verdict is not None:
                    self._store.put(keys[pair], "true" if verdict else "false")
        return [self._cached[pair] for pair in pairs]
