"""The knobs of RQ-RAG (METHODS sections 4 and 10), apart from the program so that listing them is quick."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from ragc.programs.knobs import When, choice, integer, real, switch
from ragc.programs.shared_knobs import AnswerKnobs

KINDS = ("rewrite", "decompose", "disambiguate")
WIDTHS = tuple("+".join(kinds) for n in (3, 2, 1) for kinds in combinations(KINDS, n))
BY_LOGPROBS = ("ppl", "conf", "ensemble")
BY_OTHERS = ("judge", "vote", "confidence")


@dataclass(frozen=True)
class RqRagKnobs(AnswerKnobs):
    """How far and wide the tree grows, and how its answers are weighed. `temperature` is the answers'."""

    mode: str = choice(
        "tree", ("tree", "search_on_demand"), "grow every path, or let the model choose each step of one",
        paper="RQ-RAG; on demand as in its demo",
    )  # fmt: skip
    max_depth: int = integer(
        2, 0, 4, "most searches on a path", when=When("mode", ("tree",)), paper="RQ-RAG; 4 for 2Wiki, MuSiQue"
    )
    search_limit: int = integer(
        3, 1, 6, "most searches on demand", when=When("mode", ("search_on_demand",)), paper="RQ-RAG demo"
    )
    width: str = choice(
        WIDTHS[0], WIDTHS, "kinds of query", when=When("max_depth", above=0.0), paper="RQ-RAG"
    )
    select: str = choice(
        "ensemble", (*BY_LOGPROBS, *BY_OTHERS), "how one of the answers is chosen",
        when=When("mode", ("tree",)), paper="RQ-RAG: ensemble for multi-hop, conf for single-hop",
    )  # fmt: skip
    pooled: bool = switch(
        True, "add the scores of equal answers, as the ensemble does", when=When("select", BY_OTHERS)
    )
    n_conf_samples: int = integer(5, 1, 10, "draws that vote on each answer", when=When("select", ("vote",)))
    ndocs: int = integer(3, 1, 5, "passages a search", paper="RQ-RAG")
    query_temperature: float = real(
        1.0, 0.0, 1.0, "sampling temperature of queries", step=0.1, paper="RQ-RAG code"
    )
    exclude_seen: bool = switch(
        False, "find only passages that are not on the path yet", paper="RQ-RAG code repeats them"
    )
