"""What every kind of reranker promises. A new kind gets the suite by a row in ROWS."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.embedders import HashedWords
from tests.support.kinds import (
    RERANKERS,
    Bm25Reranker,
    Bm25Source,
    CrossEncoder,
    EmbedReranker,
    Hit,
    Passage,
    RerankedSource,
    Reranker,
)  # fmt: skip

TEXTS = ("ape cat", "cat dog cat", "ape", "cat ape dog dog", "dog ape", "bee", "cat dog cat", "\ud800 elk")
PASSAGES = [Passage(f"p{at}", "", text) for at, text in enumerate(TEXTS)]
QUERIES = ("cat", "ape cat dog", "bee", "\udfff elk")


def cross(folder: Path) -> Reranker:
    from tests.support.word_models import write_word_model

    return CrossEncoder(str(write_word_model(folder)))


ROWS: dict[str, Callable[[Path], Reranker]] = {
    "bm25": lambda folder: Bm25Reranker(),
    "embed": lambda folder: EmbedReranker(HashedWords()),
    "cross": cross,
}


@pytest.fixture(params=ROWS.values(), ids=list(ROWS))
def reranker(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path)


def scores(reranker: Reranker, query: str, passages: Sequence[Passage] = PASSAGES) -> list[float]:
    return list(asyncio.run(reranker.scores(query, passages)))


def test_every_kind_that_is_listed_has_a_row() -> None:
    assert set(RERANKERS) == set(ROWS)


def test_each_passage_has_its_score_the_same_again_and_for_equal_passages(reranker: Reranker) -> None:
    for query in QUERIES:
        given = scores(reranker, query)
        assert len(given) == len(PASSAGES)
        assert all(math.isfinite(score) for score in given)
        assert scores(reranker, query) == given
        assert scores(reranker, query, PASSAGES[::-1]) == pytest.approx(given[::-1], abs=1e-6)
        assert given[1] == given[6]
    assert scores(reranker, "cat", []) == []


def test_the_passage_that_is_about_the_query_comes_first(reranker: Reranker) -> None:
    given = scores(reranker, "bee")
    assert max(given) == given[5] > given[0]


def test_a_source_is_put_in_its_order_ties_by_id_and_many_searches_get_their_own(reranker: Reranker) -> None:
    inner = Bm25Source([Passage(passage.id, "", f"x {passage.text}") for passage in PASSAGES])
    source = RerankedSource(inner, reranker, pool=9)
    alone = [asyncio.run(source.search(f"x {query}", 5)) for query in QUERIES]
    for hits in alone:
        assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))

    async def together() -> list[tuple[Hit, ...]]:
        return await asyncio.gather(*(source.search(f"x {query}", 5) for query in QUERIES * 5))

    assert asyncio.run(together()) == alone * 5


def test_a_reranker_is_shared_and_says_what_it_is(reranker: Reranker, request: pytest.FixtureRequest) -> None:
    assert copy.deepcopy([reranker])[0] is reranker
    assert request.node.callspec.id.startswith(reranker.name.partition(":")[0])
    assert reranker.fingerprint
