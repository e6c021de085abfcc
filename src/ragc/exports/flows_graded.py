"""The control flow of the methods that grade what was found or said, as `ragc.exports.flows` wants it."""

from __future__ import annotations

from ragc.exports.graph import END, START, Step

_LOCAL, _WEB = "search local", "search web"

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

GRADED: dict[str, tuple[Step, ...]] = {"crag": _CRAG, "selfrag": _SELFRAG}
