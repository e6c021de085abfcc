"""Entailment backends: does a premise text entail a statement? Used by ALCE's claim and citation metrics.

    lexical          all numbers and most content words of the statement are in the text: fast, rough, free
    judge            a language model with a typed verdict (`ragc.metrics.entailment.judge`)
    nli:PATH_OR_ID   a natural language inference model (`ragc.metrics.entailment.nli`)

Scores from different backends cannot be compared; each is printed with its backend. ALCE's own backend is
nli:google/t5_xxl_true_nli_mixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragc.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from ragc.metrics.base import JudgeCall
    from ragc.metrics.entailment.base import Entailer
    from ragc.store.calls import CallStore


def make(name: str, ask: JudgeCall | None = None, *, store: CallStore | None = None) -> Entailer:
    """Returns the backend `name`, "lexical", "judge" or "nli:PATH_OR_ID", with cached verdicts.

    `ask` calls the judge; those calls are in the call store. `store` stores the verdicts of NLI models.
    Raises UsageError for "judge" without `ask`, for a model that is not here or is not an entailment model,
    and when a library is missing; UnknownName for any other name.
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
