"""A given source finds the current question's own passages and says why when it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ragc.corpora.sources.base import current_question
from ragc.corpora.sources.bm25 import Bm25Source, GivenSource
from ragc.errors import SourceError
from ragc.records import Passage, Question

PASSAGES = (
    Passage("a", "Ada", "Ada wrote programs."),
    Passage("b", "Bob", "Bob sold apples."),
    Passage("c", "Cat", "Cats sleep. " * 40 + "Ada had one."),
    Passage("x", "Ada", "Ada Ada Ada, but of another question."),
)


@contextmanager
def answering(*context_ids: str, name: str = "q1") -> Iterator[None]:
    token = current_question.set(Question(name, "Who?", ("x",), context_ids=context_ids))
    try:
        yield
    finally:
        current_question.reset(token)


def ids(source: GivenSource, query: str, k: int = 10) -> list[str]:
    return [hit.passage.id for hit in asyncio.run(source.search(query, k))]


def test_only_the_questions_own_passages_are_ranked() -> None:
    source = GivenSource(PASSAGES)
    with answering("b", "c", "a"):
        assert ids(source, "Who is Ada?") == ["a", "c", "b"]
        assert ids(source, "Who is Ada?", 1) == ["a"]
        assert ids(source, "Ada", 0) == []
        assert ids(source, "nothing of the kind") == ids(source, "") == ["b", "c", "a"]


def test_scores_are_those_of_an_index_over_the_same_passages() -> None:
    with answering("c", "a", "b"):
        hits = asyncio.run(GivenSource(PASSAGES).search("Ada apples", 3))
    assert hits == asyncio.run(Bm25Source(PASSAGES[:3]).search("apples Ada", 3))


def test_questions_in_flight_do_not_see_each_other() -> None:
    source = GivenSource(PASSAGES)

    async def one(name: str) -> list[str]:
        with answering(name, name=name):
            await asyncio.sleep(0)
            return [hit.passage.id for hit in await asyncio.create_task(source.search("Ada", 5))]

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*(one(name) for name in "abcx"))

    assert asyncio.run(all_of_them()) == [["a"], ["b"], ["c"], ["x"]]


def test_a_search_that_cannot_be_made_says_why() -> None:
    source = GivenSource(PASSAGES)
    with pytest.raises(SourceError, match="no question was being answered"):
        ids(source, "Ada")
    with answering(), pytest.raises(SourceError, match="question 'q1' has no context_ids"):
        ids(source, "Ada")
    with answering("a", "zz"), pytest.raises(SourceError, match="'zz' comes with question 'q1'"):
        ids(source, "Ada")
