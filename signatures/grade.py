"""Grading calls: passage relevance, answer support and utility, need for retrieval, gain from a source.

Two calls follow a bad grade: search words for the web, and a better query.

`NeedInfo` is the gate of Self-Eval: the model says whether a search is needed at all.

`CompareSources` decides whether the preferred source's passages add anything, or another source is needed.
"""

from __future__ import annotations

from typing import Any, Literal

import dspy
import pydantic

from ragc.signatures.wording import Percent, brief, output_field


class Grade(pydantic.BaseModel):
    """How relevant a passage is, in points."""

    points: int = pydantic.Field(ge=-100, le=100)


@brief(
    "Grade how much the passage helps to answer the question.",
    grade="100 it states the answer, 50 a part of what is needed, 0 unclear, -100 it is about other things",
)
class RelevanceGrade(dspy.Signature):
    """Grade how much the passage helps to answer the question.

    Look for the fact that is asked for, not for common words: a passage about a namesake, or on the same
    subject without any fact that the question needs, does not help. A passage that gives one of several facts
    that are needed helps in part. Use the whole scale, values between the named ones too.
    """

    question: str = dspy.InputField(desc="what is to be answered")
    passage: str = dspy.InputField(desc="a text that a search brought")
    grade: Grade = dspy.OutputField(
        desc="100 it states the answer, 50 a part of what is needed, 0 unclear, -100 it is about other things"
    )


@brief(
    "Decide whether the passage helps to answer the question.",
    relevant="true if it tells at least a part of what is needed; false if it is about something else",
)
class CheckRelevance(dspy.Signature):
    """Decide whether the passage helps to answer the question.

    It helps if it states the answer, or one of the facts that the answer is put together from. It does not
    help if it only shares words with the question, or is about a namesake or another time.
    """

    question: str = dspy.InputField(desc="what is to be answered")
    passage: str = dspy.InputField(desc="a text that a search brought")
    relevant: bool = dspy.OutputField(
        desc="true if it tells at least a part of what is needed, false if it is about something else"
    )


@brief(
    "Check the answer to the question against the passages.",
    support="fully if the passages state it, partially if they state a part of it, none if they do not",
)
class SupportGrade(dspy.Signature):
    """Check the answer to the question against the passages.

    Go by the passages alone, not by what you know. Everything that the answer says counts: names, numbers,
    dates, and that they belong to what the question asks. Other words for the same fact are support; a
    likely guess that no passage states is none.
    """

    question: str = dspy.InputField(desc="what was asked")
    passages: list[str] = dspy.InputField(desc="the texts to check against, numbered from 1")
    answer: str = dspy.InputField(desc="the answer to check")
    support: Literal["fully", "partially", "none"] = dspy.OutputField(
        desc="fully if the passages state all of it, partially if a part, none if nothing or the contrary"
    )


@brief(
    "Rate how well the answer serves somebody who asked the question.",
    utility="5 it answers all of the question, however briefly; 3 a part of it; 1 nothing of it",
)
class Utility(dspy.Signature):
    """Rate how well the answer serves somebody who asked the question.

    Ask whether it says what was asked for, whole and to the point. Brevity is no fault: a bare name can be a
    perfect answer. An answer that evades, refuses, or answers something else serves nobody. Whether it is
    true is not your concern here.
    """

    question: str = dspy.InputField(desc="what was asked")
    answer: str = dspy.InputField(desc="the answer to rate")
    utility: Literal[1, 2, 3, 4, 5] = dspy.OutputField(
        desc="5 it answers all of the question, 4 nearly all, 3 a part, 2 hardly any, 1 nothing of it"
    )


@brief(
    "Estimate whether facts must be looked up before the question can be answered.",
    need="0 you know the answer for sure, 100 it must be looked up",
)
class NeedRetrieval(dspy.Signature):
    """Estimate whether facts must be looked up before the question can be answered.

    Common knowledge, reasoning and arithmetic need no looking up. Facts about little-known persons, works and
    places, exact dates and numbers, and all that changes with time do, even where an answer comes to mind
    easily.
    """

    question: str = dspy.InputField(desc="what is to be answered")
    need: Percent = dspy.OutputField(
        desc="how likely it must be looked up, in percent: 0 you know the answer for sure, 100 you cannot"
    )


@brief(
    "Pick what to type into a web search that will find the answer to the question.",
    query="one to three names or keywords of the question, with commas between them",
)
class ExtractKeywords(dspy.Signature):
    """Pick what to type into a web search that will find the answer to the question.

    Take the words that tell pages with the answer from all others: names and the thing that is asked about
    them, not question words or verbs such as "is" and "did". Example: for "What is the occupation of the
    mother of Henri Poincare?" pick "Henri Poincare, mother, occupation".
    """

    question: str = dspy.InputField(desc="what is to be answered")
    query: str = dspy.OutputField(
        desc="one to three names or keywords of the question, with commas between them"
    )


@brief(
    "Reword the search query, which did not find what the question needs.",
    better_query="one line in other words, still about the whole question",
)
class RephraseQuery(dspy.Signature):
    """Reword the search query, which did not find what the question needs.

    Think what a page with the answer is called and which words it uses, and use those: other terms for the
    same thing, the full name in the place of a short one, fewer words where the query was long. The new query
    must be understood alone and still ask for the same.
    """

    question: str = dspy.InputField(desc="what is to be answered")
    query: str = dspy.InputField(desc="the query that was tried")
    better_query: str = dspy.OutputField(desc="one line in other words, still about the whole question")


@brief(
    "Decide whether you need additional information before you can answer the question.\n\n"
    "You need none when the answer is common knowledge. For names, dates, numbers and facts that few people "
    "know by heart, you do. Examples:\n"
    "How many days does a week have? false\n"
    "Who was the mayor of Gouda in 1962? true\n"
    "Which river is longer, the Vils or the Naab? true",
    need="true if you need additional information, false if you are sure of the answer without it",
)
class NeedInfo(dspy.Signature):
    """Decide whether you need additional information before you can answer the question.

    You need none when the answer is common knowledge or follows by thinking. For names, dates, numbers and
    facts that few people know by heart, and for all that changes with time, you do. That an answer comes to
    mind is not enough: would you stake something on it? Examples:
    How many days does a week have? false
    Who was the mayor of Gouda in 1962? true
    Which river is longer, the Vils or the Naab? true
    """

    question: str = dspy.InputField(desc="what is to be answered; do not answer it here")
    need: bool = dspy.OutputField(
        desc="true if you need additional information, false if you are sure of the answer without it"
    )


@brief(
    "Decide whether the new passages bring facts that help with the question and are not known yet.",
    known="passages found before, numbered",
    new="passages found now; their numbers go on from those",
    analysis="what the new passages add, or why they add nothing, in a sentence",
    status="true if they add something relevant; false if they are off the point or repeat what is known",
)
class CompareSources(dspy.Signature):
    """Decide whether the new passages bring facts that help with the question and are not known yet.

    If they do not, another source will be searched in their place. Read the new passages for facts that the
    question needs, the answer itself or a step towards it, and hold those against the known ones. Passages on
    the right subject that only repeat what is known add nothing; nor do passages about namesakes or on the
    subject in general. One new fact that the question needs is enough.
    """

    question: str = dspy.InputField(desc="what is to be answered in the end")
    known: str = dspy.InputField(desc="passages that earlier searches brought, numbered from 1")
    new: str = dspy.InputField(
        desc="passages that the last search brought, numbered on from there; one that is known already keeps "
        "its number"
    )
    analysis: str = dspy.OutputField(
        default="", desc="in a sentence or two: which fact the new passages add, or why they add none"
    )
    status: bool = dspy.OutputField(
        desc="true if they add something relevant, false if they are off the point or repeat what is known"
    )


def comparison(by: str) -> Any:
    """Returns CompareSources with its `status`, or by `confidence` with a percentage instead."""
    if by == "status":
        return CompareSources
    text = (
        "how sure you are, in percent, that they add something relevant; low if they are off the point or "
        "repeat what is known"
    )
    sure = output_field(text, brief=text)
    return CompareSources.delete("status").append("confidence", sure, Percent)
