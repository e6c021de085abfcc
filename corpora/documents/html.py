"""Web pages: lxml removes everything but the content, markdownify writes Markdown."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ragc.corpora.documents.base import Document, Page, UnreadableDocument, escaped, title_of
from ragc.corpora.documents.plain import decoded

_NO_CONTENT = (
    "//script|//style|//noscript|//template|//nav|//footer|//aside|//iframe|//svg|//comment()"
    "|//a[starts-with(@href, '#')][normalize-space()='¶' or normalize-space()='#']"
)
_DEEPEST = 20_000
"""Calls within each other that writing a page may take; libxml2 allows 2,048 elements within each other."""

_ROLES = '//*[@role="navigation" or @role="banner" or @role="contentinfo" or @role="search" or @hidden]'


def read(path: Path) -> Document:
    """Reads the main part of a page, else its body; navigation, footers, scripts, forms and the
    links of headings to themselves are left out. Of a form around most of the page only the controls are.
    """
    from lxml import etree
    from lxml import html as lxml_html
    from markdownify import MarkdownConverter

    class Writer(MarkdownConverter):
        """Leaves letters as they are, except where Markdown would read a cell or a block in them."""

        def escape(self, text: str, parent_tags: Collection[str]) -> str:
            """Returns running `text` so that it ends no cell of a table."""
            return text.replace("|", "\\|") if {"td", "th"} & {*parent_tags} else text

        def convert_p(self, el: Any, text: str, parent_tags: Collection[str]) -> str:
            """Returns a paragraph whose lines are no headings, tables or quotes."""
            lines = "\n".join(map(escaped, text.strip().split("\n")))
            return str(super().convert_p(el, lines, parent_tags))  # type: ignore[misc]  # its stubs lack it

    data = path.read_bytes()
    if not data.strip():
        raise UnreadableDocument("is empty")
    # A page of many tags that are not closed is deep, and what is below libxml2's usual limit would be lost.
    parser = lxml_html.HTMLParser(no_network=True, huge_tree=True)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _DEEPEST))
    try:
        root = lxml_html.document_fromstring(_source(data), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise UnreadableDocument(f"is no page that can be read ({error})") from error
    if any("Excessive depth" in entry.message for entry in parser.error_log):
        raise UnreadableDocument("has too many elements within each other")
    title = " ".join((root.findtext(".//title") or "").split())
    for node in root.xpath(f"{_NO_CONTENT}|{_ROLES}"):
        if node.getparent() is not None:
            node.drop_tree()
    whole = len(root.text_content())
    for form in root.xpath("//form"):
        around = 2 * len(form.text_content()) > whole
        for node in form.xpath(".//button|.//select|.//textarea") if around else [form]:
            node.drop_tree()
    main = dict.fromkeys(root.xpath('//main|//article|//*[@role="main"]'))
    outermost = [node for node in main if not any(above in main for above in node.iterancestors())]
    content = outermost[0] if len(outermost) == 1 else root.find("body")
    source = lxml_html.tostring(root if content is None else content, encoding="unicode")
    text = Writer(heading_style="ATX", bullets="-", strip=["img", "a"]).convert(source)
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip()
    heading = re.search(r"^#+ (.+)$", text, re.MULTILINE)
    return Document(title or (heading.group(1) if heading else title_of(path)), (Page(text),))


def _source(data: bytes) -> bytes | str:
    """Returns the bytes of a page that declares its encoding, for lxml to read, else its text."""
    declares = re.search(rb"<\?xml|<meta[^>]+charset", data[:4096], re.IGNORECASE)
    return data if declares else decoded(data)
