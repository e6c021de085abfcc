"""The knobs of PrefRAG, apart from its program so that listing them imports no LM library."""

from __future__ import annotations

from dataclasses import dataclass

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

_PREF = When("pref", (True,))
_MODULE = When("pref_style", ("module",))
_REFLECT = When("reflect", (True,))
_FREE = When("free_choice", (True,))
_ASKS_LOCAL = When("pref", (True,), otherwise=(_FREE, When("preferred_source", ("local",))))
_ASKS_OTHER = When("pref", (True,), otherwise=(_FREE, When("preferred_source", excluded=("local",))))


@dataclass(frozen=True)
class PrefRagKnobs(ReadingKnobs):
    """How many steps there are, which source is searched when, and how the answer is graded."""

    max_step: int = integer(3, 1, 6, "steps that are announced; one more is taken", paper="PrefRAG B.3")
    strict_budget: bool = switch(
        False, "take no step beyond max_step, not even after a bad grade",
        paper="PrefRAG's code takes one more, and two after a bad grade; its text says 3",
    )  # fmt: skip
    k_local: int = integer(
        5, 1, 7, "passages of one search of `local`", step=2, when=_ASKS_LOCAL, paper="PrefRAG B.3"
    )
    k_web: int = integer(
        5, 1, 7, "passages of one search of any other source", step=2, when=_ASKS_OTHER, paper="PrefRAG B.3"
    )
    pref: bool = switch(
        True, "prefer one source; off: ask no other, or see free_choice", paper="PrefRAG 5.2, w/o Pref-AR"
    )
    pref_style: str = choice(
        "module",
        ("module", "prompt"),
        "a call of its own compares what the preferred source found, or the tools' descriptions say it",
        when=_PREF,
        paper="PrefRAG A.4",
    )
    free_choice: bool = switch(
        False,
        "without a preference each step chooses one of all sources; off: only preferred_source is asked",
        when=When("pref", (False,)),
        paper="PrefRAG 5.2 does not say what replaces Pref-AR",
    )
    preferred_source: str = choice(
        "local", ("local", "web"), "the source asked first, any of those that are configured",
        named=True, paper="PrefRAG 3.2 and E",
    )  # fmt: skip
    no_repeats: bool = switch(
        True,
        "a query that was searched before goes to a source that was not asked for it, and ends the steps "
        "where all were; off: it is searched again",
        paper="ours; PrefRAG's code searches again",
    )
    thoughts: bool = switch(
        True,
        "the trajectory shows what the model thought in each step; off: what it searched and found alone, "
        "which keeps small models from repeating themselves",
        paper="PrefRAG 3.2; off is ours",
    )
    compare_first: bool = switch(
        False, "compare the first search too, when nothing is known yet", when=_MODULE, paper="PrefRAG's code"
    )
    compare_key: str = choice(
        "question",
        ("question", "subquery"),
        "what found passages should help with: the question, or the query that found them",
        when=_MODULE,
        paper="PrefRAG's code",
    )
    source_check: str = choice(
        "status",
        ("status", "confidence"),
        "the comparison says true or false, or how sure it is",
        when=_MODULE,
        paper="PrefRAG 3.2; the confidence is ours",
    )
    source_check_threshold: float = real(
        0.5, 0.0, 1.0, "passages are kept if surer than this; 1 always asks the other source", step=0.1,
        threshold=True, when=When("source_check", ("confidence",)), paper="ours",
    )  # fmt: skip
    reflect: bool = switch(True, "the model grades its answer; a bad one is worked on", paper="PrefRAG 3.3")
    reflect_mode: str = choice(
        "joint",
        ("joint", "separate"),
        "the grade comes with the answer, or from a call of its own",
        when=_REFLECT,
        paper="PrefRAG's code",
    )
    max_supplements: int = integer(
        1, 0, 2, "bad grades that are followed by a search of all sources", when=_REFLECT, paper="PrefRAG B.3"
    )
    chunk_size: int = redeclare(ReadingKnobs, "chunk_size", default=500, paper="PrefRAG cuts at 512")
    overlap: float = redeclare(ReadingKnobs, "overlap", paper="PrefRAG")
    answer_format: str = redeclare(AnswerKnobs, "answer_format", paper="PrefRAG B.3")
    temperature: float = redeclare(AnswerKnobs, "temperature", default=0.1, paper="PrefRAG")
    top_p: float = redeclare(AnswerKnobs, "top_p", default=0.9, paper="PrefRAG")
    icl_n: int = redeclare(AnswerKnobs, "icl_n")
    layout: str = redeclare(AnswerKnobs, "layout")
    wording: str = redeclare(AnswerKnobs, "wording")
    history: str = redeclare(AnswerKnobs, "history")


METHOD = Method(
    "prefrag",
    "search step by step, the preferred source first, and grade the answer before it is given",
    "PrefRAG",
    "ragc.programs.prefrag.program:PrefRag",
    PrefRagKnobs,
    sources=("local",),
    optional_sources=("web",),
)
