"""Fusion keeps its laws: order, ties, equal lists, and shares of nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.corpora.sources.hybrid import HybridSource, fuse_ranks, fuse_shares
from ragc.errors import UsageError
from ragc.records import Hit, Passage
from ragc.testing import ListSource


def ranked(names: Sequence[str]) -> tuple[Hit, ...]:
    return tuple(Hit(Passage(name, "", name), 1.0 - at / 100) for at, name in enumerate(names))


def names(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


LISTS = st.lists(st.sampled_from("abcdefghij"), unique=True).map(ranked)
SIZES = st.integers(1, 14)


def fixed(listed: str) -> ListSource:
    """A source that always finds passages of these names."""
    return ListSource([hit.passage for hit in ranked(listed)], fingerprint=listed)


@given(LISTS, LISTS, st.floats(0, 1), SIZES)
def test_shares_give_distinct_hits_best_first_and_the_share_where_both_have_enough(
    dense: tuple[Hit, ...], sparse: tuple[Hit, ...], share: float, k: int
) -> None:
    fused, of_dense = fuse_shares(dense, sparse, share, k), k - round(k * (1 - share))
    assert [hit.score for hit in fused] == [1 / rank for rank in range(1, len(fused) + 1)]
    assert len({*names(fused)}) == min(k, len({*names(dense), *names(sparse)}))
    new = [name for name in names(sparse) if name not in names(dense)[:of_dense]]
    if len(dense) >= of_dense and len(new) >= k - of_dense:
        assert names(fused) == [*names(dense)[:of_dense], *new[: k - of_dense]]


@given(LISTS, LISTS, SIZES)
def test_ranks_are_fused_as_the_formula_says_in_either_order(
    dense: tuple[Hit, ...], sparse: tuple[Hit, ...], k: int
) -> None:
    def score(name: str) -> float:
        return sum(1 / (60 + names(hits).index(name) + 1) for hits in (dense, sparse) if name in names(hits))

    best = sorted({*names(dense), *names(sparse)}, key=lambda name: (-score(name), name))[:k]
    fused = fuse_ranks(dense, sparse, k, constant=60)
    assert [(hit.passage.id, hit.score) for hit in fused] == [(name, score(name)) for name in best]
    assert fused == fuse_ranks(sparse, dense, k, constant=60)


def test_shares_of_short_lists_are_filled_up_dense_first() -> None:
    dense, sparse = ranked("abc"), ranked("cad")
    assert names(fuse_shares(dense, sparse, 0.5, 4)) == ["a", "b", "c", "d"]
    assert names(fuse_shares(dense, ranked("a"), 0.5, 3)) == ["a", "b", "c"]
    assert names(fuse_shares(ranked("x"), sparse, 0.5, 3)) == ["x", "c", "a"]


@pytest.mark.parametrize(
    ("options", "k", "found", "depths"),
    [
        ({"fusion": "share", "share": 1}, 5, "abcde", ([5], [])),
        ({"fusion": "share", "share": 0}, 2, "ed", ([], [2])),
        ({"fusion": "share", "share": 0.6}, 5, "abced", ([5], [5])),
        ({"pool": 2}, 3, "aeb", ([3], [3])),
        ({}, 0, "", ([], [])),
    ],
    ids=str,
)
def test_sources_are_asked_for_no_more_than_their_part(
    options: dict[str, Any], k: int, found: str, depths: tuple[list[int], list[int]]
) -> None:
    dense, sparse = fixed("abcde"), fixed("edxyz")
    assert names(asyncio.run(HybridSource(dense, sparse, **options).search("q", k))) == [*found]
    assert tuple([depth for _, depth in source.queries] for source in (dense, sparse)) == depths


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
        HybridSource(fixed("a"), fixed("b"), **wrong)
