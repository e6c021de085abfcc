"""Embeds texts with an ONNX model: onnxruntime and tokenizers, no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Literal

import numpy as np

from ragc.core.digest import digest
from ragc.core.extras import require
from ragc.core.text import first_line, repair_surrogates
from ragc.corpora.embed.base import EmbedderKind, Vectors, traits
from ragc.corpora.embed.model_files import ONNX, TOKENIZER, checksums, has_onnx, model_file, pad_id
from ragc.corpora.embed.model_files import settings as file_settings
from ragc.corpora.embed.onnx_session import OnnxSession
from ragc.errors import SourceError, UsageError

VERSION = 1
"""Increased whenever the same model and text would give another vector."""

BATCH = 32
"""Texts in one batch; texts are sorted by length first, to reduce padding."""

Pooling = Literal["mean", "cls"]
_TOKENS = 512


class OnnxEmbedder:
    """The model in `folder`: `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`.

    `model` is its id (default: the folder's name); it decides prefixes and pooling unless they are given or
    the folder sets them (`1_Pooling/config.json`). Texts are cut to `max_tokens` (default:
    `sentence_bert_config.json`, else 512). `threads` of 0 leaves their number to onnxruntime.

    `files` are the SHA-256 sums of the model's files by name, if they are known beforehand, and `prepare`
    provides the files before the first use; without it the folder must be complete now. Raises UsageError
    when it is not, when it names a pooling other than mean and cls, and when a library is missing.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        model: str = "",
        pooling: Pooling | None = None,
        max_tokens: int | None = None,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        threads: int = 0,
        files: Mapping[str, str] | None = None,
        prepare: Callable[[], object] | None = None,
    ) -> None:
        for library in ("onnxruntime", "tokenizers"):
            require(library, "An embedder in ONNX form")
        self.folder = Path(folder).expanduser()
        self.model = model or self.folder.resolve().name
        known = traits(self.model)
        self.query_prefix = known.query_prefix if query_prefix is None else query_prefix
        self.passage_prefix = known.passage_prefix if passage_prefix is None else passage_prefix
        self.threads, self._prepare, self._lock = threads, prepare, Lock()
        if prepare is None:
            _check_complete(self.folder)
        self.pooling: Pooling = pooling or _pooling(self.folder) or known.pooling
        self.max_tokens = max_tokens or _max_tokens(self.folder)
        sums = dict(files) if files is not None else checksums(self.folder)
        settings = [self.pooling, self.max_tokens, self.query_prefix, self.passage_prefix, VERSION]
        self.fingerprint = digest(["onnx", sums, settings])
        self._loaded: _OnnxModel | None = None

    def __deepcopy__(self, memo: object) -> OnnxEmbedder:
        return self

    @property
    def dimensions(self) -> int:
        """The length of a vector. Raises SourceError when the model cannot be loaded."""
        return self._ready().dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns `texts` as they are, without a prefix: float32 of shape (len(texts), dimensions), rows of
        length 1.

        Raises SourceError when the model cannot be loaded or run.
        """
        return self._ready().embed(texts)

    def _ready(self) -> _OnnxModel:
        with self._lock:
            if self._loaded is None:
                if self._prepare is not None:
                    self._prepare()
                try:
                    self._loaded = _OnnxModel(self.folder, self.pooling, self.max_tokens, self.threads)
                except SourceError:
                    raise
                except Exception as error:  # both libraries raise plain exceptions for unreadable files
                    raise SourceError(
                        f"The embedder in {self.folder} cannot be loaded: {first_line(error)}. Is "
                        "model.onnx a model of texts, and tokenizer.json its own?"
                    ) from error
            return self._loaded


class _OnnxModel:
    """A model and its tokenizer in memory."""

    def __init__(self, folder: Path, pooling: Pooling, max_tokens: int, threads: int) -> None:
        from tokenizers import Tokenizer

        self.folder = folder
        self.pooling: Pooling = pooling
        self.tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self.pad = pad_id(self.tokenizer)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens)
        self.session = OnnxSession(
            model_file(folder), pad=self.pad, output="sentence_embedding", threads=threads
        )
        self.dimensions = int(self._run([[self.pad]]).shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns one row of length 1 for each text."""
        clean = [repair_surrogates(text) for text in texts]
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(clean)]
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        vectors = np.empty((len(ids), self.dimensions), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            vectors[batch] = self._run([ids[at] for at in batch])
        return vectors

    def _run(self, ids: Sequence[Sequence[int]]) -> Vectors:
        try:
            out, mask = self.session.run([(row, [0] * len(row)) for row in ids])
        except Exception as error:  # onnxruntime's errors share no class of their own
            raise SourceError(f"The embedder in {self.folder} failed: {first_line(error)}.") from error
        pooled = out if out.ndim == 2 else _pool(out, mask, self.pooling)
        norms = np.linalg.norm(pooled, axis=1, keepdims=True)
        if not np.isfinite(norms).all():
            raise SourceError(f"The embedder in {self.folder} gave a vector that is not a number.")
        return np.asarray(pooled / np.maximum(norms, 1e-12), dtype=np.float32)


def _check_complete(folder: Path) -> None:
    for name, there in ((ONNX[0], model_file(folder)), (TOKENIZER, folder / TOKENIZER)):
        if not there.is_file():
            raise UsageError(
                f"An embedder's folder holds model.onnx and tokenizer.json; {folder} has no {name}."
            )


def _pooling(folder: Path) -> Pooling | None:
    config = file_settings(folder / "1_Pooling" / "config.json")
    modes = [name.removeprefix("pooling_mode_") for name, on in config.items() if on is True]
    modes = [name for name in modes if name != "include_prompt"]
    if not modes:
        return None
    if modes == ["cls_token"]:
        return "cls"
    if modes == ["mean_tokens"]:
        return "mean"
    raise UsageError(f"The embedder in {folder} pools by {', '.join(modes)}; mean and cls are supported.")


def _max_tokens(folder: Path) -> int:
    limit = file_settings(folder / "sentence_bert_config.json").get("max_seq_length")
    return limit if type(limit) is int and limit > 0 else _TOKENS


def _pool(out: Any, mask: Any, pooling: Pooling) -> Any:
    if pooling == "cls":
        return out[:, 0]
    weights = mask[:, :, None].astype(np.float32)
    return (out * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)


def _takes(model: str) -> bool:
    """Returns whether `model` is a folder in ONNX form, or one that is not of sentence-transformers."""
    folder = Path(model).expanduser()
    return folder.is_dir() and (has_onnx(folder) or not (folder / "modules.json").is_file())


KIND = EmbedderKind("onnx", lambda model, progress: OnnxEmbedder(Path(model).expanduser()), _takes)
