"""Knobs of the baselines, apart from their programs because listing knobs must not import DSPy.

ReAct, Self-Ask, ITER-RETGEN, CoT and Vanilla over several sources: what a shared knob already says is taken
from it, so that it means the same. `ReactKnobs` and `SourcesKnobs` have PrefRAG's sampling, which that paper
gave to every baseline (PrefRAG, section 4.3), the others SlimPLM's, which is greedy.
Corrective RAG, Self-RAG, FLARE and Chain-of-Note: where a knob names a paper its default is from there;
ranges, and the other defaults, are ours. LLatrieval: GGatrieval builds on it (GGatrieval, section 3.4).
The baseline of CRAG: numbers are those of RAG-X's copy of it.
RankGPT: the knobs of its pool serve every method that narrows a pool of passages to a few.
SKR-KNN: knobs of its gate.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragc.programs.knobs import (
    CITING,
    AnswerKnobs,
    CitingKnobs,
    EncoderKnobs,
    Knobs,
    PassageKnobs,
    PrefRagSettings,
    ReadingKnobs,
    When,
    choice,
    integer,
    real,
    redeclare,
    switch,
)

_TITLES = ("source", "titled", "untitled")
_USES_LOCAL = When("sources_used", ("local", "both"))
_USES_WEB = When("sources_used", ("web", "both"))
_GREEDY = "SlimPLM samples at 0.01, which is greedy"


@dataclass(frozen=True)
class StepKnobs(Knobs):
    """How calls are sampled and laid out, for methods that reason by themselves and so have no `cot`."""

    answer_format: str = redeclare(AnswerKnobs, "answer_format")
    temperature: float = redeclare(AnswerKnobs, "temperature")
    top_p: float = redeclare(AnswerKnobs, "top_p")
    icl_n: int = redeclare(AnswerKnobs, "icl_n")
    layout: str = redeclare(AnswerKnobs, "layout")
    wording: str = redeclare(AnswerKnobs, "wording")
    history: str = redeclare(AnswerKnobs, "history")


@dataclass(frozen=True)
class CotKnobs(StepKnobs):
    """Chain of thought without retrieval."""

    temperature: float = redeclare(AnswerKnobs, "temperature", paper=_GREEDY)
    whole: bool = switch(
        False,
        "give the reasoning with the answer behind it, for metrics that look for the gold answer in a text",
        searched=False,
        paper="SlimPLM code scores the whole output",
    )


@dataclass(frozen=True)
class ReactKnobs(PrefRagSettings, ReadingKnobs, StepKnobs):
    """Thought, action and observation over two sources."""

    tools: str = choice(
        "choice",
        ("choice", "concat"),
        "one search tool for each source, or one tool that gives what both sources find",
        paper="PrefRAG compares with both forms",
    )
    max_step: int = integer(3, 1, 6, "thoughts and actions before an answer is forced", paper="PrefRAG, B.3")
    no_repeats: bool = switch(
        True,
        "a search that was made before is refused; off: it is made again",
        paper="ours, as in prefrag; PrefRAG's code searches again",
    )
    k_local: int = integer(
        5, 1, 20, "passages of each search of the local source", paper="PrefRAG, appendix A.5: 3, 5, 7"
    )
    k_web: int = integer(
        5, 1, 20, "passages of each search of the web", paper="PrefRAG, appendix A.5: 3, 5, 7"
    )


@dataclass(frozen=True)
class SelfAskKnobs(ReadingKnobs, StepKnobs):
    """Follow-up questions, each answered from its own search."""

    temperature: float = redeclare(AnswerKnobs, "temperature", paper=_GREEDY)
    rounds: int = integer(3, 1, 4, "follow-up questions at most", paper="SlimPLM, appendix B")
    top_k: int = integer(3, 1, 20, "passages read for each follow-up question", paper="RAG-X base setting")


@dataclass(frozen=True)
class VanillaKnobs(PassageKnobs):
    """One search, one answer, and what the titles of chunks say."""

    sections: str = choice(
        "source", _TITLES, "whether the title of a chunk names its section: as the source's option chunk_by "
        "says, or always, or never; chunks then end at headings", searched=False, added=True, paper="none",
    )  # fmt: skip
    tables: str = choice(
        "source", _TITLES, "whether the title of a chunk that begins inside a table names its columns",
        searched=False, added=True, paper="none",
    )  # fmt: skip


@dataclass(frozen=True)
class IterRetGenKnobs(VanillaKnobs):
    """Vanilla repeated, each time searching with the last answer."""

    cot: bool = redeclare(AnswerKnobs, "cot", default=True, paper="ITER-RETGEN searches with reasoned drafts")
    temperature: float = redeclare(AnswerKnobs, "temperature", paper=_GREEDY)
    rounds: int = integer(
        3, 1, 4, "answering calls; the first searches with the question alone, so 1 is Vanilla",
        paper="SlimPLM, appendix B",
    )  # fmt: skip
    rerank: bool = switch(
        True,
        "order what is found by the question alone",
        when=When("rounds", greater_than=1),
        paper="SlimPLM code",
    )
    pool: int = integer(
        10, 1, 50, "passages found before ordering, never fewer than top_k", when=When("rerank", (True,)),
        paper="SlimPLM code searches 10 pages",
    )  # fmt: skip
    encoder: str = redeclare(EncoderKnobs, "encoder", when=When("rerank", (True,)))


@dataclass(frozen=True)
class SourcesKnobs(PrefRagSettings, CitingKnobs):
    """Vanilla over the local source, the web, or both."""

    sources_used: str = choice(
        "both",
        ("local", "web", "both"),
        "where passages come from; with both, those of the local source come first",
        paper="PrefRAG compares with all three",
    )
    k_local: int = integer(
        5, 1, 20, "passages of the local source", when=_USES_LOCAL, paper="PrefRAG, appendix A.5: 3, 5, 7"
    )
    k_web: int = integer(
        5, 1, 20, "passages of the web", when=_USES_WEB, paper="PrefRAG, appendix A.5: 3, 5, 7"
    )


_GRADED = When("form", ("graded",))
STRIPS = ("whole", "three_sentences", "fifty_words")
"""What a strip of a passage may be."""
_ACTIONS = ("all", "no_correct", "no_incorrect", "no_ambiguous")
_SCORED, _GRAPH = When("form", ("scored",)), When("form", ("graph",))
_SHORT, _LOOKED_UP = When("finish", ("short",)), When("flare_theta", greater_than=0.0)


@dataclass(frozen=True)
class CragKnobs(CitingKnobs):
    """How passages are graded, and what is done about bad ones."""

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
    strips: str = choice("whole", STRIPS, "what a strip is", when=_GRADED, paper="CRAG code")
    keep: int = integer(
        3, 1, 10, "strips kept; twice as many of cut passages", when=_GRADED, paper="CRAG code"
    )
    strips_max: int = integer(
        60, 5, 200, "most strips graded of one find", when=When("strips", STRIPS[1:]), searched=False
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
class SelfRagKnobs(ReadingKnobs, AnswerKnobs):
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
class FlareKnobs(ReadingKnobs, AnswerKnobs):
    """When a sentence is looked up, and how often."""

    cot: bool = switch(
        False, "reason step by step before the short answer", when=_SHORT, paper="RAG-X base setting"
    )
    answer_format: str = redeclare(AnswerKnobs, "answer_format", when=_SHORT)
    own_knowledge: bool = redeclare(
        ReadingKnobs, "own_knowledge", default=True, when=None, paper="FLARE drafts from memory first"
    )
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
class ChainOfNoteKnobs(VanillaKnobs):
    """How passages are found, and whether notes are written."""

    top_k: int = integer(5, 1, 20, "passages shown", paper="Chain-of-Note")
    notes: bool = switch(True, "write a note on each passage first", paper="Chain-of-Note ablation")
    abstain: bool = switch(True, "answer `unknown` when nothing supports an answer", paper="Chain-of-Note")


@dataclass(frozen=True)
class MetaCragKnobs(ReadingKnobs, EncoderKnobs, AnswerKnobs):
    """Which sources are searched, and how many sentences of the pages are shown."""

    answer_format: str = redeclare(AnswerKnobs, "answer_format", options=CITING)
    sources_used: str = choice(
        "web", ("web", "kg", "both"), "web pages, the API, or both", searched=False, paper="RAG-X, Table 1"
    )
    top_k: int = integer(3, 1, 20, "sentences shown, and facts of `kg` for each name", paper="RAG-X's copy")
    sentence_chars: int = choice(
        200, (200, 1000), "characters of a sentence at most", when=When("sources_used", ("web", "both")),
        paper="200 in RAG-X's copy, 1000 in the challenge's code",
    )  # fmt: skip
    pool: int = integer(
        1000, 1, 10_000, "chunks of pages whose sentences are ranked",
        when=When("sources_used", ("web", "both")), searched=False, paper="all pages of a question",
    )  # fmt: skip
    kg_chars: int = integer(
        10_000, 100, 100_000, "characters of all facts of `kg` at most",
        when=When("sources_used", ("kg", "both")), searched=False, paper="the challenge's code",
    )  # fmt: skip
    chunk_size: int = redeclare(
        ReadingKnobs, "chunk_size", default=1000, paper="none; pages are cut into sentences"
    )


@dataclass(frozen=True)
class PoolKnobs(CitingKnobs):
    """How many passages the reader gets, and how passages are cut."""

    k_support: int = integer(5, 3, 10, "passages the answer is written from", paper="GGatrieval, section 4.1")


@dataclass(frozen=True)
class RankGptKnobs(PoolKnobs):
    """How the pool is ranked. The longest step is the shortest window, so no passage is skipped."""

    rank_pool: int = integer(100, 20, 100, "passages retrieved and ranked", paper="RankGPT")
    window: int = integer(20, 10, 40, "passages ranked by one call", paper="RankGPT")
    step: int = integer(10, 5, 10, "passages by which the window moves up", paper="RankGPT")
    words: int = integer(300, 20, 300, "words shown of a passage while ranking", step=20, paper="RankGPT")


_MORE_ROUNDS = When("rounds", greater_than=1)


@dataclass(frozen=True)
class LLatrievalKnobs(PoolKnobs):
    """How documents are condensed, chosen and verified, and how the next round searches."""

    answer_format: str = redeclare(
        AnswerKnobs,
        "answer_format",
        default="cited",
        options=CITING,
        paper="LLatrieval cites as ALCE wants it",
    )
    candidates: int = integer(50, 1, 100, "documents looked at a round (N)", paper="LLatrieval code")
    rounds: int = integer(4, 1, 4, "at most this many rounds of retrieval (T)", paper="LLatrieval")
    window: int = integer(20, 10, 40, "documents that one selecting call sees (W)", paper="LLatrieval code")
    doc_condense: bool = switch(
        True, "shorten each document to what bears on the question before choosing", paper="LLatrieval code"
    )
    condense_to: str = choice(
        "summary", ("summary", "answer"), "shorten a document to what it says about the question, or answers",
        when=When("doc_condense", values=(True,)),
        paper="LLatrieval code: a summary for ASQA and QAMPARI, an answer for ELI5",
    )  # fmt: skip
    verify: bool = switch(
        True,
        "stop as soon as the model finds the documents sufficient",
        when=_MORE_ROUNDS,
        paper="LLatrieval",
    )
    verify_demo: int = integer(
        1, 0, 2, "questions with answers shown to the verifying call, of the answering call's demonstrations",
        when=When("verify", values=(True,)), searched=False, paper="LLatrieval code",
    )  # fmt: skip
    update: str = choice(
        "question", ("question", "passage"), "search next with a new question or with the missing passage",
        when=_MORE_ROUNDS, paper="LLatrieval: a question for ASQA and QAMPARI, a passage for ELI5",
    )  # fmt: skip
    top_up: bool = switch(
        True,
        "fill up with the next best documents when the model chooses fewer",
        paper="LLatrieval code has off",
    )
    shots_answer: int = integer(
        1, 0, 4, "demonstrations shown to the answering call, icl_n at most",
        searched=False, paper="LLatrieval code; ALCE has 2",
    )  # fmt: skip
    asqa_sub_questions: bool = switch(
        False,
        "the gold sub-questions that come with a question help to search, choose, verify and answer",
        searched=False,
        paper="LLatrieval code has on for ASQA",
    )


@dataclass(frozen=True)
class SkrKnnKnobs(VanillaKnobs):
    """How similar train questions decide."""

    skr_k: int = integer(8, 5, 10, "train questions that are asked about a new one", paper="SKR; SlimPLM 8")
    skr_rule: str = choice(
        "majority", ("majority", "margin"), "majority, or the commoner train label if it leads as clearly",
        paper="SlimPLM, section 4.3, and its code; SKR has margin",
    )  # fmt: skip
    encoder: str = redeclare(EncoderKnobs, "encoder")
