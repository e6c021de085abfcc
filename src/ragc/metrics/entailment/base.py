"""Does a text say that a statement is true? The backends that ALCE's claim and citation metrics ask.

    lexical          the statement's content words and numbers stand in the text: quick, rough, free
    judge            a language model, by a typed verdict (`ragc.metrics.entailment.judge`)
    nli:PATH_OR_ID   a model of natural language inference (`ragc.metrics.entailment.nli`)

Figures of different backends cannot be compared; each has its name beside it. ALCE's own backend is
nli:google/t5_xxl_true_nli_mixture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from ragc.core.digest import digest
from ragc.errors import UnknownName, UsageError
from ragc.metrics.base import Ask

if TYPE_CHECKING:
    from ragc.store.call_store import CallStore

VERSION = 1
"""Raised whenever the same backend and pair would get another verdict; part of every key in a store."""

THETA = 0.65
"""The share of content words that the lexical backend asks for. With it, 90% of the cited sentences and items
in ALCE's example answers are entailed by what they cite. By three other passages of the question, 15% of the
sentences are, and 47% of QAMPARI's items, whose question stands before them."""

Pair = tuple[str, str]
"""A premise, the text that is given, and a hypothesis, the statement that may follow from it."""

Verdict = bool | None
"""Whether the premise entails the hypothesis; None when that could not be read, which counts as no."""

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
    """Tells which premises entail their hypotheses."""

    @property
    def name(self) -> str:
        """What tells, with every setting that decides a verdict, as reports print it."""
        ...

    async def entails(self, pairs: Sequence[Pair], /) -> Sequence[Verdict]:
        """A verdict for each of `pairs`, in order; those who ask give each pair once.

        Raises RagcError when the model cannot be loaded, run or reached.
        """
        ...


class LexicalEntailer:
    """A rule on words, for trials and tests: no stand-in for a model in a published figure.

    A hypothesis is entailed if every number in it stands in the premise, and at least `theta` (over 0, at
    most 1) of its other content words, each counted once. Words are compared in lower case without a final
    s, numbers without commas between digits; articles, pronouns and the like are no content. Word order and
    negation are not seen. A hypothesis without content is not entailed. Text added to a premise never turns
    a yes into a no.
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
        """A verdict for each of `pairs`, in order."""
        premises = {premise: _words(premise) for premise in dict.fromkeys(premise for premise, _ in pairs)}
        return [self._follows(premises[premise], _words(hypothesis)) for premise, hypothesis in pairs]

    def _follows(self, given: frozenset[str], wanted: frozenset[str]) -> bool:
        numbers = {word for word in wanted if word[0].isdigit()}
        words = wanted - numbers
        if not wanted or not numbers <= given:
            return False
        return len(words & given) >= self.theta * len(words) - 1e-9


class Remembered:
    """An entailer that is asked about no pair twice.

    Verdicts are kept in memory as long as this object lives, and in `store` for later runs, under the
    entailer's name; those that could not be read are not stored.
    """

    def __init__(self, entailer: Entailer, store: CallStore | None = None) -> None:
        self._entailer, self._store = entailer, store
        self._known: dict[Pair, Verdict] = {}

    @property
    def name(self) -> str:
        """The entailer's own name."""
        return self._entailer.name

    async def entails(self, pairs: Sequence[Pair], /) -> list[Verdict]:
        """A verdict for each of `pairs`, in order; the entailer is asked once, about what is not known."""
        self._recall(pair for pair in pairs if pair not in self._known)
        unknown = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if unknown:
            said = await self._entailer.entails(unknown)
            for pair, verdict in zip(unknown, said, strict=True):
                self._keep(pair, verdict)
        return [self._known[pair] for pair in pairs]

    def _recall(self, pairs: Iterable[Pair]) -> None:
        if self._store is None:
            return
        for pair in pairs:
            found = self._store.get(self._key(pair))
            if found in ("true", "false"):
                self._known[pair] = found == "true"

    def _keep(self, pair: Pair, verdict: Verdict) -> None:
        self._known[pair] = verdict
        if self._store is not None and verdict is not None:
            self._store.put(self._key(pair), "true" if verdict else "false")

    def _key(self, pair: Pair) -> str:
        return digest(["entailment", VERSION, self.name, *pair])


def make(name: str, ask: Ask | None = None, *, store: CallStore | None = None) -> Entailer:
    """The backend `name`: "lexical", "judge" or "nli:PATH_OR_ID", which remembers its verdicts.

    `ask` is the judge's; its calls are stored where they are made. `store` keeps the verdicts of NLI models.
    Raises UsageError for "judge" without `ask`, for a model that is not here or cannot tell entailment, and
    when a library is missing; UnknownName for any other name.
    """
    if name == "lexical":
        return LexicalEntailer()
    if name == "judge":
        if ask is None:
            raise UsageError(
                "The entailment backend judge asks a judge, and there is none; add [targets.judge]."
            )
        from ragc.metrics.entailment.judge import JudgeEntailer

        return Remembered(JudgeEntailer(ask))
    kind, _, model = name.partition(":")
    if kind == "nli" and model:
        from ragc.metrics.entailment.nli import nli

        return Remembered(nli(model), store)
    raise UnknownName("entailment backend", name, ("lexical", "judge", "nli:PATH_OR_ID"))


def _words(text: str) -> frozenset[str]:
    found = (word.replace(",", "") for word in _WORD.findall(text.lower()))
    return frozenset(_singular(word) for word in found if word not in _STOP)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
