"""A folder of documents as a corpus: the files, the text read from each, and its pages as passages.

    <work>/parts/<digest>.json   a document, or the reason why it was not read, by content and reader

A file is read again when its content, its reader or the version of the readers changed. Each document is
written when it was read, so that a killed run continues with the next file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from ragc.core.digest import digest
from ragc.core.files import make_private, put_file, sha256
from ragc.core.progress import Progress
from ragc.corpora.documents.base import Document, Page, UnreadableDocument, cleaned, kind_of
from ragc.corpora.documents.reading import DOCUMENT, DocumentReader, read_content
from ragc.errors import UsageError

VERSION = 6
"""The version of the readers; another one reads all files again."""

_SOURCES = ("file_path", "source", "file_name", "filename", "url", "id")
_PAGES = ("page_label", "page", "page_number")


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file that may be read. `name` is its path below the folder, with `/`; `reader` is "" for none."""

    path: Path
    name: str
    reader: str


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

    def note(error: OSError) -> None:
        shown = Path(os.fsdecode(error.filename)).relative_to(root).as_posix()
        notes.append(f"{shown} is a folder that cannot be listed ({error.strerror}); its files are not read")

    for base, folders, names in os.walk(root, onerror=note):
        visible = [name for name in sorted([*folders, *names]) if not name.startswith((".", "~$"))]
        folders[:] = [name for name in folders if name in visible and Path(base, name) not in left_out]
        for name in visible:
            target, shown = Path(base, name).resolve(), Path(base, name).relative_to(root).as_posix()
            if not target.is_relative_to(root):
                notes.append(f"{shown} is a link that leads out of the folder; it was not followed")
            elif target.is_file() and target not in left_out:
                reader = readers.get(PurePath(name).suffix.lower(), kind_of(PurePath(name)))
                files.append(DocumentFile(target, shown, reader))
    return sorted(files, key=lambda file: file.name), notes


def read_files(files: Sequence[DocumentFile], work: Path, progress: Progress) -> Iterator[Document]:
    """Yields the document in each of `files`, in their order; those of earlier runs are taken from `work`,
    and those of files that are no longer there are removed from it at the end.

    Raises UsageError if a library is missing, and OSError if a document cannot be stored.
    """
    parts, used = make_private(work / "parts"), set[Path]()
    progress.phase("reading", len(files), "files")
    with DocumentReader() as reader:
        for file in files:
            try:
                document = _read(file, parts, used, reader)
            except UnreadableDocument as error:
                document = Document(reason=str(error))
            yield replace(document, name=file.name)
            progress.step()
    for path in {*parts.glob("*.json")} - used:
        path.unlink()


def _read(file: DocumentFile, parts: Path, used: set[Path], reader: DocumentReader) -> Document:
    if not file.reader:
        raise UnreadableDocument(f"is of a kind that is not read ({file.path.suffix or 'no suffix'})")
    content = read_content(file.path)
    part = parts / f"{digest([VERSION, file.reader, file.path.suffix, sha256(content)])}.json"
    used.add(part)
    with suppress(OSError, ValueError):  # none yet, or damaged
        return replace(DOCUMENT.validate_json(part.read_bytes()), fresh=False)
    document = reader.read(file.path, file.reader, content)
    put_file(part, DOCUMENT.dump_json(document), private=True)
    return document


def documents_of(loaded: Iterable[Any]) -> list[Document]:
    """Returns the Documents of LlamaIndex or LangChain in `loaded`, one a source, in the order in which the
    sources first occur.

    The source is `file_path`, `source`, `file_name` or `url` of the metadata, the page `page_label`, or
    `page`, which LangChain counts from 0. Raises UsageError for anything that is no document.
    """
    titles, pages = dict[str, str](), dict[str, list[Page]]()
    for number, document in enumerate(loaded, 1):
        text = getattr(document, "page_content", getattr(document, "text", None))
        if not isinstance(text, str):
            raise UsageError(
                f"Document {number} is a {type(document).__name__} without text; "
                "pass Documents of LlamaIndex or LangChain."
            )
        about = getattr(document, "metadata", None) or {}
        source = next((str(about[key]) for key in _SOURCES if about.get(key)), f"document {number}")
        key = next((key for key in _PAGES if about.get(key) not in (None, "")), "")
        page = about[key] + 1 if key == "page" and isinstance(about[key], int) else about.get(key)
        titles.setdefault(source, str(about.get("title") or ""))
        pages.setdefault(source, []).append(Page(cleaned(text), f"page {page}" if key else ""))
    return [Document(title, tuple(pages[name]), name=name) for name, title in titles.items()]
