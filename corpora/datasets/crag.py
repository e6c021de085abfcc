"""CRAG (KDD Cup 2024), RM3QA's base: questions asked at a time, with the web pages found for them."""

from __future__ import annotations

import html

from ragc.corpora.datasets.base import Item, Skip, passage_of, read_parts
from ragc.corpora.files.row import FileRow, kind, short_repr
from ragc.corpora.files.values import as_list
from ragc.records import Passage, Question

SPLITS = ("dev", "test")
"""What the official split numbers stand for: 0 for validation, 1 for the public test."""

_EXTRA = ("domain", "question_type", "static_or_dynamic", "popularity")
_ANSWERS = ("answer", "alt_ans", "alternative_answers")


def read(row: FileRow, dataset: str) -> Item:
    """Reads a question with the pages found for it as passages; an empty page is replaced by its snippet.

    The answers are `answer` and its alternatives, `invalid question` among them; a question whose answers are
    all empty (null, `nan`) is left out. `extra` keeps the domain and types, and of every page its passage's
    id, address and date. Raises UsageError when the extra for HTML is not installed.
    """
    if "answer" not in row.values:
        row.text("answer")
    answers: dict[str, None] = {}
    for name in _ANSWERS:  # alternatives are a list, which may be spelled, as `"[]"` in the example data
        for _, value in row.enumerate_items(as_list(row.values.get(name), cells=name != "answer")):
            if isinstance(value, bool | dict | list):
                row.problems.append(f"`{name}` holds {kind(value)}, a string is needed")
            elif value is not None and (text := str(value).strip()).lower() not in ("", "nan"):
                answers[text] = None
    if not answers and not row.problems:
        raise Skip("its answer is null or `nan`, and there is no alternative")
    split = row.values.get("split")
    if split is not None and (type(split) is not int or split not in range(len(SPLITS))):
        row.problems.append(f"`split` is {short_repr(split)}, 0 or 1 is needed")
        split = None
    results = [] if row.problems else read_parts(row, "search_results", lambda part: _page(part, dataset))
    pages = {passage.id: (passage, facts) for passage, facts in results if passage.text}
    facts = {name: row.text(name, needed=False, blank=True) for name in _EXTRA if name in row.values}
    question = Question(
        row.text("interaction_id"),
        row.text("query"),
        tuple(answers),
        split="" if split is None else SPLITS[split],
        context_ids=tuple(pages),
        query_time=row.text("query_time"),
        extra={**facts, "pages": [facts for _, facts in pages.values()]},
    )
    return question, tuple(passage for passage, _ in pages.values())


def page_text(page: str) -> str:
    """Returns the text of the HTML `page` in markdown."""
    from ragc.corpora.sources.web.html import markdown

    return markdown(page)


def _page(row: FileRow, dataset: str) -> tuple[Passage, dict[str, str]]:
    url, page, snippet, changed, title = (
        row.text(f"page_{name}", needed=False, blank=True).strip()
        for name in ("url", "result", "snippet", "last_modified", "name")
    )
    text = page_text(page).strip() if page else ""
    passage = passage_of(dataset, title, text or html.unescape(snippet))
    return passage, {"id": passage.id, "url": url, "last_modified": changed}
