"""Reads documents in a separate process, so that a bad file can only fail itself.

The process reads one JSON object a line, `{"path", "reader", "folder"}`, and answers each with one line: the
document, or `{"reason"}` or `{"missing"}`. It starts in a folder of ours and changes into that of the caller.
What readers print goes to stderr. Its memory is limited, and the caller ends it when a file takes too long
(`ragc.corpora.documents.reading`).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ragc.core.text import repair_value
from ragc.corpora.documents.base import KINDS, MAX_TEXT, Document, Page, UnreadableDocument, cleaned

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
        answers.write(json.dumps(repair_value(answer(Path(request["path"]), request["reader"]))) + "\n")
        answers.flush()


def answer(path: Path, reader: str) -> dict[str, Any]:
    """Returns the document at `path` as JSON, or the reason why it cannot be read.

    `reader` is `module:name`, a function from a path to a `Document` or to Markdown.
    """
    module, _, name = reader.partition(":")
    if reader not in KINDS.values() and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # last: a file next to the documents replaces no library
    try:
        result = getattr(importlib.import_module(module), name)(path)
        document = result if isinstance(result, Document) else Document("", (Page(str(result)),))
        pages = tuple(replace(page, text=cleaned(page.text)) for page in document.pages)
        if sum(len(page.text) for page in pages) > MAX_TEXT:
            return {"reason": f"holds more than {MAX_TEXT:,} characters of text"}
        if not any(page.text.strip() for page in pages):
            return {"reason": "is empty"}
        return asdict(replace(document, pages=pages))
    except UnreadableDocument as error:
        return {"reason": str(error)}
    except MemoryError:
        return {"reason": f"needs more than {MEMORY // 1_000_000_000} GB of memory"}
    except ModuleNotFoundError as error:
        return {"missing": str(error.name)}
    except Exception as error:
        if path.read_bytes()[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
            return {"reason": "is encrypted, or of a format from before 2007"}
        message = " ".join(str(error).replace(str(path), path.name).split())[:200]
        return {"reason": f"cannot be read ({type(error).__name__}: {message})"}


if __name__ == "__main__":
    main()
