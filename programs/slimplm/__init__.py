"""Knobs of SlimPLM: the ablations of its section 4.6, settings of appendix A and of the authors' code."""

from __future__ import annotations

from dataclasses import dataclass

from ragc.programs.knobs import (
    CITING,
    AnswerKnobs,
    EncoderKnobs,
    ReadingKnobs,
    When,
    choice,
    integer,
    real,
    redeclare,
    switch,
)
from ragc.programs.method import Method

_REWRITES = When("use_qr", (True,))


@dataclass(frozen=True)
class SlimPLMKnobs(ReadingKnobs, AnswerKnobs):
    """When to search, with which queries, and how many references are shown."""

    cot: bool = switch(
        False, "reason step by step before answering from passages", paper="SlimPLM code, MuSiQue with Qwen"
    )
    temperature: float = real(
        0.01, 0.0, 1.0, "sampling temperature; 0 is greedy", paper="SlimPLM, implementation details"
    )
    top_p: float = real(
        0.85, 0.6, 1.0, "nucleus sampling mass", step=0.05, when=When("temperature", greater_than=0.0),
        paper="SlimPLM, implementation details",
    )  # fmt: skip
    known_cot: bool = switch(
        False, "reason step by step before answering without passages", paper="SlimPLM code, Qwen-72B rows"
    )
    answer_format: str = redeclare(
        AnswerKnobs, "answer_format", options=CITING,
        paper="ours; SlimPLM lists answers, and writes a paragraph for ELI5",
    )  # fmt: skip
    own_knowledge: bool = redeclare(ReadingKnobs, "own_knowledge", default=True)
    chunk_size: int = redeclare(
        ReadingKnobs, "chunk_size", default=1000, paper="SlimPLM reads pages, which are cut to paragraphs"
    )
    use_qj: bool = switch(
        True, "answer at once when the proxy is judged to know; else always search", paper="SlimPLM, w/o QJ"
    )
    use_qr: bool = switch(
        True,
        "search for the proxy's claims; else for the question as it is",
        paper="SlimPLM, w/o QR",
    )
    use_qf: bool = switch(
        True,
        "judge each claim before it is searched; else trust the flag it was written with",
        when=_REWRITES,
        paper="SlimPLM, w/o QF as its code does it",
    )
    unfiltered: str = choice(
        "flags",
        ("flags", "all"),
        "without the filter, the claims whose flag says so are searched, or all of them",
        when=When("use_qf", (False,)),
        paper="SlimPLM, w/o QF: flags in its code, all in its text",
    )
    judge_asks: str = choice(
        "style",
        ("style", "correctness"),
        "judgements look at how the draft is put; or ask how likely it is right, by how widely its subject "
        "is written about and by its own doubt, which claims then keep",
        paper="ours; SlimPLM fine-tunes its judge on whether drafts are right",
    )
    judge_by: str = choice(
        "text",
        ("text", "confidence", "logprobs"),
        "judgements say yes or no, or how sure they are, or how likely the word they say was; `auto` is the "
        "last where the proxy gives log probabilities, else the first",
        also=("auto",),
        paper="SlimPLM; its code offers a score",
    )
    judge_threshold: float = real(
        0.5, 0.0, 1.0, "known if surer than this; 1 always searches", step=0.1, threshold=True,
        when=When("judge_by", ("confidence", "logprobs", "auto")), paper="SlimPLM code, score 0",
    )  # fmt: skip
    judge_demos: int = integer(
        6, 0, 16, "train questions shown to the judge with the proxy's draft and whether it was right",
        when=When("use_qj", (True,)), paper="SlimPLM, section 3.2, fine-tunes on such labels",
    )  # fmt: skip
    known_theta: float = real(
        0.5, 0.0, 1.0, "a draft was right if it has more than this share of the gold answers", step=0.1,
        when=When("judge_demos", greater_than=0), searched=False,
        paper="SlimPLM, section 3.2; .7 for QAMPARI in its code",
    )  # fmt: skip
    include_original_query: bool = switch(
        True, "search for the question as it is too", when=_REWRITES, paper="SlimPLM code"
    )
    include_question_queries: bool = switch(
        True, "search for the things the question asks too", when=_REWRITES, paper="SlimPLM code"
    )
    pages_per_query: int = integer(10, 1, 20, "pages found for each query", paper="SlimPLM code")
    refs_max: int = integer(20, 1, 40, "paragraphs shown at most", paper="SlimPLM code")
    deal_by: str = choice(
        "query",
        ("query", "page", "score"),
        "paragraphs are dealt from query to query and there from page to page, from page to page alone, or "
        "by how well they fit the question",
        paper="ours; SlimPLM's code has page, where the first queries' pages fill all places",
    )
    round_robin: str = choice(
        "true",
        ("true", "zip"),
        "paragraphs are dealt from page to page until all are, or until the shortest page ends",
        when=When("deal_by", ("query", "page")),
        paper="SlimPLM; its code has zip",
    )
    encoder: str = redeclare(EncoderKnobs, "encoder")
    query_pos: str = redeclare(ReadingKnobs, "query_pos", paper="RAG-X; SlimPLM asks before")
    prompt_token_cap: int = integer(
        3000,
        500,
        32000,
        "longest answering prompt in tokens, demonstrations not counted",
        step=500,
        paper="SlimPLM code",
    )
    proxy_tokens: int = integer(
        512, 64, 512, "longest reply of the proxy, in tokens", step=64, searched=False,
        paper="SlimPLM, implementation details",
    )  # fmt: skip


METHOD = Method(
    "slimplm",
    "a small proxy model decides when to search and what for; the main model is asked once",
    "SlimPLM",
    "ragc.programs.slimplm.program:SlimPLM",
    SlimPLMKnobs,
    optional_roles=("proxy",),
    sources=("local",),
)
