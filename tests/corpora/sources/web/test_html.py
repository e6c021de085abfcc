"""Pages become markdown; scripts never do, and no page is too much."""

from __future__ import annotations

import bz2
import json
import re
import subprocess
import sys
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.sources.web import html
from ragc.errors import UsageError
from tests.examples import examples
from tests.paths import SHARED_DATA, SRC

pytest.importorskip("trafilatura")

CRAG = SHARED_DATA / "crag" / "dev_data.jsonl.bz2"
WORDS = "This paragraph is long enough to be taken for the main text of the page by anyone who reads it. "
PAGE = f"""<!DOCTYPE html><html lang="en"><head><title>Ada</title><style>p {{color: red}}</style>
<script>var secret = "evil";</script></head><body><nav><a href="/">Home menu</a></nav><article>
<h1>Ada Lovelace</h1><p>{WORDS * 3}</p><h2>Works</h2><p>{WORDS}<b>Bold words</b> here.</p>
<ul><li>first note</li><li>second note</li></ul>
<table><tr><th>Year</th><th>Event</th></tr><tr><td>1815</td><td>born</td></tr></table>
<script>alert("evil")</script><p>caf&eacute; &amp; tea {WORDS}</p></article></body></html>"""


def test_headings_lists_and_tables_are_kept() -> None:
    text = html.markdown(PAGE, url="https://example.org/ada")
    lines = [line.strip() for line in text.splitlines()]
    assert "# Ada Lovelace" in lines
    assert "## Works" in lines
    assert {"- first note", "- second note"} <= set(lines)
    assert "| 1815 | born |" in lines
    assert "**Bold words**" in text
    assert "café & tea" in text


def test_scripts_and_styles_are_never_text() -> None:
    for text in (html.markdown(PAGE), html.plain(PAGE)):
        assert "evil" not in text
        assert "color" not in text
    short = "<body><p>seen<script>a<b>evil</b></script> after</p><svg><text>evil</text></svg></body>"
    assert html.markdown(short) == html.plain(short) == "seen after"


@pytest.mark.parametrize(
    "sentence",
    [
        "東京は日本の首都であり、世界最大の都市の一つです。",
        "Москва является столицей России уже много лет.",
        "القاهرة هي عاصمة مصر وأكبر مدنها.",
    ],
)
def test_any_language_will_do(sentence: str) -> None:
    page = f"<html><body><article><h1>{sentence}</h1><p>{sentence * 12}</p></article></body></html>"
    assert sentence * 2 in html.markdown(page)


def test_a_page_without_main_text_is_read_as_plain_text() -> None:
    page = (
        "<body><div hidden>no</div><ul><li>one <b>b</b>old<li>two</ul><p style='display: none'>no</p>x</body>"
    )
    assert html.plain(page) == "one bold\ntwo\nx"
    assert html.plain("<table><tr><td>a<td>b<tr><td>c</table>") == "a b\nc"


@pytest.mark.parametrize(
    "page", ["", " \n", "<html></html>", "<!-- only this -->", "<script>evil()</script>", "\x00"]
)
def test_nothing_is_found_in_nothing(page: str) -> None:
    assert html.markdown(page) == html.plain(page) == ""


def test_what_is_no_html_is_read_as_it_is() -> None:
    assert html.markdown("two & three\x00\ud800") == "two & three"


LIMIT = 400_000
"""Characters that a bomb is cut to in these tests: enough tags to keep the extractor busy for minutes."""

BOMBS = {
    "deep": "<div>" * 200_000 + "x",
    "deep lists": "<ul><li>a" * 4_000,
    "a megabyte of text": "<p>" + "word " * 200_000,
    "very many paragraphs": "<p>" * 200_000 + "end",
    "brackets": "<" * 1_000_000,
    "entities": "<p>" + "&amp;" * 200_000,
    "wide cells": "<table><tr><td colspan='999999999' rowspan='999999999'>cell</table>",
    "comments": "<p>x</p>" + "<!--" * 250_000,
    "laughs": '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "' + "&a;" * 1000 + '">]><p>' + "&b;" * 1000,
    "attributes": "<p " + "a=b " * 200_000 + ">x",
    "control characters": "<p>" + "\x00\x1b\ud800" * 200_000 + "x",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_gives_no_more_than_the_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_CHARS", LIMIT)
    assert len(html.markdown(BOMBS[name])) <= min(LIMIT, len(BOMBS[name]) + 2_000)


def test_a_longer_page_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_CHARS", LIMIT)
    page = f"<p>{'word ' * (LIMIT // 5)}</p><p>behind the limit</p>"
    text = html.markdown(page)
    assert text.startswith("word word")
    assert "behind" not in text


def test_a_heavy_page_is_extracted_apart_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    here = html.markdown(PAGE, url="https://example.org/ada")
    monkeypatch.setattr(html, "HEAVY_TAGS", 3)
    assert html.markdown(PAGE, url="https://example.org/ada") == here != html.plain(PAGE)


@pytest.mark.parametrize(("limit", "value"), [("SECONDS", 0.001), ("MAX_TAGS", 3)])
def test_what_takes_too_long_or_has_too_many_tags_is_plain_text(
    limit: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "HEAVY_TAGS", 3)
    monkeypatch.setattr(html, limit, value)
    assert html.markdown(PAGE) == html.plain(PAGE)


def test_the_extra_is_named_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    for read in (html.markdown, html.plain):
        with pytest.raises(UsageError, match=r"ragc\[web\]"):
            read(PAGE)


def test_importing_the_module_loads_no_library() -> None:
    code = (
        "import sys, ragc.corpora.sources.web.html; "
        "sys.exit('trafilatura' in sys.modules or 'lxml' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(SRC)})


PIECES = st.sampled_from(
    ["<p>", "</p>", "<table>", "<td>", "<li>", "<h1>", "<script>", "</script>", "<b", "&lt;", ">"]
)


@settings(max_examples=examples(60))
@given(st.lists(PIECES | st.text(max_size=8), max_size=30))
def test_any_string_gives_clean_text(pieces: list[str]) -> None:
    for text in (html.markdown("".join(pieces)), html.plain("".join(pieces))):
        assert html.clean(text) == text
        text.encode()
        assert text == "\n".join(text.split("\n")).strip()


def real_pages(questions: int) -> dict[str, str]:
    """The pages of the first of CRAG's ten questions by their addresses, five each; some come twice."""
    with bz2.open(CRAG, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in islice(file, questions)]
    results = [result for row in rows for result in row["search_results"]]
    assert len(results) == 5 * questions
    return {result["page_url"]: result["page_result"] for result in results}


real = pytest.mark.skipif(not CRAG.is_file(), reason="shared/data does not lie beside the repository")
SCRIPT = re.compile(r"<(script|style|div|span)\b|function\s*\(\)\s*\{")


@real
def test_a_real_page_is_read() -> None:
    url = "https://en.wikipedia.org/wiki/Microsoft_Office_2019"
    office = html.markdown(real_pages(1)[url], url=url)
    assert SCRIPT.search(office) is None
    assert "## History" in office
    assert "\n- " in office


@real
@pytest.mark.integration
def test_all_real_pages_are_read() -> None:
    pages = real_pages(10)
    texts = {url: html.markdown(page, url=url) for url, page in pages.items()}
    assert {url for url, text in texts.items() if not text} == {
        url for url, page in pages.items() if not page
    }
    assert SCRIPT.search("\n".join(texts.values())) is None
    studio = texts["https://en.wikipedia.org/wiki/DreamWorks_Pictures"]
    assert "Steven Spielberg" in studio
    assert studio.count("\n| ") > 10
