"""What counts of the proxy's replies: the probability of a judgement, and which claims, parts and queries.

Differs from SlimPLM's code, which takes over all that it can read: see `usable` and `distinct`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ragc import counters
from ragc.corpora.terms import analyze, query_terms
from ragc.programs.field_logprobs import field_tokens
from ragc.signatures.claims import MOST


def probability(said: Any) -> float:
    """How likely a `yes` was in the judgement `said`; where no token spells its word, 0 or 1 as it says."""
    spelled = field_tokens(said.logprobs, "known", said.known)
    likely = math.exp(sum(token.logprob for token in spelled))
    return likely if said.known == "yes" else 1 - likely


def usable(text: str, items: Sequence[Any], name: str) -> list[Any]:
    """The first `MOST` items with a query whose field `name` shares a word with `text`.

    An item without a query that needs no search is left out; all others are counted as dropped.
    """
    words = set(analyze(text))
    meant = [item for item in items[:MOST] if item.query.strip() or item.need_search == "yes"]
    kept = [i for i in meant if i.query.strip() and not words.isdisjoint(query_terms(getattr(i, name)))]
    counters.count(dropped=len(items[MOST:]) + len(meant) - len(kept))
    return kept


def distinct(queries: Iterable[str]) -> list[str]:
    """`queries` in order, of those with the same words only the first."""
    kept: dict[object, str] = {}
    for query in queries:
        kept.setdefault(tuple(analyze(query)) or query, query)
    return list(kept.values())
