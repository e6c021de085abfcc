"""Fusion keeps its laws: order, ties, equal lists, and shares of nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.sources.base import Source
from ragc.corpora.sources.hybrid import HybridOptions, HybridSource, fuse_ranks, fuse_shares
from ragc.errors import UsageError
from ragc.records import Hit, Passage
from ragc.testing import ListSource


def ranked(names: Sequence[str]) -> tuple[Hit, ...]:
    return tuple(Hit(Passage(name, "", name), 1.0 - at / 100) for at, name in enumerate(names))


def names(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


LISTS = st.lists(st.sampled_from("abcdefghij"), unique=True).map(ranked)
SHARES = st.floats(0, 1)
SIZES = st.integers(-1, 14)


def fixed(listed: str) -> ListSource:
    """A source that always finds passages of these names."""
    return ListSource([hit.passage for hit in ranked(listed)], fingerprint=listed)


def depths(source: ListSource) -> list[int]:
    """How many hits `source` was asked for, search by search."""
    return [k for _, k in source.queries]


def search(source: Source, query: str = "q", k: int = 5) -> tuple[Hit, ...]:
    return asyncio.run(source.search(query, k))


@given(LISTS, LISTS, SHARES, SIZES)
def test_shares_give_distinct_hits_best_first_and_as_many_as_there_are(
    dense: tuple[Hit, ...], sparse: tuple[Hit, ...], share: float, k: int
) -> None:
    either = {*names(dense), *names(sparse)}
    fused = fuse_shares(dense, sparse, share, k)
    scores = [hit.score for hit in fused]
    assert scores == sorted(scores, reverse=True)
    assert len(set(names(fused)) & either) == len(fused)
    if 0 < share < 1:
        assert len(fused) == min(max(k, 0), len(either))


@given(LISTS, LISTS, SIZES)
def test_a_share_of_one_or_nothing_is_one_of_the_lists(
    dense: tuple[Hit, ...], sparse: tuple[Hit, ...], k: int
) -> None:
    assert fuse_shares(dense, sparse, 1, k) == dense[: max(k, 0)]
    assert fuse_shares(dense, sparse, 0, k) == sparse[: max(k, 0)]


@given(LISTS, LISTS, SHARES, st.integers(1, 14))
def test_the_share_is_kept_where_both_have_enough_of_their_own(
    dense: tuple[Hit, ...], sparse: tuple[Hit, ...], share: float, k: int
) -> None:
    other = tuple(Hit(Passage(f"{h.passage.id}2", "", ""), h.score) for h in sparse)
    of_sparse = round(k * (1 - share))
    if len(dense) >= k - of_sparse and len(other) >= of_sparse:
        expected = [*names(dense)[: k - of_sparse], *names(other)[:of_sparse]]
        assert names(fuse_shares(dense, other, share, k)) == expected


@given(LISTS, LISTS, SIZES)
def test_ranks_are_fused_as_the_formula_says_in_either_order(
    dense: tuple[Hit, ...], sparse: tuple[Hit, ...], k: int
) -> None:
    def score(name: str) -> float:
        return sum(1 / (60 + names(hits).index(name) + 1) for hits in (dense, sparse) if name in names(hits))

    best = sorted({*names(dense), *names(sparse)}, key=lambda name: (-score(name), name))[: max(k, 0)]
    fused = fuse_ranks(dense, sparse, k)
    assert names(fused) == best
    assert [hit.score for hit in fused] == [score(name) for name in best]
    assert fused == fuse_ranks(sparse, dense, k)


def test_by_hand() -> None:
    dense, sparse = ranked("abc"), ranked("cad")
    assert names(fuse_ranks(dense, sparse, 4)) == ["a", "c", "b", "d"]  # 1/61+1/62, 1/63+1/61, 1/62, 1/63
    assert names(fuse_shares(dense, sparse, 0.5, 4)) == ["a", "b", "c", "d"]
    assert [hit.score for hit in fuse_shares(dense, sparse, 0.5, 4)] == [1, 1 / 2, 1 / 3, 1 / 4]
    assert names(fuse_shares(dense, ranked("a"), 0.5, 3)) == ["a", "b", "c"]
    assert names(fuse_shares(ranked("x"), sparse, 0.5, 3)) == ["x", "c", "a"]
    assert names(fuse_ranks(ranked("b"), ranked("a"), 2)) == ["a", "b"]


def test_sources_are_asked_for_no_more_than_their_part() -> None:
    dense, sparse = fixed("abcde"), fixed("edxyz")
    assert names(search(HybridSource(dense, sparse, fusion="share", share=1))) == [*"abcde"]
    assert sparse.queries == []
    assert names(search(HybridSource(dense, sparse, fusion="share", share=0), k=2)) == ["e", "d"]
    assert depths(dense) == [5]
    assert names(search(HybridSource(dense, sparse, fusion="share", share=0.6))) == ["a", "b", "c", "e", "d"]
    assert names(search(HybridSource(dense, sparse, pool=2), k=3)) == ["a", "e", "b"]
    assert (depths(dense), depths(sparse)) == ([5, 5, 3], [2, 5, 3])
    assert search(HybridSource(dense, sparse), k=0) == ()


def test_the_fingerprint_follows_the_settings_that_matter() -> None:
    dense, sparse = fixed("ab"), fixed("ba")

    options: list[dict[str, Any]] = [
        {}, {"pool": 9}, {"constant": 1}, {"fusion": "share"}, {"fusion": "share", "share": 0.2},
        {"share": 0.1},
    ]  # fmt: skip
    several = [HybridSource(dense, sparse, **more).fingerprint for more in options]
    assert len({*several, HybridSource(sparse, dense).fingerprint}) == 6
    assert several[0] == several[-1]  # ranks have no share


@pytest.mark.parametrize(
    "wrong",
    [{"fusion": "sum"}, {"share": -0.1}, {"share": float("nan")}, {"pool": 0}, {"constant": -1}],
    ids=str,
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        HybridOptions.of(wrong)
