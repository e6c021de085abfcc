"""A folder of documents as a corpus: which files are read, what was read of each, and the passages.

    <work>/parts/<digest of the path>.json   what one file holds, with its size, time and digest

A file is read again when its content, its reader or the version of the readers changed. Each part is written
when its file was read, so that a killed run goes on with the next file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ragc.core import outputs
from ragc.core.progress import Progress
from ragc.corpora.documents import kind_of
from ragc.corpora.documents.base import UnreadableDocument
from ragc.corpora.documents.reading import DocumentReader
from ragc.errors import UsageError
from ragc.records import Passage

VERSION = 1
"""The version of the readers; another one reads all files again."""


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file that may be read. `name` is its path below the folder, with `/`; `reader` is "" for none."""

    path: Path
    name: str
    reader: str


@dataclass(frozen=True, slots=True)
class Part:
    """What was read of one file. `reason` says why it was not read, "" where it was.

    `title` and `pages` are those of its `Document`, the pages as JSON objects with `text`, `label` and
    `section`. `fresh` is False where an earlier run had read it.
    """

    name: str
    reader: str
    size: int
    modified: int
    digest: str
    version: int = VERSION
    title: str = ""
    pages: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    fresh: bool = field(default=True, compare=False)

    def passages(self) -> Iterator[Passage]:
        """Yields a passage a page; its id is the file's name and what a citation says beside it."""
        seen: dict[str, int] = {}
        for page in self.pages:
            if not page["text"].strip():
                continue
            label = ", ".join(filter(None, (self.name, page["label"])))
            label = re.sub(r"#(\d+)$", r"# \1", label)  # `#0` at the end of an id marks a chunk
            seen[label] = seen.get(label, 0) + 1
            again = f" ({seen[label]})" if seen[label] > 1 else ""
            title = ": ".join(filter(None, (self.title, " > ".join(page["section"]))))
            yield Passage(f"{label}{again}", title, page["text"])


def files_in(
    folder: Path, readers: Mapping[str, str], skip: Sequence[Path] = ()
) -> tuple[list[DocumentFile], list[str]]:
    """Returns the files below `folder`, by name, and a sentence on each link that leads out.

    `readers` has readers of the user's own by suffix. Hidden files and folders, and those in `skip`, are left
    out. Raises UsageError where `folder` is none.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "is not there"
        raise UsageError(f"{str(folder)!r} {what}; name a folder of documents, such as docs/.")
    root, files, notes = folder.resolve(), list[DocumentFile](), list[str]()
    left_out = {path.resolve() for path in skip}
    for base, folders, names in os.walk(root, followlinks=False):
        linked = [Path(base, name) for name in folders if Path(base, name).is_symlink()]
        for path in linked:
            if not path.resolve().is_relative_to(root):
                notes.append(_leads_out(path.relative_to(root).as_posix()))
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and Path(base, name).resolve() not in left_out
        )
        for name in sorted(names):
            path = Path(base, name)
            shown = path.relative_to(root).as_posix()
            if name.startswith((".", "~$")) or path.resolve() in left_out:
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                notes.append(_leads_out(shown))
            elif path.is_file():
                files.append(DocumentFile(path, shown, readers.get(path.suffix.lower(), kind_of(path))))
    return sorted(files, key=lambda file: file.name), notes


def _leads_out(name: str) -> str:
    return f"{name} is a link that leads out of the folder; it was not followed"


def read_files(files: Sequence[DocumentFile], work: Path, progress: Progress) -> Iterator[Part]:
    """Yields what each of `files` holds, in their order; what earlier runs read is taken from `work`.

    Raises UsageError where a library is missing.
    """
    parts = work / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    progress.phase("reading", len(files), "files")
    with DocumentReader() as reader:
        for file in files:
            yield _part(file, parts, reader)
            progress.step()


def forget_others(files: Sequence[DocumentFile], work: Path) -> int:
    """Removes from `work` what was read of files that are no longer there; returns their number."""
    names = {_part_name(file.name) for file in files}
    gone = [path for path in (work / "parts").glob("*.json") if path.name not in names]
    for path in gone:
        path.unlink(missing_ok=True)
    return len(gone)


def _part(file: DocumentFile, parts: Path, reader: DocumentReader) -> Part:
    where = parts / _part_name(file.name)
    state = file.path.stat()
    stored = _stored(where)
    if stored is not None and (stored.version, stored.reader) != (VERSION, file.reader):
        stored = None
    if stored is not None and (stored.size, stored.modified) == (state.st_size, state.st_mtime_ns):
        return stored
    try:
        digest = _digest(file.path)
    except OSError as error:
        return Part(file.name, file.reader, 0, 0, "", reason=f"cannot be read ({error.strerror})")
    facts: dict[str, Any] = {"size": state.st_size, "modified": state.st_mtime_ns, "digest": digest}
    if stored is not None and stored.digest == digest:
        part = Part(**{**_fields(stored), **facts, "fresh": False})
    elif not file.reader:
        part = Part(
            file.name,
            "",
            **facts,
            reason=f"is of a kind that is not read ({file.path.suffix or 'no suffix'})",
        )
    else:
        try:
            document = reader.read(file.path, file.reader)
            pages = tuple(asdict(page) for page in document.pages)
            part = Part(
                file.name, file.reader, **facts, title=document.title, pages=pages, notes=document.notes
            )
        except UnreadableDocument as error:
            part = Part(file.name, file.reader, **facts, reason=str(error))
    values = {name: value for name, value in _fields(part).items() if name != "fresh"}
    outputs.put_file(where, json.dumps(values, ensure_ascii=False).encode("utf-8", "replace"))
    return part


def _fields(part: Part) -> dict[str, Any]:
    return {name: getattr(part, name) for name in Part.__slots__}


def _stored(path: Path) -> Part | None:
    """Returns the part at `path`; None where there is none that can be read."""
    try:
        values = json.loads(path.read_text("utf-8"))
        part = Part(
            **{**values, "pages": tuple(values["pages"]), "notes": tuple(values["notes"]), "fresh": False}
        )
        return part if all(isinstance(page["text"], str) for page in part.pages) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _part_name(name: str) -> str:
    return f"{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
