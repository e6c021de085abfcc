"""CRAG (KDD Cup 2024), RM3QA's base: questions asked at a time, with the web pages found for them."""

from __future__ import annotations

import ast
import html
from collections.abc import Iterable

from ragc.corpora.datasets.base import Card, Item, Skip, passage_of
from ragc.corpora.datasets.parts import each
from ragc.corpora.row import Row, kind
from ragc.records import Passage, Question

CARD = Card(
    id="crag",
    about="questions on finance, music, movies, sports and more, asked at a time, with pages of the web",
    file="crag_task_1_and_2_dev_v4.jsonl.bz2, or the unpacked JSON lines of task 3",
    licence="CC BY-NC 4.0",
    home="https://github.com/facebookresearch/CRAG",
    citation="Xiao Yang, Kai Sun, Hao Xin, Yushi Sun, Nikita Bhalla, Xiangsen Chen, et al. CRAG: "
    "Comprehensive RAG Benchmark. NeurIPS 2024, Datasets and Benchmarks.",
    splits={"dev": 1371, "test": 1335},
    metrics=("em", "acc"),
    answer_format="short",
)

SPLITS = ("dev", "test")
"""What the official split numbers stand for: 0 for validation, 1 for the public test."""

_KEPT = ("domain", "question_type", "static_or_dynamic", "popularity")
_NONE = ("", "nan")


def read(row: Row) -> Item:
    """A question whose passages are the pages found for it, as text, or their snippets where a page is empty.

    The answers are `answer` and its alternatives, `invalid question` among them; a question none of whose
    answers says anything (null, `nan`) is left out. `extra` keeps the domain and types, and of every
    page its passage's id, address and date. Raises UsageError when the extra for HTML is not installed.
    """
    answers = _answers(row)
    found = each(row, "search_results", _page) if answers and not row.problems else []
    pages = {passage.id: (passage, facts) for passage, facts in found if passage.text}
    question = Question(
        row.text("interaction_id"),
        row.text("query"),
        answers,
        split=_split(row),
        context_ids=tuple(pages),
        query_time=row.text("query_time"),
        extra={
            **{name: row.text(name, needed=False, blank=True) for name in _KEPT if name in row.values},
            "pages": [facts for _, facts in pages.values()],
        },
    )
    if not answers and not row.problems:
        raise Skip("its answer is null or `nan`, and there is no alternative")
    return question, tuple(passage for passage, _ in pages.values())


def page_text(page: str, url: str = "") -> str:
    """The text of the HTML `page` in markdown; `url` is where it came from."""
    from ragc.corpora.html import markdown

    return markdown(page, url=url)


def _page(row: Row) -> tuple[Passage, dict[str, str]]:
    url, page, snippet, changed, title = (
        row.text(f"page_{name}", needed=False, blank=True).strip()
        for name in ("url", "result", "snippet", "last_modified", "name")
    )
    text = page_text(page, url).strip() if page else ""
    passage = passage_of(CARD.id, title, text or html.unescape(snippet))
    return passage, {"id": passage.id, "url": url, "last_modified": changed}


def _answers(row: Row) -> tuple[str, ...]:
    if "answer" not in row.values:
        row.text("answer")
    given = [("answer", row.values.get("answer"))]
    for name in ("alt_ans", "alternative_answers"):
        given += [(name, value) for value in _alternatives(row, name)]
    return tuple(dict.fromkeys(_said(row, given)))


def _said(row: Row, given: Iterable[tuple[str, object]]) -> Iterable[str]:
    """The values that say something, as texts; numbers count as texts."""
    for name, value in given:
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            row.problems.append(f"`{name}` holds {kind(value)}, a string is needed")
        elif value is not None and (text := str(value).strip()).lower() not in _NONE:
            yield text


def _alternatives(row: Row, name: str) -> list[object]:
    """A list, also one that is spelled in a string, as `"[]"` in the example data."""
    value = row.values.get(name)
    if isinstance(value, str) and value.strip().lower() in _NONE:
        return []
    if not isinstance(value, str):
        return row.items(name)
    try:
        spelled = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        spelled = value
    return spelled if isinstance(spelled, list) else [spelled]


def _split(row: Row) -> str:
    value = row.values.get("split")
    if value is None:
        return ""
    if type(value) is not int or value not in range(len(SPLITS)):
        row.problems.append(f"`split` is {value!r}, 0 or 1 is needed")
        return ""
    return SPLITS[value]
