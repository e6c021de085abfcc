"""From found pages to the references shown: paragraphs, their rank, and how they are dealt out.

Paper: SlimPLM, section 4.4 and the authors' code; markers of Wikipedia dumps are those of KILT.
Differs: references are dealt across queries first; from page to page in the order of queries, as in the code,
those of the first two or three queries fill all places. Without an embedder among the sources paragraphs are
ranked by BM25 among all paragraphs found, where the authors embed them with E5. Each page is taken whole,
since no more than the references shown can come from one; passages cut from the same page count as one page;
a line that only repeats the title is no paragraph. A paragraph of more than `PARAGRAPH_TOKENS`, as of a page
without line breaks, is cut at its sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from ragc.corpora.chunking.chunk import chunk_passage
from ragc.records import Hit, Passage

PARAGRAPH_TOKENS = 300
"""The longest paragraph in tokens: twice the share of each of 20 references in a prompt of 3000 tokens."""

Page = tuple[Passage, ...]
"""The paragraphs of a page."""

_MARKED = re.compile(r"^(?:BULLET|Section)::::", re.MULTILINE)
_BLANK = re.compile(r"(?:[ \t]*\n){2,}")
_LINE = re.compile(r"\s*\n\s*")


@dataclass(frozen=True, slots=True)
class Results:
    """The `pages` that all queries found, in the order first found, and which of them each query found.

    `by_query` has numbers of pages, for each query in the order of its hits.
    """

    pages: tuple[Page, ...]
    by_query: tuple[tuple[int, ...], ...]


def found_pages(hit_lists: Iterable[Sequence[Hit]]) -> Results:
    """Returns the hits of all queries as pages of paragraphs in reading order.

    A page found twice counts once; one without paragraphs is left out.
    """
    parts: dict[str, dict[int, Passage]] = {}
    parents: list[tuple[str, ...]] = []
    for hits in hit_lists:
        for hit in hits:
            page = parts.setdefault(hit.passage.parent, {})
            for paragraph in paragraphs(hit.passage):
                page.setdefault(paragraph.start, paragraph)
        parents.append(tuple(dict.fromkeys(hit.passage.parent for hit in hits)))
    numbers = {parent: at for at, parent in enumerate(parent for parent, page in parts.items() if page)}
    pages = tuple(tuple(page[start] for start in sorted(page)) for page in parts.values() if page)
    return Results(pages, tuple(tuple(numbers[p] for p in names if p in numbers) for names in parents))


def paragraphs(passage: Passage) -> Iterator[Passage]:
    """Yields the paragraphs of a passage: between blank lines, or lines where there are none or in a marked
    dump.

    One of more than `PARAGRAPH_TOKENS` is cut at sentences, or words where it has none. A passage of one
    paragraph is its own. Others have the id `parent#start`; `start` is the offset in the parent's text.
    """
    text = passage.text
    for start, end in _spans(text):
        part = text[start:end].rstrip()
        if not part.strip() or _MARKED.match(part) or part.strip() == passage.title:
            continue
        for piece in chunk_passage(replace(passage, text=part, start=0), PARAGRAPH_TOKENS):
            if piece.text == text.rstrip():
                yield passage
            else:
                at = passage.start + start + piece.start
                yield replace(passage, id=f"{passage.parent}#{at}", text=piece.text, start=at)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    by_line = _MARKED.search(text) or not _BLANK.search(text)
    start = 0
    for between in (_LINE if by_line else _BLANK).finditer(text):
        yield start, between.start()
        start = between.end()
    yield start, len(text)


Scores = Sequence[Sequence[float]]
"""How well each paragraph of each page fits the question."""


def deal(results: Results, scores: Scores, *, by: str, shortest: bool) -> Page:
    """Returns all paragraphs in the order in which they are shown, the best of each page first.

    `by` "page" takes every page's first, then every page's second, and so on, in the order in which pages
    were found. "query" does so among the pages of each query, and takes from one query after the other; a
    paragraph is not repeated. "score" takes the best of all pages first. With `shortest` a round over pages
    ends with the shortest of them, as in the authors' code.
    """
    scored = [
        sorted(zip(values, page, strict=True), key=lambda pair: -pair[0])
        for values, page in zip(scores, results.pages, strict=True)
    ]
    if by == "score":
        every = (pair for page in scored for pair in page)
        return tuple(paragraph for _, paragraph in sorted(every, key=lambda pair: -pair[0]))
    ranked: list[Page] = [tuple(paragraph for _, paragraph in page) for page in scored]
    if by == "page":
        return _round_robin(ranked, shortest=shortest)
    hands = [
        iter(_round_robin([ranked[at] for at in numbers], shortest=shortest)) for numbers in results.by_query
    ]
    dealt: dict[str, Passage] = {}
    while hands:
        for hand in tuple(hands):
            new = next((paragraph for paragraph in hand if paragraph.id not in dealt), None)
            if new is None:
                hands.remove(hand)
            else:
                dealt[new.id] = new
    return tuple(dealt.values())


def _round_robin(pages: Sequence[Page], *, shortest: bool) -> Page:
    """Returns every page's first, then every page's second, until all, or the `shortest`, are dealt."""
    rows = zip(*pages, strict=False) if shortest else zip_longest(*pages)
    return tuple(paragraph for row in rows for paragraph in row if paragraph is not None)


def cap_tokens(references: Page, tokens: Callable[[Page], int], cap: int) -> Page:
    """Drops the last two of `references` repeatedly until their prompt has at most `cap` `tokens`."""
    while references and tokens(references) > cap:
        references = references[:-2]
    return references
