"""Documents of LlamaIndex and LangChain, recognized by their attributes: text, and a mapping `metadata`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from ragc.corpora.documents.base import title_of
from ragc.corpora.documents.folder import FileReading
from ragc.errors import UsageError

_SOURCES = ("file_path", "source", "file_name", "filename", "url", "id")
_PAGES = ("page_label", "page", "page_number")


def parts_of(documents: Iterable[Any]) -> list[FileReading]:
    """Returns the content of `documents`, one part a source, in the order in which the sources first occur.

    The source is `file_path`, `source`, `file_name` or `url` of the metadata, the page `page_label`, or
    `page`, which LangChain counts from 0. Raises UsageError for anything that is no document.
    """
    pages: dict[str, list[dict[str, Any]]] = {}
    titles: dict[str, str] = {}
    for number, document in enumerate(documents, 1):
        text, metadata = _content(document, number)
        source = next((str(metadata[key]) for key in _SOURCES if metadata.get(key)), f"document {number}")
        titles.setdefault(source, str(metadata.get("title") or title_of(PurePath(source))))
        pages.setdefault(source, []).append({"text": text, "label": _label(metadata), "section": []})
    return [
        FileReading(name, "given", 0, 0, "", title=titles[name], pages=tuple(held))
        for name, held in pages.items()
    ]


def _content(document: Any, number: int) -> tuple[str, Mapping[str, Any]]:
    for name in ("page_content", "text"):  # LangChain, LlamaIndex
        text = getattr(document, name, None)
        if isinstance(text, str):
            metadata = getattr(document, "metadata", None)
            return text, metadata if isinstance(metadata, Mapping) else {}
    raise UsageError(
        f"Document {number} is a {type(document).__name__} without text; "
        "pass Documents of LlamaIndex or LangChain."
    )


def _label(metadata: Mapping[str, Any]) -> str:
    """Returns the name of the page in a citation, beside the source."""
    for key in _PAGES:
        value = metadata.get(key)
        if isinstance(value, int) and key == "page" and "page_label" not in metadata:
            return f"page {value + 1}"
        if value not in (None, ""):
            return f"page {value}"
    return ""
