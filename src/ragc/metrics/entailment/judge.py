"""Entailment by a language model: one typed call per pair, with the judge's target."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ragc.core import counters
from ragc.errors import ParseFailure
from ragc.metrics.base import JudgeCall
from ragc.metrics.entailment.base import Pair, Verdict
from ragc.metrics.judge import as_data

LONGEST = 6000
"""Maximum characters of a premise, about 1,500 tokens; ALCE's three passages have some 2,000."""


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
        return list(await asyncio.gather(*(self._one(premise, claim) for premise, claim in pairs)))

    async def _one(self, premise: str, hypothesis: str) -> Verdict:
        from ragc.signatures.judge import TextEntails

        text = truncate(as_data(premise), self._longest)
        try:
            return bool((await self._ask(TextEntails, text=text, statement=as_data(hypothesis)))["entailed"])
        except ParseFailure:
            counters.count(dropped=1)
            return None


def truncate(text: str, longest: int) -> str:
    """Returns `text`, or its first `longest` characters without a word cut in half at the end."""
    if len(text) <= longest:
        return text
    cut = text[: longest + 1].rpartition(" ")[0]
    return cut or text[:longest]
