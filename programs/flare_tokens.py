"""Token probabilities of a sentence, as FLARE and Self-RAG use them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragc.programs.field_logprobs import field_tokens as pieces
from ragc.targets.base import TokenLogprob

__all__ = ["mean_probability", "pieces"]


def mean_probability(tokens: Sequence[TokenLogprob]) -> float:
    """The exponential of the mean log probability of `tokens`; 0 when there are none."""
    return math.exp(sum(token.logprob for token in tokens) / len(tokens)) if tokens else 0.0
