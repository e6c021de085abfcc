"""FLOWS: the control flow of every baseline, step by step; `ragc.programs.flow.Edge` explains the fields."""

from __future__ import annotations

from collections.abc import Mapping

from ragc.programs.flow import END, SELECTION, START, Edge

_LOCAL, _WEB = "search local", "search web"

_NOISE = ("noise_n", "noise_pos")


_READER = (
    Edge(START, _LOCAL, "the question", knobs=("top_k",)),
    Edge(_LOCAL, "answer", "the passages, and unrelated ones as noise", knobs=_NOISE),
    Edge("answer", END, "answer"),
)
"""One search of the source `local`, one answer."""

_CLOSED = (Edge(START, "answer", "the question"), Edge("answer", END, "answer"))

_GATED = (
    Edge(_LOCAL, "answer", "the passages, and unrelated ones as noise", knobs=_NOISE),
    Edge("answer", END, "answer"),
    Edge("closed", END, "answer"),
)

_SIMPLE: dict[str, tuple[Edge, ...]] = {
    "no_retrieval": _CLOSED,
    "cot": _CLOSED,
    "vanilla": _READER,
    "chain_of_note": _READER,
    "vanilla_sources": (
        Edge(START, _LOCAL, "the question", "sources_used is local or both", ("sources_used", "k_local")),
        Edge(START, _WEB, "the question", "sources_used is web or both", ("sources_used", "k_web")),
        Edge(_LOCAL, "answer", "its passages, first"),
        Edge(_WEB, "answer", "its passages, after those of local"),
        Edge("answer", END, "answer"),
    ),
    "meta_crag": (
        Edge(START, _WEB, "the question", "sources_used is web or both", ("sources_used", "pool")),
        Edge(START, "lookup", "the question", "sources_used is kg or both", ("sources_used",)),
        Edge("lookup", "search kg", "each name in the question", "the domain is not open", each=True),
        Edge("lookup", "answer", "nothing", "the domain is open, or there is no name"),
        Edge("search kg", "answer", "the facts, first", knobs=("top_k", "kg_chars")),
        Edge(_WEB, "answer", "the best sentences", knobs=("top_k", "sentence_chars")),
        Edge("answer", END, "answer"),
    ),
    "iter_retgen": (
        Edge(START, _LOCAL, "the question", knobs=("rounds", "top_k", "pool")),
        Edge(
            _LOCAL,
            "answer",
            "the best passages, ordered by the question after the first round",
            knobs=("rerank", "top_k", *_NOISE),
        ),
        Edge(
            "answer",
            _LOCAL,
            "the question, then what was answered, with its reasoning",
            "fewer rounds than asked for are done",
            ("rounds", "cot"),
        ),
        Edge("answer", END, "answer", "all rounds are done, or the reply cannot be read"),
    ),
    "skr": (
        Edge(
            START,
            _LOCAL,
            "the question",
            "the labelled train questions most like it say that passages help, or there are none",
            ("skr_k", "skr_rule", "top_k"),
        ),
        Edge(START, "closed", "the question", "they say that passages do not help", ("skr_k", "skr_rule")),
        *_GATED,
    ),
    "self_eval": (
        Edge(START, "gate", "the question"),
        Edge("gate", _LOCAL, "the question", "need is true, or the reply cannot be read", ("top_k",)),
        Edge("gate", "closed", "the question", "need is false"),
        *_GATED,
    ),
}

_CRAG = (
    Edge(START, _LOCAL, "the question", knobs=("top_k",)),
    Edge(_LOCAL, "grade", "each passage", each=True),
    Edge(
        "grade",
        "grade",
        "each strip of the kept passages",
        "form is graded",
        ("refine", "strips", "strips_max", "select_web", "actions"),
        each=True,
    ),
    *(
        Edge(
            n,
            "query",
            "the question",
            "what was found is not good enough",
            ("form", "crag_upper", "crag_lower", "actions", "rewrite"),
        )
        for n in (_LOCAL, "grade")
    ),
    *(
        Edge(
            n,
            _WEB,
            "the question",
            "what was found is not good enough, and rewrite is false",
            ("rewrite", "web_k"),
        )
        for n in (_LOCAL, "grade")
    ),
    Edge("query", _WEB, "the words for the web; the question when there are none", knobs=("web_k",)),
    Edge(
        _WEB,
        "grade",
        "each web passage, or strip of one",
        "select_web is true",
        ("select_web", "strips"),
        each=True,
    ),
    *(
        Edge(n, "answer", "the best passages, local ones first", knobs=("keep", "refine"))
        for n in ("grade", _WEB, _LOCAL)
    ),
    Edge("answer", END, "answer"),
)

_SELFRAG = (
    Edge(START, "need", "the question", "form is scored", ("gate", "selfrag_threshold")),
    Edge(START, "closed", "the question", "gate is never", ("gate",)),
    Edge(START, _LOCAL, "the question", "gate is always, or form is graph", ("gate", "form", "top_k")),
    Edge("need", _LOCAL, "the question", "need is above selfrag_threshold", ("selfrag_threshold", "top_k")),
    Edge("need", "closed", "the question", "need is not above it", ("selfrag_threshold",)),
    Edge(_LOCAL, "relevance", "each passage", knobs=("w_rel", "form"), each=True),
    Edge(_LOCAL, "answer", "each passage alone", "form is scored", ("form",), each=True),
    Edge("relevance", "answer", "the relevant passages", "form is graph"),
    *(
        Edge(n, "support", "the answer and its passages", "there is an answer", ("w_sup", "form"))
        for n in ("answer", "relevance")
    ),
    *(
        Edge(n, "utility", "the answer", "there is one", ("w_use", "form", "useful_from"))
        for n in ("answer", "relevance")
    ),
    *(
        Edge(
            n,
            "query",
            "the last query",
            "form is graph, and the check fails or there is no answer",
            ("rounds",),
        )
        for n in (_LOCAL, "relevance", "answer", "support", "utility")
    ),
    Edge("query", _LOCAL, "better_query", knobs=("top_k",)),
    *(
        Edge(n, "closed", "the question", "there is no answer from passages")
        for n in (_LOCAL, "relevance", "answer", "query")
    ),
    *(
        Edge(
            n,
            END,
            "the answer with the best score, or that passes its check",
            knobs=("w_rel", "w_sup", "w_use", "pick"),
        )
        for n in ("answer", "relevance", "support", "utility")
    ),
    Edge("closed", END, "answer"),
)

_STEPS_LEFT = "fewer steps than max_step are done"

_REACT = tuple(
    Edge("step", source, "action_input", f"action is {source.removeprefix('search ')} or search", (knob,))
    for source, knob in ((_LOCAL, "k_local"), (_WEB, "k_web"))
)

_FORCED = "no step gave an answer: the steps are spent, one cannot be read, or its answer is not as asked for"

_ROUNDS: dict[str, tuple[Edge, ...]] = {
    "react": (
        Edge(START, "step", "the question, no steps", knobs=("max_step", "tools")),
        *_REACT,
        Edge("step", "step", "the steps so far", f"action_input is empty, and {_STEPS_LEFT}", ("max_step",)),
        Edge(_LOCAL, "step", "thought, action and what was found", _STEPS_LEFT, ("max_step",)),
        Edge(_WEB, "step", "thought, action and what was found", _STEPS_LEFT, ("max_step",)),
        Edge("step", END, "action_input", "action is finish"),
        Edge("step", "answer", "the steps", _FORCED),
        Edge(_LOCAL, "answer", "the steps", _FORCED, ("max_step",)),
        Edge(_WEB, "answer", "the steps", _FORCED, ("max_step",)),
        Edge("answer", END, "answer"),
    ),
    "self_ask": (
        Edge(START, "step", "the question, no steps", knobs=("rounds",)),
        Edge("step", _LOCAL, "text", "kind is follow_up", ("top_k",)),
        Edge(_LOCAL, "read", "the follow-up question and the passages", "there are any"),
        Edge(
            _LOCAL,
            "step",
            "the follow-up, with nothing found",
            "nothing was found, and a round is left",
            ("rounds",),
        ),
        Edge(_LOCAL, "answer", "the steps", "nothing was found, and no round is left", ("rounds",)),
        Edge("read", "step", "the follow-up with intermediate_answer", "a round is left", ("rounds",)),
        Edge("read", "answer", "the steps", "no round is left", ("rounds",)),
        Edge("step", END, "text", "kind is answer"),
        Edge("step", "answer", "the steps", _FORCED),
        Edge("answer", END, "answer"),
    ),
    "rankgpt": (
        Edge(START, _LOCAL, "the question", knobs=("rank_pool",)),
        Edge(_LOCAL, "rank", "the last window of passages", "there are two or more", ("window", "words")),
        Edge("rank", "rank", "the next window up", "the top is not reached", ("window", "step", "words")),
        Edge("rank", "answer", "the best passages in the order given", "the top is reached", ("k_support",)),
        Edge(_LOCAL, "answer", "the passages", "there are fewer than two", ("k_support",)),
        Edge("answer", END, "answer"),
    ),
    "llatrieval": (
        Edge(START, _LOCAL, "the question", knobs=("candidates", "rounds")),
        Edge(_LOCAL, "condense", "each new document", knobs=("doc_condense", "condense_to"), each=True),
        Edge(
            _LOCAL,
            "select",
            "the new documents",
            "doc_condense is false, or none is new",
            ("window", "k_support"),
        ),
        Edge(_LOCAL, "verify", "the chosen documents", "no document fits a selecting call", ("verify",)),
        Edge(_LOCAL, "update", "the chosen documents", "no document fits a selecting call", ("update",)),
        Edge(_LOCAL, "answer", "the chosen documents", "nothing new was found, or none fits"),
        Edge("condense", "select", "the documents that are not irrelevant", knobs=("window", "k_support")),
        Edge("condense", "verify", "the chosen documents", "none fits a selecting call", ("verify",)),
        Edge("condense", "update", "the chosen documents", "none is chosen", ("update",)),
        Edge("condense", "answer", "the chosen documents", "nothing new has to do with the question"),
        *SELECTION,
        Edge("select", "update", "the chosen documents", "verify is false, or none is chosen", ("update",)),
        Edge("verify", "update", "the chosen documents", "sufficient is NO", ("update",)),
        Edge("update", _LOCAL, "new_question or missing", "it is not empty", ("candidates", "rounds")),
        Edge("update", "answer", "the chosen documents", "it is empty"),
    ),
    "flare": (
        Edge(START, _LOCAL, "the question", "first is true", ("first", "flare_k")),
        Edge(START, "draft", "the question, no passages", "first is false", ("first",)),
        Edge(_LOCAL, "draft", "the passages and the text so far", knobs=("flare_k", "forget")),
        Edge("draft", "doubts", "the sentence", "a lookup is left", ("uncertainty", "flare_theta", "rounds")),
        Edge(
            "draft",
            "ask",
            "each doubtful span",
            "a word is less sure than flare_theta",
            ("queries", "flare_theta", "flare_beta"),
            each=True,
        ),
        Edge(
            "doubts",
            "ask",
            "each doubtful span",
            "a span is less sure than flare_theta",
            ("queries", "flare_theta", "flare_beta"),
            each=True,
        ),
        Edge(
            "draft",
            _LOCAL,
            "the surer words",
            "a word is less sure than flare_theta",
            ("flare_theta", "flare_beta"),
        ),
        Edge(
            "doubts",
            _LOCAL,
            "the surer words",
            "a span is less sure than flare_theta",
            ("flare_theta", "flare_beta"),
        ),
        Edge("ask", _LOCAL, "each query", knobs=("flare_k",), each=True),
        Edge(
            "draft",
            "draft",
            "the text so far",
            "the sentence is sure, or was looked up",
            ("sentences", "rounds"),
        ),
        Edge("doubts", "draft", "the text so far", "no span is doubtful", ("sentences",)),
        Edge(
            _LOCAL,
            "answer",
            "the text",
            "nothing was found, and no sentence is left",
            ("finish", "sentences"),
        ),
        Edge(
            "draft",
            "answer",
            "the text",
            "it has all its sentences, or the last is empty or said before",
            ("finish", "sentences"),
        ),
        Edge("doubts", "answer", "the text", "it has all its sentences", ("finish", "sentences")),
        Edge("draft", END, "the text", "finish is text", ("finish",)),
        Edge("answer", END, "answer"),
    ),
}


FLOWS: Mapping[str, tuple[Edge, ...]] = {**_SIMPLE, **_ROUNDS, "crag": _CRAG, "selfrag": _SELFRAG}
"""The steps of every baseline by id, those of all settings of its knobs."""
