"""A page of HTML as markdown: the main text with its headings, lists and tables, made by trafilatura.

Every page is bounded, whoever wrote it:

    longer than MAX_CHARS          cut there
    more than MAX_TAGS tags        plain text, the extractor is not tried
    more than HEAVY_TAGS tags      extracted in a process of its own, ended after SECONDS
    fewer                          extracted here; the worst page known takes half a second

What the extractor finds nothing in, fails on or does not finish becomes plain text by the rule of `plain`.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from typing import Any

from ragc.errors import UsageError

MAX_CHARS = 4_000_000
"""Characters of a page that are read; its markdown is never longer either."""

MAX_TAGS = 100_000
"""Opening angle brackets that the extractor is given. The time it takes grows with their square."""

HEAVY_TAGS = 5_000
"""Opening angle brackets that it is given inside this process."""

SECONDS = 20.0
"""Wall-clock seconds after which the extraction of a heavy page is given up."""

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

# Never text for readers, or text that is shown only when something is missing.
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
    """The main text of the page `html` as markdown; "" when it holds no text.

    Headings, lists, tables and emphasis are kept; scripts, styles, comments, links' targets, images and
    menus are not. `url` is where the page was found, and may be "". Any string is taken: what is no HTML
    is read as the text that it is. The bounds are those of this module.
    Raises UsageError when the extra `web` is not installed.
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
    """All text of the page `html` in its order, one block a line, white space collapsed.

    Left out are the head, hidden elements, scripts, styles, drawings, forms' choices and what stands in
    for them. Entities are characters. Of elements nested deeper than the parser goes (256) nothing is left.
    Raises UsageError when the extra `web` is not installed.
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
    """`text` without control characters, halves of surrogate pairs and byte-order marks."""
    return _CONTROL.sub("", text)


def check_installed() -> None:
    """Raise UsageError, naming the extra, unless trafilatura can be imported."""
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
    except Exception:  # whatever a page provokes: it is then read as plain text
        return ""


def _extract_in_process(html: str, url: str) -> str:
    """As `_extract`, in a process that is ended when it takes too long."""
    request = json.dumps({"filecontent": html, "url": url or None, **_OPTIONS})
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _CHILD],
            input=request.encode(),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode()


def _is_hidden(element: Any) -> bool:
    """Whether nothing of an element is shown; what follows it is."""
    hidden = "hidden" in element.attrib or _HIDDEN.search(element.get("style", ""))
    return element.tag in _UNSEEN or bool(hidden)


def _flat(text: str | None) -> str:
    """A text without line ends, which only blocks make."""
    return (text or "").replace("\n", " ")
