"""Alignment of a question's grammatical parts with a passage, and pseudo-documents that would match them.

GGatrieval, sections 3.2 and 3.3. One alignment call covers one passage and all parts; parts are named by
number, from 1. `AlignComponent` lists the parts that the passage speaks of; `AlignSentences` shows the
passage first, in numbered sentences, and wants an entry for every part, so that a part that is absent has to
be said to be. `alignment` and `sentence_alignment` leave out the outputs that a program does not use.

`SyntacticParse` splits a question into its grammatical parts (section 3.2, equation 1). It has eight slots,
each copied from the question or empty. The program drops what is not in the question.

Differs: a question word is aligned with what answers it, of which the paper says nothing.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import dspy
from pydantic import BaseModel, Field, model_validator

from ragc.signatures.answer import OrNothing
from ragc.signatures.wording import brief, change_texts, derived, describe


class Match(BaseModel):
    """A part and the piece of the passage that means the same."""

    component: int = Field(ge=1, le=8)
    segment: str = Field(max_length=200, description="words copied from the passage, not from the question")


class CheckedMatch(Match):
    """A match with the verdict on it. One object each: a reply cut short loses its last match only."""

    same: bool = Field(description="whether the segment, read once more, does mean the same")

    @model_validator(mode="before")
    @classmethod
    def _stands(cls, value: Any) -> Any:
        """Accepts a match without a verdict as true: it was reported as one."""
        return {"same": True, **value} if isinstance(value, dict) else value


class Rewording(BaseModel):
    """A part in other words."""

    component: int = Field(ge=1, le=8)
    wording: str = Field(max_length=80)


_COPIED = "for each part that the passage speaks of, its number and the piece copied from the passage"
_CHECKED = (
    f"{_COPIED}; then, after a second look at where the piece stands, whether it does say the same of the "
    "same thing"
)
_BRIEF_COPIED = "the parts that the passage speaks of, each with its piece"
_BRIEF_CHECKED = f"{_BRIEF_COPIED}, and whether that does mean the same"


@brief(
    "Find the numbered parts of the question in the passage.\n\n"
    "For each part copy, word for word, one short unbroken piece of the passage that means the same; for a "
    "question word such as who, the piece that answers it. Leave out parts that the passage does not speak "
    "of.",
    components="parts of the question, numbered from 1",
    aligned=_BRIEF_CHECKED,
    synonyms="for every other part, the same in other words",
)
class AlignComponent(dspy.Signature):
    """Find the numbered parts of the question in the passage.

    A part is aligned when one unbroken piece of the passage means the same, in the same words or in others:
    "wrote" with "is the author of", "the UK" with "Great Britain". For a question word such as who, when or
    how many, look for the piece that answers the question. Copy each piece word for word, with its own
    spelling and forms, as short as it can be while it still says the part; never join words that stand
    apart, and never write what the passage does not say.

    Leave out a part that the passage does not speak of. A passage about another person, year or place of the
    same kind does not speak of it, however similar it looks. Most passages align with some parts or with
    none.

    Example: in the question "Who discovered Triton?" with the parts 1 "Who", 2 "discovered" and 3 "Triton",
    the passage "Neptune's largest moon, Triton, was first seen by William Lassell in 1846." aligns 1 with
    "William Lassell", 2 with "was first seen by" and 3 with "Triton".
    """

    question: str = dspy.InputField(desc="the question that the parts are taken from")
    components: list[str] = dspy.InputField(desc="the parts of the question, numbered from 1")
    passage: str = dspy.InputField(desc="the text to look in, its title first")
    aligned: Annotated[list[CheckedMatch], Field(max_length=8)] = dspy.OutputField(desc=_CHECKED)
    synonyms: Annotated[list[Rewording], Field(max_length=8)] = dspy.OutputField(
        default=[],
        desc="for every part that is not aligned, its number and the same in other words, as another text "
        "might put it",
    )


@derived
def alignment(*, reflect: bool, reword: bool) -> Any:
    """Returns AlignComponent, with verdicts on its matches if `reflect`, with `synonyms` if `reword`."""
    signature: Any = AlignComponent
    if not reflect:
        plain = Annotated[list[Match], Field(max_length=8)]
        signature = describe(signature, "aligned", _COPIED, brief=_BRIEF_COPIED, kind=plain)
    return signature if reword else signature.delete("synonyms")


class Finding(BaseModel):
    """What the passage says of a part: the number of a sentence and a piece of it; 0 and nothing for none."""

    component: int = Field(ge=1, le=8)
    sentence: int = Field(default=0, ge=0, description="0 for none")
    segment: str = Field(default="", max_length=200, description="words copied from that sentence, or empty")


class CheckedFinding(Finding):
    """A finding with the verdict on it."""

    same: bool = Field(description="whether the segment, read once more, does mean the same")


_FOUND = (
    "one entry for every part, in their order: its number, the number of the sentence that speaks of it or "
    "0, and the piece copied from that sentence"
)
_FOUND_CHECKED = (
    f"{_FOUND}; then, after a second look at where the piece stands, whether it does say the same of the "
    "same thing"
)
_BRIEF_FOUND = "for every part its sentence, or 0, and the piece of it"
_BRIEF_FOUND_CHECKED = f"{_BRIEF_FOUND}, and whether that does mean the same"


@brief(
    "Say for every numbered part of the question which sentence of the passage speaks of it.\n\n"
    "Give the number of the sentence and copy, word for word, its short piece that means the same; for a "
    "question word such as who, the piece that answers it. Give sentence 0 and no piece for a part that no "
    "sentence speaks of.",
    sentences="the passage, its sentences numbered from 1",
    components="parts of the question, numbered from 1",
    aligned=_BRIEF_FOUND_CHECKED,
    synonyms="for every part with sentence 0, the same in other words",
)
class AlignSentences(dspy.Signature):
    """Say for every numbered part of the question which sentence of the passage speaks of it, if one does.

    Read the passage, then go through the parts one by one and give an entry for each. A sentence speaks of a
    part when one unbroken piece of it means the same, in the same words or in others: "is the author of" for
    "wrote", "Great Britain" for "the UK". For a question word such as who, when or how many, look for the
    sentence that answers the question. Give its number, and copy the piece word for word, with its own
    spelling and forms, as short as it can be while it still says the part.

    Give sentence 0 and an empty segment to a part that no sentence speaks of. A passage about another person,
    year or place of the same kind does not speak of it, however similar it looks, and the part itself is no
    piece of the passage. Most passages lack some parts or all of them.
    """

    sentences: list[str] = dspy.InputField(
        desc="the sentences of the passage, its title first, numbered from 1"
    )
    question: str = dspy.InputField(desc="the question that the parts are taken from")
    components: list[str] = dspy.InputField(desc="the parts of the question, numbered from 1")
    aligned: Annotated[list[CheckedFinding], Field(max_length=8)] = dspy.OutputField(desc=_FOUND_CHECKED)
    synonyms: Annotated[list[Rewording], Field(max_length=8)] = dspy.OutputField(
        desc="for every part with sentence 0, its number and the same in other words, as another text might "
        "put it"
    )


_EXAMPLE = (
    'Example: the question "Who discovered Triton in 1846?" with the parts 1 "Who", 2 "discovered", 3 '
    '"Triton" and 4 "in 1846", and the passage 1 "Neptune has 16 known moons." 2 "The largest one, Triton, '
    'was first seen by William Lassell."\n"aligned": '
    '[{"component": 1, "sentence": 2, "segment": "William Lassell", "same": true}, '
    '{"component": 2, "sentence": 2, "segment": "was first seen by", "same": true}, '
    '{"component": 3, "sentence": 2, "segment": "Triton", "same": true}, '
    '{"component": 4, "sentence": 0, "segment": "", "same": false}]'
)


@derived
def sentence_alignment(*, reflect: bool, reword: bool) -> Any:
    """Returns AlignSentences with an example, with verdicts if `reflect`, with `synonyms` if `reword`."""
    example = _EXAMPLE if reflect else re.sub(', "same": \\w+', "", _EXAMPLE)
    signature = change_texts(AlignSentences, lambda text: f"{text}\n\n{example}", names=())
    if not reflect:
        plain = Annotated[list[Finding], Field(max_length=8)]
        signature = describe(signature, "aligned", _FOUND, brief=_BRIEF_FOUND, kind=plain)
    return signature if reword else signature.delete("synonyms")


@brief(
    "Write a short encyclopedia passage that speaks of every part of the query.",
    passage="two or three sentences",
)
class PseudoDocument(dspy.Signature):
    """Write a short encyclopedia passage that speaks of every part of the query.

    The passage is used to search for a real one that resembles it, so it must read like an article: plain
    statements in the third person, with the names and terms that such an article would use, and an answer
    to what the query asks. Where you do not know a fact, write a plausible one. Ask nothing, and do not
    mention the query.
    """

    query: str = dspy.InputField(desc="what is searched for")
    passage: str = dspy.OutputField(desc="two or three sentences")


Part = Annotated[OrNothing, Field(max_length=200)]


@brief(
    "Split the question into its grammatical parts.\n\n"
    "Copy each part word for word. Leave a part empty when the question has none.",
    subject="who or what the question is about",
    predicate="its verb",
    object="whom or what the verb acts on",
    predicative="what the subject is said to be",
    attributive="words that say which one is meant",
    adverbial="when, where or how",
    complement="what else the verb needs",
    apposition="a second name of the same thing",
)
class SyntacticParse(dspy.Signature):
    """Split the question into its grammatical parts.

    Copy every part word for word from the question; change no form and add no word. Put each piece of the
    question in the one part where it fits best. Few questions have all eight parts: leave the others empty.
    Put commas between pieces that stand apart in the question. Of a verb whose words stand apart, as in "did
    she win", leave out what is between: "did win".

    Example: for "In which year did the painter Vermeer, a Catholic convert, finish the picture that hangs in
    The Hague?" subject "the painter Vermeer", predicate "did finish", object "the picture", attributive "that
    hangs in The Hague", adverbial "In which year", apposition "a Catholic convert", the others empty.
    """

    question: str = dspy.InputField(desc="the question to split")
    subject: Part = dspy.OutputField(
        default="", desc="who or what does or is something; it may be the question word"
    )
    predicate: Part = dspy.OutputField(
        default="", desc='the main verb: "paint", "born", "is" where nothing else stands'
    )
    object: Part = dspy.OutputField(default="", desc="whom or what the verb acts on")
    predicative: Part = dspy.OutputField(
        default="", desc='what the subject is said to be, after is, was or became: "the capital of Peru"'
    )
    attributive: Part = dspy.OutputField(
        default="",
        desc='words that say which one is meant: an adjective, "of ...", or a clause with who, which or that',
    )
    adverbial: Part = dspy.OutputField(
        default="", desc='when, where, why, how or how often, question words too: "in 1990", "how far"'
    )
    complement: Part = dspy.OutputField(
        default="",
        desc='what the object is made or called, or what the verb needs beside it: "president" in "elected '
        'him president"',
    )
    apposition: Part = dspy.OutputField(default="", desc="a second name for the same thing, beside the first")
