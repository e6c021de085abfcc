"""Reranks with cross-encoders, models that read query and passage together.

`cross` opens one from a folder or an id. Models in ONNX form run on onnxruntime, without torch; all others
with sentence-transformers, if that library is installed.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ragc.core.digest import digest
from ragc.core.extras import require
from ragc.core.marks import Resolve
from ragc.core.text import first_line, repair_surrogates
from ragc.corpora.embed.base import passage_text
from ragc.corpora.embed.model_files import (
    TOKENIZER,
    checksums,
    folder_digests,
    has_onnx,
    model_file,
    pad_id,
    settings,
)
from ragc.corpora.embed.onnx import BATCH
from ragc.corpora.embed.onnx_session import Encoded, OnnxSession
from ragc.corpora.embed.sentence_transformers import lacking
from ragc.corpora.rerank.base import ModelMark, Reranker, RerankerKind
from ragc.errors import SourceError, UsageError
from ragc.records import Passage

VERSION = 1
"""Increased whenever the same model, query and passages would get other scores."""

TOKENS = 512
"""The most tokens of query and passage together; the longer of the two is truncated first."""


def cross(model: str) -> Reranker:
    """Returns the cross-encoder `model`: an ONNX folder, or a sentence-transformers model by folder or id.

    Raises UsageError without a model, for a folder that lacks something, and when a library is missing.
    """
    if not model:
        raise UsageError(
            "There is no default cross-encoder; name a folder with model.onnx and tokenizer.json, or a model "
            "of sentence-transformers: cross:FOLDER or cross:ID."
        )
    folder = Path(model).expanduser()
    if has_onnx(folder):
        return OnnxCrossEncoder(folder)
    if model.startswith((".", "/", "~")) and not folder.is_dir():
        raise UsageError(f"A cross-encoder's folder is needed, and {folder} is none.")
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise UsageError(f"A cross-encoder's folder holds model.onnx or config.json; {folder} has neither.")
    return TransformersCrossEncoder(model)


class OnnxCrossEncoder:
    """The model in `folder`: `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`.

    It returns one number for a pair, or two, of which the second is for relevance; scores are those numbers,
    or the second minus the first, without any bounds. Pairs are cut to `max_tokens` (default: from
    `tokenizer_config.json`, 512 at most). `threads` of 0 leaves their number to onnxruntime. Raises
    UsageError when the folder is not complete, for a limit below 1, and when a library is missing.
    """

    def __init__(self, folder: str | Path, *, max_tokens: int | None = None, threads: int = 0) -> None:
        for library in ("onnxruntime", "tokenizers"):
            require(library, "A cross-encoder in ONNX form")
        self.folder = Path(folder).expanduser()
        for path in (model_file(self.folder), self.folder / TOKENIZER):
            if not path.is_file():
                raise UsageError(
                    f"A cross-encoder's folder holds model.onnx and tokenizer.json; {self.folder} has no "
                    f"{path.name}."
                )
        if max_tokens is not None and max_tokens < 1:
            raise UsageError(f"A cross-encoder reads at least 1 token, got max_tokens = {max_tokens}.")
        self.max_tokens = max_tokens or _max_tokens(self.folder)
        self.threads, self._lock = threads, Lock()
        self.name = f"cross:{self.folder.resolve().name}"
        self.fingerprint = digest(["cross-onnx", VERSION, checksums(self.folder), self.max_tokens])
        self._loaded: _PairModel | None = None

    def __deepcopy__(self, memo: object) -> OnnxCrossEncoder:
        return self

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns the model's score of each passage; computed in a thread.

        Raises SourceError if the model cannot be loaded or run, or is no cross-encoder.
        """
        return await asyncio.to_thread(self._scores, query, passages) if passages else []

    def _scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = _PairModel(self.folder, self.max_tokens, self.threads)
                except Exception as error:  # both libraries raise plain exceptions for unreadable files
                    raise SourceError(
                        f"The cross-encoder in {self.folder} cannot be loaded: {first_line(error)}. Is "
                        "model.onnx a model of texts, and tokenizer.json its own?"
                    ) from error
        return self._loaded.scores(
            [(repair_surrogates(query), repair_surrogates(passage_text(p))) for p in passages]
        )


class _PairModel:
    """A model and its tokenizer in memory."""

    def __init__(self, folder: Path, max_tokens: int, threads: int) -> None:
        from tokenizers import Tokenizer

        self.folder = folder
        self.tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        pad = pad_id(self.tokenizer)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens, strategy="longest_first")
        self.session = OnnxSession(model_file(folder), pad=pad, output="logits", threads=threads)

    def scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Returns one score for each pair; pairs are sorted by length first, to reduce padding."""
        encoded = [(e.ids, e.type_ids) for e in self.tokenizer.encode_batch(list(pairs))]
        order = sorted(range(len(encoded)), key=lambda at: len(encoded[at][0]))
        scores = np.empty(len(encoded))
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            scores[batch] = self._run([encoded[at] for at in batch])
        return [float(score) for score in scores]

    def _run(self, batch: Sequence[Encoded]) -> Any:
        try:
            out, _ = self.session.run(batch)
        except Exception as error:  # onnxruntime's errors share no class of their own
            raise SourceError(f"The cross-encoder in {self.folder} failed: {first_line(error)}.") from error
        return _relevance(np.asarray(out), len(batch), str(self.folder))


class TransformersCrossEncoder:
    """The model of sentence-transformers called `model`: a folder, or an id of the hub at `revision`.

    Only weights in the safetensors format are read: loading them runs no code. Raises UsageError when
    sentence-transformers is missing.
    """

    def __init__(
        self, model: str, *, revision: str = "", max_tokens: int | None = None, device: str = ""
    ) -> None:
        require("sentence_transformers", f"The cross-encoder {model!r}")
        self.model, self.revision, self.max_tokens, self.device = model, revision, max_tokens, device
        self.name = f"cross:{model}"
        folder = Path(model).expanduser()
        self._path_or_id = str(folder) if folder.is_dir() else model
        identity: object = folder_digests(folder) if folder.is_dir() else [model, revision]
        self.fingerprint = digest(["cross-sentence-transformers", VERSION, identity, max_tokens])
        self._lock = Lock()
        self._native: Any = None

    def __deepcopy__(self, memo: object) -> TransformersCrossEncoder:
        return self

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns the model's score of each passage; computed in a thread.

        Raises SourceError if the model cannot be loaded or run, or is no cross-encoder.
        """
        return await asyncio.to_thread(self._scores, query, passages) if passages else []

    def _scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        pairs = [(repair_surrogates(query), repair_surrogates(passage_text(passage))) for passage in passages]
        with self._lock:  # its tokenizers are not safe in several threads
            native = self._ready()
            try:
                out = native.predict(pairs, batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True)
            except Exception as error:  # whatever torch raises: out of memory, a lost device
                raise SourceError(f"The cross-encoder {self.model!r} failed: {first_line(error)}.") from error
        return [float(score) for score in _relevance(np.asarray(out), len(pairs), self.model)]

    def _ready(self) -> Any:
        if self._native is None:
            more: dict[str, Any] = {} if self.max_tokens is None else {"max_length": self.max_tokens}
            try:
                self._native = importlib.import_module("sentence_transformers").CrossEncoder(
                    self._path_or_id,
                    revision=self.revision or None,
                    device=self.device or None,
                    model_kwargs={"use_safetensors": True},
                    **more,
                )
            except Exception as error:  # not found, no network, a broken file: libraries differ
                raise SourceError(
                    f"The cross-encoder {self.model!r} cannot be loaded: {first_line(error)}. Name a folder "
                    "that holds it, or an id that can be downloaded."
                ) from error
        return self._native


def _relevance(out: Any, pairs: int, where: str) -> Any:
    """Returns one score a pair: the model's only output, or the second of two minus the first."""
    if out.shape in ((pairs,), (pairs, 1)):
        return out.reshape(pairs)
    if out.shape == (pairs, 2):
        return out[:, 1] - out[:, 0]
    raise SourceError(
        f"The model {where!r} gave an array of shape {out.shape} for {pairs} pairs; a cross-encoder gives "
        "one number or two for each."
    )


def _max_tokens(folder: Path) -> int:
    limit = settings(folder / "tokenizer_config.json").get("model_max_length")
    return min(limit, TOKENS) if type(limit) is int and limit > 0 else TOKENS


class _ModelMark(ModelMark):
    """For the cross-encoder."""

    def lacking(self, who: str, value: Any, resolve: Resolve) -> Iterator[str]:
        """Yields the library that runs a model which is no folder."""
        if value and not resolve(value).is_dir():
            yield from lacking("cross-encoder", value)


KIND = RerankerKind("cross", ("cross:MODEL",), lambda model, progress: cross(model), _ModelMark())
