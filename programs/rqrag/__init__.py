"""The knobs of RQ-RAG, apart from the program so that listing them is quick.

Paper: RQ-RAG, section 2.3 and appendices B.2 and B.4; defaults it does not name are from the authors'
code. A recipe names the paper's depth for a data set with `depth_for`, and its choice with `select_for`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from ragc.programs.knobs import (
    AnswerKnobs,
    ReadingKnobs,
    When,
    choice,
    integer,
    real,
    redeclare,
    switch,
)
from ragc.programs.method import Method

KINDS = ("rewrite", "decompose", "disambiguate")
WIDTHS = tuple("+".join(kinds) for n in (3, 2, 1) for kinds in combinations(KINDS, n))
BY_LOGPROBS = ("ppl", "conf", "ensemble")
BY_OTHERS = ("judge", "vote", "confidence")
DEPTHS = {"arc_challenge": 2, "popqa": 2, "openbookqa": 2, "hotpotqa": 2, "2wikimultihopqa": 4, "musique": 4}
"""Most searches on a path for each data set of the paper (appendix B.2)."""

SELECTS = {
    "arc_challenge": "conf",
    "popqa": "conf",
    "openbookqa": "conf",
    "hotpotqa": "ensemble",
    "2wikimultihopqa": "ensemble",
    "musique": "ensemble",
}
"""What chose best among the answers to each data set of the paper (section 4.3, figure 3)."""

_GROWS = When("depth_for", tuple(DEPTHS), otherwise=(When("max_depth", greater_than=0.0),))
"""The tree has more than the path without a search."""

_SEARCHES = When("mode", ("search_on_demand",), otherwise=(_GROWS,))


_SEARCHES_TWICE = When("depth_for", tuple(DEPTHS), otherwise=(When("max_depth", greater_than=1.0),))
"""The tree has paths of more than one search."""


@dataclass(frozen=True)
class RqRagKnobs(ReadingKnobs, AnswerKnobs):
    """How far and wide the tree grows, and how its answers are weighted. `temperature` is the answers'."""

    own_knowledge: bool = redeclare(
        ReadingKnobs,
        "own_knowledge",
        default=True,
        paper="RQ-RAG answers every path, the one without a search too",
    )
    mode: str = choice(
        "tree", ("tree", "search_on_demand"), "grow every path, or let the model choose each step of one",
        paper="RQ-RAG; on demand as in its demo",
    )  # fmt: skip
    depth_for: str = choice(
        "own", ("own", *DEPTHS), "the paper's depth for a data set in the place of max_depth",
        when=When("mode", ("tree",)), searched=False,
        paper="RQ-RAG: 4 for 2WikiMultihopQA and MuSiQue, else 2",
    )  # fmt: skip
    max_depth: int = integer(
        2, 0, 4, "most searches on a path", when=When("depth_for", ("own",)), paper="RQ-RAG"
    )
    search_limit: int = integer(
        3, 1, 6, "most searches on demand", when=When("mode", ("search_on_demand",)), paper="RQ-RAG demo"
    )
    width: str = choice(WIDTHS[0], WIDTHS, "kinds of query", when=_SEARCHES, paper="RQ-RAG")
    branching: str = choice(
        "all", ("all", "turn"),
        "kinds of query after a search: all again, or only the one whose turn is next",
        when=_SEARCHES_TWICE, searched=False, paper="RQ-RAG: all",
    )  # fmt: skip
    retrieve_threshold: float = real(
        0.0, 0.0, 1.0, "answer without a search when one is less likely needed than this", step=0.1,
        threshold=True, when=_GROWS, paper="RQ-RAG code",
    )  # fmt: skip
    select_for: str = choice(
        "own", ("own", *SELECTS), "the paper's best choice for a data set in the place of select",
        when=_GROWS, searched=False, paper="RQ-RAG: ensemble for multi-hop, conf for single-hop",
    )  # fmt: skip
    select: str = choice(
        "ensemble", (*BY_LOGPROBS, *BY_OTHERS), "how one of the answers is chosen",
        when=When("select_for", ("own",)), paper="RQ-RAG: ensemble in its Tables 1 and 2",
    )  # fmt: skip
    conf_by: str = choice(
        "mean", ("mean", "product"), "an answer's confidence: mean or product of its tokens' probabilities",
        when=When("select", ("conf", "ensemble"), otherwise=(When("select_for", tuple(SELECTS)),)),
        paper="RQ-RAG code; product: the paper",
    )  # fmt: skip
    pooled: bool = switch(
        True, "add the scores of equal answers, as the ensemble does", when=When("select", BY_OTHERS)
    )
    n_conf_samples: int = integer(5, 1, 10, "draws that vote on each answer", when=When("select", ("vote",)))
    ndocs: int = integer(3, 1, 5, "passages a search", when=_SEARCHES, paper="RQ-RAG")
    query_temperature: float = real(
        1.0, 0.0, 1.0, "sampling temperature of queries", step=0.1, when=_SEARCHES, paper="RQ-RAG code"
    )
    exclude_seen: bool = switch(
        False, "find only passages that are not on the path yet", when=_SEARCHES,
        paper="RQ-RAG code finds them again",
    )  # fmt: skip

    @property
    def depth(self) -> int:
        """Most searches on a path of the tree."""
        return DEPTHS.get(self.depth_for, self.max_depth)

    @property
    def chosen_by(self) -> str:
        """How one of the answers is chosen; "none" if there is only one."""
        if self.mode != "tree" or not self.depth:
            return "none"
        return SELECTS.get(self.select_for, self.select)


METHOD = Method(
    "rqrag",
    "rewrite, decompose or disambiguate along a tree of searches, choose among its answers",
    "RQ-RAG",
    "ragc.programs.rqrag.program:RqRag",
    RqRagKnobs,
    sources=("local",),
)
