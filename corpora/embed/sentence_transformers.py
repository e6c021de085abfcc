"""Embedding with models of sentence-transformers, if that library is installed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ragc.core import extras
from ragc.core.digest import digest
from ragc.core.extras import require
from ragc.core.text import first_line, repair_surrogates
from ragc.corpora.embed.base import EmbedderKind, Vectors, traits
from ragc.corpora.embed.model_files import folder_digests
from ragc.errors import SourceError

BATCH = 32
MODULE = "sentence_transformers"


class SentenceTransformersEmbedder:
    """The model called `model`: a folder, or an id of the Hugging Face hub at `revision`.

    Prefixes are those of the model's family where they are not given. Texts are cut to `max_tokens`, the
    model's own limit by default. Only weights in the safetensors format are read: loading them runs no
    code. Raises UsageError when sentence-transformers is missing.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str = "",
        max_tokens: int | None = None,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        device: str = "",
    ) -> None:
        require(MODULE, f"The embedder {model!r}")
        self.model, self.revision, self.max_tokens, self.device = model, revision, max_tokens, device
        known = traits(model)
        self.query_prefix = known.query_prefix if query_prefix is None else query_prefix
        self.passage_prefix = known.passage_prefix if passage_prefix is None else passage_prefix
        content: object = [model, revision]
        if (folder := Path(model).expanduser()).is_dir():
            content = folder_digests(folder)
        settings = [max_tokens, self.query_prefix, self.passage_prefix]
        self.fingerprint = digest(["sentence-transformers", content, settings])
        self._lock = Lock()
        self._native: Any = None

    def __deepcopy__(self, memo: object) -> SentenceTransformersEmbedder:
        return self

    @property
    def dimensions(self) -> int:
        """The length of a vector. Raises SourceError when the model cannot be loaded."""
        return int(self._ready().get_sentence_embedding_dimension())

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns `texts` as they are, without a prefix: float32 of shape (len(texts), dimensions), rows of
        length 1.

        Raises SourceError when the model cannot be loaded or run.
        """
        native = self._ready()
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        clean = [repair_surrogates(text) for text in texts]
        try:
            with self._lock:  # its tokenizers are not safe in several threads
                vectors = native.encode(
                    clean,
                    batch_size=BATCH,
                    normalize_embeddings=True,
                    convert_to_numpy=True,
                    show_progress_bar=False,
                )
        except Exception as error:  # whatever torch raises: out of memory, a lost device
            raise SourceError(f"The embedder {self.model!r} failed: {first_line(error)}.") from error
        return np.ascontiguousarray(vectors, dtype=np.float32)

    def _ready(self) -> Any:
        with self._lock:
            if self._native is None:
                library = importlib.import_module(MODULE)
                try:
                    native = library.SentenceTransformer(
                        self.model,
                        revision=self.revision or None,
                        device=self.device or None,
                        model_kwargs={"use_safetensors": True},
                    )
                except Exception as error:  # not found, no network, a broken file: libraries differ
                    raise SourceError(
                        f"The embedder {self.model!r} cannot be loaded: {first_line(error)}. Name a folder "
                        "that holds it, or an id that can be downloaded."
                    ) from error
                if self.max_tokens is not None:
                    native.max_seq_length = self.max_tokens
                self._native = native
            return self._native


def lacking(what: str, model: str) -> Iterator[str]:
    """Yields that the library is not installed which runs the `model`, a `what` such as "embedder"."""
    yield from extras.lacking(f"The {what} {model!r}", (MODULE,))


KIND = EmbedderKind(
    "sentence-transformers",
    lambda model, progress: SentenceTransformersEmbedder(model),
    lambda model: True,
    lambda model: lacking("embedder", model),
)
