"""Calls that write an answer sentence by sentence and say how sure each sentence is."""

from __future__ import annotations

import re
from typing import Annotated, Any

import dspy
import pydantic
from pydantic import BeforeValidator

from ragc.signatures.answer import ALONE, or_nothing
from ragc.signatures.wording import Otherwise, Percent, brief


class UncertainSpan(pydantic.BaseModel):
    """Words of a sentence and how sure they are, in percent."""

    span: str = pydantic.Field(max_length=80)
    confidence: Percent


class Doubts(pydantic.BaseModel):
    """The doubtful parts of a sentence."""

    spans: list[UncertainSpan] = pydantic.Field(max_length=4)


_COMPLETE = re.compile(
    r"\W*(?:the |my |this )?(?:answer|draft|text|response)(?: above| so far)? "
    r"(?:is|seems|looks) (?:now |already )?"
    r"(?:complete|finished|done)\W*|\W*(?:complete|completed|done|finished|end|stop|"
    r"no (?:further|more|new) sentences?"
    r"(?: (?:is|are) needed)?|nothing (?:more )?to add)\W*",
    re.IGNORECASE,
)


def _unless_complete(value: Any) -> Any:
    """Returns the next sentence; "" if it only says that none is needed."""
    if not isinstance(value, str):
        return value
    return "" if _COMPLETE.fullmatch(value) else or_nothing(value)


@brief(
    "Write the next sentence of an answer to the question, from the passages where there are any.",
    so_far="the answer up to here",
    sentence='one new sentence; "" when the answer is complete',
    otherwise=Otherwise(
        ALONE,
        """
    Write the next sentence of an answer to the question, from the passages alone.

    Go on from the answer so far and repeat nothing of it; the first sentence says what is asked for most
    directly. Take every fact from those passages that speak of the matter and leave the others aside; never
    add one from memory. Be definite, with the names, numbers and dates that the passages give. Where no
    passage is given, write what the question itself tells of the matter. An answer is complete as soon as the
    question is answered, or when the passages have nothing more to say to it.
    """,
        brief="Write the next sentence of an answer to the question, with facts from the passages alone; "
        "without "
        "passages, say what the question itself tells.",
    ),
)
class DraftSentence(dspy.Signature):
    """Write the next sentence of an answer to the question.

    Go on from the answer so far and repeat nothing of it; the first sentence says what is asked for most
    directly. Where passages are given, take the facts from those that speak of the matter and leave the
    others aside; where there are none, write what you know. Be definite, with names, numbers and dates:
    what is doubtful will be looked up. An answer is complete as soon as the question is answered.
    """

    question: str = dspy.InputField(desc="what the sentences are to answer")
    passages: list[str] = dspy.InputField(desc="texts that a search brought, numbered from 1, or none at all")
    so_far: str = dspy.InputField(desc="the sentences written up to here, empty at the beginning")
    sentence: Annotated[str, BeforeValidator(_unless_complete)] = dspy.OutputField(
        default="", desc='one new sentence; "" when the answer is complete'
    )


@brief(
    "Find the names, numbers and dates in the sentence that may be wrong.",
    sentence="written from memory",
    doubts="words copied from the sentence, each with how sure you are of it; an empty list if all is sure",
)
class UncertainSpans(dspy.Signature):
    """Find the names, numbers and dates in the sentence that may be wrong.

    Take each fact in the sentence in turn and ask yourself how often a fact that you feel like this about
    turns out right. List those below about 80 percent: only the words of the fact itself, copied letter for
    letter, "1912" and not "in 1912 he left". What the question itself says is not in doubt. A sentence that
    is sure throughout has no doubts.
    """

    question: str = dspy.InputField(desc="what the sentence helps to answer")
    sentence: str = dspy.InputField(desc="a sentence written from memory")
    doubts: Doubts = dspy.OutputField(
        desc="the doubtful words, each with how sure you are of it in percent; empty if all is sure"
    )


@brief(
    "Ask the question that the doubtful words of the sentence would answer.",
    question="what the sentence helps to answer",
    doubtful="words of the sentence that may be wrong",
    query="one question of one line that does not use the doubtful words",
)
class AskAboutSpan(dspy.Signature):
    """Ask the question that the doubtful words of the sentence would answer.

    The question goes into a search engine as it is. It must be understood alone, so put full names in the
    place of pronouns, and it must not hold the doubtful words, which may be wrong. Example: for "Kepler was
    born in Graz in 1571." with the doubtful word "Graz", ask "In which town was Johannes Kepler born?"
    """

    question: str = dspy.InputField(desc="what the sentence helps to answer")
    sentence: str = dspy.InputField(desc="a sentence of a draft")
    doubtful: str = dspy.InputField(desc="the words of it that may be wrong")
    query: str = dspy.OutputField(desc="one question of one line, without the doubtful words")


@brief(
    "Give the answer that the draft comes to, in as few words as possible.",
    answer="a name, number or short phrase",
)
class Conclude(dspy.Signature):
    """Give the answer that the draft comes to, in as few words as possible.

    The draft answers the question in sentences whose facts were looked up. Take the answer from it, also
    where you remember it otherwise. If it never says it outright, give the answer that it makes most likely.
    """

    question: str = dspy.InputField(desc="what to answer")
    draft: str = dspy.InputField(desc="an answer in sentences")
    answer: str = dspy.OutputField(desc="a name, number or short phrase")
