"""Compatibility with the format `ragc.compiled/1`: field descriptions that its programs sent.

That format does not store field descriptions; they were those of the version that compiled the program. They
are recorded here unchanged, so that such a program sends the prompts it was compiled with. The layout
`minimal` did not show the descriptions of inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal

import dspy
from pydantic import BaseModel, Field

from ragc.signatures.answer import FORMATS, one_of
from ragc.signatures.wording import description

Texts = Mapping[str, str]

WORDING = "brief"
"""The wording closest to that of those programs."""

_NAME = "a name, number or short phrase"
_MARKS = "text with marks such as [1]"
_WORDED: Texts = {
    "list": "all answers that may be right, with commas between them",
    "yesno": "yes or no",
    "choice": "the letter of one option",
    "long": "a paragraph",
    "cited": _MARKS,
}
_NONE: Texts = MappingProxyType({})

_EVERYWHERE: Texts = {
    "aligned": "part number and copied piece",
    "analysis": "what the new passages add, or why they add nothing, in a sentence",
    "answer": _NAME,
    "better_query": "one line in other words, still about the whole question",
    "claims": "at most 5, in the answer's order",
    "components": "parts of the question, numbered from 1",
    "doubts": "words copied from the sentence, each with how sure you are of it; "
    "an empty list if all is sure",
    "heuristic_answer": "one to three full sentences",
    "ids": "numbers of the picked documents",
    "improvement": "what should be found to better the answer, in a sentence; empty if nothing",
    "intermediate_answer": "one brief sentence",
    "k": "how many to pick",
    "missing": "two or three sentences",
    "new_question": "one question that asks for what is missing",
    "order": "the number of every passage once, best first",
    "pace": "how fast the answer changes",
    "query_time": "when the question was asked",
    "questions": "at most 5; one is often enough",
    "reading": "a short note for each passage: it answers, gives only context, or is irrelevant",
    "reasoning": "one or two short steps that lead to the answer",
    "reflected": "numbers of the aligned parts whose piece, read once more, does mean the same",
    "relevant": "true if it tells at least a part of what is needed; false if it is about something else",
    "score": "0 (not at all) to 100 (fully)",
    "sentence": 'one new sentence; "" when the answer is complete',
    "so_far": "the answer up to here",
    "status": "true if they add something relevant; false if they are off the point or repeat what is known",
    "support": "fully if the passages state it, partially if they state a part of it, none if they do not",
    "synonyms": "for every other part, the same in other words",
    "text": "the follow-up question, or the answer in a few words",
    "utility": "5 it answers all of the question, however briefly; 3 a part of it; 1 nothing of it",
}
"""Descriptions by field, for fields described alike in all calls."""

_UNSAID = ("heuristic_answer", "sentence")
"""Outputs in `_EVERYWHERE` that are also inputs of other calls, where they had no description."""

_SEARCHES = "earlier searches and what they found"
_QUERY = {"trajectory": _SEARCHES, "query": "a search query"}
_GRADE = "CORRECT if the results show it, PARTIALLY CORRECT if in part, INCORRECT if not"
_SURE = {"confidence": "how sure you are, in percent, that no search is needed"}
_DOCUMENT = {"summary": "at most 50 words, or irrelevant"}
_PICK = {"documents": "numbered from 1"}
_OWN: Mapping[tuple[str, str], Texts] = {
    ("crag", "grade"): {
        "grade": "100 it states the answer, 50 a part of what is needed, 0 unclear, "
        "-100 it is about other things"
    },
    ("crag", "query"): {
        "query": "one to three names or keywords of the question, with commas between them",
    },
    ("flare", "ask"): {
        "question": "what the sentence helps to answer",
        "query": "one question of one line that does not use the doubtful words",
    },
    ("ggatrieval", "condense"): _DOCUMENT,
    ("ggatrieval", "imagine"): {"passage": "two or three sentences"},
    ("ggatrieval", "select"): _PICK,
    ("llatrieval", "condense"): _DOCUMENT,
    ("llatrieval", "select"): _PICK,
    ("llatrieval", "update"): {"documents": "found so far"},
    ("prefrag", "answer"): {"answer": f"{_NAME}; your best guess if not found"},
    ("prefrag", "compare"): {
        "confidence": "how sure you are, in percent, that they add something relevant; low if they are "
        "off the point or repeat what is known"
    },
    ("prefrag", "grade"): {"answer": "", "grade": _GRADE, "explanation": "why this grade, in a sentence"},
    ("prefrag", "step"): {
        "thought": "what the results show and what is missing, in one or two sentences",
        "action_input": "a short query for one fact, unlike those before; empty when you finish",
        "answer": f"the final answer: {_NAME}; empty when you search",
        "grade": "of your answer by the results: CORRECT if they show it, PARTIALLY CORRECT if in part, "
        "INCORRECT if not; none when you search",
        "explanation": "why this grade, in a sentence; empty when you search",
    },
    ("ragx", "answer"): {"domain": "what the question is about"},
    ("ragx", "closed"): {"domain": "what the question is about"},
    ("ragx", "domain"): {"domain": "open when none of the others fits"},
    ("rankgpt", "rank"): {"passages": "numbered from 1"},
    ("react", "step"): {
        "thought": "one sentence: what is known and what is missing",
        "action": "local searches a fixed collection of documents, web searches the web, finish answers",
        "action_input": "what to search for; to finish, the answer in a few words",
    },
    ("rqrag", "answer"): {
        "trajectory": "searches and what they found",
        "confidence": "how sure you are that the answer is right, 0 to 100",
    },
    ("rqrag", "choose"): {"trajectory": _SEARCHES},
    ("rqrag", "decompose"): _QUERY,
    ("rqrag", "disambiguate"): _QUERY,
    ("rqrag", "judge"): {"trajectory": "searches and what they found", "answer": ""},
    ("rqrag", "need"): {"need": "0 you know the answer for sure, 100 it must be looked up"},
    ("rqrag", "rewrite"): _QUERY,
    ("self_ask", "step"): {"steps": "follow-up questions so far with their answers"},
    ("self_eval", "gate"): {
        "need": "true if you need additional information, false if you are sure of the answer without it"
    },
    ("selfrag", "need"): {"need": "0 you know the answer for sure, 100 it must be looked up"},
    ("selfrag", "support"): {"answer": ""},
    ("selfrag", "utility"): {"answer": ""},
    ("slimplm", "claim_judge"): _SURE,
    ("slimplm", "judge"): _SURE,
}
"""Descriptions by method and predictor; they override `_EVERYWHERE`."""


def first_descriptions(
    program: Any, predictor: str, signature: Any, knobs: Mapping[str, Any], layout: str
) -> dict[str, str]:
    """The field descriptions of `predictor` in programs of that format, by field of `signature`.

    Descriptions that depend on knobs other than the answer format are taken from `signature`.
    """
    method = program.method.id
    own = dict(_OWN.get((method, predictor), _NONE))
    if (method, predictor) == ("prefrag", "step"):
        own["action"] = f"one of: {', '.join(_actions(program))}"
    if method == "react" and knobs.get("tools") == "concat":
        own["action"] = "search looks in a fixed collection of documents and on the web, finish answers"
    if method == "chain_of_note" and knobs.get("abstain"):
        own["answer"] = f"{_NAME}; unknown when no passage supports one"
    if method == "llatrieval" and knobs.get("condense_to") == "answer" and predictor == "condense":
        own["summary"] = "the answer in at most 50 words, or irrelevant"
    form = str(knobs.get("answer_format", "short"))
    if form == "cited" and "passages" not in signature.input_fields:
        form = "long"
    texts: dict[str, str] = {}
    for name, info in signature.fields.items():
        is_input = name in signature.input_fields
        if name in own:
            text = own[name]
        elif name in _EVERYWHERE and not (is_input and name in _UNSAID):
            text = _EVERYWHERE[name]
        else:
            text = "" if is_input or name not in _DYNAMIC else description(name, info)
        if is_input and layout == "minimal":
            text = ""
        if not is_input and form in _WORDED:
            text = text.replace(_NAME, _WORDED[form]).replace(" in a few words", f": {_WORDED[form]}")
        texts[name] = text
    return texts


class Match(BaseModel):
    """A part and the piece of the passage that means the same."""

    component: int = Field(ge=1, le=8)
    segment: str = Field(max_length=200)


class Rewording(BaseModel):
    """A part in other words."""

    component: int = Field(ge=1, le=8)
    wording: str = Field(max_length=80)


class Claim(BaseModel):
    """One fact that an answer states, and how it could be checked."""

    claim: str = Field("", max_length=300)
    need_search: Literal["yes", "no"] = "yes"
    query: str = Field("", max_length=200)


class Part(BaseModel):
    """One thing that a question asks, and how it could be found."""

    question: str = Field("", max_length=300)
    need_search: Literal["yes", "no"] = "yes"
    query: str = Field("", max_length=200)


_TYPES: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("ggatrieval", "align"): {
        "aligned": Annotated[list[Match], Field(max_length=8)],
        "reflected": Annotated[list[int], Field(max_length=8)],
        "synonyms": Annotated[list[Rewording], Field(max_length=8)],
    },
    ("prefrag", "step"): {
        **dict.fromkeys(("action_input", "explanation", "improvement"), str),
        "grade": one_of(("none", "CORRECT", "PARTIALLY CORRECT", "INCORRECT")),
    },
    ("slimplm", "claims"): {"claims": Annotated[list[Claim], Field(max_length=5)]},
    ("slimplm", "parts"): {"questions": Annotated[list[Part], Field(max_length=5)]},
}
"""Types of outputs by method and predictor that have changed since or are models of their own."""

_LISTS: Mapping[tuple[str, str], tuple[str, ...]] = {("prefrag", "compare"): ("known", "new")}
"""Inputs by method and predictor that were lists and are texts since."""


def _actions(program: Any) -> tuple[str, ...]:
    """The actions of a step of PrefRAG."""
    return (*program.tools, "finish")


def first_signature(
    program: Any, predictor: str, present: Any, inputs: Sequence[str], schema: Mapping[str, Any]
) -> Any:
    """The signature of a program in that format: its `inputs`, and the outputs of `schema`.

    Types that have not changed are taken from the `present` signature. Raises KeyError with the name of a
    field that no longer exists.
    """
    key = (program.method.id, predictor)
    types = dict(_TYPES.get(key, {}))
    if key == ("prefrag", "step"):
        types["action"] = one_of(_actions(program))
        options = FORMATS[program.knobs.answer_format].options
        types["answer"] = one_of((*options, "")) if options else str
    lists = _LISTS.get(key, ())
    fields: dict[str, Any] = {name: present.input_fields[name] for name in inputs}
    fields |= {name: (list[str], dspy.InputField()) for name in inputs if name in lists}
    for name in schema["required"]:
        if name in types:
            fields[name] = (types[name], dspy.OutputField())
        else:
            fields[name] = present.output_fields[name]
    return dspy.Signature(fields, present.instructions)


_DYNAMIC = ("action",)
"""Outputs whose description lists what the knobs allow and has not changed since."""
