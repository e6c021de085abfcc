"""Reads documents through a child process, with a limit of time and memory for each."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from ragc.core import children
from ragc.core.extras import remedy
from ragc.corpora.documents.base import MAX_BYTES, Document, Page, UnreadableDocument
from ragc.errors import UsageError

SECONDS = 120.0
"""The most seconds that one file may take."""


class DocumentReader:
    """A child process that reads one document after another; it is started again when a file ends it."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, path: Path, reader: str) -> Document:
        """Returns the document at `path`, read by `reader`: a module of this package, or `module:function`.

        Raises UnreadableDocument with the reason, and UsageError if a library is missing.
        """
        size = path.stat().st_size
        if not size:
            raise UnreadableDocument("is empty")
        if size > MAX_BYTES:
            raise UnreadableDocument(
                f"has {size // 1_000_000:,} MB, and {MAX_BYTES // 1_000_000} MB are read at most"
            )
        answer = self._ask({"path": str(path), "reader": reader, "folder": str(Path.cwd())})
        if missing := answer.get("missing"):
            if ":" in reader:
                raise UsageError(f"The reader {reader!r} needs the module {missing!r}, which is not there.")
            raise UsageError(
                f"Reading {path.suffix} files needs {missing}; install it with: {remedy('documents')}"
            )
        if reason := answer.get("reason"):
            raise UnreadableDocument(str(reason))
        document = answer["document"]
        pages = tuple(Page(p["text"], p["label"], tuple(p["section"])) for p in document["pages"])
        return Document(document["title"], pages, tuple(document["notes"]))

    def _ask(self, request: dict[str, str]) -> dict[str, Any]:
        child = self._child if self._child is not None and self._child.poll() is None else self._start()
        try:
            if child.stdin is None:
                raise BrokenPipeError
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            line = self._answers.get(timeout=self._seconds)
        except queue.Empty:
            self._end()
            raise UnreadableDocument(f"takes more than {self._seconds:g} seconds") from None
        except OSError:
            line = ""
        if not line:
            self._end()
            raise UnreadableDocument("ended the process that read it; it may be damaged")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self) -> subprocess.Popen[str]:
        answers: queue.Queue[str] = queue.Queue()
        self._answers = answers
        command = children.command("-m", "ragc.corpora.documents.child")
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            encoding="utf-8", **children.surroundings(),
        )  # fmt: skip

        def listen() -> None:
            for line in child.stdout or ():
                answers.put(line)
            answers.put("")

        threading.Thread(target=listen, daemon=True).start()
        self._child = child
        return child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
