"""Knobs of GGatrieval (its sections 3 and 4.1); imports no DSPy, so that listing them is quick.

Differs: tau, N and W are not in the paper's text; the default of tau is ours, N fits Table 4, W is that of
LLatrieval's code. `chunk_size` is 200 tokens, which leaves the 100-word passages of the paper's corpora
whole. `icl_n` stands for ALCE's number of demonstrations, two in its readers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragc.programs.knobs import (
    CITING,
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

_MORE_ROUNDS = When("rounds", greater_than=1)
_SCQU = When("scqu", values=(True,))


@dataclass(frozen=True)
class GGatrievalKnobs(ReadingKnobs, AnswerKnobs):
    """How documents are found, aligned, chosen and verified. Field order is the order of listings."""

    answer_format: str = redeclare(
        AnswerKnobs,
        "answer_format",
        default="cited",
        options=CITING,
        paper="GGatrieval cites as ALCE wants it",
    )
    candidates: int = integer(10, 1, 100, "new documents a round (N)", paper="not stated; fits its Table 4")
    k_support: int = integer(5, 3, 10, "documents that support the answer (k)", paper="GGatrieval")
    rounds: int = integer(4, 1, 4, "at most this many rounds of retrieval (T)", paper="GGatrieval")
    window: int = integer(20, 10, 40, "documents that one selecting call sees (W)", paper="LLatrieval code")
    align_form: str = choice(
        "parts", ("parts", "sentences"),
        "list the parts that a document speaks of; or read it first, in numbered sentences, and give the "
        "sentence of every part, or none",
        paper="not stated",
    )  # fmt: skip
    fga_rerank: bool = switch(
        True,
        "put documents that align with more of the question first; where one window holds all of a round, "
        "as at the defaults, their order tells the choosing call nothing, and decides top_up alone",
        paper="GGatrieval",
    )
    fga_reflect: bool = switch(True, "the model checks its alignments once more", paper="GGatrieval")
    scqu: bool = switch(
        True, "make new queries from the chosen documents; else read on in the first search's hits",
        when=_MORE_ROUNDS, paper="GGatrieval",
    )  # fmt: skip
    tau: float = real(
        0.5, 0.0, 1.0, "a document aligned with this share of the question is a query as it is",
        step=0.1, threshold=True, when=_SCQU, paper="not stated",
    )  # fmt: skip
    scqu_scope: str = choice(
        "each", ("each", "best"), "make a query from each chosen document or from the best aligned one",
        when=_SCQU, paper="not stated",
    )  # fmt: skip
    scqu_base: str = choice(
        "q", ("q", "prevQ"), "build queries on the question or on the query that found the document",
        when=_SCQU, paper="Algorithm 1 has prevQ; q prevents drift",
    )  # fmt: skip
    doc_condense: bool = switch(
        False, "shorten each document to what bears on the question before choosing; it is aligned in full",
        paper="LLatrieval code has on; GGatrieval does not say",
    )  # fmt: skip
    crag_filter: bool = switch(
        False, "drop found documents that CRAG's evaluator grades low, before anything is aligned",
        searched=False, paper="GGatrieval, Tables 1 and 2: CRAG as a filter of its candidates",
    )  # fmt: skip
    crag_keep: float = real(
        0.0, -1.0, 1.0, "documents of this grade are left in", step=0.1, threshold=True,
        when=When("crag_filter", values=(True,)), searched=False, paper="not stated",
    )  # fmt: skip
    verify: bool = switch(
        True,
        "stop as soon as the model finds the documents sufficient",
        when=_MORE_ROUNDS,
        paper="GGatrieval",
    )
    verify_demo: int = integer(
        1, 0, 2, "questions with answers shown to the verifying call, of the answering call's demonstrations",
        when=When("verify", values=(True,)), searched=False, paper="LLatrieval code",
    )  # fmt: skip
    top_up: bool = switch(
        True,
        "fill up with the best aligned documents when the model chooses fewer",
        paper="LLatrieval code has off",
    )
    drop_label: str = choice(
        "none", ("none", "FULL", "PARTIAL", "NONE"), "replace chosen documents of this label by others",
        searched=False, paper="GGatrieval Table 3",
    )  # fmt: skip
    asqa_sub_questions: bool = switch(
        False,
        "the gold sub-questions that come with a question help to search, choose, verify and answer",
        searched=False,
        paper="LLatrieval code has on for ASQA; GGatrieval does not say",
    )
    chunk_size: int = redeclare(ReadingKnobs, "chunk_size", paper="100-word passages")
    overlap: float = redeclare(ReadingKnobs, "overlap", paper="none")


METHOD = Method(
    "ggatrieval",
    "documents chosen by how much of the question's grammar they align with; a cited answer",
    "GGatrieval",
    "ragc.programs.ggatrieval.program:GGatrieval",
    GGatrievalKnobs,
    sources=("local",),
)
