"""Reads documents in a separate process, so that a bad file can only fail itself.

The process reads one JSON object a line, `{"path", "reader", "folder"}`, and answers each with one line:
`{"document"}` or `{"reason"}`. It starts in a folder of ours and changes into that of the caller. What
readers print goes to stderr. Its memory is limited, and the caller ends it when a file takes too long
(`ragc.corpora.documents.reading`).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ragc.corpora.documents.base import MAX_TEXT, Document, Page, UnreadableDocument, title_of

MEMORY = 3_000_000_000
"""The most bytes of address space that a reader may take."""


def main() -> None:
    """Answers requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        request = json.loads(line)
        os.chdir(request["folder"])
        answers.write(json.dumps(answer(Path(request["path"]), request["reader"])) + "\n")
        answers.flush()


def answer(path: Path, reader: str) -> dict[str, Any]:
    """Returns the document at `path` as JSON, or the reason why it cannot be read."""
    try:
        document = _read(path, reader)
        if sum(len(page.text) for page in document.pages) > MAX_TEXT:
            return {"reason": f"holds more than {MAX_TEXT:,} characters of text"}
        if not any(page.text.strip() for page in document.pages):
            return {"reason": "is empty"}
        return {"document": asdict(document)}
    except UnreadableDocument as error:
        return {"reason": str(error)}
    except MemoryError:
        return {"reason": f"needs more than {MEMORY // 1_000_000_000} GB of memory"}
    except ModuleNotFoundError as error:
        return {"missing": str(error.name)}
    except Exception as error:
        return {"reason": f"cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:200]})"}


def _read(path: Path, reader: str) -> Document:
    """Returns the document by one of our readers, or by a function `module:name` from a path to Markdown."""
    module, _, name = reader.partition(":")
    if not name:
        read = importlib.import_module(f"ragc.corpora.documents.{module}").read
        document: Document = read(path)
        return document
    if (here := str(Path.cwd())) not in sys.path:  # last: a file beside the documents replaces no library
        sys.path.append(here)
    text = getattr(importlib.import_module(module), name)(path)
    return text if isinstance(text, Document) else Document(title_of(path), (Page(str(text)),))


if __name__ == "__main__":
    main()
