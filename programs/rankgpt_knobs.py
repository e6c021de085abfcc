"""Knobs of RankGPT, and of every method that narrows a pool of passages to a few."""

from __future__ import annotations

from dataclasses import dataclass

from ragc.programs.knobs import again, choice, integer, real
from ragc.programs.shared_knobs import CITING, AnswerKnobs


@dataclass(frozen=True)
class PoolKnobs(AnswerKnobs):
    """How many passages the reader gets, and how passages are cut."""

    answer_format: str = again(AnswerKnobs, "answer_format", options=CITING)
    k_support: int = integer(5, 3, 10, "passages the answer is written from", paper="GGatrieval, section 4.1")
    chunk_size: int = integer(200, 50, 1000, "longest chunk in tokens", step=50, paper="RAG-X base setting")
    overlap: float = real(0.0, 0.0, 0.5, "share of a chunk repeated in the next", step=0.1, paper="RAG-X")


@dataclass(frozen=True)
class RankGptKnobs(PoolKnobs):
    """How the pool is ranked. The longest step is the shortest window, so no passage is skipped."""

    rank_pool: int = integer(100, 20, 100, "passages retrieved and ranked", paper="RankGPT")
    window: int = integer(20, 10, 40, "passages ranked by one call", paper="RankGPT")
    step: int = integer(10, 5, 10, "passages by which the window moves up", paper="RankGPT")
    words: int = integer(300, 20, 300, "words shown of a passage while ranking", step=20, paper="RankGPT")
    query_pos: str = choice(
        "before", ("before", "after", "both"), "where the question stands in the answering call",
        paper="RAG-X code; its paper found `after` better",
    )  # fmt: skip
