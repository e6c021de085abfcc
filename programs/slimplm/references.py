"""From found pages to the references shown: paragraphs, their rank, and how they are dealt out.

Paper: SlimPLM, section 4.4 and the authors' code; markers of Wikipedia dumps are those of KILT.
Differs: paragraphs are ranked by BM25 among all paragraphs found, where the authors embed them with E5;
each page is taken whole, since no more than the references shown can come from one; passages cut from
the same page count as one page; a line that only repeats the title is no paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from ragc.corpora.sources.bm25 import bm25_scores
from ragc.corpora.sources.terms import passage_terms, query_terms
from ragc.records import Hit, Passage

Page = tuple[Passage, ...]
"""The paragraphs of a page."""

_MARKED = re.compile(r"^(?:BULLET|Section)::::", re.MULTILINE)
_BLANK = re.compile(r"(?:[ \t]*\n){2,}")
_LINE = re.compile(r"\s*\n\s*")


def pages(hit_lists: Iterable[Sequence[Hit]]) -> list[Page]:
    """The pages found by all queries, in the order first found, as paragraphs in reading order.

    A page found twice counts once; one without paragraphs is left out.
    """
    parts: dict[str, dict[int, Passage]] = {}
    for hit in (hit for hits in hit_lists for hit in hits):
        page = parts.setdefault(hit.passage.parent, {})
        for paragraph in paragraphs(hit.passage):
            page.setdefault(paragraph.start, paragraph)
    return [tuple(page[start] for start in sorted(page)) for page in parts.values() if page]


def paragraphs(passage: Passage) -> Iterator[Passage]:
    """The paragraphs of a passage: between blank lines, or lines where there are none or in a marked dump.

    A passage of one paragraph is its own. Others have the id `parent#start`; `start` is the offset in
    the parent's text.
    """
    text = passage.text
    for start, end in _spans(text):
        part = text[start:end].rstrip()
        if not part.strip() or _MARKED.match(part) or part.strip() == passage.title:
            continue
        if part == text.rstrip():
            yield passage
        else:
            at = passage.start + start
            yield replace(passage, id=f"{passage.parent}#{at}", text=part, start=at)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    by_line = _MARKED.search(text) or not _BLANK.search(text)
    start = 0
    for between in (_LINE if by_line else _BLANK).finditer(text):
        yield start, between.start()
        start = between.end()
    yield start, len(text)


def rank_paragraphs(question: str, pages: Sequence[Page]) -> list[Page]:
    """Each page with its paragraphs by similarity to `question`, best first, ties in reading order."""
    every = [paragraph for page in pages for paragraph in page]
    scores = iter(bm25_scores(query_terms(question), [passage_terms(paragraph) for paragraph in every]))
    scored = [[(next(scores), paragraph) for paragraph in page] for page in pages]
    return [tuple(p for _, p in sorted(page, key=lambda pair: -pair[0])) for page in scored]


def deal(pages: Sequence[Page]) -> Page:
    """Every page's first, then every page's second, and so on until all are dealt."""
    return tuple(p for row in zip_longest(*pages) for p in row if p is not None)


def deal_to_shortest(pages: Sequence[Page]) -> Page:
    """The same, but ended by the shortest page, as the authors' code does."""
    return tuple(p for row in zip(*pages, strict=False) for p in row)


def cap_tokens(references: Page, tokens: Callable[[Page], int], cap: int) -> Page:
    """`references` without the last two, again and again, until their prompt has at most `cap` `tokens`."""
    while references and tokens(references) > cap:
        references = references[:-2]
    return references
