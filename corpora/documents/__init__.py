"""Documents read from files: PDF, Office, HTML, Markdown, tables and text, as Markdown by page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

KINDS: Mapping[str, str] = {
    ".pdf": "pdf",
    ".docx": "word",
    ".docm": "word",
    ".pptx": "slides",
    ".pptm": "slides",
    ".xlsx": "sheets",
    ".xlsm": "sheets",
    ".xls": "sheets",
    ".ods": "sheets",
    ".csv": "delimited",
    ".tsv": "delimited",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".md": "plain",
    ".markdown": "plain",
    ".txt": "plain",
    ".text": "plain",
    ".rst": "plain",
}
"""The module of this folder that reads each suffix. Each has a function `read(path) -> Document`."""


def kind_of(path: PurePath) -> str:
    """Returns the name of the module that reads `path`, by its suffix; "" for none."""
    return KINDS.get(path.suffix.lower(), "")
