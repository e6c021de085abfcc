"""Knobs of LLatrieval, on which GGatrieval builds (its section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass

from ragc.programs.knobs import When, again, choice, integer, switch
from ragc.programs.rankgpt_knobs import PoolKnobs
from ragc.programs.shared_knobs import CITING, AnswerKnobs

_MORE_ROUNDS = When("rounds", above=1)


@dataclass(frozen=True)
class LLatrievalKnobs(PoolKnobs):
    """How documents are condensed, chosen and verified, and how the next round asks."""

    answer_format: str = again(
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
        1, 0, 2, "demonstrations shown to the verifying call, icl_n at most",
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
