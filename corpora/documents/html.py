"""Web pages, from files and from the web: lxml leaves the content, markdownify writes Markdown.

Left out: navigation, scripts, footers, hidden elements, forms, and blocks that are mostly links, such as
menus, tables of contents and index pages. A `<main>` or `<article>` stands for the page if it has most of its
text. Superscripts, ruby and formulas stay apart from the words around them (`ragc.corpora.documents.base`),
and cells that span rows or columns are repeated.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from ragc.core.extras import require
from ragc.corpora.documents.base import (
    Document,
    Page,
    UnreadableDocument,
    escaped,
    formula,
    printable,
    real_title,
    repeated,
    shifted,
)
from ragc.corpora.documents.text import decoded

MENU_SHARE = 0.7
"""The share of letters in links from which on a block with three links is a menu."""

MAX_MENU_TEXT = 80
"""The most characters outside of links that stand together in a menu."""

MAX_CELLS = 20_000
"""The most cells of a page, each counted by the rows and columns that it spans, that are repeated."""

MAX_DEPTH = 20_000
"""Calls within each other that writing a page may take; libxml2 allows 2,048 elements within each other."""

MAX_CHARS, MAX_ELEMENTS = 4_000_000, 20_000
"""The most characters of a page of the web that are read, and elements that are written as Markdown, which
takes about 2 s.
"""

_NO_TEXT = "//script|//style|//noscript|//template|//iframe|//svg|//rp|//annotation|//annotation-xml"
_NO_CONTENT = (
    "//nav|//footer|//aside|//select|//button|//textarea"
    "|//form[not(.//p or .//h1 or .//h2 or .//table or .//li)]"
    "|//*[contains(@class, 'editsection')]"
    "|//a[starts-with(@href, '#')][normalize-space()='¶' or normalize-space()='#']"
    "|//*[@role='navigation' or @role='banner' or @role='contentinfo' or @role='search' or @hidden"
    " or @aria-hidden='true' or contains(translate(@style, ' ', ''), 'display:none')]"
)
_MAY_BE_MENUS = (
    "//*[self::div or self::ul or self::ol or self::dl or self::table or self::section or self::p"
    " or self::header or self::center][not(ancestor::tr[th])]"
)
_UNDER_A_HEADING = (
    "boolean(preceding-sibling::*[1][self::h2 or self::h3 or self::h4 or self::h5 or self::h6]"
    " and .//a[@href][not(starts-with(@href, '#'))])"
)
_IS_A_LIST = "self::ul or self::ol or .//li and not(.//text()[normalize-space()][not(ancestor::li)])"
_AROUND = (
    "(ancestor-or-self::*[preceding-sibling::*[1] or following-sibling::*[1] or ../text()[normalize-space()]"
    " or not(parent::*)])[last()]"
)
"""The outermost element around one that holds nothing else."""

_MAIN = "self::main or self::article or @role='main'"
_NOT_IN_HEADINGS = ".//text()[not(ancestor::h1 or ancestor::h2 or ancestor::h3 or ancestor::title)]"
_WRITTEN_OUT = (
    "//math|//img[contains(@class, 'math') or contains(@class, 'latex') or @class='tex']|//rt|//sup|//sub"
)
_MENU_NAME = re.compile(
    r"\b(?:nav(?:bar|igation|header|footer|links?|list)?|sidebar|breadcrumbs?|toc|footer|pagination)\b",
    re.IGNORECASE,
)


def read(path: Path) -> Document:
    """Reads the page in a file. Raises UnreadableDocument for one without content."""
    source, notes = decoded(path.read_bytes(), is_page=True)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), MAX_DEPTH))
    title, text = markdown(source)
    return Document(title, (Page(text),), notes)


def read_web_page(source: str) -> str:
    """Returns the content of a page of the web as Markdown of at most `MAX_CHARS` characters, "" for none.

    Any string is accepted: one that is no HTML is read as text. Raises UsageError if the extra `web` is not
    installed.
    """
    require("markdownify", "Reading web pages")
    source = printable(source[:MAX_CHARS])
    for most in (MAX_ELEMENTS, 0):
        with suppress(Exception):  # a crafted page may cause any error; it is then read as plain text
            return markdown(source, most)[1][:MAX_CHARS]
    return ""


def markdown(source: str, most: int | None = None) -> tuple[str, str]:
    """Returns the title and the content of the page `source` as Markdown.

    A page of more than `most` elements, if given, is plain text. Raises UnreadableDocument for a page with
    too many elements within each other, or with nothing but links.
    """
    from lxml import html

    # A page of many tags that are not closed is deep, and what is below libxml2's usual limit would be lost.
    parser = html.HTMLParser(
        encoding="utf-8", huge_tree=most is None, no_network=True, remove_comments=True, remove_pis=True
    )
    root = html.document_fromstring(source.encode("utf-8", "replace"), parser=parser)
    if most is None and any("Excessive depth" in entry.message for entry in parser.error_log):
        raise UnreadableDocument("has too many elements within each other")
    title = real_title(root.findtext(".//title")) or real_title(root.xpath("string((//h1|//h2)[1])"))
    _write_out(root)
    for nodes, stays in ((_NO_TEXT, None), (_NO_CONTENT, _holds_the_page), (_MAY_BE_MENUS, _is_no_menu)):
        length = len(root.text_content())
        for node in root.xpath(nodes):
            if node.getparent() is not None and not (stays and stays(node, length)):
                node.drop_tree()
    content = root if root.find("body") is None else root.find("body")
    text = content.text_content()
    if len(text) < length and not "".join(content.xpath(_NOT_IN_HEADINGS)).strip():
        raise UnreadableDocument("holds nothing but links, as a menu or an index does")
    mains = root.xpath(f"//*[{_MAIN}][not(ancestor::*[{_MAIN}])]")
    if len(mains) == 1 and 2 * len(mains[0].text_content()) >= len(text):
        content = mains[0]
    for table in content.xpath("descendant-or-self::table[.//table]"):  # it only gives the others their place
        for node in (table, *table.xpath("./*|./*/tr|./tr/*|./*/tr/*")):
            node.tag = "div"
    _fill_spans(content)
    if most is not None and sum(1 for _ in content.iter()) > most:
        return title, "\n".join(filter(None, (" ".join(part.split()) for part in content.itertext())))
    text = _converter().convert(html.tostring(content, encoding="unicode"))
    return title, re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip()


def _converter() -> Any:
    from markdownify import MarkdownConverter

    class Writer(MarkdownConverter):
        """Leaves letters as they are, except where Markdown would read a cell or a block in them."""

        def convert_td(self, el: Any, text: str, parent_tags: Collection[str]) -> str:
            """Returns a cell that no bar in it ends."""
            return str(super().convert_td(el, text.replace("|", "\\|"), parent_tags))  # type: ignore[misc]

        def convert_th(self, el: Any, text: str, parent_tags: Collection[str]) -> str:
            """Returns a cell of a header that no bar in it ends."""
            return str(super().convert_th(el, text.replace("|", "\\|"), parent_tags))  # type: ignore[misc]

        def convert_p(self, el: Any, text: str, parent_tags: Collection[str]) -> str:
            """Returns a paragraph whose lines are no headings, tables or quotes."""
            lines = "\n".join(map(escaped, text.strip().split("\n")))
            return str(super().convert_p(el, lines, parent_tags))  # type: ignore[misc]  # its stubs lack it

    return Writer(
        heading_style="ATX",
        bullets="-",
        strip=["img", "a"],
        table_infer_header=True,
        escape_asterisks=False,
        escape_underscores=False,
    )


def _write_out(root: Any) -> None:
    """Writes formulas, ruby, superscripts and subscripts as text."""
    for node in root.xpath(_WRITTEN_OUT):
        text = node.get("alttext") or node.get("alt") or node.text_content()
        if node.tag == "math" and not node.get("alttext"):
            source = node.findtext(".//annotation[@encoding='application/x-tex']")
            text = source or formula(node, lambda part: (part.text or "").strip())
        text = f"({text})" if node.tag == "rt" else shifted(text, node.tag)
        node.tail = text + (node.tail or "")
        node.drop_tree()


def _holds_the_page(node: Any, length: int) -> bool:
    """Returns whether a block, such as a button or a header that is not closed as it should be, has most of
    the text of the page.
    """
    return 2 * len(node.text_content()) > length and bool(node.xpath("boolean(.//p)"))


def _is_no_menu(node: Any, length: int) -> bool:
    """Returns whether a block is not mostly links, unless a heading or a colon announces it, and is not named
    like navigation. A block with the title of the page is no menu.
    """
    links = [len(link.text_content()) for link in node.xpath(".//a[@href]")]
    loose = [len(text.strip()) for text in node.xpath(".//text()[not(ancestor::a)]")] if links else []
    if not links or max(loose, default=0) > MAX_MENU_TEXT or node.xpath("boolean(.//h1)"):
        return True
    [block] = node.xpath(_AROUND)
    above = block.xpath("normalize-space(preceding-sibling::*[1][self::p])") if node.xpath(_IS_A_LIST) else ""
    is_announced = above.endswith(":") or block.xpath(_UNDER_A_HEADING)
    is_linked = len(links) >= 3 and sum(links) >= MENU_SHARE * sum(links + loose)
    is_named = _MENU_NAME.search(f"{node.get('class', '')} {node.get('id', '')}")
    return not is_named and (is_announced or not is_linked)


def _fill_spans(content: Any) -> None:
    """Repeats the text of cells that span rows or columns in each of them, up to `MAX_CELLS` in a page."""

    def span(cell: Any, name: str) -> int:
        value = cell.get(name, "")
        return max(1, min(int(value), 100)) if value.isdecimal() else 1

    if sum(span(cell, "rowspan") * span(cell, "colspan") for cell in content.iter("td", "th")) > MAX_CELLS:
        return
    for row in list(content.iter("tr")):
        cells = row.xpath("./td|./th")
        for cell in cells:
            place, columns = row.index(cell), span(cell, "colspan") if len(cells) > 1 else 1
            text = repeated(" ".join(cell.text_content().split()))
            for other in (row, *islice(row.itersiblings("tr"), span(cell, "rowspan") - 1)):
                for _ in range(columns - (other is row)):
                    copy = row.makeelement(cell.tag)
                    copy.text = text
                    other.insert(place + (other is row), copy)
            cell.attrib.pop("colspan", None)
