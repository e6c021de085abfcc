"""Reads documents through a child process, with a limit of time and memory for each."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any, Self

from pydantic import TypeAdapter

from ragc.core import children
from ragc.core.extras import remedy
from ragc.core.files import open_regular
from ragc.corpora.documents.base import KINDS, MAX_BYTES, Document, UnreadableDocument
from ragc.errors import UsageError

SECONDS = 120.0
"""The most seconds that one file may take."""

DOCUMENT = TypeAdapter(Document)


def read_content(path: Path) -> bytes:
    """Returns the content of the regular file `path`, no link.

    Raises UnreadableDocument if it is empty, larger than `MAX_BYTES`, or cannot be read.
    """
    try:
        with open_regular(path, follow=False) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableDocument(f"cannot be read ({error.strerror or error})") from error
    if len(content) > MAX_BYTES:
        size = path.stat().st_size // 1_000_000
        raise UnreadableDocument(f"has {size:,} MB, and {MAX_BYTES // 1_000_000} MB are read at most")
    if not content:
        raise UnreadableDocument("is empty")
    return content


class DocumentReader:
    """A child process that reads one document after another; it is started again when a file ends it."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._child: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, path: Path, reader: str, content: bytes | None = None) -> Document:
        """Returns the document at `path`, read by `reader`, a function `module:name`.

        Readers of ragc get a copy of `content`, by default that of the file, so that nothing can be put in
        its place while it is read. Raises UnreadableDocument with the reason, and UsageError if a library is
        missing.
        """
        content = read_content(path) if content is None else content
        with TemporaryDirectory(prefix="ragc-") as folder:
            copy = Path(folder, path.name) if reader in KINDS.values() else path.absolute()
            if copy.parent == Path(folder):
                copy.write_bytes(content)
            answer = self._ask({"path": str(copy), "reader": reader, "folder": str(Path.cwd())})
        if missing := answer.get("missing"):
            if reader not in KINDS.values():
                raise UsageError(f"The reader {reader!r} needs the module {missing!r}, which is not there.")
            raise UsageError(
                f"Reading {path.suffix} files needs {missing}; install it with: {remedy('documents')}"
            )
        if reason := answer.get("reason"):
            raise UnreadableDocument(str(reason))
        return DOCUMENT.validate_python(answer)

    def _ask(self, request: dict[str, str]) -> dict[str, Any]:
        if self._child is None:
            self._child = subprocess.Popen(
                children.command("-m", "ragc.corpora.documents.child"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                **children.surroundings(),
            )
        child, started = self._child, time.monotonic()
        timer = Timer(self._seconds, child.kill)
        timer.start()
        try:
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        if line.endswith("\n"):
            answer: dict[str, Any] = json.loads(line)
            return answer
        self._end()
        if time.monotonic() - started >= self._seconds:
            raise UnreadableDocument(f"takes more than {self._seconds:g} seconds")
        raise UnreadableDocument("ended the process that read it; it may be damaged")

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()
