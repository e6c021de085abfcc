"""Knobs of Corrective RAG, Self-RAG, FLARE and Chain-of-Note; imports no DSPy, so that listing is quick.

Where a knob names a paper its default is from there; ranges, and the other defaults, are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragc.programs.crag_strips import KINDS
from ragc.programs.knobs import When, again, choice, integer, real, switch
from ragc.programs.shared_knobs import CITING, AnswerKnobs, PassageKnobs

_GRADED = When("form", ("graded",))
_ACTIONS = ("all", "no_correct", "no_incorrect", "no_ambiguous")
_SCORED, _GRAPH = When("form", ("scored",)), When("form", ("graph",))
_SHORT, _LOOKED_UP = When("finish", ("short",)), When("flare_theta", above=0.0)


@dataclass(frozen=True)
class CragKnobs(AnswerKnobs):
    """How passages are graded, and what is done about bad ones."""

    answer_format: str = again(AnswerKnobs, "answer_format", options=CITING)
    form: str = choice(
        "graded", ("graded", "binary"), "grades between two thresholds, or relevant yes and no",
        paper="graded: CRAG; binary: LangGraph, as in PrefRAG",
    )  # fmt: skip
    top_k: int = integer(10, 1, 20, "local passages graded", paper="CRAG code (n_docs)")
    web_k: int = integer(5, 1, 10, "web passages looked at", paper="CRAG code")
    crag_upper: float = real(
        0.592, -1.0, 1.0, "a grade this high makes the find correct", threshold=True,
        when=_GRADED, paper="CRAG code, PopQA",
    )  # fmt: skip
    crag_lower: float = real(
        -0.995, -1.0, 1.0, "all grades below this make it incorrect", threshold=True,
        when=_GRADED, paper="CRAG code, PopQA",
    )  # fmt: skip
    actions: str = choice(
        "all", _ACTIONS, "which of the three actions may be taken", when=_GRADED, paper="CRAG ablation"
    )
    refine: bool = switch(
        True, "keep only the best strips of local passages", when=_GRADED, paper="CRAG ablation"
    )
    select_web: bool = switch(
        True, "keep only the best strips of web passages", when=_GRADED, paper="CRAG ablation"
    )
    strips: str = choice("whole", KINDS, "what a strip is", when=_GRADED, paper="CRAG code")
    keep: int = integer(
        3, 1, 10, "strips kept; twice as many of cut passages", when=_GRADED, paper="CRAG code"
    )
    strips_max: int = integer(
        60, 5, 200, "most strips graded of one find", when=When("strips", KINDS[1:]), searched=False
    )
    rewrite: bool = switch(True, "search the web with other words than the question", paper="CRAG ablation")
    grader: str = choice(
        "main",
        ("main", "proxy", "judge"),
        "the role that grades",
        searched=False,
        paper="CRAG: a small model",
    )


@dataclass(frozen=True)
class SelfRagKnobs(AnswerKnobs):
    """When to search, and what makes an answer good."""

    form: str = choice(
        "scored", ("scored", "graph"), "the best of one answer a passage, or one answer checked and retried",
        paper="scored: Self-RAG; graph: LangGraph",
    )  # fmt: skip
    top_k: int = integer(10, 1, 10, "passages searched for", paper="Self-RAG: up to ten")
    gate: str = choice(
        "adaptive", ("adaptive", "always", "never"), "whether to search", when=_SCORED, paper="Self-RAG code"
    )
    selfrag_threshold: float = real(
        0.2, 0.0, 1.0, "search when it is needed with more than this chance", threshold=True,
        when=When("gate", ("adaptive",)), paper="Self-RAG",
    )  # fmt: skip
    w_rel: float = real(1.0, 0.0, 2.0, "weight of the passage's relevance", when=_SCORED, paper="Self-RAG")
    w_sup: float = real(1.0, 0.0, 2.0, "weight of the answer's support", when=_SCORED, paper="Self-RAG")
    w_use: float = real(1.0, 0.0, 2.0, "weight of the answer's utility", when=_SCORED, paper="Self-RAG")
    w_seq: float = real(
        0.0, 0.0, 1.0, "weight of the answer's mean token probability", when=_SCORED, paper="Self-RAG code"
    )
    pick: str = choice(
        "best", ("best", "sum"), "the best answer, or the one with the greatest sum of scores",
        when=_SCORED, paper="Self-RAG code; sum for closed sets of answers",
    )  # fmt: skip
    rounds: int = integer(3, 1, 4, "most searches", when=_GRAPH)
    useful_from: int = integer(
        3, 1, 5, "an answer of this utility is good enough", threshold=True, when=_GRAPH
    )


@dataclass(frozen=True)
class FlareKnobs(AnswerKnobs):
    """When a sentence is looked up, and how often."""

    cot: bool = switch(
        False, "reason step by step before the short answer", when=_SHORT, paper="RAG-X base setting"
    )
    answer_format: str = again(AnswerKnobs, "answer_format", when=_SHORT)
    uncertainty: str = choice(
        "logprobs", ("logprobs", "spans"), "how sure a sentence is: token probabilities, or asked for",
        when=_LOOKED_UP, paper="FLARE; spans for targets without log probabilities",
    )  # fmt: skip
    flare_theta: float = real(
        0.8, 0.0, 1.0, "a sentence with anything less likely than this is looked up", threshold=True,
        paper="FLARE",
    )  # fmt: skip
    flare_beta: float = real(
        0.4, 0.0, 1.0, "words less likely than this are no part of the query", when=_LOOKED_UP, paper="FLARE"
    )
    queries: str = choice(
        "masked", ("masked", "questions"), "a query of the surer words, or a question on each doubtful part",
        when=_LOOKED_UP, paper="FLARE: implicit and explicit queries",
    )  # fmt: skip
    flare_k: int = integer(2, 1, 5, "passages shown", paper="FLARE")
    rounds: int = integer(3, 1, 5, "most lookups", when=_LOOKED_UP, paper="SlimPLM's form of FLARE")
    sentences: int = integer(4, 1, 8, "most sentences drafted")
    first: bool = switch(True, "search with the question before the first sentence", paper="FLARE")
    forget: bool = switch(
        False, "draft later sentences without the passages found before", paper="FLARE code keeps them"
    )
    finish: str = choice("short", ("short", "text"), "the short answer that the draft comes to, or the draft")


@dataclass(frozen=True)
class ChainOfNoteKnobs(PassageKnobs):
    """How passages are found, and whether notes are written."""

    top_k: int = integer(5, 1, 20, "passages shown", paper="Chain-of-Note")
    notes: bool = switch(True, "write a note on each passage first", paper="Chain-of-Note ablation")
    abstain: bool = switch(True, "answer `unknown` when nothing supports an answer", paper="Chain-of-Note")
