"""Knobs of the baselines ReAct, Self-Ask, ITER-RETGEN, CoT and Vanilla over several sources.

They stand apart from the programs because listing them must not import DSPy. What a shared knob already
says is taken from it, so that it means the same; `ReactKnobs` and `SourcesKnobs` have PrefRAG's sampling,
which that paper gave to every baseline (PrefRAG, section 4.3), the others SlimPLM's, which is greedy.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragc.programs.knobs import Knobs, When, again, choice, integer, switch
from ragc.programs.shared_knobs import CITING, AnswerKnobs, PassageKnobs

_USES_LOCAL = When("sources_used", ("local", "both"))
_USES_WEB = When("sources_used", ("web", "both"))
_GREEDY = "SlimPLM samples at 0.01, which is greedy"


@dataclass(frozen=True)
class StepKnobs(Knobs):
    """How calls are sampled and laid out, for methods that reason by themselves and so have no `cot`."""

    answer_format: str = again(AnswerKnobs, "answer_format")
    temperature: float = again(AnswerKnobs, "temperature")
    top_p: float = again(AnswerKnobs, "top_p")
    icl_n: int = again(AnswerKnobs, "icl_n")
    layout: str = again(AnswerKnobs, "layout")


@dataclass(frozen=True)
class CotKnobs(StepKnobs):
    """Chain of thought without retrieval."""

    temperature: float = again(AnswerKnobs, "temperature", paper=_GREEDY)
    whole: bool = switch(
        False,
        "give the reasoning with the answer behind it, for metrics that look for the gold answer in a text",
        searched=False,
        paper="SlimPLM code scores the whole output",
    )


@dataclass(frozen=True)
class ReactKnobs(StepKnobs):
    """Thought, action and observation over two sources."""

    temperature: float = again(AnswerKnobs, "temperature", default=0.1, paper="PrefRAG")
    top_p: float = again(AnswerKnobs, "top_p", default=0.9, paper="PrefRAG")
    tools: str = choice(
        "choice",
        ("choice", "concat"),
        "one search tool for each source, or one tool that gives what both sources find",
        paper="PrefRAG compares with both forms",
    )
    max_step: int = integer(3, 1, 6, "thoughts and actions before an answer is forced", paper="PrefRAG, B.3")
    k_local: int = integer(
        5, 1, 20, "passages of each search of the local source", paper="PrefRAG, appendix A.5: 3, 5, 7"
    )
    k_web: int = integer(
        5, 1, 20, "passages of each search of the web", paper="PrefRAG, appendix A.5: 3, 5, 7"
    )
    chunk_size: int = again(PassageKnobs, "chunk_size", default=500, paper="PrefRAG cuts at 512")
    overlap: float = again(PassageKnobs, "overlap", paper="PrefRAG")


@dataclass(frozen=True)
class SelfAskKnobs(StepKnobs):
    """Follow-up questions, each answered from its own search."""

    temperature: float = again(AnswerKnobs, "temperature", paper=_GREEDY)
    rounds: int = integer(3, 1, 4, "follow-up questions at most", paper="SlimPLM, appendix B")
    top_k: int = integer(3, 1, 20, "passages read for each follow-up question", paper="RAG-X base setting")
    chunk_size: int = again(PassageKnobs, "chunk_size")
    overlap: float = again(PassageKnobs, "overlap")


@dataclass(frozen=True)
class IterRetGenKnobs(PassageKnobs):
    """Vanilla repeated, each time searching with the last answer."""

    temperature: float = again(AnswerKnobs, "temperature", paper=_GREEDY)
    rounds: int = integer(
        3, 1, 4, "answering calls; the first searches with the question alone, so 1 is Vanilla",
        paper="SlimPLM, appendix B",
    )  # fmt: skip
    rerank: bool = switch(
        True, "order what is found by the question alone", when=When("rounds", above=1), paper="SlimPLM code"
    )
    pool: int = integer(
        10, 1, 50, "passages found before ordering, never fewer than top_k", when=When("rerank", (True,)),
        paper="SlimPLM code searches 10 pages",
    )  # fmt: skip


@dataclass(frozen=True)
class SourcesKnobs(AnswerKnobs):
    """Vanilla over the local source, the web, or both."""

    answer_format: str = again(AnswerKnobs, "answer_format", options=CITING)
    temperature: float = again(AnswerKnobs, "temperature", default=0.1, paper="PrefRAG")
    top_p: float = again(AnswerKnobs, "top_p", default=0.9, paper="PrefRAG")
    sources_used: str = choice(
        "both",
        ("local", "web", "both"),
        "where passages come from; with both those of the local source stand first",
        paper="PrefRAG compares with all three",
    )
    k_local: int = integer(
        5, 1, 20, "passages of the local source", when=_USES_LOCAL, paper="PrefRAG, appendix A.5: 3, 5, 7"
    )
    k_web: int = integer(
        5, 1, 20, "passages of the web", when=_USES_WEB, paper="PrefRAG, appendix A.5: 3, 5, 7"
    )
    query_pos: str = again(PassageKnobs, "query_pos")
    chunk_size: int = again(PassageKnobs, "chunk_size", default=500, paper="PrefRAG cuts at 512")
    overlap: float = again(PassageKnobs, "overlap", paper="PrefRAG")
