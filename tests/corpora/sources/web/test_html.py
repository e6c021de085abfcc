"""Pages become Markdown; scripts never do, and no page is too much."""

from __future__ import annotations

import bz2
import json
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.documents import html
from ragc.corpora.documents.base import printable
from ragc.errors import UsageError
from tests.examples import examples
from tests.paths import SHARED_DATA

pytest.importorskip("markdownify")

CRAG = SHARED_DATA / "crag" / "dev_data.jsonl.bz2"
PAGE = """<!DOCTYPE html><html lang="en"><head><title>Ada</title><style>p {color: red}</style>
<script>var secret = "evil";</script></head><body><nav><a href="/">Home menu</a></nav><article>
<h1>Ada Lovelace</h1><p>She wrote notes.</p><h2>Works</h2><p><b>Bold words</b> here.</p>
<ul><li>first note</li><li>second note</li></ul>
<table><tr><th>Year</th><th>Event</th></tr><tr><td>1815</td><td>born</td></tr></table>
<script>alert("evil")</script><p>caf&eacute; &amp; tea</p></article></body></html>"""


def test_headings_lists_and_tables_are_kept() -> None:
    text = html.read_web_page(PAGE)
    assert {"# Ada Lovelace", "## Works", "- first note", "| 1815 | born |"} <= set(text.splitlines())
    assert "**Bold words**" in text
    assert "café & tea" in text
    assert "evil" not in text
    assert "color" not in text


def test_a_page_of_too_many_elements_is_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_ELEMENTS", 3)
    text = html.read_web_page(PAGE)
    assert "Ada Lovelace\nShe wrote notes.\nWorks\nBold words" in text
    assert "evil" not in text


@pytest.mark.parametrize(
    "page", ["", " \n", "<html></html>", "<!-- only this -->", "<script>evil()</script>", "\x00"]
)
def test_nothing_is_found_in_nothing(page: str) -> None:
    assert html.read_web_page(page) == ""


def test_what_is_no_html_is_read_as_it_is() -> None:
    assert html.read_web_page("two & three\x00\ud800") == "two & three"


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
        html.read_web_page(PAGE)


PIECES = st.sampled_from(
    ["<p>", "</p>", "<table>", "<td>", "<li>", "<h1>", "<script>", "</script>", "<b", "&lt;", ">", "<sup>",
     "<math>", "<a href=x>", "<td rowspan=2>", "<tr>"]
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
    pages = {result["page_url"]: result["page_result"] for result in results}
    texts = {url: html.read_web_page(page) for url, page in pages.items()}
    assert all(texts.values())
    office = texts["https://en.wikipedia.org/wiki/Microsoft_Office_2019"]
    assert "## History" in office
    assert "\n- " in office
    assert not re.search(r"<(script|style|div|span)\b|function\s*\(\)\s*\{", "\n".join(texts.values()))
