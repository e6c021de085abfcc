"""Embedders whose vectors tests can foretell."""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import pytest

from ragc.corpora.embed import Vectors


def install_transformers(monkeypatch: pytest.MonkeyPatch, **classes: type) -> None:
    """Installs a library called sentence-transformers with `classes`."""
    library = types.ModuleType("sentence_transformers")
    vars(library).update(classes)
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())


class WordEmbedder:
    """An embedder with two vectors: one for texts that hold one of `words`, another for all others."""

    query_prefix, passage_prefix, dimensions = "", "", 2

    def __init__(self, name: str, *words: str) -> None:
        self.model = self.fingerprint = name
        self._words = words

    def embed(self, texts: Any) -> Any:
        rows = [[1.0, 0.0] if any(word in text for word in self._words) else [0.0, 1.0] for text in texts]
        return np.array(rows, np.float32)


class HashedWords:
    """Words in lower case, each to a random direction; keeps what it was asked to embed."""

    dimensions = 16

    def __init__(self, *, query_prefix: str = "", passage_prefix: str = "") -> None:
        self.model = "hashed-words"
        self.query_prefix, self.passage_prefix = query_prefix, passage_prefix
        self.fingerprint = f"hashed {query_prefix!r} {passage_prefix!r}"
        self.inputs: list[str] = []
        self._lock = Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        with self._lock:
            self.inputs += texts
        sums = [np.sum([_direction(word) for word in ["", *text.lower().split()]], axis=0) for text in texts]
        vectors = np.array(sums).reshape(len(texts), self.dimensions)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def _direction(word: str) -> Any:
    seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8])
    return np.random.default_rng(seed).standard_normal(HashedWords.dimensions).astype(np.float32)
