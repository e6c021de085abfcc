"""Step-by-step calls: ReAct, Self-Ask and a graded search agent, and the answer when no step is left.

`ReactStep` and `ReactConcatStep` are the thought and action of ReAct with one tool for each source and with
one tool for both (PrefRAG, section 5.3). `SelfAskStep` and `IntermediateAnswer` are Self-Ask's two calls
(SlimPLM, Table 10). `AnswerFromSteps` answers when the steps gave no answer. An intermediate answer has a
field name of its own: it must never be taken for the answer to the question.

`AgentStep` plans and acts, `Reflect` grades the agent's own answer, `ForcedAnswer` answers when no step is
left. `agent_step` builds the variants that a program's tools ask for. A step is a search or a finish, and has
the fields of one of them; the grade is behind its explanation, so that it follows from it.

Names that a reply must choose from stand in the schema of the reply. A reply with another name is still read,
so that the program decides what an unknown one means. `read_move` reads what a step means: where no schema
holds a reply, empty fields may be there or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import dspy
import pydantic
from pydantic import BeforeValidator

from ragc.signatures.answer import FORMATS, one_of, redeclare_output


class ReactStep(dspy.Signature):
    """Work towards the answer step by step: search for what the steps so far have not shown, or finish."""

    question: str = dspy.InputField()
    steps: list[str] = dspy.InputField()
    thought: str = dspy.OutputField(desc="one sentence: what is known and what is missing")
    action: Literal["local", "web", "finish"] = dspy.OutputField(
        desc="local searches a fixed collection of documents, web searches the web, finish answers"
    )
    action_input: str = dspy.OutputField(desc="what to search for; to finish, the answer in a few words")


class ReactConcatStep(dspy.Signature):
    """Work towards the answer step by step: search for what the steps so far have not shown, or finish."""

    question: str = dspy.InputField()
    steps: list[str] = dspy.InputField()
    thought: str = dspy.OutputField(desc="one sentence: what is known and what is missing")
    action: Literal["search", "finish"] = dspy.OutputField(
        desc="search looks in a fixed collection of documents and on the web, finish answers"
    )
    action_input: str = dspy.OutputField(desc="what to search for; to finish, the answer in a few words")


class SelfAskStep(dspy.Signature):
    """Ask the one follow-up question that is still needed to answer the question, or answer it."""

    question: str = dspy.InputField()
    steps: list[str] = dspy.InputField(desc="follow-up questions so far with their answers")
    kind: Literal["follow_up", "answer"] = dspy.OutputField()
    text: str = dspy.OutputField(desc="the follow-up question, or the answer in a few words")


class IntermediateAnswer(dspy.Signature):
    """Answer the question in one brief sentence that says nothing beyond the passages."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    intermediate_answer: str = dspy.OutputField(desc="one brief sentence")


class AnswerFromSteps(dspy.Signature):
    """Answer the question now, in as few words as possible, from what the steps have shown."""

    question: str = dspy.InputField()
    steps: list[str] = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


GRADES = ("CORRECT", "PARTIALLY CORRECT", "INCORRECT")
FINISH = "finish"
Grade: Any = one_of(GRADES)
_NOTHING = ("", "none", "null", "n/a")


def _text(value: Any) -> str:
    """`value` of a reply as a text; nothing for null and for words that say so."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(filter(None, map(_text, value)))
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    return "" if text.casefold() in _NOTHING else text


class Move(NamedTuple):
    """A step as it was meant; what a step leaves out is empty."""

    thought: str = ""
    action: str = ""
    action_input: str = ""
    answer: str = ""
    explanation: str = ""
    grade: str = ""
    improvement: str = ""

    @classmethod
    def of(cls, values: Mapping[str, Any], thought: str = "") -> Move:
        """The move that `values`, of a reply, are: an answer may be in the input of a finish."""
        names = cls._fields[1:]
        texts = {name: _text(values.get(name)) for name in names}
        texts["action"] = texts["action"].casefold()
        if texts["action"] == FINISH and not texts["answer"]:
            texts |= {"answer": texts["action_input"], "action_input": ""}
        return cls(_text(thought), **texts)


def read_move(reply: Any) -> Move:
    """The move of a `reply` to `AgentStep`, or to one of its earlier form, whose outputs are all flat."""
    step = getattr(reply, "step", None)
    return Move.of(dict(reply.items()) if step is None else step.model_dump(), reply.thought)


_FINISH = ("action", "answer", "explanation", "grade", "improvement")


def _to_step(tools: Sequence[str]) -> Any:
    """What makes a search or a finish of what a reply gives for a step, whatever else stands there.

    A search that can be made comes before an answer; an answer before a search that cannot.
    """

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping) or not {"action", "action_input", "answer"} & value.keys():
            return value
        move = Move.of(value)
        search = {"action": move.action, "action_input": move.action_input}
        if move.action in tools and move.action_input:
            return search
        if not move.answer and move.action not in ("", FINISH):
            return search
        finish = move._asdict()
        return {name: finish[name] for name in _FINISH} | {"action": FINISH}

    return BeforeValidator(read)


@cache
def _step(tools: tuple[str, ...], graded: bool, answer_format: str) -> Any:
    """The type of a step that searches with one of `tools`, or finishes with an answer in a format."""
    options = FORMATS[answer_format].options
    search = pydantic.create_model("Search", action=(one_of(tools), ...), action_input=(str, ...))
    fields: dict[str, Any] = {
        "action": (Literal["finish"], ...),
        "answer": (one_of(options) if options else str, ...),
    }
    if graded:
        fields |= {"explanation": (str, ""), "grade": (Grade, ""), "improvement": (str, "")}
    finish = pydantic.create_model("Finish", **fields)
    return Annotated[search | finish, _to_step(tools)]


_SEARCHING = "to search, a tool and a short query for one fact, unlike those before"
_FINISHING = f"{_SEARCHING}; to finish, the final answer, a name, number or short phrase"
_GRADING = (
    f"{_FINISHING}, why the results show it or not, in a sentence, its grade by the results (CORRECT if they "
    "show it, PARTIALLY CORRECT if in part, INCORRECT if not), and what should be found to better it, in a "
    "sentence, empty if nothing"
)


class AgentStep(dspy.Signature):
    """Take the next step towards answering the question: search for one fact that no result shows yet, or
    finish when the results in the trajectory show the answer. Answer from the results, not from memory;
    without any, search. Take at most max_step steps.
    """

    tools: list[str] = dspy.InputField()
    max_step: int = dspy.InputField()
    question: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    thought: str = dspy.OutputField(desc="what the results show and what is missing, in one or two sentences")
    step: _step(("search",), True, "short") = dspy.OutputField(desc=_GRADING)  # type: ignore[valid-type]


class Reflect(dspy.Signature):
    """Grade the answer to the question by the results in the trajectory."""

    question: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    answer: str = dspy.InputField()
    explanation: str = dspy.OutputField(
        desc="what of it the results show, and what they do not, in a sentence"
    )
    grade: Grade = dspy.OutputField(
        desc="CORRECT if the results show it, PARTIALLY CORRECT if in part, INCORRECT if not"
    )
    improvement: str = dspy.OutputField(
        desc="what should be found to better the answer, in a sentence; empty if nothing"
    )


class ForcedAnswer(dspy.Signature):
    """Answer the question from the trajectory in as few words as possible."""

    question: str = dspy.InputField()
    trajectory: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase; your best guess if not found")


def agent_step(actions: Sequence[str], *, graded: bool, answer_format: str = "short") -> Any:
    """AgentStep that may take `actions` or finish with an answer in a format, and its grade if `graded`."""
    kind = _step(tuple(actions), graded, answer_format)
    return redeclare_output(AgentStep, "step", kind, _GRADING if graded else _FINISHING)
