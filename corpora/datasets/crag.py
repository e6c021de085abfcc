"""CRAG (KDD Cup 2024), RM3QA's base: questions asked at a time, with the web pages found for them."""

from __future__ import annotations

import ast
import html
import json
import warnings
from collections.abc import Iterable

from ragc.corpora.datasets.base import Card, Item, Skip, passage_of, read_parts
from ragc.corpora.files.row import MOST_PROBLEMS, FileRow, kind, short_repr
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
    metrics=("crag_score", "crag_acc", "crag_halluc", "crag_miss", "em", "acc"),
    answer_format="short",
)

SPLITS = ("dev", "test")
"""What the official split numbers stand for: 0 for validation, 1 for the public test."""

_EXTRA = ("domain", "question_type", "static_or_dynamic", "popularity")
_NONE = ("", "nan")

MAX_LIST_CHARS = 100_000
"""Characters of a string that is tried as the spelling of a list."""


def read(row: FileRow) -> Item:
    """Reads a question with the pages found for it as passages; an empty page is replaced by its snippet.

    The answers are `answer` and its alternatives, `invalid question` among them; a question whose answers are
    all empty (null, `nan`) is left out. `extra` keeps the domain and types, and of every page its passage's
    id, address and date. Raises UsageError when the extra for HTML is not installed.
    """
    answers = _answers(row)
    results = read_parts(row, "search_results", _page) if answers and not row.problems else []
    pages = {passage.id: (passage, facts) for passage, facts in results if passage.text}
    question = Question(
        row.text("interaction_id"),
        row.text("query"),
        answers,
        split=_read_split(row),
        context_ids=tuple(pages),
        query_time=row.text("query_time"),
        extra={
            **{name: row.text(name, needed=False, blank=True) for name in _EXTRA if name in row.values},
            "pages": [facts for _, facts in pages.values()],
        },
    )
    if not answers and not row.problems:
        raise Skip("its answer is null or `nan`, and there is no alternative")
    return question, tuple(passage for passage, _ in pages.values())


def page_text(page: str, url: str = "") -> str:
    """Returns the text of the HTML `page` in markdown; `url` is where it came from."""
    from ragc.corpora.sources.web.html import markdown

    return markdown(page, url=url)


def _page(row: FileRow) -> tuple[Passage, dict[str, str]]:
    url, page, snippet, changed, title = (
        row.text(f"page_{name}", needed=False, blank=True).strip()
        for name in ("url", "result", "snippet", "last_modified", "name")
    )
    text = page_text(page, url).strip() if page else ""
    passage = passage_of(CARD.id, title, text or html.unescape(snippet))
    return passage, {"id": passage.id, "url": url, "last_modified": changed}


def _answers(row: FileRow) -> tuple[str, ...]:
    if "answer" not in row.values:
        row.text("answer")
    fields = [("answer", row.values.get("answer"))]
    for name in ("alt_ans", "alternative_answers"):
        fields += [(name, value) for value in _alternatives(row, name)]
    return tuple(dict.fromkeys(_stated_texts(row, fields)))


def _stated_texts(row: FileRow, fields: Iterable[tuple[str, object]]) -> Iterable[str]:
    """Returns the non-empty values as texts; numbers count as texts."""
    for name, value in fields:
        if len(row.problems) >= MOST_PROBLEMS:
            return
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            row.problems.append(f"`{name}` holds {kind(value)}, a string is needed")
        elif value is not None and (text := str(value).strip()).lower() not in _NONE:
            yield text


def _alternatives(row: FileRow, name: str) -> list[object]:
    """Returns a list, also one that is spelled in a string, as `"[]"` in the example data."""
    value = row.values.get(name)
    if isinstance(value, str) and value.strip().lower() in _NONE:
        return []
    if not isinstance(value, str):
        return row.items(name)
    spelled = _spelled_list(value)
    return [value] if spelled is None else spelled


def _spelled_list(text: str) -> list[object] | None:
    """Returns the list of JSON values that `text` spells as Python or JSON does; None when it is no such
    list.
    """
    if not text.strip().startswith("[") or len(text) > MAX_LIST_CHARS:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # of escapes that Python does not know
            spelled = ast.literal_eval(text.strip())
        json.dumps(spelled, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (TypeError, ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return spelled if isinstance(spelled, list) else None


def _read_split(row: FileRow) -> str:
    value = row.values.get("split")
    if value is None:
        return ""
    if type(value) is not int or value not in range(len(SPLITS)):
        row.problems.append(f"`split` is {short_repr(value)}, 0 or 1 is needed")
        return ""
    return SPLITS[value]
