"""Whoever orders short lists orders a long one: windows from the bottom up, and no passage is lost."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.core.counters import Counters, counting
from ragc.corpora.rerank.base import RerankedSource
from ragc.corpora.rerank.listwise import ListwiseReranker, permutation, windows
from ragc.corpora.sources.bm25 import Bm25Source
from ragc.errors import SourceError, UsageError
from ragc.records import Passage


def passages(values: Sequence[int]) -> list[Passage]:
    return [Passage(f"p{at:02}", "", str(value)) for at, value in enumerate(values)]


async def by_value(query: str, window: Sequence[Passage]) -> Sequence[int]:
    """The numbers of the passages, the largest value first."""
    return sorted(range(1, len(window) + 1), key=lambda number: -int(window[number - 1].text))


def ordered(reranker: ListwiseReranker, given_passages: Sequence[Passage]) -> list[Passage]:
    scores = asyncio.run(reranker.scores("q", given_passages))
    assert sorted(scores, reverse=True) == [1 / place for place in range(1, len(given_passages) + 1)]
    places = sorted(range(len(scores)), key=lambda at: -scores[at])
    return [given_passages[at] for at in places]


@given(st.integers(0, 60), st.integers(2, 25), st.data())
def test_windows_cover_everything_and_overlap(total: int, size: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, size - 1))
    spans = list(windows(total, size, step))
    if total < 2:
        assert spans == []
        return
    assert (spans[0][1], spans[-1][0]) == (total, 0)
    assert all(0 < end - start <= size for start, end in spans)
    assert all(end - later_end == step for (_, end), (_, later_end) in pairwise(spans))
    assert len(spans) == 1 + max(0, -(-(total - size) // step))


@given(st.lists(st.integers(-3, 9)), st.integers(0, 6))
def test_a_permutation_loses_and_repeats_nothing(numbers: list[int], n: int) -> None:
    found = permutation(numbers, n)
    assert sorted(found) == list(range(1, n + 1))
    named = [number for number in dict.fromkeys(numbers) if 1 <= number <= n]
    assert found[: len(named)] == named
    assert found[len(named) :] == sorted(found[len(named) :])


@given(st.lists(st.integers(0, 99), max_size=40), st.integers(2, 9), st.data())
def test_the_best_of_all_reach_the_top(values: list[int], size: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, size - 1))
    given_passages = passages(values)
    found = ordered(ListwiseReranker(by_value, fingerprint="v", size=size, step=step), given_passages)
    assert sorted(found, key=lambda p: p.id) == given_passages
    carried = size - step  # what two windows share comes along to the top
    assert [int(p.text) for p in found[:carried]] == sorted(values, reverse=True)[:carried]


def test_a_ranking_that_is_short_wrong_or_doubled_keeps_the_rest_in_order() -> None:
    said: list[list[int]] = [[3, 3, 0, 9], [], [2]]
    seen: list[list[str]] = []

    async def rank(query: str, window: Sequence[Passage]) -> Sequence[int]:
        seen.append([passage.id for passage in window])
        return said.pop(0)

    counters = Counters()
    with counting(counters):
        found = ordered(ListwiseReranker(rank, fingerprint="v", size=3, step=2), passages(range(7)))
    assert seen == [["p04", "p05", "p06"], ["p02", "p03", "p06"], ["p00", "p01", "p02"]]
    assert [passage.id for passage in found] == ["p01", "p00", "p02", "p03", "p06", "p04", "p05"]
    assert counters.dropped == 2


def test_fewer_than_two_passages_need_no_ranking() -> None:
    async def rank(query: str, window: Sequence[Passage]) -> Sequence[int]:
        raise AssertionError("asked")

    reranker = ListwiseReranker(rank, fingerprint="v")
    assert ordered(reranker, []) == []
    assert ordered(reranker, passages([1])) == passages([1])


def test_what_the_ranking_raises_ends_the_search() -> None:
    async def rank(query: str, window: Sequence[Passage]) -> Sequence[int]:
        raise SourceError("out of order")

    source = RerankedSource(Bm25Source(passages([1, 1])), ListwiseReranker(rank, fingerprint="v"))
    with pytest.raises(SourceError, match="out of order"):
        asyncio.run(source.search("1", 2))


def test_a_source_can_be_put_in_order_by_lists() -> None:
    inner = Bm25Source([Passage(f"p{n}", "word", str(n)) for n in range(9)])
    source = RerankedSource(inner, ListwiseReranker(by_value, fingerprint="v", size=4, step=2), pool=9)
    hits = asyncio.run(source.search("word", 2))
    assert [(hit.passage.text, hit.score) for hit in hits] == [("8", 1.0), ("7", 0.5)]


def test_settings_are_checked_and_fingerprinted() -> None:
    plain = ListwiseReranker(by_value, fingerprint="v")
    assert copy.deepcopy([plain])[0] is plain
    assert plain.fingerprint == ListwiseReranker(by_value, fingerprint="v", name="other").fingerprint
    others = [
        ListwiseReranker(by_value, fingerprint="w"), ListwiseReranker(by_value, fingerprint="v", size=11),
        ListwiseReranker(by_value, fingerprint="v", step=5),
    ]  # fmt: skip
    assert len({plain.fingerprint, *(other.fingerprint for other in others)}) == 4
    for size, step in ((1, 1), (1, 0), (20, 0), (20, 20)):
        with pytest.raises(UsageError, match=f"got size = {size} and step = {step}"):
            ListwiseReranker(by_value, fingerprint="v", size=size, step=step)
