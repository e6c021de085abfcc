"""A folder of documents as a corpus: the files, the text read from each, and the passages.

    <work>/parts/<digest>.json   the document or the reason why it was not read, by content and reader

A file is read again when its content, its reader or the version of the readers changed. Each part is written
when its file was read, so that a killed run continues with the next file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from pydantic import TypeAdapter

from ragc.core.digest import digest
from ragc.core.files import make_private, put_file, sha256
from ragc.core.progress import Progress
from ragc.corpora.documents.base import Document, Page, UnreadableDocument, cleaned, kind_of, title_of
from ragc.corpora.documents.reading import DocumentReader, read_content
from ragc.errors import UsageError

VERSION = 5
"""The version of the readers; another one reads all files again."""

_SOURCES = ("file_path", "source", "file_name", "filename", "url", "id")
_PAGES = ("page_label", "page", "page_number")


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file that may be read. `name` is its path below the folder, with `/`; `reader` is "" for none."""

    path: Path
    name: str
    reader: str


@dataclass(frozen=True, slots=True)
class FileReading:
    """The result of reading one file. `reason` says why it was not read, "" if it was.

    `fresh` is False if an earlier run had read it.
    """

    name: str
    document: Document = field(default_factory=partial(Document, "", ()))
    reason: str = ""
    fresh: bool = field(default=True, compare=False)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields a row of the corpus for each page with text; its id is the text of a citation."""
        seen: dict[str, int] = {}
        title = self.document.title or title_of(PurePath(self.name))
        for page in self.document.pages:
            if not page.text.strip():
                continue
            label = ", ".join(filter(None, (self.name, page.label)))
            label = re.sub(r"#(\d+)$", r"# \1", label)  # `#0` at the end of an id marks a chunk
            seen[label] = seen.get(label, 0) + 1
            yield {
                "id": f"{label} ({seen[label]})" if seen[label] > 1 else label,
                "title": ": ".join(filter(None, (title, " > ".join(page.section)))),
                "text": page.text,
                "source": self.name,
                "page": page.label,
                "section": list(page.section),
            }


_PART = TypeAdapter(FileReading)


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
    left_out = {path.resolve() for path in skip}

    def unlisted(error: OSError) -> None:
        shown = Path(os.fsdecode(error.filename)).relative_to(root).as_posix()
        notes.append(f"{shown} is a folder that cannot be listed ({error.strerror}); its files are not read")

    for base, folders, names in os.walk(root, onerror=unlisted):
        visible = {
            name: Path(os.path.realpath(Path(base, name)))
            for name in sorted([*folders, *names])
            if not name.startswith((".", "~$"))
        }
        folders[:] = [name for name in folders if name in visible and visible[name] not in left_out]
        for name, target in visible.items():
            shown = Path(base, name).relative_to(root).as_posix()
            if not target.is_relative_to(root):
                notes.append(f"{shown} is a link that leads out of the folder; it was not followed")
            elif target.is_file() and target not in left_out:
                reader = readers.get(PurePath(name).suffix.lower(), kind_of(PurePath(name)))
                files.append(DocumentFile(target, shown, reader))
    return sorted(files, key=lambda file: file.name), notes


def read_files(files: Sequence[DocumentFile], work: Path, progress: Progress) -> Iterator[FileReading]:
    """Yields the part of each of `files`, in their order; parts of earlier runs are taken from `work`, and
    those of files that are no longer there are removed from it at the end.

    Raises UsageError if a library is missing, and OSError if a part cannot be written.
    """
    parts, used = make_private(work / "parts"), set[str]()
    progress.phase("reading", len(files), "files")
    with DocumentReader() as reader:
        for file in files:
            try:
                content = read_content(file.path)
                part = parts / f"{digest([VERSION, file.reader, file.path.suffix, sha256(content)])}.json"
                used.add(part.name)
                yield _part(file, content, part, reader)
            except UnreadableDocument as error:
                yield FileReading(file.name, reason=str(error))
            progress.step()
    for path in parts.glob("*.json"):
        if path.name not in used:
            path.unlink()


def _part(file: DocumentFile, content: bytes, part: Path, reader: DocumentReader) -> FileReading:
    """Returns the part of `file`, as stored at `part` or read again."""
    with suppress(OSError, ValueError):  # none yet, or damaged
        return replace(_PART.validate_json(part.read_bytes()), name=file.name, fresh=False)
    try:
        if not file.reader:
            raise UnreadableDocument(f"is of a kind that is not read ({file.path.suffix or 'no suffix'})")
        result = FileReading(file.name, reader.read(file.path, file.reader, content))
    except UnreadableDocument as error:
        result = FileReading(file.name, reason=str(error))
    put_file(part, _PART.dump_json(replace(result, name="")), private=True)
    return result


def parts_of(documents: Iterable[Any]) -> list[FileReading]:
    """Returns the content of Documents of LlamaIndex or LangChain, one part a source, in the order in which
    the sources first occur.

    The source is `file_path`, `source`, `file_name` or `url` of the metadata, the page `page_label`, or
    `page`, which LangChain counts from 0. Raises UsageError for anything that is no document.
    """
    titles, pages = dict[str, str](), dict[str, list[Page]]()
    for number, document in enumerate(documents, 1):
        text = next(
            (getattr(document, name) for name in ("page_content", "text") if hasattr(document, name)), None
        )
        if not isinstance(text, str):
            raise UsageError(
                f"Document {number} is a {type(document).__name__} without text; "
                "pass Documents of LlamaIndex or LangChain."
            )
        metadata = getattr(document, "metadata", None) or {}
        source = next((str(metadata[key]) for key in _SOURCES if metadata.get(key)), f"document {number}")
        key = next((key for key in _PAGES if metadata.get(key) not in (None, "")), "")
        page = metadata.get(key)
        label = f"page {page + 1 if key == 'page' and isinstance(page, int) else page}" if key else ""
        titles.setdefault(source, str(metadata.get("title") or ""))
        pages.setdefault(source, []).append(Page(cleaned(text), label))
    return [FileReading(name, Document(titles[name], tuple(pages[name]))) for name in pages]
