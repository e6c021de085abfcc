"""The control flow of the methods that go on in rounds or windows, as `ragc.exports.flows` wants it."""

from __future__ import annotations

from ragc.exports.graph import END, START, Step

_LOCAL, _WEB = "search local", "search web"
_STEPS_LEFT = "fewer steps than max_step are done"

_REACT = tuple(
    Step("step", source, "action_input", f"action is {source.removeprefix('search ')} or search", (knob,))
    for source, knob in ((_LOCAL, "k_local"), (_WEB, "k_web"))
)

_FORCED = "no step gave an answer: the steps are spent, one cannot be read, or its answer is not as asked for"

_CHOOSING = (
    Step(
        "select",
        "select",
        "those chosen and the next documents",
        "documents are left",
        ("window", "k_support"),
    ),
    Step("select", "verify", "the chosen documents", "a round is left", ("verify", "verify_demo", "rounds")),
    Step("select", "answer", "the chosen documents", "all rounds are done", ("rounds", "top_up")),
    Step("verify", "answer", "the chosen documents", "sufficient is YES"),
    Step("answer", END, "answer"),
)

ROUNDS: dict[str, tuple[Step, ...]] = {
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
        *_CHOOSING,
        Step("select", "update", "the chosen documents", "verify is false, or none is chosen", ("update",)),
        Step("verify", "update", "the chosen documents", "sufficient is NO", ("update",)),
        Step("update", _LOCAL, "new_question or missing", "it is not empty", ("candidates", "rounds")),
        Step("update", "answer", "the chosen documents", "it is empty"),
    ),
    "ggatrieval": (
        Step(START, "parse", "the question"),
        Step(
            START, _LOCAL, "the question, and its sub-questions", knobs=("candidates", "asqa_sub_questions")
        ),
        Step("parse", "align", "the components that stand in the question, and each document", each=True),
        Step(_LOCAL, "align", "the components and each new document", knobs=("fga_reflect",), each=True),
        Step("parse", "condense", "each document", knobs=("doc_condense",), each=True),
        Step(_LOCAL, "condense", "each new document", knobs=("doc_condense",), each=True),
        Step("parse", "answer", "no document", "nothing was found"),
        Step(
            "align",
            "select",
            "the documents, best aligned first",
            knobs=("fga_rerank", "window", "k_support"),
        ),
        Step("condense", "select", "those that are not irrelevant", knobs=("window", "k_support")),
        Step(
            "align", "imagine", "the reworded question", "nothing is chosen anew", ("tau", "scqu"), each=True
        ),
        Step(
            "condense",
            "imagine",
            "the reworded question",
            "nothing new is relevant",
            ("tau", "scqu"),
            each=True,
        ),
        Step("align", _LOCAL, "a query for each chosen document", "nothing is chosen anew", each=True),
        Step("condense", _LOCAL, "a query for each chosen document", "nothing new is relevant", each=True),
        Step("align", "verify", "the chosen documents", "no document fits a selecting call", ("verify",)),
        Step("condense", "verify", "the chosen documents", "no document fits a selecting call", ("verify",)),
        Step("align", "answer", "the chosen documents", "all rounds are done", ("rounds", "drop_label")),
        Step("condense", "answer", "the chosen documents", "all rounds are done", ("rounds", "drop_label")),
        *_CHOOSING,
        Step(
            "select",
            "imagine",
            "the reworded question for each badly aligned document",
            "verify is false",
            ("scqu", "tau", "scqu_scope", "scqu_base"),
            each=True,
        ),
        Step(
            "verify",
            "imagine",
            "the reworded question for each badly aligned document",
            "sufficient is NO",
            ("scqu", "tau", "scqu_scope", "scqu_base"),
            each=True,
        ),
        Step(
            "select",
            _LOCAL,
            "the question with each well aligned document",
            "verify is false",
            ("tau",),
            each=True,
        ),
        Step(
            "verify",
            _LOCAL,
            "the question with each well aligned document",
            "sufficient is NO",
            ("tau",),
            each=True,
        ),
        Step(
            "imagine",
            _LOCAL,
            "the reworded question with the imagined passage",
            knobs=("candidates",),
            each=True,
        ),
        Step("imagine", "answer", "the chosen documents", "no round is left"),
        Step(_LOCAL, "answer", "the chosen documents", "nothing new was found"),
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
