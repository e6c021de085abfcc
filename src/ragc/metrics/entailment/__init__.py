"""Entailment backends: does a text say that a statement is true? ALCE's claim and citation metrics ask.

    lexical          all numbers and most content words of the statement are in the text: quick, rough, free
    judge            a language model, by a typed verdict (`ragc.metrics.entailment.judge`)
    nli:PATH_OR_ID   a model of natural language inference (`ragc.metrics.entailment.nli`)

Figures of different backends cannot be compared; each has its name beside it. ALCE's own backend is
nli:google/t5_xxl_true_nli_mixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragc.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from ragc.metrics.base import JudgeCall
    from ragc.metrics.entailment.base import Entailer
    from ragc.store.call_store import CallStore


def make(name: str, ask: JudgeCall | None = None, *, store: CallStore | None = None) -> Entailer:
    """The backend `name`: "lexical", "judge" or "nli:PATH_OR_ID", whose verdicts are cached.

    `ask` is the judge's; its calls are stored where they are made. `store` records the verdicts of NLI
    models. Raises UsageError for "judge" without `ask`, for a model that is not here or cannot tell
    entailment, and when a library is missing; UnknownName for any other name.
    """
    from ragc.metrics.entailment.base import CachedEntailer, LexicalEntailer

    if name == "lexical":
        return LexicalEntailer()
    if name == "judge":
        if ask is None:
            raise UsageError(
                "The entailment backend judge asks a judge, and there is none; add [targets.judge]."
            )
        from ragc.metrics.entailment.judge import JudgeEntailer

        return CachedEntailer(JudgeEntailer(ask))
    kind, _, model = name.partition(":")
    if kind == "nli" and model:
        from ragc.metrics.entailment.nli import nli

        return CachedEntailer(nli(model), store)
    raise UnknownName("entailment backend", name, ("lexical", "judge", "nli:PATH_OR_ID"))
