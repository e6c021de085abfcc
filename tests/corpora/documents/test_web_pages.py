"""Pages of files and of the web become Markdown; scripts never do, and no page is too much."""

from __future__ import annotations

import bz2
import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.documents import html
from ragc.corpora.documents.base import UnreadableDocument, printable
from ragc.errors import UsageError
from tests.examples import examples
from tests.paths import SHARED_DATA

pytest.importorskip("markdownify")

CRAG = SHARED_DATA / "crag" / "dev_data.jsonl.bz2"
BODY = "".join(f"<p>Paragraph {n} explains how valve {n} is closed.</p>" for n in range(20))
STORY = f"<h2>Dogs</h2>{'<p>A story about dogs.</p>' * 5}"
STORY_TEXT = "\n\n".join(["## Dogs", *["A story about dogs."] * 5])
LINKS = "".join(f"<a href=/{w}>{w} page</a> " for w in ("Home", "About", "Contact"))
LANGUAGES = "".join(f"<li><a href=/{n}>Language {n}</a></li>" for n in range(20))
SQUARE = "<msup><mi>c</mi><mn>2</mn></msup>"
HALF = "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>"
REMARK = "A remark on both columns that is much longer than the name of any column of a table would be."
FEES = "| Plan | Fee | Fee |\n| --- | --- | --- |\n| Gold | 1 | 10 |\n| Gold | 2 | 12 |"
ROWS = (
    "<tr><th>Plan</th><th colspan=2>Fee</th></tr><tr><td rowspan=2>Gold</td><td>1</td><td>10</td></tr>"
    "<tr><td>2</td><td>12</td></tr>"
)
PAGES = {
    "lists, emphasis and letters": (
        "<h1>Hours</h1><p><b>Nine</b>, caf&eacute; &amp; tea.</p><ul><li>closed</ul><script>x()</script>",
        "# Hours\n\n**Nine**, café & tea.\n\n- closed",
    ),
    "the title among links": (
        f"<header><h1>Office</h1><ul>{LANGUAGES}</ul></header><p>A suite.</p>", "# Office\n\nA suite.",
    ),
    "a form around a page": (
        "<form><h1>Hours</h1><p>Daily.</p><select><option>English</option></select><form></form></form>",
        "# Hours\n\nDaily.",
    ),
    "no form in a page": ("<p>Daily.</p><form>Search <button>Go</button></form>", "Daily."),
    "signs of Markdown": (
        "<p>Set max_tokens to 2 * 3.</p><p># no heading</p>", "Set max_tokens to 2 * 3.\n\n\\# no heading",
    ),
    "bars in cells": (
        "<table><tr><th>key</th></tr><tr><td>1|<code>2|3</code></td></tr></table>",
        "| key |\n| --- |\n| 1\\|`2\\|3` |",
    ),
    "cells over rows and columns": (
        f"<table>{ROWS}<tr><td>x</td><td colspan=2>{REMARK}</td></tr></table>",
        f"{FEES}\n| x | {REMARK} |  |",
    ),
    "tables within a table": (
        "<table><tr><td>Left<td><table><tr><th>a</th></tr><tr><td>1</td></tr></table></tr></table>",
        "Left\n\n| a |\n| --- |\n| 1 |",
    ),
    "headings without the link that edits them": (
        "<h2>Plot <span class='mw-editsection'>[<a href=/e>edit</a>]</span></h2><p>It is long.</p>",
        "## Plot\n\nIt is long.",
    ),
    "superscripts": (
        "<p>14<sup>1</sup> days, the 5<sup>th</sup>, H<sub>2</sub>O<sup><a href=#n>[1]</a></sup></p>",
        "14^1 days, the 5th, H₂O[1]",
    ),
    "ruby": ("<p><ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby></p>", "東京(とうきょう)"),
    "powers": (f"<p>E = <math><mi>m</mi>{SQUARE}</math></p>", "E = mc^2"),
    "fractions": (f"<p><math>{HALF}</math></p>", "(a+b)/2"),
    "formulas with a text": ("<p><math alttext='x+1'><mi>q</mi></math></p>", "x+1"),
}  # fmt: skip
PARTS = {
    "cells of nothing but links": (
        f"<table><tr><th>Sites</th><td><div>{LINKS}</div></td></tr><tr><td>{REMARK}</td></tr></table>",
        "| Sites | Home page About page Contact page |",
    ),
    "lists of links under a heading": (
        f"{STORY}<h2>Sources</h2><ul><li>{LINKS}</ul>", "## Sources\n\n- Home page About page Contact page",
    ),
    "lists of links after a colon": (
        f"{BODY}<p>The fields are:</p><ul><li>{LINKS}</ul>", "are:\n\n- Home page About page",
    ),
    "lists of links in blocks of their own after a colon": (
        f"{BODY}<p>The fields are:</p><div class=itemizedlist><ul><li>{LINKS}</ul></div>",
        "are:\n\n- Home page About page",
    ),
    "lists of links in blocks of their own under a heading": (
        f"{STORY}<h2>Sources</h2> <div> <div><ol><li>{LINKS}</ol></div> </div>",
        "## Sources\n\n1. Home page About page",
    ),
    "dishes on a list called menu": (
        "<div id=menu><ul><li>Soup, 4.50</ul><a href=a.pdf>Allergens</a></div>", "Soup",
    ),
    "what open tags hold": ("".join(f"<p><font>line {n} " for n in range(200)), "line 199"),
    "a page beside an empty main": (f"<main id=app></main><div>{BODY}</div>", "valve 19 is closed"),
    "a page beside a small article": (
        f"<div>{BODY}</div><article><p>Read too.</p></article>", "valve 19 is closed",
    ),
    "a page in an open header": (f"<header role=banner><button>Menu<div>{STORY}</div>", STORY_TEXT),
    "a page in open navigation": (f"<nav><a href=/>Home</a><div>{STORY}</div>", STORY_TEXT),
    "a page in an open footer": (f"<footer><div>{STORY}</div>", STORY_TEXT),
}  # fmt: skip


def page_text(folder: Path, body: str) -> str:
    (folder / "a.html").write_text(f"<html><body>{body}</body></html>", "utf-8")
    return html.read(folder / "a.html").pages[0].text


@pytest.mark.parametrize("name", PAGES)
def test_a_page_keeps(name: str, tmp_path: Path) -> None:
    assert page_text(tmp_path, PAGES[name][0]) == PAGES[name][1]


@pytest.mark.parametrize("name", PARTS)
def test_a_page_does_not_lose(name: str, tmp_path: Path) -> None:
    assert PARTS[name][1] in page_text(tmp_path, PARTS[name][0])


def test_a_title_and_articles_stay_and_navigation_goes() -> None:
    assert html.markdown(
        "<html><head><title>Opening hours</title></head><nav>Home | About</nav><header>Our site</header>"
        "<main><article><h1>Hours</h1></article><article><p>Daily.</p><h2>Holidays<a href='#h'>¶</a></h2>"
        "</article></main><footer>Imprint</footer>"
    ) == ("Opening hours", "# Hours\n\nDaily.\n\n## Holidays")


def test_menus_and_contents_go_and_a_page_of_nothing_else_is_refused(tmp_path: Path) -> None:
    contents = f"<div><h4>Contents</h4><ul><li>{LINKS}</ul></div>"
    menus = f"<div><ul><li>{LINKS}</ul></div>{contents}"
    assert page_text(tmp_path, f"<div class=top>{LINKS}</div>{BODY}{menus}") == page_text(tmp_path, BODY)
    with pytest.raises(UnreadableDocument, match="nothing but links"):
        page_text(tmp_path, f"<h1>Index</h1><ul><li>{LINKS}</ul>")


@pytest.mark.parametrize(
    ("declared", "encoding", "words"),
    [
        ("gb2312", "gb18030", "朱镕基出席会议"),
        ("iso-8859-1", "cp1252", "The “returns” period – it’s €20"),
        ("iso-8859-15", "utf-8", "un gran ascenso, facción más"),
        ("Shift_JIS", "cp932", "髙島屋の返品①"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("utf-16", "utf-8", "Größe"),
        ("no-such-encoding", "utf-8", "Größe"),
    ],
)
def test_pages_are_decoded_as_browsers_do(declared: str, encoding: str, words: str, tmp_path: Path) -> None:
    page = f'<html><head><meta charset="{declared}"></head><body><p>{words}</p></body></html>'
    (tmp_path / "a.html").write_bytes(page.encode(encoding))
    assert html.read(tmp_path / "a.html").pages[0].text == words


def test_a_page_of_too_many_elements_is_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_ELEMENTS", 3)
    page = f"<script>evil()</script><h1>Ada</h1><p>She <b>wrote</b> notes.</p>{BODY}"
    text = html.read_web_page(page)
    assert text.startswith("Ada\nShe\nwrote\nnotes.\nParagraph 0")
    assert "evil" not in text


@pytest.mark.parametrize(
    "page", ["", " \n", "<html></html>", "<!-- only this -->", "<script>evil()</script>", "\x00"]
)
def test_nothing_is_found_in_nothing(page: str) -> None:
    assert html.read_web_page(page) == ""


LIMIT = 400_000
"""Characters that a bomb is cut to in these tests."""

BOMBS = {
    "deep": "<div>" * 200_000 + "x",
    "deep lists": "<ul><li>a" * 4_000,
    "a megabyte of text": "<p>" + "word " * 200_000,
    "very many paragraphs": "<p>" * 200_000 + "end",
    "brackets": "<" * 1_000_000,
    "entities": "<p>" + "&amp;" * 200_000,
    "wide cells": "<table><tr><td colspan='999999999' rowspan='999999999'>cell</table>",
    "cells of cells": "<table><tr><td rowspan=100 colspan=100>" * 60 + "<tr>" * 200,
    "comments": "<p>x</p>" + "<!--" * 250_000,
    "laughs": '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "' + "&a;" * 1000 + '">]><p>' + "&b;" * 1000,
    "attributes": "<p " + "a=b " * 200_000 + ">x",
    "control characters": "<p>" + "\x00\x1b\ud800" * 200_000 + "x",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_gives_no_more_than_the_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_CHARS", LIMIT)
    assert len(html.read_web_page(BOMBS[name])) <= LIMIT


def test_a_longer_page_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_CHARS", LIMIT)
    text = html.read_web_page(f"<p>{'word ' * (LIMIT // 5)}</p><p>behind the limit</p>")
    assert text.startswith("word word")
    assert "behind" not in text


def test_the_extra_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "markdownify", None)
    with pytest.raises(UsageError, match=r"ragc\[web\]"):
        html.read_web_page("<p>x</p>")


PIECES = st.sampled_from(
    ["<p>", "</p>", "<table>", "<td>", "<li>", "<h1>", "<script>", "</script>", "<b", "&lt;", ">", "<sup>",
     "<math>", "<a href=x>", "<td rowspan=2>", "<tr>", "two & three\x00\ud800"]
)  # fmt: skip


@settings(max_examples=examples(60))
@given(st.lists(PIECES | st.text(max_size=8), max_size=30))
def test_any_string_gives_clean_text(pieces: list[str]) -> None:
    text = html.read_web_page("".join(pieces))
    assert printable(text) == text
    text.encode()


@pytest.mark.skipif(not CRAG.is_file(), reason="shared/data does not lie beside the repository")
def test_real_pages_are_read() -> None:
    with bz2.open(CRAG, "rt", encoding="utf-8") as file:
        results = json.loads(next(file))["search_results"]
    texts = {result["page_url"]: html.read_web_page(result["page_result"]) for result in results}
    assert all(texts.values())
    office = texts["https://en.wikipedia.org/wiki/Microsoft_Office_2019"]
    assert "## History" in office
    assert "\n- " in office
    assert not re.search(r"<(script|style|div|span)\b|function\s*\(\)\s*\{", "\n".join(texts.values()))
