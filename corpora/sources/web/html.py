"""Pages of the web as Markdown, by the reader of HTML files (`ragc.corpora.documents.html`), with bounds,
since they are read in this process.

    longer than MAX_CHARS            cut there
    more than MAX_ELEMENTS elements  plain text
"""

from __future__ import annotations

import re
from contextlib import suppress

from ragc.core.extras import is_installed
from ragc.corpora.documents import html as documents
from ragc.errors import UsageError

MAX_CHARS = 4_000_000
"""The most characters of a page that are read; its Markdown is never longer."""

MAX_ELEMENTS = 20_000
"""The most elements of a page that is written as Markdown; it takes about 2 s."""

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufeff]")


def markdown(html: str) -> str:
    """Returns the content of the page `html` as Markdown; "" if it has none.

    Headings, lists, tables and emphasis are preserved; scripts, styles, comments, link targets, images and
    menus are removed. Any string is accepted: one that is no HTML is read as text. Raises
    UsageError if the extra `web` is not installed.
    """
    check_installed()
    source = clean(html[:MAX_CHARS])
    for most in (MAX_ELEMENTS, 0):
        with suppress(Exception):  # a crafted page may cause any error; it is then read as plain text
            return documents.markdown(source, most)[1][:MAX_CHARS]
    return ""


def clean(text: str) -> str:
    """Returns `text` without control characters, halves of surrogate pairs and byte-order marks."""
    return _CONTROL.sub("", text)


def check_installed() -> None:
    """Raises UsageError, naming the extra, unless lxml and markdownify are installed."""
    for module in ("lxml", "markdownify"):
        if not is_installed(module):
            raise UsageError(f"Reading web pages needs {module}; install it with: pip install 'ragc[web]'")
