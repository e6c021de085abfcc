"""Reads documents in a separate process, so that a bad file can only fail itself.

The process is this module. It reads one JSON object a line, `{"path", "reader", "folder"}`, and answers each
with one line: a `Document`, or `{"missing"}`, a module. It starts in a folder of ours and changes into that
of the caller. What readers print goes to stderr. Its memory is limited, and the caller ends it when a file
takes too long.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

from pydantic import TypeAdapter

from ragc.core import children
from ragc.core.extras import remedy
from ragc.core.files import open_regular
from ragc.core.text import repair_value
from ragc.corpora.documents.base import KINDS, Document, Page, UnreadableDocument, cleaned
from ragc.errors import UsageError

MAX_BYTES = 100_000_000
"""The largest file that is read, in bytes."""

MAX_TEXT = 64_000_000
"""The most characters that a document may hold."""

MEMORY = 3_000_000_000
"""The most bytes of address space that a reader may take."""

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


class DocumentReader(AbstractContextManager["DocumentReader"]):
    """A process that reads one document after another; it is started again when a file ends it.

    `seconds` are the most that one file may take.
    """

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._process: Any = None

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def read(self, path: Path, reader: str, content: bytes) -> Document:
        """Returns the document at `path`, read by `reader`, a function `module:name`.

        Readers of ragc get a copy of its `content`, so that nothing can be put in its place while it is read.
        Raises UsageError if a library is missing.
        """
        is_ours = reader in KINDS.values()
        with TemporaryDirectory(prefix="ragc-") as folder:
            place = Path(folder, path.name) if is_ours else path.absolute()
            if is_ours:
                place.write_bytes(content)
            answer = self._ask({"path": str(place), "reader": reader, "folder": str(Path.cwd())})
        if missing := answer.get("missing"):
            raise UsageError(
                f"Reading {path.suffix} files needs {missing}; install it with: {remedy('documents')}"
                if is_ours
                else f"The reader {reader!r} needs the module {missing!r}, which is not there."
            )
        return DOCUMENT.validate_python(answer)

    def _ask(self, request: dict[str, str]) -> dict[str, Any]:
        if self._process is None:
            self._process = subprocess.Popen(
                children.command("-m", "ragc.corpora.documents.reading"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                **children.surroundings(),
            )
        started, timer = time.monotonic(), Timer(self._seconds, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):  # the process has ended
            self.__exit__()
            is_late = time.monotonic() - started >= self._seconds
            late = f"takes more than {self._seconds:g} seconds"
            answer = {"reason": late if is_late else "ended the process that read it; it may be damaged"}
        finally:
            timer.cancel()
        return answer


def answer_requests() -> None:
    """Answers requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        request = json.loads(line)
        os.chdir(request["folder"])
        answers.write(json.dumps(repair_value(_answer(Path(request["path"]), request["reader"]))) + "\n")
        answers.flush()


def _answer(path: Path, reader: str) -> dict[str, Any]:
    module, _, name = reader.partition(":")
    if reader not in KINDS.values() and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # last: a file next to the documents replaces no library
    try:
        result = getattr(importlib.import_module(module), name)(path)
        document = result if isinstance(result, Document) else Document(pages=(Page(str(result)),))
        pages = tuple(replace(page, text=cleaned(page.text)) for page in document.pages)
        if sum(len(page.text) for page in pages) > MAX_TEXT:
            reason = f"holds more than {MAX_TEXT:,} characters of text"
        elif not any(page.text.strip() for page in pages):
            reason = "; ".join(["is empty", *document.notes])
        else:
            return asdict(replace(document, pages=pages))
    except UnreadableDocument as error:
        reason = str(error)
    except MemoryError:
        reason = f"needs more than {MEMORY // 1_000_000_000} GB of memory"
    except ModuleNotFoundError as error:
        return {"missing": str(error.name)}
    except Exception as error:
        message = " ".join(str(error).replace(str(path), path.name).split())[:200]
        reason = f"cannot be read ({type(error).__name__}: {message})"
        if path.read_bytes()[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
            reason = "is encrypted, or of a format from before 2007"
    return {"reason": reason}


if __name__ == "__main__":
    answer_requests()
