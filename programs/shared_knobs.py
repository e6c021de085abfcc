"""Knobs that several methods share, declared once so that they mean the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass

from ragc.programs.knobs import Knobs, When, again, choice, integer, real, switch

LAYOUTS = ("minimal", "json", "chat", "xml")
WORDED = ("short", "list", "yesno", "choice", "long")
"""How any program may word its answer."""

CITING = (*WORDED, "cited")
"""How a program may that answers from numbered passages."""


@dataclass(frozen=True)
class AnswerKnobs(Knobs):
    """How the answering call is worded and sampled."""

    cot: bool = switch(False, "reason step by step before answering", paper="RAG-X base setting")
    answer_format: str = choice(
        "short",
        WORDED,
        "few words, every answer that may be right, yes or no, the letter of an option, or a paragraph, "
        "`cited` where passages are numbered",
        searched=False,
        paper="as the data sets of all five papers ask",
    )
    temperature: float = real(0.0, 0.0, 1.0, "sampling temperature; 0 is greedy", step=0.1, paper="RAG-X")
    top_p: float = real(
        1.0, 0.6, 1.0, "nucleus sampling mass", step=0.1, when=When("temperature", above=0.0), paper="RAG-X"
    )
    icl_n: int = integer(
        16, 0, 16, "at most this many demonstrations are shown", searched=False, paper="RAG-X"
    )
    layout: str = choice(
        "minimal",
        LAYOUTS,
        "how the prompt is laid out: DSPy's JSON, Chat or XML adapter, or a short one of our own",
    )


@dataclass(frozen=True)
class PassageKnobs(AnswerKnobs):
    """How passages are cut, found and shown. Field order is the order of listings."""

    answer_format: str = again(AnswerKnobs, "answer_format", options=CITING)
    top_k: int = integer(3, 1, 20, "passages shown", paper="RAG-X base setting")
    query_pos: str = choice(
        "before", ("before", "after", "both"), "where the question stands relative to the passages",
        paper="RAG-X code; its paper found `after` better",
    )  # fmt: skip
    noise_n: int = integer(0, 0, 10, "unrelated passages added on purpose", paper="RAG-X")
    noise_pos: str = choice(
        "end",
        ("end", "random"),
        "where the unrelated passages stand",
        when=When("noise_n", above=0),
        paper="RAG-X",
    )
    chunk_size: int = integer(200, 50, 1000, "longest chunk in tokens", step=50, paper="RAG-X base setting")
    overlap: float = real(0.0, 0.0, 0.5, "share of a chunk repeated in the next", step=0.1, paper="RAG-X")
