"""Claims, queries that check them, and a small proxy model's judgement of whether to search (SlimPLM).

Claims and queries (section 3.3 and Table 8): `ClaimSplit` takes an answer apart into claims with a query
each, `ClaimKnown` judges one of them, and `QuestionSplit` writes queries from the question alone.

Proxy model (sections 3.1 and 3.2): it decides between two answers of the main model, without passages and
with them. `JudgeKnown` and `ClaimKnown` look at how an answer or a claim is put, `JudgeDraft` and
`JudgeClaim` ask how likely it is right; `judgements` chooses between them, with a yes or no or with a
confidence. `reader` gives the main model's calls (Table 9). The proxy's answer has the name
`heuristic_answer`, so that it is never taken for the answer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import dspy
from pydantic import BaseModel, Field

from ragc.signatures.answer import UNCITED, ClosedBookAnswer, ShortAnswer, apply_format
from ragc.signatures.wording import Percent, brief, change_texts, derived, output_field

MOST = 5
"""Claims of an answer, and parts of a question, at most."""


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


@brief(
    "Take the answer apart into single claims that bear on the question, and write a query to check each.\n\n"
    "Add nothing. Use full names, never pronouns. Common sense, arithmetic and small talk need no search.",
    heuristic_answer="a first answer, which may be wrong",
    claims=f"at most {MOST}, in the answer's order",
)
class ClaimSplit(dspy.Signature):
    """Take the answer apart into single claims that bear on the question, and write a query to check each.

    The answer was written from memory and may be wrong; that is why it is checked. A claim is one fact in one
    sentence that can be understood alone: it has full names, never "he", "she", "it" or "the film". Take the
    facts from the answer; add none, correct none, and leave out those that have nothing to do with what is
    asked.

    A claim needs a search unless it is common sense, arithmetic or small talk. Its query is a short question
    or a few keywords that would find a text on the matter. It names the subject in full and leaves open what
    is to be checked: for "Marie Curie was born in Krakow" it is "birthplace of Marie Curie".
    """

    question: str = dspy.InputField(desc="the question that was answered")
    heuristic_answer: str = dspy.InputField(desc="a first answer to it, written from memory")
    claims: Annotated[list[Claim], Field(max_length=MOST)] = dspy.OutputField(
        desc=f"at most {MOST}, those that matter most for the question, in the order of the answer; each "
        "with whether it needs a search, and its query"
    )


@brief(
    "Take the question apart into what must be found out to answer it, and write a search query for each.\n\n"
    "Use full names, never pronouns. Common sense, arithmetic and small talk need no search.",
    questions=f"at most {MOST}; one is often enough",
)
class QuestionSplit(dspy.Signature):
    """Take the question apart into what must be found out to answer it, and write a search query for each.

    Each part is one question that can be understood alone: it has full names, never pronouns, and repeats the
    dates and places that narrow it down. A simple question is its own only part. Where one part depends on
    the answer to another, describe what is not known yet: for "When was the director of Jaws born?" the parts
    are "Who directed Jaws?" and "When was the director of the film Jaws born?".

    A part needs a search unless it is common sense, arithmetic or small talk. Its query has the names and
    keywords that a text with the answer would use.
    """

    question: str = dspy.InputField(desc="the question to take apart; do not answer it")
    questions: Annotated[list[Part], Field(max_length=MOST)] = dspy.OutputField(
        desc=f"at most {MOST}, one is often enough; each with whether it needs a search, and its query"
    )


@brief(
    "Say whether the query can be answered without a search, judging by a claim that answers it.\n\n"
    "Judge how the claim is put, not whether it is true. A search is needed when it is vague or looks made "
    "up.",
    claim="written from memory",
    reason="what the claim is like, in a few words",
    known="yes: no search is needed; no: search",
)
class ClaimKnown(dspy.Signature):
    """Say whether the query can be answered without a search, judging by a claim made from memory.

    Do not judge whether the claim is true, and do not answer the query yourself: look at how the claim is
    put. Somebody who knows states the very fact that the query asks for, in definite names, numbers or
    dates. A search is needed when the claim is vague or hedged, when it passes over what the query asks,
    contradicts itself, or decorates the fact with details that look made up. When in doubt, search.
    """

    query: str = dspy.InputField(desc="what would be searched for")
    claim: str = dspy.InputField(desc="a statement on it, written from memory")
    reason: str = dspy.OutputField(
        default="", desc="what in the wording of the claim speaks for or against, a sentence"
    )
    known: Literal["yes", "no"] = dspy.OutputField(desc="yes if no search is needed, no if one is")


@brief(
    "Answer the question and state the facts that the answer rests on.",
    heuristic_answer="one to three full sentences",
)
class ProxyAnswer(dspy.Signature):
    """Answer the question from memory and state the facts that the answer rests on.

    Write one to three full sentences. Name persons, works, places and dates in full, so that each fact can be
    checked by itself. Answer what is asked before anything else. Where you do not know, say so plainly
    instead of filling in a name or a number.
    """

    question: str = dspy.InputField(desc="what to answer")
    heuristic_answer: str = dspy.OutputField(desc="one to three full sentences")


@brief(
    "Say whether the question can be answered without a search, judging by a first answer to it.\n\n"
    "Judge how the answer is put, not whether it is true. A search is needed when that answer is vague, "
    "evasive, contradicts itself or looks made up.",
    heuristic_answer="a first answer, from memory",
    reason="what the first answer is like, in a few words",
    known="yes: no search is needed; no: search",
)
class JudgeKnown(dspy.Signature):
    """Say whether the question can be answered without a search, judging by a first answer made from memory.

    Do not judge whether that answer is true, and do not answer the question yourself: look at how the answer
    is put. Somebody who knows answers exactly what is asked, in definite names, numbers or dates, and the
    facts fit together. A search is needed when the answer is vague or hedged, says that it does not know,
    evades the question or answers another one, leaves a part open, contradicts itself, or is decorated with
    details that look made up. When in doubt, search.
    """

    question: str = dspy.InputField(desc="what was asked")
    heuristic_answer: str = dspy.InputField(desc="a first answer to it, written from memory")
    reason: str = dspy.OutputField(
        default="", desc="what in the wording of the first answer speaks for or against, in a sentence"
    )
    known: Literal["yes", "no"] = dspy.OutputField(desc="yes if no search is needed, no if one is")


@brief(
    "Say whether a first answer to the question is likely right.\n\n"
    "Answers about what many texts tell are mostly right. Answers about little-known persons, places or "
    "works, exact numbers and dates, or with doubt in them are mostly wrong, even if they sound definite.",
    heuristic_answer="a first answer, from memory",
    reason="how well known the subject is, and any doubt, in a few words",
    known="yes: likely right; no: it may be wrong",
)
class JudgeDraft(JudgeKnown):
    """Say whether a first answer to the question, given from memory, is likely right.

    Whoever answers from memory states what is made up as firmly as what is known. So a definite name, number
    or date is no evidence. Weigh two things:

    1. How widely the subject is written about. What countless texts tell, such as capitals, famous works and
    great events, is mostly remembered right. A little-known person, place or work, one of several of the same
    name, or a detail that few texts give, is mostly remembered wrong.
    2. The doubt of the answer itself: words such as "probably" or "I believe", an admission that it does not
    know, facts that do not fit together, or an answer to another question.

    Say no when the answer may as well be wrong.
    """

    reason: str = dspy.OutputField(
        default="",
        desc="what speaks for and against the first answer, in a sentence: how widely its subject is written "
        "about, and what doubt it shows",
    )
    known: Literal["yes", "no"] = dspy.OutputField(
        desc="yes if the first answer is likely right, no if it may as well be wrong"
    )


@brief(
    "Say whether the claim, made from memory, is likely right.\n\n"
    "Claims about what many texts tell are mostly right. Claims about little-known persons, places or works, "
    "exact numbers and dates, or with doubt in them are mostly wrong, even if they sound definite.",
    claim="written from memory, on what the query asks",
    reason="how well known the subject is, and any doubt, in a few words",
    known="yes: likely right; no: it may be wrong",
)
class JudgeClaim(ClaimKnown):
    """Say whether a claim, made from memory, is likely right, so that its query need not be searched.

    Whoever writes from memory states what is made up as firmly as what is known. So a definite name, number
    or date is no evidence. Weigh two things:

    1. How widely the subject is written about. What countless texts tell is mostly remembered right. A
    little-known person, place or work, one of several of the same name, or a detail that few texts give, is
    mostly remembered wrong.
    2. The doubt of the claim itself: words such as "probably" or "about", or a statement that passes over
    what the query asks.

    Say no when the claim may as well be wrong.
    """

    reason: str = dspy.OutputField(
        default="",
        desc="what speaks for and against the claim, in a sentence: how widely its subject is written about, "
        "and what doubt it shows",
    )
    known: Literal["yes", "no"] = dspy.OutputField(
        desc="yes if the claim is likely right, no if it may as well be wrong"
    )


@brief(
    "Say whether a first answer to the question is likely right, judging by the examples.\n\n"
    "They show answers by the same model to other questions, and whether each was right.",
    heuristic_answer="a first answer, from memory",
    reason="what speaks for and against it, in a few words",
    known="yes: likely right; no: it may be wrong",
)
class JudgeLabelledDraft(JudgeDraft):
    """Say whether a first answer to the question is likely right, judging by the examples.

    Each example is an answer that the same model gave from memory to another question, with whether it was
    right: the gold answers of that question decided. They show which subjects and which details this model
    remembers, and what its wrong answers look like. Ask of the new answer whether its subject is written
    about as widely as those of the right ones, and whether it shows doubt. A definite name, number or date is
    no evidence: wrong answers have them too.

    Say no when the answer may as well be wrong.
    """


@brief(
    "Answer the question from the passages and from what you know in as few words as possible.",
    answer="a name, number or short phrase",
)
class KnowingAnswer(ShortAnswer):
    """Answer the question from the passages and from what you know in as few words as possible.

    The passages were found by a search. Some may be irrelevant, or speak of something else with a similar
    name: leave those aside. Where one clearly speaks of what is asked, trust it more than your memory; for
    what the passages leave open, use what you know.
    """


class Judgements(NamedTuple):
    """The calls that decide what is searched, before they are worded.

    `split` takes the draft apart into the claims that `claim` judges. `draft` judges the draft, as
    `labelled_draft` does where it is shown labelled ones.
    """

    draft: Any
    labelled_draft: Any
    split: Any
    claim: Any


@derived
def judgements(asks: str, by: str) -> Judgements:
    """Returns the judgements that ask for `asks`, "style" or "correctness".

    With `by` "confidence" they ask for a percentage.
    Judgements of correctness get claims with the draft's words of doubt.
    """
    if asks == "style":
        drafted, labelled, split, claimed = JudgeKnown, JudgeKnown, ClaimSplit, ClaimKnown
        of_draft = of_claim = "no search is needed"
    else:
        drafted, labelled, claimed = JudgeDraft, JudgeLabelledDraft, JudgeClaim
        split = change_texts(ClaimSplit, lambda text: f"{text}\n\n{_DOUBT}", names=())
        of_draft, of_claim = "the first answer is right", "the claim is right"
    if by != "confidence":
        return Judgements(drafted, labelled, split, claimed)
    return Judgements(
        _confident(drafted, of_draft), _confident(labelled, of_draft), split, _confident(claimed, of_claim)
    )


_DOUBT = 'Where the answer is in doubt ("probably", "I think", "about"), the claim keeps the word of doubt.'


def _confident(signature: Any, what: str) -> Any:
    """Returns `signature` with a `confidence` in percent that `what` holds, instead of `known`."""
    sure = output_field(
        f"how sure you are, in percent, that {what}; 50 where as much speaks for one as against",
        brief=f"how sure you are, in percent, that {what}",
    )
    return signature.delete("known").append("confidence", sure, Percent)


@derived
def reader(answer_format: str, own_knowledge: bool) -> tuple[Any, Any]:
    """Returns the answering calls for an answer format, without and with passages, before they are worded.

    Marks of passages mean that these support the answer. So formats with marks allow no knowledge of the
    model's own, and without passages are a plain paragraph or list.
    """
    if answer_format in UNCITED:
        return apply_format(ClosedBookAnswer, UNCITED[answer_format]), ShortAnswer
    read = KnowingAnswer if own_knowledge else ShortAnswer
    if answer_format == "long":
        careful = "Leave out what you are not sure of."
        read = change_texts(read, lambda text: f"{text}\n\n{careful}" if text else "", names=())
    return ClosedBookAnswer, read
