"""Embedding with a model in ONNX form: onnxruntime and tokenizers, no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ragc.core.digest import digest
from ragc.corpora.embed.base import Vectors, require, traits
from ragc.errors import SourceError, UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VERSION = 1
"""Raised whenever the same model and text would give another vector."""

BATCH = 32
"""Texts that go through the model together; they are sorted by length first, so little is padding."""

Pooling = Literal["mean", "cls"]
_MODELS = ("model.onnx", "onnx/model.onnx")
_TOKENIZER = "tokenizer.json"
_TOKENS = 512


class OnnxEmbedder:
    """The model in `folder`: `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`.

    `model` is its id (default: the folder's name); it decides prefixes and pooling where they are not
    given and the folder does not say (`1_Pooling/config.json`). Texts are cut to `max_tokens` (default:
    `sentence_bert_config.json`, else 512). `threads` of 0 leaves their number to onnxruntime.

    `files` are the SHA-256 sums of the model's files by name where they are known beforehand, and
    `prepare` brings the files before the first use; without it the folder must be complete now.
    Raises UsageError when it is not, when it names a pooling other than mean and cls, and when a library
    is missing.
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
            require(library, "An embedder in ONNX form", "'ragc[dense]'")
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
        self._loaded: _Loaded | None = None

    def __deepcopy__(self, memo: object) -> OnnxEmbedder:
        return self

    @property
    def dimensions(self) -> int:
        """The length of a vector. Raises SourceError when the model cannot be loaded."""
        return self._ready().dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        """`texts` as they are, without a prefix: float32 of shape (len(texts), dimensions), rows of length 1.

        Raises SourceError when the model cannot be loaded or run.
        """
        return self._ready().embed(texts)

    def _ready(self) -> _Loaded:
        with self._lock:
            if self._loaded is None:
                if self._prepare is not None:
                    self._prepare()
                try:
                    self._loaded = _Loaded(self.folder, self.pooling, self.max_tokens, self.threads)
                except SourceError:
                    raise
                except Exception as error:  # both libraries raise bare ones for files they cannot read
                    raise SourceError(
                        f"The embedder in {self.folder} cannot be loaded: {_first_line(error)}. Is "
                        "model.onnx a model of texts, and tokenizer.json its own?"
                    ) from error
            return self._loaded


class _Loaded:
    """A model and its tokenizer in memory."""

    def __init__(self, folder: Path, pooling: Pooling, max_tokens: int, threads: int) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self.folder = folder
        self.pooling: Pooling = pooling
        self.tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        self.pad = _pad_id(self.tokenizer)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            str(_model_file(folder)), options, providers=["CPUExecutionProvider"]
        )
        self.inputs = [entry.name for entry in self.session.get_inputs()]
        self.output = _output(self.session.get_outputs())
        if strange := set(self.inputs) - {"input_ids", "attention_mask", "token_type_ids"}:
            raise SourceError(
                f"The model in {folder} asks for {', '.join(sorted(strange))}; an embedder is given "
                "input_ids, attention_mask and token_type_ids."
            )
        self.dimensions = int(self._run([[self.pad]]).shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of length 1 for each text."""
        # A lone half of a surrogate pair is no text to the tokenizer.
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch(clean)]
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        vectors = np.empty((len(ids), self.dimensions), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            vectors[batch] = self._run([ids[at] for at in batch])
        return vectors

    def _run(self, ids: Sequence[Sequence[int]]) -> Vectors:
        longest = max(1, *map(len, ids)) if ids else 1
        tokens = np.full((len(ids), longest), self.pad, dtype=np.int64)
        mask = np.zeros_like(tokens)
        for at, row in enumerate(ids):
            tokens[at, : len(row)] = row
            mask[at, : len(row)] = 1
        given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        try:
            (out,) = self.session.run([self.output], {name: given[name] for name in self.inputs})
        except Exception as error:  # onnxruntime's errors share no class of their own
            raise SourceError(f"The embedder in {self.folder} failed: {_first_line(error)}.") from error
        pooled = out if out.ndim == 2 else _pooled(out, mask, self.pooling)
        norms = np.linalg.norm(pooled, axis=1, keepdims=True)
        if not np.isfinite(norms).all():
            raise SourceError(f"The embedder in {self.folder} gave a vector that is not a number.")
        return np.asarray(pooled / np.maximum(norms, 1e-12), dtype=np.float32)


def has_onnx(folder: Path) -> bool:
    """Whether `folder` has a model in ONNX form where an embedder looks for it."""
    return _model_file(folder).is_file()


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of the tokenizer, the model and what the model keeps in files beside it, by name.

    Raises UsageError when one cannot be read.
    """
    model = _model_file(folder)
    found = {}
    for path in (folder / _TOKENIZER, *sorted(model.parent.glob(f"{model.name}*"))):
        try:
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    return found


def _check_complete(folder: Path) -> None:
    for name, there in ((_MODELS[0], _model_file(folder)), (_TOKENIZER, folder / _TOKENIZER)):
        if not there.is_file():
            raise UsageError(
                f"An embedder's folder holds model.onnx and tokenizer.json; {folder} has no {name}."
            )


def _model_file(folder: Path) -> Path:
    return next((folder / name for name in _MODELS if (folder / name).is_file()), folder / _MODELS[0])


def _pooling(folder: Path) -> Pooling | None:
    said = _json(folder / "1_Pooling" / "config.json")
    asked = [name.removeprefix("pooling_mode_") for name, on in said.items() if on is True]
    asked = [name for name in asked if name != "include_prompt"]
    if not asked:
        return None
    if asked == ["cls_token"]:
        return "cls"
    if asked == ["mean_tokens"]:
        return "mean"
    raise UsageError(f"The embedder in {folder} pools by {', '.join(asked)}; mean and cls are supported.")


def _max_tokens(folder: Path) -> int:
    said = _json(folder / "sentence_bert_config.json").get("max_seq_length")
    return said if type(said) is int and said > 0 else _TOKENS


def _json(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {_first_line(error)}.") from error
    return said if isinstance(said, dict) else {}


def _pad_id(tokenizer: Tokenizer) -> int:
    if tokenizer.padding:
        return int(tokenizer.padding["pad_id"])
    found = (tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
    return next((at for at in found if at is not None), 0)


def _output(outputs: Sequence[Any]) -> str:
    names = [str(entry.name) for entry in outputs]
    return "sentence_embedding" if "sentence_embedding" in names else names[0]


def _pooled(out: Any, mask: Any, pooling: Pooling) -> Any:
    if pooling == "cls":
        return out[:, 0]
    weights = mask[:, :, None].astype(np.float32)
    return (out * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
