"""The kinds of rerankers: BM25, embedders, and cross-encoders, models that read two texts together.

Cross-encoders in ONNX form run on onnxruntime, without torch; all others with sentence-transformers, where
that library is installed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np

from ragc.core.digest import digest
from ragc.corpora.embed import DEFAULT, Embedder, Vectors, passage_text
from ragc.corpora.embed import make as make_embedder
from ragc.corpora.embed.local import TRANSFORMERS, has_onnx, onnx_model, settings, transformers_model
from ragc.corpora.rerank import RerankerKind
from ragc.corpora.sources.bm25 import bm25_scores
from ragc.corpora.sources.terms import ANALYZER, passage_terms, query_terms
from ragc.errors import SourceError, UsageError
from ragc.records import Passage

PLACES = 6
"""Decimals to which cosines are rounded.

float32 is no more precise, and later decimals depend on which texts are embedded together.
"""

MAX_VECTORS = 50_000
"""The most passage vectors cached in memory; 77 MB at 384 dimensions."""

MAX_TOKENS = 512
"""The most tokens of both texts together; the longer of the two is truncated first."""


class Bm25Reranker:
    """The BM25 score of each passage with the reranked passages as the corpus; 0 or more."""

    name = "bm25"
    fingerprint = digest(["rerank-bm25", ANALYZER])

    def __deepcopy__(self, memo: object) -> Bm25Reranker:
        return self

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns the score of each passage (title and text together), with these passages as the corpus."""
        documents = [passage_terms(passage) for passage in passages]
        return await asyncio.to_thread(bm25_scores, query_terms(query), documents)


class EmbedReranker:
    """The cosine of the vectors of query and passage, -1 to 1, by `embedder` with its prefixes.

    The last `MAX_VECTORS` vectors of passages stay in memory, by text.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.name = f"embed:{embedder.model}"
        self.fingerprint = digest(["rerank-embed", PLACES, embedder.fingerprint])
        self._vectors: dict[str, Vectors] = {}
        self._lock = Lock()

    def __deepcopy__(self, memo: object) -> EmbedReranker:
        return self

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns the cosine of each passage with the query; computed in a thread.

        Raises SourceError when the model cannot be loaded or run, and unless it returns one finite vector for
        each text.
        """
        return await asyncio.to_thread(self._scores, query, passages) if passages else []

    def _scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        texts = [self.embedder.passage_prefix + passage_text(passage) for passage in passages]
        with self._lock:
            vectors = {text: self._vectors[text] for text in texts if text in self._vectors}
        new = [text for text in dict.fromkeys(texts) if text not in vectors]
        rows = self.embedder.embed([self.embedder.query_prefix + query, *new])
        if rows.ndim != 2 or len(rows) != len(new) + 1 or not np.isfinite(rows).all():
            raise SourceError(
                f"The embedder {self.embedder.model!r} gave an array of shape {rows.shape} for "
                f"{len(new) + 1} texts; one row of finite numbers for each was expected."
            )
        vectors |= {text: row.copy() for text, row in zip(new, rows[1:], strict=True)}
        with self._lock:
            self._vectors |= vectors
            while len(self._vectors) > MAX_VECTORS:
                del self._vectors[next(iter(self._vectors))]
        return [round(float(vectors[text] @ rows[0]), PLACES) for text in texts]


class CrossEncoder:
    """Scores a passage by the only number that `model` gives for the query and it, or the second of two minus
    the first.

    `model` is an ONNX folder, or a sentence-transformers model by folder or id. A limit of tokens in
    `tokenizer_config.json` counts, up to `MAX_TOKENS`. Raises UsageError without a model, for a folder that
    lacks something, and when a library is missing.
    """

    def __init__(self, model: str) -> None:
        folder = Path(model).expanduser()
        if not model or (model.startswith((".", "/", "~")) and not folder.is_dir()):
            problem = f"{folder} is no folder" if model else "There is no default cross-encoder"
            raise UsageError(
                f"{problem}; name a folder with model.onnx and tokenizer.json, or a model of "
                "sentence-transformers: cross:FOLDER or cross:ID."
            )
        if has_onnx(folder):
            limit = settings(folder / "tokenizer_config.json").get("model_max_length", MAX_TOKENS)
            self.local = onnx_model(
                "A cross-encoder", folder, output="logits", max_tokens=min(limit, MAX_TOKENS)
            )
        elif folder.is_dir() and not (folder / "config.json").is_file():
            raise UsageError(
                f"A cross-encoder's folder holds model.onnx or config.json; {folder} has neither."
            )
        else:
            self.local = transformers_model("The cross-encoder", model, "CrossEncoder", "predict")
        self.name = f"cross:{folder.resolve().name if folder.is_dir() else model}"
        self.fingerprint = digest(["pairs", self.local.content])

    def __deepcopy__(self, memo: object) -> CrossEncoder:
        return self

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns the score of each passage, without any bounds; computed in a thread.

        Raises SourceError if the model cannot be loaded or run, or is no cross-encoder.
        """
        if not passages:
            return []
        pairs = [(query, passage_text(passage)) for passage in passages]
        output = await asyncio.to_thread(self.local.run, pairs)
        if output.size not in (len(pairs), 2 * len(pairs)):
            raise SourceError(
                f"The model {self.name!r} gave an array of shape {output.shape} for {len(pairs)} pairs; a "
                "cross-encoder gives one number or two for each."
            )
        rows = output.reshape(len(pairs), -1)
        return [float(row[1] - row[0] if len(row) == 2 else row[0]) for row in rows]


BM25 = RerankerKind("bm25", ("bm25",), lambda model, progress: Bm25Reranker())
EMBED = RerankerKind(
    "embed",
    ("embed", "embed:MODEL"),
    lambda model, progress: EmbedReranker(make_embedder(model or DEFAULT, progress=progress)),
)
CROSS = RerankerKind("cross", ("cross:MODEL",), lambda model, _: CrossEncoder(model), (TRANSFORMERS,))
