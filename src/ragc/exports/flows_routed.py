"""The control flow of the methods that choose sources or paths, as `ragc.exports.flows` wants it."""

from __future__ import annotations

from ragc.exports.graph import END, START, Step

_LOCAL, _WEB, _KG, _DENSE = "search local", "search web", "search kg", "search dense"
_SOURCES = (_LOCAL, _WEB)
_KINDS = ("rewrite", "decompose", "disambiguate")
_BAD = "the grade is bad, and a supplement is left"
_GRADED = ("reflect", "reflect_mode", "max_supplements")


def _name(node: str) -> str:
    return node.removeprefix("search ")


_PREFRAG = (
    Step(START, "step", "the question, no trajectory", knobs=("max_step", "preferred_source", "pref_style")),
    *(Step("step", s, "action_input", "action asks for a search", (f"k_{_name(s)}",)) for s in _SOURCES),
    *(Step("step", s, "the question", _BAD, _GRADED, each=True) for s in _SOURCES),
    *(Step("grade", s, "the question", _BAD, ("max_supplements",), each=True) for s in _SOURCES),
    Step(
        "step",
        "step",
        "the trajectory",
        "the step asked for nothing that can be done",
        ("max_step", "temperature"),
    ),
    *(
        Step(
            s,
            "compare",
            "what is known and what was found",
            f"{_name(s)} is the preferred source",
            ("pref", "compare_first", "compare_key"),
        )
        for s in _SOURCES
    ),
    *(
        Step(s, other, "the same query", f"{_name(s)} is preferred and adds nothing", ("pref",))
        for s, other in (_SOURCES, _SOURCES[::-1])
    ),
    *(
        Step(
            "compare",
            s,
            "the same query",
            "the preferred source adds nothing",
            ("source_check", "source_check_threshold"),
        )
        for s in _SOURCES
    ),
    *(
        Step(s, "step", "the trajectory with what was found", "steps are left", ("max_step",))
        for s in _SOURCES
    ),
    Step("compare", "step", "the trajectory with what was found", "it adds something", ("source_check",)),
    Step("step", "grade", "answer and trajectory", "answer is not empty", _GRADED),
    Step("step", END, "answer", "answer is not empty and its grade is good, or is not asked for"),
    Step("grade", END, "answer", "the grade is good, or cannot be read"),
    *(
        Step(node, "answer", "the trajectory", "no step gave an answer", ("max_step", "strict_budget"))
        for node in ("step", "compare", *_SOURCES)
    ),
    Step("answer", END, "answer"),
)

_RQRAG = (
    Step(START, "need", "the question", "mode is tree", ("retrieve_threshold",)),
    *(
        Step(START, k, "the question, no trajectory", "mode is tree", ("mode", "width"), each=True)
        for k in _KINDS
    ),
    *(
        Step(
            "need", k, "the question, no trajectory", "a search is needed", ("retrieve_threshold",), each=True
        )
        for k in _KINDS
    ),
    Step(
        START, "choose", "the question, no trajectory", "mode is search_on_demand", ("mode", "search_limit")
    ),
    Step(
        START, "answer", "the question, no trajectory", "mode is tree: every path is answered", ("depth_for",)
    ),
    *(Step("choose", k, "the trajectory", f"action is {k}") for k in _KINDS),
    *(Step(k, _LOCAL, "query", "it is not empty", ("ndocs", "exclude_seen")) for k in _KINDS),
    *(Step(k, "answer", "the trajectory", "query is empty, and mode is search_on_demand") for k in _KINDS),
    *(
        Step(
            _LOCAL,
            k,
            "the trajectory with what was found",
            "the path is shorter than max_depth",
            ("max_depth", "depth_for", "width"),
            each=True,
        )
        for k in _KINDS
    ),
    Step(_LOCAL, "choose", "the trajectory", "fewer searches than search_limit are made", ("search_limit",)),
    Step(
        _LOCAL,
        "answer",
        "the trajectory",
        "mode is tree, or search_limit is reached",
        ("n_conf_samples",),
        each=True,
    ),
    Step("choose", "answer", "the trajectory", "action is answer"),
    Step("answer", "judge", "answer and trajectory", "select is judge", ("select",)),
    Step("answer", END, "the answer of the path that is chosen", knobs=("select", "pooled", "conf_by")),
    Step("judge", END, "the answer of the path with the best score", knobs=("select", "pooled")),
)

_SLIMPLM = (
    Step(START, "draft", "the question", "use_qj or use_qr is true", ("use_qj", "use_qr")),
    Step(
        START, _LOCAL, "the question", "use_qj and use_qr are false", ("use_qj", "use_qr", "pages_per_query")
    ),
    Step("draft", "judge", "heuristic_answer", "it is not empty", ("use_qj", "judge_by", "judge_threshold")),
    Step("judge", "chat", "the question", "it says that the answer is known"),
    *(
        Step(node, "parts", "the question", "the answer is not known", ("use_qr", "include_question_queries"))
        for node in ("draft", "judge")
    ),
    *(
        Step(node, "claims", "heuristic_answer", "the answer is not known", ("use_qr",))
        for node in ("draft", "judge")
    ),
    *(
        Step(node, _LOCAL, "the question", "the answer is not known", ("use_qr", "include_original_query"))
        for node in ("draft", "judge")
    ),
    Step("claims", "claim_judge", "each claim and its query", knobs=("use_qf", "judge_by"), each=True),
    Step("parts", _LOCAL, "each query whose need_search is yes", knobs=("pages_per_query",), each=True),
    Step("claims", _LOCAL, "each query", "use_qf is false: need_search is yes", ("use_qf",), each=True),
    Step(
        "claim_judge",
        _LOCAL,
        "the query of each claim that is not known",
        knobs=("judge_threshold",),
        each=True,
    ),
    Step(
        _LOCAL,
        "answer",
        "the best paragraphs",
        "there are any",
        ("refs_max", "round_robin", "prompt_token_cap"),
    ),
    *(
        Step(node, "chat", "the question", "nothing is to be found, or nothing was")
        for node in (_LOCAL, "draft", "parts", "claims", "claim_judge")
    ),
    Step("chat", END, "answer"),
    Step("answer", END, "answer"),
)

_RAGX_ENTRIES = (
    (START, "source_policy asks nothing first"),
    ("closed", "answer is unsure"),
    ("route", "it is chosen"),
    ("domain", "the domain was named first"),
)

_RAGX = (
    Step(
        START, "domain", "the question", "icl_domain needs it, or kg is asked", ("icl_domain", "router_role")
    ),
    Step(START, "closed", "the question", "the policy asks the model alone first", ("source_policy",)),
    Step(
        "domain",
        "closed",
        "the question and its domain",
        "the policy asks the model alone first",
        ("icl_domain",),
    ),
    Step("closed", END, "answer", "it is not unsure"),
    Step("closed", "dynamism", "the question", "source_policy is agent", ("dynamism",)),
    Step("dynamism", "route", "pace"),
    Step(
        "closed", "route", "the question", "source_policy is agent and answer is unsure", ("source_policy",)
    ),
    Step("route", END, "the answer of closed", "it chooses llm"),
    *(
        Step(node, to, "the question", when, ("source_policy",))
        for node, when in _RAGX_ENTRIES
        for to in (_WEB, _DENSE)
    ),
    Step("closed", "domain", "the question", "kg is asked"),
    Step("route", "domain", "the question", "kg is chosen"),
    Step("closed", "entities", "the question and its domain", "kg is asked", ("icl_domain",)),
    Step("route", "entities", "the question and its domain", "kg is chosen", ("icl_domain",)),
    Step(START, "entities", "the question and the domain that came with it", "kg is asked"),
    Step("domain", "entities", "the question and its domain", "kg is asked, and the domain is not open"),
    Step("entities", _KG, "each name that stands in the question", knobs=("top_k",), each=True),
    Step(_WEB, "rank", "the pool of passages", "rerank is true", ("rerank", "pool", "broad", "dense_share")),
    Step(_DENSE, "rank", "the pool of passages", "rerank is true", ("rerank", "pool")),
    *(
        Step(node, "answer", "facts of kg, then passages of the web", knobs=("top_k", "noise_n", "noise_pos"))
        for node in (_KG, _WEB, _DENSE)
    ),
    Step("rank", "answer", "the first top_n passages", knobs=("top_n", "noise_n", "noise_pos")),
    *(Step(node, "answer", "what the other branches found, or nothing") for node in ("domain", "entities")),
    Step(START, "answer", "the question", "source_policy is llm_only", ("source_policy",)),
    Step("answer", END, "answer"),
)

ROUTED: dict[str, tuple[Step, ...]] = {
    "prefrag": _PREFRAG,
    "ragx": _RAGX,
    "rqrag": _RQRAG,
    "slimplm": _SLIMPLM,
}
