"""An embedder whose vectors tests can foretell."""

from __future__ import annotations

from typing import Any

import numpy as np


class WordEmbedder:
    """An embedder with two vectors: one for texts that hold one of `words`, another for all others."""

    query_prefix, passage_prefix, dimensions = "", "", 2

    def __init__(self, name: str, *words: str) -> None:
        self.model = self.fingerprint = name
        self._words = words

    def embed(self, texts: Any) -> Any:
        rows = [[1.0, 0.0] if any(word in text for word in self._words) else [0.0, 1.0] for text in texts]
        return np.array(rows, np.float32)
