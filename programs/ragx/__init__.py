"""Knobs of RAG-X; no LM library is imported here.

Ranges are those of its tables and figures, defaults those of its Table 9 where no other is named.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragc.programs.flow import END, START, Step
from ragc.programs.knobs import PassageKnobs, When, choice, integer, real, redeclare, switch
from ragc.programs.method import Method

CLOSED = ("web", "kg", "all")
MANUAL = ("llm", *CLOSED, "llm_web", "llm_kg", "llm_all")
STAGED = ("predefined_web", "predefined_kg", "predefined_all", "agent")
_KG = ("kg", "all", "llm_kg", "llm_all", "predefined_kg", "predefined_all", "agent")


@dataclass(frozen=True)
class RagXKnobs(PassageKnobs):
    """Which sources are asked and when, and how the pages of `web` are narrowed down.

    What needs a source or role that may be missing is searched only when it is named.
    """

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
        when=When("source_policy", _KG), searched=False, paper="RAG-X: a tuned 8B classifier",
    )  # fmt: skip
    broad: bool = switch(False, "first narrow `web` down to its best blocks", paper="RAG-X base setting")
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
        searched=False,
        paper="RAG-X: 1.0; here `web` may itself be dense",
    )
    rerank: bool = switch(False, "let the model reorder a pool of web passages", paper="RAG-X base setting")
    pool: int = choice(
        10, (3, 5, 10, 20), "web passages that are reordered; stands in for top_k",
        when=When("rerank", (True,)), paper="RAG-X: 3 of 10",
    )  # fmt: skip
    top_n: int = integer(
        3, 1, 20, "web passages kept of the pool", when=When("rerank", (True,)), paper="RAG-X: 3 of 10"
    )
    max_answer_tokens: int = integer(
        100, 20, 500, "longest short answer in tokens; reasoning has 412 more", step=20,
        when=When("answer_format", ("short",)), paper="RAG-X code: 100",
    )  # fmt: skip
    noise_seed: int = integer(
        0, 0, 1000, "which unrelated passages are drawn, and where random ones stand",
        when=When("noise_n", greater_than=0), searched=False, paper="RAG-X draws at random",
    )  # fmt: skip
    icl_domain: str = choice(
        "any",
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


_LOCAL, _WEB, _KG_NODE, _DENSE = "search local", "search web", "search kg", "search dense"
_RAGX_ENTRIES = (
    (START, "source_policy asks nothing first"),
    ("closed", "answer is unsure"),
    ("route", "it is chosen"),
    ("domain", "the domain was named first"),
)

FLOW: tuple[Step, ...] = (
    Step(
        START, "domain", "the question", "icl_domain needs it, or kg is asked", ("icl_domain", "router_role")
    ),
    Step(START, "closed", "the question", "the policy asks the model alone first", ("source_policy",)),
    Step(
        "domain",
        "closed",
        "the question and its domain",
        "the policy asks the model alone first",
        ("icl_domain",),
    ),
    Step("closed", END, "answer", "it is not unsure"),
    Step("closed", "dynamism", "the question", "source_policy is agent", ("dynamism",)),
    Step("dynamism", "route", "pace"),
    Step(
        "closed", "route", "the question", "source_policy is agent and answer is unsure", ("source_policy",)
    ),
    Step("route", END, "the answer of closed", "it chooses llm"),
    *(
        Step(node, to, "the question", when, ("source_policy",))
        for node, when in _RAGX_ENTRIES
        for to in (_WEB, _DENSE)
    ),
    Step("closed", "domain", "the question", "kg is asked"),
    Step("route", "domain", "the question", "kg is chosen"),
    Step("closed", "entities", "the question and its domain", "kg is asked", ("icl_domain",)),
    Step("route", "entities", "the question and its domain", "kg is chosen", ("icl_domain",)),
    Step(START, "entities", "the question and the domain that came with it", "kg is asked"),
    Step("domain", "entities", "the question and its domain", "kg is asked, and the domain is not open"),
    Step("entities", _KG_NODE, "each name that stands in the question", knobs=("top_k",), each=True),
    Step(_WEB, "rank", "the pool of passages", "rerank is true", ("rerank", "pool", "broad", "dense_share")),
    Step(_DENSE, "rank", "the pool of passages", "rerank is true", ("rerank", "pool")),
    *(
        Step(node, "answer", "facts of kg, then passages of the web", knobs=("top_k", "noise_n", "noise_pos"))
        for node in (_KG_NODE, _WEB, _DENSE)
    ),
    Step("rank", "answer", "the first top_n passages", knobs=("top_n", "noise_n", "noise_pos")),
    *(Step(node, "answer", "what the other branches found, or nothing") for node in ("domain", "entities")),
    Step(START, "answer", "the question", "source_policy is llm_only", ("source_policy",)),
    Step("answer", END, "answer"),
)


METHOD = Method(
    "ragx",
    "own knowledge, web pages and an API under a source policy; refuses when it is due",
    "RAG-X on CRAG",
    "ragc.programs.ragx.program:RagX",
    RagXKnobs,
    optional_sources=("web", "kg", "dense"),
    demo_knobs={"top_k": 1, "noise_n": 0, "chunk_size": 100, "rerank": False, "broad": False},
    demo_shaping_knobs=("cot", "source_policy", "second_stage_internal", "icl_domain"),
    flow=FLOW,
)
