"""FLOWS: the control flow of every baseline, step by step; `ragc.programs.flow.Step` explains the fields."""

from __future__ import annotations

from collections.abc import Mapping

from ragc.programs.flow import END, SELECTION, START, Step

_LOCAL, _WEB = "search local", "search web"

_NOISE = ("noise_n", "noise_pos")


_READER = (
    Step(START, _LOCAL, "the question", knobs=("top_k",)),
    Step(_LOCAL, "answer", "the passages, and unrelated ones as noise", knobs=_NOISE),
    Step("answer", END, "answer"),
)
"""One search of the source `local`, one answer."""

_CLOSED = (Step(START, "answer", "the question"), Step("answer", END, "answer"))

_GATED = (
    Step(_LOCAL, "answer", "the passages, and unrelated ones as noise", knobs=_NOISE),
    Step("answer", END, "answer"),
    Step("closed", END, "answer"),
)

_SIMPLE: dict[str, tuple[Step, ...]] = {
    "no_retrieval": _CLOSED,
    "cot": _CLOSED,
    "vanilla": _READER,
    "chain_of_note": _READER,
    "vanilla_sources": (
        Step(START, _LOCAL, "the question", "sources_used is local or both", ("sources_used", "k_local")),
        Step(START, _WEB, "the question", "sources_used is web or both", ("sources_used", "k_web")),
        Step(_LOCAL, "answer", "its passages, first"),
        Step(_WEB, "answer", "its passages, after those of local"),
        Step("answer", END, "answer"),
    ),
    "meta_crag": (
        Step(START, _WEB, "the question", "sources_used is web or both", ("sources_used", "pool")),
        Step(START, "lookup", "the question", "sources_used is kg or both", ("sources_used",)),
        Step("lookup", "search kg", "each name in the question", "the domain is not open", each=True),
        Step("lookup", "answer", "nothing", "the domain is open, or there is no name"),
        Step("search kg", "answer", "the facts, first", knobs=("top_k", "kg_chars")),
        Step(_WEB, "answer", "the best sentences", knobs=("top_k", "sentence_chars")),
        Step("answer", END, "answer"),
    ),
    "iter_retgen": (
        Step(START, _LOCAL, "the question", knobs=("rounds", "top_k", "pool")),
        Step(
            _LOCAL,
            "answer",
            "the best passages, ordered by the question after the first round",
            knobs=("rerank", "top_k", *_NOISE),
        ),
        Step(
            "answer",
            _LOCAL,
            "the question, then what was answered, with its reasoning",
            "fewer rounds than asked for are done",
            ("rounds", "cot"),
        ),
        Step("answer", END, "answer", "all rounds are done, or the reply cannot be read"),
    ),
    "skr": (
        Step(
            START,
            _LOCAL,
            "the question",
            "the labelled train questions most like it say that passages help, or there are none",
            ("skr_k", "skr_rule", "top_k"),
        ),
        Step(START, "closed", "the question", "they say that passages do not help", ("skr_k", "skr_rule")),
        *_GATED,
    ),
    "self_eval": (
        Step(START, "gate", "the question"),
        Step("gate", _LOCAL, "the question", "need is true, or the reply cannot be read", ("top_k",)),
        Step("gate", "closed", "the question", "need is false"),
        *_GATED,
    ),
}

_CRAG = (
    Step(START, _LOCAL, "the question", knobs=("top_k",)),
    Step(_LOCAL, "grade", "each passage", each=True),
    Step(
        "grade",
        "grade",
        "each strip of the kept passages",
        "form is graded",
        ("refine", "strips", "strips_max", "select_web", "actions"),
        each=True,
    ),
    *(
        Step(
            n,
            "query",
            "the question",
            "what was found is not good enough",
            ("form", "crag_upper", "crag_lower", "actions", "rewrite"),
        )
        for n in (_LOCAL, "grade")
    ),
    *(
        Step(
            n,
            _WEB,
            "the question",
            "what was found is not good enough, and rewrite is false",
            ("rewrite", "web_k"),
        )
        for n in (_LOCAL, "grade")
    ),
    Step("query", _WEB, "the words for the web; the question when there are none", knobs=("web_k",)),
    Step(
        _WEB,
        "grade",
        "each web passage, or strip of one",
        "select_web is true",
        ("select_web", "strips"),
        each=True,
    ),
    *(
        Step(n, "answer", "the best passages, local ones first", knobs=("keep", "refine"))
        for n in ("grade", _WEB, _LOCAL)
    ),
    Step("answer", END, "answer"),
)

_SELFRAG = (
    Step(START, "need", "the question", "form is scored", ("gate", "selfrag_threshold")),
    Step(START, "closed", "the question", "gate is never", ("gate",)),
    Step(START, _LOCAL, "the question", "gate is always, or form is graph", ("gate", "form", "top_k")),
    Step("need", _LOCAL, "the question", "need is above selfrag_threshold", ("selfrag_threshold", "top_k")),
    Step("need", "closed", "the question", "need is not above it", ("selfrag_threshold",)),
    Step(_LOCAL, "relevance", "each passage", knobs=("w_rel", "form"), each=True),
    Step(_LOCAL, "answer", "each passage alone", "form is scored", ("form",), each=True),
    Step("relevance", "answer", "the relevant passages", "form is graph"),
    *(
        Step(n, "support", "the answer and its passages", "there is an answer", ("w_sup", "form"))
        for n in ("answer", "relevance")
    ),
    *(
        Step(n, "utility", "the answer", "there is one", ("w_use", "form", "useful_from"))
        for n in ("answer", "relevance")
    ),
    *(
        Step(
            n,
            "query",
            "the last query",
            "form is graph, and the check fails or there is no answer",
            ("rounds",),
        )
        for n in (_LOCAL, "relevance", "answer", "support", "utility")
    ),
    Step("query", _LOCAL, "better_query", knobs=("top_k",)),
    *(
        Step(n, "closed", "the question", "there is no answer from passages")
        for n in (_LOCAL, "relevance", "answer", "query")
    ),
    *(
        Step(
            n,
            END,
            "the answer with the best score, or that passes its check",
            knobs=("w_rel", "w_sup", "w_use", "pick"),
        )
        for n in ("answer", "relevance", "support", "utility")
    ),
    Step("closed", END, "answer"),
)

_STEPS_LEFT = "fewer steps than max_step are done"

_REACT = tuple(
    Step("step", source, "action_input", f"action is {source.removeprefix('search ')} or search", (knob,))
    for source, knob in ((_LOCAL, "k_local"), (_WEB, "k_web"))
)

_FORCED = "no step gave an answer: the steps are spent, one cannot be read, or its answer is not as asked for"

_ROUNDS: dict[str, tuple[Step, ...]] = {
    "react": (
        Step(START, "step", "the question, no steps", knobs=("max_step", "tools")),
        *_REACT,
        Step("step", "step", "the steps so far", f"action_input is empty, and {_STEPS_LEFT}", ("max_step",)),
        Step(_LOCAL, "step", "thought, action and what was found", _STEPS_LEFT, ("max_step",)),
        Step(_WEB, "step", "thought, action and what was found", _STEPS_LEFT, ("max_step",)),
        Step("step", END, "action_input", "action is finish"),
        Step("step", "answer", "the steps", _FORCED),
        Step(_LOCAL, "answer", "the steps", _FORCED, ("max_step",)),
        Step(_WEB, "answer", "the steps", _FORCED, ("max_step",)),
        Step("answer", END, "answer"),
    ),
    "self_ask": (
        Step(START, "step", "the question, no steps", knobs=("rounds",)),
        Step("step", _LOCAL, "text", "kind is follow_up", ("top_k",)),
        Step(_LOCAL, "read", "the follow-up question and the passages", "there are any"),
        Step(
            _LOCAL,
            "step",
            "the follow-up, with nothing found",
            "nothing was found, and a round is left",
            ("rounds",),
        ),
        Step(_LOCAL, "answer", "the steps", "nothing was found, and no round is left", ("rounds",)),
        Step("read", "step", "the follow-up with intermediate_answer", "a round is left", ("rounds",)),
        Step("read", "answer", "the steps", "no round is left", ("rounds",)),
        Step("step", END, "text", "kind is answer"),
        Step("step", "answer", "the steps", _FORCED),
        Step("answer", END, "answer"),
    ),
    "rankgpt": (
        Step(START, _LOCAL, "the question", knobs=("rank_pool",)),
        Step(_LOCAL, "rank", "the last window of passages", "there are two or more", ("window", "words")),
        Step("rank", "rank", "the next window up", "the top is not reached", ("window", "step", "words")),
        Step("rank", "answer", "the best passages in the order given", "the top is reached", ("k_support",)),
        Step(_LOCAL, "answer", "the passages", "there are fewer than two", ("k_support",)),
        Step("answer", END, "answer"),
    ),
    "llatrieval": (
        Step(START, _LOCAL, "the question", knobs=("candidates", "rounds")),
        Step(_LOCAL, "condense", "each new document", knobs=("doc_condense", "condense_to"), each=True),
        Step(
            _LOCAL,
            "select",
            "the new documents",
            "doc_condense is false, or none is new",
            ("window", "k_support"),
        ),
        Step(_LOCAL, "verify", "the chosen documents", "no document fits a selecting call", ("verify",)),
        Step(_LOCAL, "update", "the chosen documents", "no document fits a selecting call", ("update",)),
        Step(_LOCAL, "answer", "the chosen documents", "nothing new was found, or none fits"),
        Step("condense", "select", "the documents that are not irrelevant", knobs=("window", "k_support")),
        Step("condense", "verify", "the chosen documents", "none fits a selecting call", ("verify",)),
        Step("condense", "update", "the chosen documents", "none is chosen", ("update",)),
        Step("condense", "answer", "the chosen documents", "nothing new has to do with the question"),
        *SELECTION,
        Step("select", "update", "the chosen documents", "verify is false, or none is chosen", ("update",)),
        Step("verify", "update", "the chosen documents", "sufficient is NO", ("update",)),
        Step("update", _LOCAL, "new_question or missing", "it is not empty", ("candidates", "rounds")),
        Step("update", "answer", "the chosen documents", "it is empty"),
    ),
    "flare": (
        Step(START, _LOCAL, "the question", "first is true", ("first", "flare_k")),
        Step(START, "draft", "the question, no passages", "first is false", ("first",)),
        Step(_LOCAL, "draft", "the passages and the text so far", knobs=("flare_k", "forget")),
        Step("draft", "doubts", "the sentence", "a lookup is left", ("uncertainty", "flare_theta", "rounds")),
        Step(
            "draft",
            "ask",
            "each doubtful span",
            "a word is less sure than flare_theta",
            ("queries", "flare_theta", "flare_beta"),
            each=True,
        ),
        Step(
            "doubts",
            "ask",
            "each doubtful span",
            "a span is less sure than flare_theta",
            ("queries", "flare_theta", "flare_beta"),
            each=True,
        ),
        Step(
            "draft",
            _LOCAL,
            "the surer words",
            "a word is less sure than flare_theta",
            ("flare_theta", "flare_beta"),
        ),
        Step(
            "doubts",
            _LOCAL,
            "the surer words",
            "a span is less sure than flare_theta",
            ("flare_theta", "flare_beta"),
        ),
        Step("ask", _LOCAL, "each query", knobs=("flare_k",), each=True),
        Step(
            "draft",
            "draft",
            "the text so far",
            "the sentence is sure, or was looked up",
            ("sentences", "rounds"),
        ),
        Step("doubts", "draft", "the text so far", "no span is doubtful", ("sentences",)),
        Step(
            _LOCAL,
            "answer",
            "the text",
            "nothing was found, and no sentence is left",
            ("finish", "sentences"),
        ),
        Step(
            "draft",
            "answer",
            "the text",
            "it has all its sentences, or the last is empty or said before",
            ("finish", "sentences"),
        ),
        Step("doubts", "answer", "the text", "it has all its sentences", ("finish", "sentences")),
        Step("draft", END, "the text", "finish is text", ("finish",)),
        Step("answer", END, "answer"),
    ),
}


FLOWS: Mapping[str, tuple[Step, ...]] = {**_SIMPLE, **_ROUNDS, "crag": _CRAG, "selfrag": _SELFRAG}
"""The steps of every baseline by id, those of all settings of its knobs."""
