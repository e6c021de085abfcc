"""CRAG (KDD Cup 2024), RM3QA's base: questions asked at a time, with the web pages found for them."""

from __future__ import annotations

import html
from typing import Literal

from pydantic import BaseModel

from ragc.corpora.datasets.base import Item, Skip, passage_of
from ragc.corpora.files.rows import FileRow, Text, Texts, Words, as_json
from ragc.records import Passage, Question

SPLITS = ("dev", "test")
"""What the official split numbers stand for: 0 for validation, 1 for the public test."""

_EXTRA = ("domain", "question_type", "static_or_dynamic", "popularity")


class Page(BaseModel):
    """A page of the web."""

    page_name: Text = ""
    page_url: Text = ""
    page_result: Text = ""
    page_snippet: Text = ""
    page_last_modified: Text = ""


class Row(BaseModel):
    """A question with its answers, the alternatives among them, and the pages found for it."""

    interaction_id: Words
    query: Words
    query_time: Words
    answer: Texts = ()
    alt_ans: Texts = ()
    alternative_answers: Texts = ()
    split: Literal[0, 1] | None = None
    search_results: list[Page] = []


def read(row: FileRow, dataset: str) -> Item | None:
    """Reads a question with the pages found for it as passages; an empty page is replaced by its snippet.

    The answers are `answer` and its alternatives, `invalid question` among them; a question whose answers are
    all empty (null, `nan`) is left out. `extra` keeps the domain and types, and of every page its passage's
    id, address and date. Raises UsageError when the extra for HTML is not installed.
    """
    found = row.read(Row, split_ids="json")  # alternatives may be spelled, as `"[]"` in the example data
    if "answer" not in row.values:
        row.problems.append("`answer` is missing.")
    if not found or row.problems:
        return None
    answers = dict.fromkeys(
        text.strip()
        for text in (*found.answer, *found.alt_ans, *found.alternative_answers)
        if text.strip().lower() != "nan"
    )
    if not answers:
        raise Skip("its answer is null or `nan`, and there is no alternative")
    passages: dict[str, Passage] = {}
    pages: dict[str, object] = {}
    for page in found.search_results:
        url = page.page_url.strip()
        text = page_text(page.page_result) if page.page_result.strip() else ""
        passage = passage_of(dataset, page.page_name, text.strip() or html.unescape(page.page_snippet))
        if passage.text:
            passages[passage.id] = passage
            changed = page.page_last_modified.strip()
            pages[passage.id] = {"id": passage.id, "url": url, "last_modified": changed}
    question = Question(
        found.interaction_id,
        found.query,
        tuple(answers),
        split="" if found.split is None else SPLITS[found.split],
        context_ids=tuple(passages),
        query_time=found.query_time,
        extra={n: as_json(row.values[n]) for n in _EXTRA if n in row.values} | {"pages": [*pages.values()]},
    )
    return question, tuple(passages.values())


def page_text(page: str) -> str:
    """Returns the text of the HTML `page` in markdown."""
    from ragc.corpora.sources.web.html import markdown

    return markdown(page)
