"""Knobs of RAG-X; no LM library is imported here.

Ranges are those of its tables and figures, defaults those of its Table 9 where no other is named.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from ragc.errors import UsageError
from ragc.programs.knobs import PassageKnobs, Value, When, choice, integer, real, redeclare, switch
from ragc.programs.method import Method

EMBEDDERS = {
    "bge-small": "BAAI/bge-small-en-v1.5",
    "bge-large": "BAAI/bge-large-en-v1.5",
    "bge-m3": "BAAI/bge-m3",
}
"""The models of the paper's Table 6, and where sentence-transformers finds them."""

CLOSED = ("web", "kg", "all")
MANUAL = ("llm", *CLOSED, "llm_web", "llm_kg", "llm_all")
STAGED = ("predefined_web", "predefined_kg", "predefined_all", "agent")
_KG = ("kg", "all", "llm_kg", "llm_all", "predefined_kg", "predefined_all", "agent")
_WEB = ("web", "all", "llm_web", "llm_all", "predefined_web", "predefined_all", "agent")
ASKS_WEB = When("source_policy", _WEB)
ASKS = When("source_policy", tuple(policy for policy in (*MANUAL, *STAGED) if policy != "llm"))
_RERANKS = When("rerank", (True,))

POOLS = (3, 5, 10, 20)
ALL = "all"
"""A pool of every chunk, as far as the source has any for the question."""


@dataclass(frozen=True)
class RagXKnobs(PassageKnobs):
    """Which sources are searched and when, and how the pages of `web` are narrowed down.

    Knobs that need a source or role that may be missing are searched only when they are named.
    """

    top_k: int = redeclare(
        PassageKnobs, "top_k", about="passages of `web`, and of `kg` for each name",
        when=When("source_policy", _KG, otherwise=(When("rerank", (False,)),)),
    )  # fmt: skip
    query_pos: str = redeclare(PassageKnobs, "query_pos", when=ASKS)
    noise_n: int = redeclare(
        PassageKnobs, "noise_n", about="chunks added at random, of the question's own pages where it has any",
        when=ASKS_WEB,
    )  # fmt: skip
    noise_pos: str = redeclare(PassageKnobs, "noise_pos", about="where those chunks are put")
    chunk_size: int = redeclare(PassageKnobs, "chunk_size", high=1024, when=ASKS_WEB)
    overlap: float = redeclare(PassageKnobs, "overlap", when=ASKS_WEB)

    source_policy: str = choice(
        "llm_web",
        (*MANUAL, *STAGED),
        "which sources answer: fixed, after the model alone was unsure, or chosen by the model then",
        searched=False,
        paper="RAG-X base setting; `llm` in the name allows own knowledge",
    )
    own_knowledge: bool = redeclare(
        PassageKnobs, "own_knowledge", when=When("source_policy", (*CLOSED, *STAGED)),
        paper="RAG-X: `llm` in the policy says it too",
    )  # fmt: skip
    second_stage_internal: bool = switch(
        False, "allow own knowledge beside the references in the second stage, as own_knowledge does",
        when=When("source_policy", STAGED), searched=False,
        paper="off in RAG-X's code; its paper names LLM+sources",
    )  # fmt: skip
    dynamism: bool = switch(
        False,
        "tell the choice of sources how fast the answer changes",
        when=When("source_policy", ("agent",)),
        paper="RAG-X README; unused in its code",
    )
    router_role: str = choice(
        "main", ("main", "proxy"), "the model that names a question's domain (for `icl_domain` too) and pace",
        when=When("source_policy", _KG, otherwise=(When("icl_domain", ("same", "cross")),)),
        searched=False, paper="RAG-X: a tuned 8B classifier",
    )  # fmt: skip
    gold_domain: bool = switch(
        False, "take the domain that the data set gives with a question; figures then rest on a label",
        when=When("source_policy", _KG, otherwise=(When("icl_domain", ("same", "cross")),)),
        searched=False, paper="RAG-X names the domain with its classifier",
    )  # fmt: skip
    broad: bool = switch(
        False, "first narrow `web` down to its best blocks", when=ASKS_WEB, paper="RAG-X base setting"
    )
    broad_k: int = integer(
        50, 20, 200, "blocks kept", step=10, when=When("broad", (True,)), paper="RAG-X: 50"
    )
    broad_chunk: int = choice(
        200, (200, 1024), "longest block in tokens",
        when=When("broad", (True,)), paper="RAG-X: 200 in the paper, 1024 in the README",
    )  # fmt: skip
    dense_share: float = real(
        0.0,
        0.0,
        1.0,
        "share of the web passages that the source `dense` finds",
        step=0.1,
        when=ASKS_WEB,
        searched=False,
        paper="RAG-X: 1.0; here `web` may itself be dense",
    )
    embedder: str = choice(
        "own", ("own", *EMBEDDERS), "the model of the source `dense`, or of `web` where that is dense",
        when=ASKS_WEB, searched=False, paper="RAG-X: bge-m3; all three in its Table 6",
    )  # fmt: skip
    rerank: bool = switch(
        False, "put a pool of web passages in order", when=ASKS_WEB, paper="RAG-X base setting"
    )
    rerank_by: str = choice(
        "model", ("model", "source"), "the model orders the pool, or the reranker of the source `web`",
        when=_RERANKS, searched=False, paper="RAG-X: bge-reranker-v2-m3, a cross-encoder",
    )  # fmt: skip
    pool: int | str = choice(
        10, (*POOLS, ALL), "web passages that are put in order, top_n or more; replaces top_k",
        when=_RERANKS, paper="RAG-X: 3 of 10; 3 to all in its Table 4",
    )  # fmt: skip
    top_n: int = integer(3, 1, 20, "web passages kept of the pool", when=_RERANKS, paper="RAG-X: 3 of 10")
    max_answer_tokens: int = integer(
        100, 20, 500, "longest short answer in tokens; reasoning has 412 more", step=20,
        when=When("answer_format", ("short",)), paper="RAG-X code: 100",
    )  # fmt: skip
    noise_seed: int = integer(
        0, 0, 1000, "which chunks are drawn, and where random ones are put",
        when=When("noise_n", greater_than=0), searched=False, paper="RAG-X draws at random",
    )  # fmt: skip
    icl_n: int = redeclare(
        PassageKnobs, "icl_n", default=0,
        about="at most this many demonstrations are shown; a study shows those that it searches",
        paper="RAG-X base setting: 0; 0 to 3 in its Table 5",
    )  # fmt: skip
    icl_domain: str = choice(
        "same",
        ("any", "same", "cross"),
        "demonstrations shown with a question: any, those of its own domain, or those of others",
        when=When("icl_n", greater_than=0),
        searched=False,
        paper="RAG-X: same; cross in its Table 5",
    )
    icl_invalid: int = integer(
        0, 0, 3, "demonstrations of invalid questions among those shown, at least, where there are any",
        when=When("icl_n", greater_than=0), searched=False, paper="RAG-X: all of its 0 to 3",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rerank and not isinstance(self.pool, str) and self.pool < self.top_n:
            raise UsageError(
                f"Knob top_n = {self.top_n} keeps more passages than knob pool = {self.pool} puts in order; "
                "raise pool or lower top_n."
            )

    @classmethod
    def settle(cls, values: dict[str, Value], free: Container[str]) -> dict[str, Value]:
        """Returns `values` with a pool of at least `top_n`: lowers a free `top_n`, else raises the pool."""
        pool, top_n = values["pool"], values["top_n"]
        if isinstance(pool, str) or pool >= int(top_n):
            return values
        if "top_n" in free:
            return {**values, "top_n": pool}
        return {**values, "pool": next(p for p in POOLS if p >= int(top_n))}


METHOD = Method(
    "ragx",
    "own knowledge, web pages and an API under a source policy; refuses when it is due",
    "RAG-X on CRAG",
    "ragc.programs.ragx.program:RagX",
    RagXKnobs,
    optional_sources=("web", "kg", "dense"),
)
