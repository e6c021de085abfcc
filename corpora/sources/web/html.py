"""Converts an HTML page to markdown with trafilatura: the main text with headings, lists and tables.

The work for a page is bounded by its size:

    longer than MAX_CHARS          cut there
    more than MAX_TAGS tags        plain text, the extractor is not tried
    more than HEAVY_TAGS tags      extracted in a process of its own, ended after SECONDS
    fewer                          extracted here; the worst page known takes half a second

If the extractor finds nothing, fails or times out, the page becomes plain text (`plain`).
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
from typing import Any

from ragc.core import children
from ragc.errors import UsageError

MAX_CHARS = 4_000_000
"""The most characters of a page that are read; its markdown is never longer."""

MAX_TAGS = 100_000
"""The most opening angle brackets for the extractor, whose time grows with their square."""

HEAVY_TAGS = 5_000
"""The most opening angle brackets for extraction inside this process."""

SECONDS = 20.0
"""Wall-clock seconds after which the extraction of a heavy page is stopped."""

_OPTIONS: dict[str, Any] = {
    "output_format": "markdown",
    "include_comments": False,
    "include_formatting": True,
    "include_images": False,
    "include_links": False,
    "include_tables": True,
}

_CHILD = """
import json, logging, sys
import trafilatura
logging.disable(logging.CRITICAL)
found = trafilatura.extract(**json.load(sys.stdin)) or ""
sys.stdout.buffer.write(found.encode("utf-8", "replace"))
"""

# Elements without readable text, or with fallback text.
_UNSEEN = frozenset(
    {
        *("audio", "canvas", "head", "iframe", "math", "noframes", "noscript", "object", "script"),
        *("select", "style", "svg", "template", "textarea", "video"),
    }
)
_INLINE = frozenset(
    {
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em"),
        *("font", "i", "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike"),
        *("strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
    }
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufeff]")
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


def markdown(html: str, *, url: str = "") -> str:
    """Returns the main text of the page `html` as markdown; "" if it has no text.

    Headings, lists, tables and emphasis are preserved; scripts, styles, comments, link targets, images and
    menus are removed. `url` is the page's address and may be "". Any string is accepted: one that is no HTML
    is read as text. The bounds are those of this module. Raises UsageError if the extra `web` is not
    installed.
    """
    check_installed()
    html = clean(html[:MAX_CHARS])
    tags = html.count("<")
    text = ""
    if tags <= HEAVY_TAGS:
        text = _extract(html, url)
    elif tags <= MAX_TAGS:
        text = _extract_in_process(html, url)
    return (text.strip() or plain(html))[:MAX_CHARS]


def plain(html: str) -> str:
    """Returns all text of the page `html` in order, one block a line, white space collapsed.

    The head, hidden elements, scripts, styles, drawings, form choices and fallback content are left out.
    Entities are decoded. Elements nested deeper than the parser's limit (256) are lost. Raises UsageError if
    the extra `web` is not installed.
    """
    check_installed()
    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(clean(html[:MAX_CHARS]).encode(), parser)
    except (etree.ParserError, etree.XMLSyntaxError):  # an empty document
        return ""
    if root is None:
        return ""
    parts: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "start" and _is_hidden(element):
            walk.skip_subtree()
            continue
        if element.tag not in _INLINE and element.tag not in _UNSEEN:
            parts.append(" " if element.tag in ("td", "th") else "\n")
        if event == "start":
            parts.append(_flat(element.text))
        else:
            parts.append(_flat(element.tail))
    lines = (" ".join(line.split()) for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line)


def clean(text: str) -> str:
    """Returns `text` without control characters, halves of surrogate pairs and byte-order marks."""
    return _CONTROL.sub("", text)


def check_installed() -> None:
    """Raises UsageError, naming the extra, unless trafilatura can be imported."""
    try:
        import trafilatura  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"Reading web pages needs trafilatura, which cannot be imported ({error}); "
            "install it with: pip install 'ragc[web]'"
        ) from error


def _extract(html: str, url: str) -> str:
    import trafilatura

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it warns of every page without text
    try:
        return trafilatura.extract(html, url=url or None, **_OPTIONS) or ""
    except Exception:  # a crafted page may cause any error; it is then read as plain text
        return ""


def _extract_in_process(html: str, url: str) -> str:
    """Runs `_extract` in a separate process with a timeout; "" if that fails."""
    request = json.dumps({"filecontent": html, "url": url or None, **_OPTIONS})
    try:
        done = subprocess.run(
            children.command("-c", _CHILD),
            **children.surroundings(),
            input=request.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return str(done.stdout.decode())


def _is_hidden(element: Any) -> bool:
    """Returns whether an element's content is not displayed; the text after it still is."""
    hidden = "hidden" in element.attrib or _HIDDEN.search(element.get("style", ""))
    return element.tag in _UNSEEN or bool(hidden)


def _flat(text: str | None) -> str:
    """Returns `text` without line breaks, because only blocks start lines."""
    return (text or "").replace("\n", " ")
