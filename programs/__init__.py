"""Programs: one file per method and baseline, and the table that lists them all.

Importing this package is quick: DSPy is imported only when a method is built.
"""

from __future__ import annotations

from ragc.errors import UnknownName
from ragc.programs.corrective_knobs import ChainOfNoteKnobs, CragKnobs, FlareKnobs, SelfRagKnobs
from ragc.programs.ggatrieval_knobs import GGatrievalKnobs
from ragc.programs.iterative_knobs import (
    CotKnobs,
    IterRetGenKnobs,
    ReactKnobs,
    SelfAskKnobs,
    SourcesKnobs,
)
from ragc.programs.llatrieval_knobs import LLatrievalKnobs
from ragc.programs.method import Method
from ragc.programs.prefrag_knobs import PrefRagKnobs
from ragc.programs.ragx_knobs import RagXKnobs
from ragc.programs.rankgpt_knobs import RankGptKnobs
from ragc.programs.rqrag_knobs import RqRagKnobs
from ragc.programs.shared_knobs import AnswerKnobs, PassageKnobs
from ragc.programs.skr_knn_knobs import SkrKnnKnobs
from ragc.programs.slimplm_knobs import SlimPLMKnobs

METHODS: tuple[Method, ...] = (
    Method(
        "no_retrieval",
        "the model answers from what it knows, in one call",
        "baseline of all five papers",
        "ragc.programs.no_retrieval:NoRetrieval",
        AnswerKnobs,
        demo_shape=("cot",),
    ),
    Method(
        "vanilla",
        "retrieve once, answer once from the passages",
        "baseline of all five papers; knobs of RAG-X",
        "ragc.programs.vanilla:Vanilla",
        PassageKnobs,
        sources=("local",),
        demo_knobs={"top_k": 1, "noise_n": 0, "chunk_size": 100},
        demo_shape=("cot",),
    ),
    Method(
        "prefrag",
        "search step by step, the preferred source first, and grade the answer before it is given",
        "PrefRAG",
        "ragc.programs.prefrag:PrefRag",
        PrefRagKnobs,
        sources=("local",),
        may_use=("web",),
        demo_knobs={"k_local": 1, "k_web": 1, "max_step": 2, "max_supplements": 0, "chunk_size": 100},
        demo_shape=("pref", "pref_style", "free_choice", "source_check", "reflect", "reflect_mode"),
    ),
    Method(
        "ragx",
        "own knowledge, web pages and an API under a source policy; refuses when it is due",
        "RAG-X on CRAG",
        "ragc.programs.ragx:RagX",
        RagXKnobs,
        may_use=("web", "kg", "dense"),
        demo_knobs={"top_k": 1, "noise_n": 0, "chunk_size": 100, "rerank": False, "broad": False},
        demo_shape=("cot", "source_policy", "second_stage_internal", "icl_domain"),
    ),
    Method(
        "ggatrieval",
        "documents chosen by how much of the question's grammar they align with; a cited answer",
        "GGatrieval",
        "ragc.programs.ggatrieval:GGatrieval",
        GGatrievalKnobs,
        sources=("local",),
        demo_knobs={"candidates": 5, "rounds": 2, "k_support": 3, "window": 10, "chunk_size": 100},
        demo_shape=("cot", "fga_reflect", "scqu", "doc_condense", "verify"),
    ),
    Method(
        "rqrag",
        "rewrite, decompose or disambiguate along a tree of searches, choose among its answers",
        "RQ-RAG",
        "ragc.programs.rqrag:RqRag",
        RqRagKnobs,
        sources=("local",),
        demo_knobs={"depth_for": "own", "max_depth": 1, "ndocs": 1},
        demo_shape=("mode", "width", "cot", "select", "retrieve_threshold"),
    ),
    Method(
        "slimplm",
        "a small proxy model decides when to search and what for; the main model is asked once",
        "SlimPLM",
        "ragc.programs.slimplm:SlimPLM",
        SlimPLMKnobs,
        may_ask=("proxy",),
        sources=("local",),
        demo_knobs={"pages_per_query": 3, "refs_max": 2, "proxy_tokens": 128},
        demo_shape=("cot", "known_cot", "judge_by"),
    ),
    Method(
        "cot",
        "reason, then answer, from what the model knows",
        "baseline of SlimPLM and RQ-RAG",
        "ragc.programs.cot:Cot",
        CotKnobs,
    ),
    Method(
        "vanilla_sources",
        "retrieve once from the local source, the web or both, answer once",
        "Vanilla RAG rows of PrefRAG",
        "ragc.programs.vanilla_sources:VanillaSources",
        SourcesKnobs,
        may_use=("local", "web"),
        demo_knobs={"k_local": 1, "k_web": 1, "chunk_size": 100},
        demo_shape=("cot",),
    ),
    Method(
        "react",
        "think, search a source of the model's choice, repeat, answer",
        "ReAct (Yao et al. 2023) as PrefRAG runs it",
        "ragc.programs.react:React",
        ReactKnobs,
        sources=("local", "web"),
        demo_knobs={"k_local": 1, "k_web": 1, "chunk_size": 100},
        demo_shape=("tools",),
    ),
    Method(
        "self_ask",
        "ask follow-up questions, each answered from its own search, then answer",
        "Self-Ask (Press et al. 2022) as SlimPLM runs it",
        "ragc.programs.self_ask:SelfAsk",
        SelfAskKnobs,
        sources=("local",),
        demo_knobs={"top_k": 1, "chunk_size": 100},
    ),
    Method(
        "iter_retgen",
        "answer, search again with that answer, repeat",
        "ITER-RETGEN (Shao et al. 2023) as SlimPLM runs it",
        "ragc.programs.iter_retgen:IterRetGen",
        IterRetGenKnobs,
        sources=("local",),
        demo_knobs={"rounds": 1, "top_k": 1, "noise_n": 0, "chunk_size": 100},
        demo_shape=("cot",),
    ),
    Method(
        "rankgpt",
        "the model ranks the retrieved passages window by window, the best are read",
        "baseline of GGatrieval; RankGPT",
        "ragc.programs.rankgpt:RankGpt",
        RankGptKnobs,
        sources=("local",),
        demo_knobs={"rank_pool": 20, "window": 10, "words": 60, "k_support": 3, "chunk_size": 100},
        demo_shape=("cot",),
    ),
    Method(
        "llatrieval",
        "condense, choose and verify documents in rounds, then answer with citations",
        "baseline of GGatrieval; LLatrieval",
        "ragc.programs.llatrieval:LLatrieval",
        LLatrievalKnobs,
        sources=("local",),
        demo_knobs={"candidates": 5, "rounds": 2, "window": 10, "k_support": 3, "chunk_size": 100},
        demo_shape=("cot", "doc_condense", "condense_to", "verify", "update"),
    ),
    Method(
        "skr",
        "labelled train questions like this one decide whether to retrieve",
        "baseline of SlimPLM; SKR",
        "ragc.programs.skr_knn:SkrKnn",
        SkrKnnKnobs,
        sources=("local",),
        demo_knobs={"top_k": 1, "noise_n": 0, "chunk_size": 100},
        demo_shape=("cot",),
    ),
    Method(
        "self_eval",
        "the model says whether it needs more information; only then retrieve",
        "baseline of SlimPLM",
        "ragc.programs.self_eval:SelfEval",
        PassageKnobs,
        sources=("local",),
        demo_knobs={"top_k": 1, "noise_n": 0, "chunk_size": 100},
        demo_shape=("cot",),
    ),
    Method(
        "crag",
        "grades what was found and corrects it from the web",
        "Corrective RAG; LangGraph form as in PrefRAG",
        "ragc.programs.crag:Crag",
        CragKnobs,
        sources=("local", "web"),
        demo_knobs={"top_k": 2, "web_k": 2, "keep": 1},
        demo_shape=("form", "cot", "rewrite", "grader"),
    ),
    Method(
        "selfrag",
        "an answer from each passage, the best scored one wins",
        "Self-RAG; LangGraph form",
        "ragc.programs.selfrag:SelfRag",
        SelfRagKnobs,
        sources=("local",),
        demo_knobs={"top_k": 2, "rounds": 2},
        demo_shape=("form", "cot", "gate", "w_rel", "w_sup", "w_use"),
    ),
    Method(
        "flare",
        "drafts sentence by sentence and looks up what it is unsure of",
        "FLARE",
        "ragc.programs.flare:Flare",
        FlareKnobs,
        sources=("local",),
        demo_knobs={"flare_k": 1, "sentences": 2, "rounds": 1},
        demo_shape=("uncertainty", "queries", "finish", "cot"),
    ),
    Method(
        "chain_of_note",
        "a note on each passage, then the answer, in one call",
        "Chain-of-Note",
        "ragc.programs.chain_of_note:ChainOfNote",
        ChainOfNoteKnobs,
        sources=("local",),
        demo_knobs={"top_k": 1, "noise_n": 0, "chunk_size": 100},
        demo_shape=("notes", "abstain", "cot"),
    ),
)


def table() -> str:
    """The programs as a Markdown table, as it stands in the README."""
    rows = ["| program | what it does | from | sources | roles |", "| --- | --- | --- | --- | --- |"]
    for entry in METHODS:
        names = ", ".join((*entry.sources, *(f"({name})" for name in entry.may_use))) or "-"
        roles = ", ".join((*entry.roles, *(f"({name})" for name in entry.may_ask)))
        rows.append(f"| `{entry.id}` | {entry.about} | {entry.paper} | {names} | {roles} |")
    return "\n".join(rows)


def method(id: str) -> Method:
    """The method called `id`; raises UnknownName with the nearest one."""
    for entry in METHODS:
        if entry.id == id:
            return entry
    raise UnknownName("program", id, [entry.id for entry in METHODS])


__all__ = ["METHODS", "Method", "method", "table"]
