"""Step-by-step calls: ReAct, Self-Ask and a graded search agent, and the answer when no step is left.

`ReactStep` and `ReactConcatStep` are the thought and action of ReAct with one tool for each source and with
one tool for both (PrefRAG, section 5.3). `SelfAskStep` and `IntermediateAnswer` are Self-Ask's two calls
(SlimPLM, Table 10). `AnswerFromSteps` answers when the steps gave no answer. An intermediate answer has a
field name of its own: it must never be taken for the answer to the question.

`AgentStep` plans and acts, `Reflect` grades the agent's own answer, `ForcedAnswer` answers when no step is
left. `agent_step` builds the variants that a program's tools ask for. A step is a search or a finish, and has
the fields of one of them; the grade is behind its explanation, so that it follows from it.

Names that a reply must choose from stand in the schema of the reply. Where no schema is enforced, a step with
another name is still read, so that the program decides what an unknown one means.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import dspy
import pydantic

from ragc.signatures.answer import FORMATS, MEMORY, OrNothing, one_of, redeclare_output
from ragc.signatures.wording import Otherwise, Trajectory, brief, change_texts, derived


@brief(
    "Work towards the answer step by step: search for what the steps so far have not shown, or finish.",
    trajectory="taken so far, with what they found",
    thought="one sentence: what is known and what is missing",
    action="local searches a fixed collection of documents, web searches the web, finish answers",
    action_input="what to search for; to finish, the answer in a few words",
    otherwise=Otherwise(
        MEMORY,
        """
    Work towards the answer step by step: search for what the steps so far have not shown, or finish.

    Think first: which fact does the question need next, and do the results so far show it? Search for one
    fact at a time, in a query that can be understood alone, with the names that earlier results gave. Do not
    repeat a search; where one brought nothing of use, try other words or the other tool. Finish as soon as
    the results show the answer, and take it from them; what searches do not find, take from what you know.
    """,
        brief="Work towards the answer step by step: search for what the steps so far have not shown, or "
        "finish."
        "\n\nWhat searches do not find, take from what you know.",
    ),
)
class ReactStep(dspy.Signature):
    """Work towards the answer step by step: search for what the steps so far have not shown, or finish.

    Think first: which fact does the question need next, and do the results so far show it? Search for one
    fact at a time, in a query that can be understood alone, with the names that earlier results gave. Do not
    repeat a search; where one brought nothing of use, try other words or the other tool. Finish as soon as
    the results show the answer, and take it from them rather than from memory.
    """

    question: str = dspy.InputField(desc="what is to be answered in the end")
    trajectory: Trajectory = dspy.InputField(
        desc="the steps taken so far, each with what it found; none at first"
    )
    thought: str = dspy.OutputField(
        default="", desc="what is known and what is missing, in a sentence or two"
    )
    action: Literal["local", "web", "finish"] = dspy.OutputField(
        desc="local searches a fixed collection of documents, web searches the web, finish answers"
    )
    action_input: str = dspy.OutputField(desc="what to search for; to finish, the answer in a few words")


@brief(
    "Work towards the answer step by step: search for what the steps so far have not shown, or finish.",
    trajectory="taken so far, with what they found",
    thought="one sentence: what is known and what is missing",
    action="search looks in a fixed collection of documents and on the web, finish answers",
    action_input="what to search for; to finish, the answer in a few words",
    otherwise=Otherwise(
        MEMORY,
        """
    Work towards the answer step by step: search for what the steps so far have not shown, or finish.

    Think first: which fact does the question need next, and do the results so far show it? Search for one
    fact at a time, in a query that can be understood alone, with the names that earlier results gave. Do not
    repeat a search; where one brought nothing of use, try other words. Finish as soon as the results show the
    answer, and take it from them; what searches do not find, take from what you know.
    """,
        brief="Work towards the answer step by step: search for what the steps so far have not shown, or "
        "finish."
        "\n\nWhat searches do not find, take from what you know.",
    ),
)
class ReactConcatStep(ReactStep):
    """Work towards the answer step by step: search for what the steps so far have not shown, or finish.

    Think first: which fact does the question need next, and do the results so far show it? Search for one
    fact at a time, in a query that can be understood alone, with the names that earlier results gave. Do not
    repeat a search; where one brought nothing of use, try other words. Finish as soon as the results show the
    answer, and take it from them rather than from memory.
    """

    action: Literal["search", "finish"] = dspy.OutputField(  # type: ignore[assignment]
        desc="search looks in a fixed collection of documents and on the web, finish answers"
    )


@brief(
    "Ask the one follow-up question that is still needed to answer the question, or answer it.\n\n"
    "Answer when the steps show the answer, not from memory; while they do not, ask.",
    trajectory="follow-up questions so far with their answers",
    kind="follow_up to ask, answer to answer",
    text="the follow-up question, with names for pronouns, or the answer in a few words",
    otherwise=Otherwise(
        MEMORY,
        """
    Ask the one follow-up question that is still needed to answer the question, or answer it.

    A follow-up asks for one fact, the first that is not known yet, and is looked up by somebody who sees
    nothing else: it must be understood alone, with full names, the ones that earlier answers gave, and never
    "he", "it" or "that film". Do not ask again what was asked; where the answer to it was that nothing is
    known, take the fact from what you know. When the answers so far suffice, with what you know for certain,
    answer the question itself, not the last follow-up. Trust the answers more than your memory.

    Example: for "Who was born first, the author of Emma or the author of Faust?" ask "Who wrote the novel
    Emma?", then "When was Jane Austen born?", and so on, until both dates are known.
    """,
        brief="Ask the one follow-up question that is still needed to answer the question, or answer it.\n\n"
        "Answer from the steps, and from what you know where they do not help; while a fact is missing, ask.",
    ),
)
class SelfAskStep(dspy.Signature):
    """Ask the one follow-up question that is still needed to answer the question, or answer it.

    A follow-up asks for one fact, the first that is not known yet, and is looked up by somebody who sees
    nothing else: it must be understood alone, with full names, the ones that earlier answers gave, and never
    "he", "it" or "that film". Do not ask again what was asked; where the answer to it was that nothing is
    known, ask in another way. When the answers so far suffice, answer the question itself, not the last
    follow-up. Do not answer from memory: while a fact is missing, ask for it.

    Example: for "Who was born first, the author of Emma or the author of Faust?" ask "Who wrote the novel
    Emma?", then "When was Jane Austen born?", and so on, until both dates are known.
    """

    question: str = dspy.InputField(desc="what is to be answered in the end")
    trajectory: Trajectory = dspy.InputField(
        desc="follow-up questions so far with their answers; none at first"
    )
    kind: Literal["follow_up", "answer"] = dspy.OutputField(
        desc="follow_up while a fact is missing, answer when none is"
    )
    text: str = dspy.OutputField(desc="the follow-up question, or the answer in a few words")


@brief(
    "Answer the question in one brief sentence that says nothing beyond the passages.\n\n"
    "If they do not say it, write: The passages do not say.",
    intermediate_answer="one brief sentence",
    otherwise=Otherwise(
        MEMORY,
        """
    Answer the question in one brief sentence, from the passages, or from what you know where they are silent.

    Name what the question is about in full, so that the sentence can be understood without it. Leave aside
    passages about something else with a similar name. If no passage answers the question and you do not know
    it either, write "The passages do not say", and after it the nearest fact that they do say, if there is
    one.
    """,
        brief="Answer the question in one brief sentence, from the passages, or else from what you know.\n\n"
        "If neither gives it, write: The passages do not say.",
    ),
)
class IntermediateAnswer(dspy.Signature):
    """Answer the question in one brief sentence that says nothing beyond the passages.

    Name what the question is about in full, so that the sentence can be understood without it. Leave aside
    passages about something else with a similar name. If no passage answers the question, write "The passages
    do not say", and after it the nearest fact that they do say, if there is one; never fill the gap from
    memory.
    """

    question: str = dspy.InputField(desc="a question for one fact")
    passages: list[str] = dspy.InputField(
        desc="texts that a search for it brought, numbered from 1; not all of them need be of use"
    )
    intermediate_answer: str = dspy.OutputField(desc="one brief sentence")


@brief(
    "Answer the question now, in as few words as possible, from what the steps have shown.\n\n"
    "If they have not shown it, give your best guess.",
    trajectory="taken so far, with what they found",
    answer="a name, number or short phrase",
    otherwise=Otherwise(
        MEMORY,
        """
    Answer the question now, in as few words as possible, from what the steps have shown.

    No step is left. Put together the facts that the steps have shown, and answer the question itself, not the
    last step. If they have not shown the answer, give your best guess from them and from what you know; never
    answer that it is not known.

    Where that does not give the answer, answer from what you know.
    """,
        brief="Answer the question now, in as few words as possible, from what the steps have shown.\n\n"
        "If they have not shown it, give your best guess.\n\n"
        "Where that does not give the answer, answer from what you know.",
    ),
)
class AnswerFromSteps(dspy.Signature):
    """Answer the question now, in as few words as possible, from what the steps have shown.

    No step is left. Put together the facts that the steps have shown, and answer the question itself, not the
    last step. If they have not shown the answer, give your best guess from them and from what you know; never
    answer that it is not known.
    """

    question: str = dspy.InputField(desc="what to answer")
    trajectory: Trajectory = dspy.InputField(desc="the steps taken, each with what it found")
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


GRADES = ("CORRECT", "PARTIALLY CORRECT", "INCORRECT")
FINISH = "finish"
Grade: Any = one_of(GRADES)


class Step(pydantic.BaseModel):
    """What an agent does next: a `Search`, or a `Finish` with the answer.

    Each call narrows the kinds to its own tools, to the options of its answer, and to a grade where it
    asks for one; what a reply gives is an instance of the classes here.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # DSPy compares demonstrations by their pickled bytes; these are those of the plain values.
        return dict, (self.model_dump(),)


class Search(Step):
    """A search with the tool `action` for `action_input`."""

    action: str
    action_input: OrNothing


class Finish(Step):
    """The end, with the answer."""

    action: Literal["finish"]
    answer: OrNothing


class GradedFinish(Finish):
    """The end, with the answer and its grade, behind the explanation that it follows from."""

    explanation: str
    grade: Grade
    improvement: OrNothing


@cache
def _step(tools: tuple[str, ...], graded: bool, answer_format: str) -> Any:
    """Returns the type of a step that searches with one of `tools` or finishes with a formatted answer."""
    options = FORMATS[answer_format].options
    kind = GradedFinish if graded else Finish
    answer: Any = one_of(options) if options else OrNothing
    search = pydantic.create_model("Search", __base__=Search, action=(one_of(tools), ...))
    finish = pydantic.create_model("Finish", __base__=kind, answer=(answer, ...))
    return search | finish


_STRICT = "\nThen look at the answer as a strict reader would."
"""What the full instructions say where the grade comes with the answer."""


_SEARCH = (
    "to search: action is one of the tools, action_input a short query for one fact, unlike those before"
)
_FINISH = "to finish: action is finish, answer the final answer, a name, number or short phrase"
_STEPS = {
    False: (
        (
            f"a search or a finish, with the fields of one of them alone\n{_SEARCH}\n{_FINISH}\n"
            'example, after the thought "The results name the director, not his birthplace.": {step}'
        ),
        (
            "a search or a finish\n"
            "to search: a tool and a short query for one fact, unlike those before\n"
            "to finish: the final answer, a name, number or short phrase\n"
            "example: {step}"
        ),
    ),
    True: (
        (
            f"a search or a finish, with the fields of one of them alone\n{_SEARCH}\n{_FINISH}, then\n"
            "explanation: which results show the answer and what they leave open, in a sentence\n"
            "grade: CORRECT if the results show all of it, PARTIALLY CORRECT if a part, INCORRECT if they do "
            "not or say otherwise\n"
            "improvement: which fact should still be found to make it sure, in a sentence, empty if none\n"
            'example, after the thought "The results name the director, not his birthplace.": {step}'
        ),
        (
            "a search or a finish\n"
            "to search: a tool and a short query for one fact, unlike those before\n"
            "to finish: the final answer, a name, number or short phrase, then\n"
            "explanation: why the results show it or not, in a sentence\n"
            "grade: CORRECT if they show it, PARTIALLY CORRECT if in part, INCORRECT if not\n"
            "improvement: what should be found to better it, in a sentence, empty if nothing\n"
            "example: {step}"
        ),
    ),
}
"""The full and the short description of a step, by whether it is graded."""


def _described_step(tool: str, *, graded: bool) -> list[str]:
    """Returns both descriptions of a step with an example that searches with `tool`."""
    step = f'{{"action": "{tool}", "action_input": "birthplace of Fritz Lang"}}'
    return [text.replace("{step}", step) for text in _STEPS[graded]]


_GRADING = _described_step("search", graded=True)


@brief(
    "Take the next step towards answering the question: search for one fact that no result shows yet, or "
    "finish when the results in the trajectory show the answer. Answer from the results, not from memory; "
    "without any, search.",
    tools="what may be done",
    max_step="steps planned in all",
    trajectory="the steps so far and their results",
    steps_left="steps that may follow this one",
    thought="what the results show and what is missing, in one or two sentences",
    step=_GRADING[1],
    otherwise=Otherwise(
        MEMORY,
        """
    Take the next step towards answering the question: search for one fact, or finish with the answer.

    Think first: which facts does the question need, which of them do the results in the trajectory show, and
    which is the next that is missing? While one is missing, search for it: one fact, in a short query that
    can be understood alone, with the names that earlier results gave. Do not repeat a query; where one
    brought nothing of use, ask in other words or for another way to the same fact. An empty trajectory means
    that nothing was searched yet, so search.

    Finish when the results show the answer; after the last step it is asked for in any case. Answer from the
    results where they show it, and from what you know where searches found nothing; answer the question
    itself, not the last query.
    Then look at the answer as a strict reader would.
    """,
        brief="Take the next step towards answering the question: search for one fact that no result shows "
        "yet, "
        "or finish when the results in the trajectory show the answer. Without any results, search. Answer "
        "from "
        "the results, and from what you know where searches found nothing.",
    ),
)
class AgentStep(dspy.Signature):
    """Take the next step towards answering the question: search for one fact, or finish with the answer.

    Think first: which facts does the question need, which of them do the results in the trajectory show, and
    which is the next that is missing? While one is missing, search for it: one fact, in a short query that
    can be understood alone, with the names that earlier results gave. Do not repeat a query; where one
    brought nothing of use, ask in other words or for another way to the same fact. An empty trajectory means
    that nothing was searched yet, so search.

    Finish when the results show the answer; after the last step it is asked for in any case. Answer from the
    results, not from memory, and answer the question itself, not the last query.
    Then look at the answer as a strict reader would.
    """

    tools: list[str] = dspy.InputField(desc="the tools that may be used, and what each does")
    max_step: int = dspy.InputField(desc="how many steps were planned in all")
    question: str = dspy.InputField(desc="what is to be answered in the end")
    trajectory: Trajectory = dspy.InputField(desc="the steps so far with their results; none at first")
    steps_left: int = dspy.InputField(desc="how many steps may follow this one")
    thought: str = dspy.OutputField(
        default="", desc="what the results show and what is missing, in one or two sentences"
    )
    step: _step(("search",), True, "short") = dspy.OutputField(desc=_GRADING[0])  # type: ignore[valid-type]


@brief(
    "Grade the answer to the question by the results in the trajectory.",
    trajectory="the steps and their results",
    answer="the answer to grade",
    explanation="how far the results show the answer, in a sentence",
    grade="CORRECT if the results show it, PARTIALLY CORRECT if in part, INCORRECT if not",
    improvement="what should be found to better the answer, in a sentence; empty if nothing",
)
class Reflect(dspy.Signature):
    """Grade the answer to the question by the results in the trajectory.

    Go by the results, not by what you know. Look up each fact that the question needs: which result states
    it, and is that result about the very person, thing and time that is meant? Say in a sentence which facts
    are shown and which are not, then grade. An answer to another question than the one that was asked, or one
    that no result shows, is INCORRECT even if it sounds right. Then say what should be found.
    """

    question: str = dspy.InputField(desc="what was asked")
    trajectory: Trajectory = dspy.InputField(desc="the steps taken, with their results")
    answer: str = dspy.InputField(desc="the answer to grade")
    explanation: str = dspy.OutputField(
        default="", desc="which facts the results show and which not, in a sentence"
    )
    grade: Grade = dspy.OutputField(
        desc="CORRECT if the results show all of it, PARTIALLY CORRECT if a part, INCORRECT if they do not "
        "or say otherwise"
    )
    improvement: OrNothing = dspy.OutputField(
        default="",
        desc="which fact should still be found to make the answer sure, in a sentence; empty if none",
    )


@brief(
    "Answer the question from the trajectory in as few words as possible.",
    trajectory="the steps and their results",
    answer="a name, number or short phrase; your best guess if not found",
    otherwise=Otherwise(
        MEMORY,
        """
    Answer the question from the trajectory in as few words as possible.

    No step is left. Put together the facts that the results show, leave aside results about something else
    with a similar name, and answer the question itself, not the last query. If the results do not show the
    answer, give your best guess; never answer that it is not known.

    Where that does not give the answer, answer from what you know.
    """,
        brief="Answer the question from the trajectory in as few words as possible.\n\n"
        "Where that does not give the answer, answer from what you know.",
    ),
)
class ForcedAnswer(AnswerFromSteps):
    """Answer the question from the trajectory in as few words as possible.

    No step is left. Put together the facts that the results show, leave aside results about something else
    with a similar name, and answer the question itself, not the last query. If the results do not show the
    answer, give your best guess; never answer that it is not known.
    """

    trajectory: Trajectory = dspy.InputField(desc="the steps taken, with their results")
    answer: str = dspy.OutputField(desc="a name, number or short phrase; your best guess if not found")


@derived
def agent_step(actions: tuple[str, ...], *, graded: bool, answer_format: str = "short") -> Any:
    """Returns AgentStep that may take `actions` or finish with an answer, which it grades if `graded`."""
    kind = _step(actions, graded, answer_format)
    full, short = _described_step(actions[0], graded=graded)
    signature = redeclare_output(AgentStep, "step", kind, full, brief=short)
    return signature if graded else change_texts(signature, lambda text: text.replace(_STRICT, ""), names=())
