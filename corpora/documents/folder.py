"""A folder of documents as a corpus: the files, the text read from each, and the passages.

    <work>/parts/<digest of the path>.json   the content of one file, with its size, time and digest

A file is read again when its content, its reader or the version of the readers changed. Each part is written
when its file was read, so that a killed run continues with the next file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.core.digest import file_digest
from ragc.core.files import put_file, sha256
from ragc.core.progress import Progress
from ragc.corpora.documents import kind_of
from ragc.corpora.documents.base import UnreadableDocument
from ragc.corpora.documents.reading import DocumentReader
from ragc.errors import UsageError

VERSION = 4
"""The version of the readers; another one reads all files again."""


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file that may be read. `name` is its path below the folder, with `/`; `reader` is "" for none."""

    path: Path
    name: str
    reader: str


@dataclass(frozen=True, slots=True)
class FileReading:
    """The result of reading one file. `reason` says why it was not read, "" if it was.

    `title` and `pages` are those of its `Document`, the pages as JSON objects with `text`, `label` and
    `section`. `fresh` is False if an earlier run had read it.
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

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row of the corpus for each page with text; its id is the text of a citation."""
        seen: dict[str, int] = {}
        for page in self.pages:
            if not page["text"].strip():
                continue
            label = ", ".join(filter(None, (self.name, page["label"])))
            label = re.sub(r"#(\d+)$", r"# \1", label)  # `#0` at the end of an id marks a chunk
            seen[label] = seen.get(label, 0) + 1
            yield {
                "id": f"{label} ({seen[label]})" if seen[label] > 1 else label,
                "title": ": ".join(filter(None, (self.title, " > ".join(page["section"])))),
                "text": page["text"],
                "source": self.name,
                "page": page["label"],
                "section": list(page["section"]),
            }


def files_in(
    folder: Path, readers: Mapping[str, str], skip: Sequence[Path] = ()
) -> tuple[list[DocumentFile], list[str]]:
    """Returns the files below `folder`, by name, and a sentence on each link that leads out and on each
    folder that cannot be listed.

    `readers` has the user's own readers by suffix. Hidden files and folders, and those in `skip`, are left
    out. Raises UsageError if `folder` is none.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "is not there"
        raise UsageError(f"{str(folder)!r} {what}; name a folder of documents, such as docs/.")
    root, files, notes = folder.resolve(), list[DocumentFile](), list[str]()
    left_out = {os.path.realpath(path) for path in skip}

    def unlisted(error: OSError) -> None:
        shown = Path(os.fsdecode(error.filename)).relative_to(root).as_posix()
        notes.append(f"{shown} is a folder that cannot be listed ({error.strerror}); its files are not read")

    for base, folders, names in os.walk(root, onerror=unlisted, followlinks=False):
        visible = [
            Path(base, name)
            for name in sorted([*folders, *names])
            if not name.startswith((".", "~$")) and os.path.realpath(Path(base, name)) not in left_out
        ]
        folders[:] = [path.name for path in visible if path.is_dir()]
        for path in visible:
            shown = path.relative_to(root).as_posix()
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):
                notes.append(f"{shown} is a link that leads out of the folder; it was not followed")
            elif path.is_file():
                files.append(DocumentFile(path, shown, readers.get(path.suffix.lower(), kind_of(path))))
    return sorted(files, key=lambda file: file.name), notes


def read_files(files: Sequence[DocumentFile], work: Path, progress: Progress) -> Iterator[FileReading]:
    """Yields the part of each of `files`, in their order; parts of earlier runs are taken from `work`.

    Raises UsageError if a library is missing.
    """
    parts = work / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    progress.phase("reading", len(files), "files")
    with DocumentReader() as reader:
        for file in files:
            yield _part(file, parts, reader)
            progress.step()


def forget_others(files: Sequence[DocumentFile], work: Path) -> None:
    """Removes from `work` the parts of files that no longer exist."""
    names = {_part_name(file.name) for file in files}
    for path in (work / "parts").glob("*.json"):
        if path.name not in names:
            path.unlink(missing_ok=True)


def _part(file: DocumentFile, parts: Path, reader: DocumentReader) -> FileReading:
    try:
        return _read_part(file, parts / _part_name(file.name), reader)
    except OSError as error:
        return FileReading(
            file.name, file.reader, 0, 0, "", reason=f"cannot be read ({error.strerror or error})"
        )


def _read_part(file: DocumentFile, where: Path, reader: DocumentReader) -> FileReading:
    """Returns the part of `file`, as stored at `where` or read again. Raises OSError."""
    state, stored = file.path.stat(), _stored(where)
    if stored is not None and (stored.version, stored.reader) != (VERSION, file.reader):
        stored = None
    if stored is not None and (stored.size, stored.modified) == (state.st_size, state.st_mtime_ns):
        return stored
    digest = file_digest(file.path)
    facts: dict[str, Any] = {"size": state.st_size, "modified": state.st_mtime_ns, "digest": digest}
    if stored is not None and stored.digest == digest:
        part = replace(stored, **facts)
    elif not file.reader:
        reason = f"is of a kind that is not read ({file.path.suffix or 'no suffix'})"
        part = FileReading(file.name, "", **facts, reason=reason)
    else:
        part = _fresh(file, facts, reader)
    values = {name: value for name, value in _fields(part).items() if name != "fresh"}
    put_file(where, json.dumps(values, ensure_ascii=False).encode("utf-8", "replace"))
    return part


def _fresh(file: DocumentFile, facts: Mapping[str, Any], reader: DocumentReader) -> FileReading:
    try:
        document = reader.read(file.path, file.reader)
    except UnreadableDocument as error:
        return FileReading(file.name, file.reader, **facts, reason=str(error))
    pages = tuple(asdict(page) for page in document.pages)
    return FileReading(
        file.name, file.reader, **facts, title=document.title, pages=pages, notes=document.notes
    )


def _fields(part: FileReading) -> dict[str, Any]:
    return {name: getattr(part, name) for name in FileReading.__slots__}


def _stored(path: Path) -> FileReading | None:
    """Returns the part at `path`, or None if it is missing or unreadable."""
    try:
        values = json.loads(path.read_text("utf-8"))
        part = FileReading(
            **{**values, "pages": tuple(values["pages"]), "notes": tuple(values["notes"]), "fresh": False}
        )
        return part if all(isinstance(page["text"], str) for page in part.pages) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _part_name(name: str) -> str:
    return f"{sha256(name.encode('utf-8', 'surrogateescape'))[:32]}.json"
