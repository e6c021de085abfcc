"""Web pages: lxml removes everything but the content, markdownify writes Markdown."""

from __future__ import annotations

import re
from pathlib import Path

from ragc.corpora.documents.base import Document, Page, UnreadableDocument, title_of
from ragc.corpora.documents.plain import decoded

_NO_CONTENT = (
    "//script|//style|//noscript|//template|//nav|//footer|//aside|//form|//iframe|//svg|//comment()"
    "|//a[starts-with(@href, '#')][normalize-space()='¶' or normalize-space()='#']"
)
_ROLES = '//*[@role="navigation" or @role="banner" or @role="contentinfo" or @role="search" or @hidden]'


def read(path: Path) -> Document:
    """Reads the main part of a page, else its body; navigation, footers, scripts, forms and the
    links of headings to themselves are left out.
    """
    from lxml import etree
    from lxml import html as lxml_html
    from markdownify import markdownify

    data = path.read_bytes()
    if not data.strip():
        raise UnreadableDocument("is empty")
    parser = lxml_html.HTMLParser(no_network=True, huge_tree=False)
    try:
        root = lxml_html.document_fromstring(_source(data), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise UnreadableDocument(f"is no page that can be read ({error})") from error
    title = " ".join((root.findtext(".//title") or "").split())
    for node in root.xpath(f"{_NO_CONTENT}|{_ROLES}"):
        if node.getparent() is not None:
            node.drop_tree()
    main = dict.fromkeys(root.xpath('//main|//article|//*[@role="main"]'))
    outermost = [node for node in main if not any(above in main for above in node.iterancestors())]
    content = outermost[0] if len(outermost) == 1 else root.find("body")
    source = lxml_html.tostring(root if content is None else content, encoding="unicode")
    text = markdownify(source, heading_style="ATX", bullets="-", strip=["img", "a"])
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip()
    heading = re.search(r"^#+ (.+)$", text, re.MULTILINE)
    return Document(title or (heading.group(1) if heading else title_of(path)), (Page(text),))


def _source(data: bytes) -> bytes | str:
    """Returns the bytes of a page that declares its encoding, for lxml to read, else its text."""
    declares = re.search(rb"<\?xml|<meta[^>]+charset", data[:4096], re.IGNORECASE)
    return data if declares else decoded(data)
