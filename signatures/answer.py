"""Answering calls: from passages or from the model's memory, with citations, refusals, notes or steps.

Short answers: `ShortAnswer` and `ClosedBookAnswer` are the reader of every baseline. `apply_format`,
`with_reasoning`, `with_question` and `with_knowledge` build the variants for the knobs `answer_format`,
`cot`, `query_pos` and `own_knowledge`.

Citations follow what ALCE's metrics want: a mark `[i]` names the i-th passage, numbered from 1. The program
drops what a reply cites beyond the passages.

Refusals: `INVALID` stands for a false premise, `UNSURE` for not knowing (RAG-X, prompts of Appendix D).
`normalize_refusal` replaces a reply that means one of them by those exact words.

Reading notes: one call writes one short note for each passage, then the answer.

Steps: `step_answer` reads the final answer of ReAct and Self-Ask where a step gives it, in a field that may
hold any text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import dspy
import pydantic
from pydantic import BeforeValidator, WithJsonSchema

from ragc.errors import UnknownName
from ragc.signatures.wording import (
    Otherwise,
    brief,
    change_texts,
    derived,
    describe,
    in_case,
    input_field,
    output_field,
)


class AnswerFormat(NamedTuple):
    """One way to word the final answer.

    `how` stands in the instructions, `what` describes the field. `rules` end the full instructions. With
    `options` the reply's schema allows nothing else. `tokens` is what a reply may take, reasoning not
    counted.
    """

    how: str
    what: str
    rules: str
    options: tuple[str, ...] = ()
    tokens: int = 100


FORMATS = {
    "short": AnswerFormat(
        "in as few words as possible",
        "a name, number or short phrase",
        "Give the answer alone, without a sentence around it or an explanation: to "
        '"Who painted the Night Watch?" answer "Rembrandt van Rijn". Give names in full, and dates and '
        "numbers as exactly as the question wants them. A question that asks whether something is so gets "
        "yes or no; one "
        "that offers a choice gets one of the things it names.",
    ),
    "list": AnswerFormat(
        "with every answer that may be right, each in few words",
        "all answers that may be right, with commas between them",
        "Give every answer that fits, each once and by its usual name, with nothing beside the names: "
        '"Jupiter, Saturn, Uranus". Where one answer may be put in two ways, give both. Do not stop at the '
        "first that comes to mind, and do not fill the list with guesses.",
        tokens=200,
    ),
    "yesno": AnswerFormat(
        "with yes or no",
        "yes or no",
        "Weigh what speaks for each before you decide. The answer is the bare word, without a reason.",
        ("yes", "no"),
        20,
    ),
    "choice": AnswerFormat(
        "with the letter of the right option",
        "the letter of one option",
        "Hold every option against the question before you choose. The answer is the bare letter.",
        ("A", "B", "C", "D", "E"),
        20,
    ),
    "long": AnswerFormat(
        "in one paragraph",
        "a paragraph",
        "Begin with the answer itself, then give the facts that explain it: causes, steps, conditions, "
        "examples. Write whole sentences for somebody who is new to the subject, without headings or lists.",
        tokens=300,
    ),
    "cited": AnswerFormat(
        "in one paragraph that covers every reading of the question, and end every sentence with the numbers "
        "of the one to three passages that support it, such as [1] or [2][3]",
        "text with marks such as [1]",
        "A question may be read in several ways: it leaves open "
        "which year, place, version or namesake is meant. Give the answer for each reading that the passages "
        "speak of, and say which reading it belongs to. Cite a passage only for what it states itself, not "
        'because it is on the subject. Example: "The first railway on the island opened in 1884 [2]. The '
        'line that is open today was built in 1991 [1][4]."',
        tokens=300,
    ),
    "cited_list": AnswerFormat(
        "with every answer that may be right, each in few words and followed by the number of the one "
        "passage that supports it, such as [1]",
        "all answers that may be right, with commas between them on one line, each with one mark such as [1]",
        "Give every answer that the passages state, each once and by its usual name, with its mark behind it "
        'and nothing else: "Jupiter [2], Saturn [2], Uranus [5]". Go through all passages, for each may hold '
        "answers that no other has. Leave out answers that no passage states.",
        tokens=300,
    ),
}
"""How the final answer may be worded, by the value of the knob `answer_format`."""

UNCITED = {"cited": "long", "cited_list": "list"}
"""The formats whose answers have marks of passages, each with the one that stands in where there are none."""


MEMORY, ALONE = "own knowledge", "what is shown alone"
"""The cases in which a call may answer from what the model knows, and in which it may not."""

_BEST_GUESS = "If they do not settle it, give the answer that they make most likely."


@brief(
    "Answer the question from what you know in as few words as possible.",
    answer="a name, number or short phrase",
)
class ClosedBookAnswer(dspy.Signature):
    """Answer the question from what you know in as few words as possible.

    There is nothing to look it up in. Make sure that the answer is of the kind that is asked for: a person
    for who, a date for when. Give the best answer that you have even where you are not certain.
    """

    question: str = dspy.InputField(desc="what to answer")
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


@brief(
    "Answer the question from the passages in as few words as possible.",
    answer="a name, number or short phrase",
    otherwise=Otherwise(
        MEMORY,
        """
    Answer the question from the passages in as few words as possible.

    Some of them may be irrelevant, or speak of something else with a similar
    name: leave those aside, and check that what you take is about the very person, thing and time that the
    question names. The answer may have to be put together from several passages.
    If they do not settle it, give the answer that they make most likely.

    Where that does not give the answer, answer from what you know.
    """,
        brief="Answer the question from the passages in as few words as possible.\n\n"
        "Where that does not give the answer, answer from what you know.",
    ),
)
class ShortAnswer(ClosedBookAnswer):
    """Answer the question from the passages in as few words as possible.

    Use only what the passages say. Some of them may be irrelevant, or speak of something else with a similar
    name: leave those aside, and check that what you take is about the very person, thing and time that the
    question names. The answer may have to be put together from several passages.
    If they do not settle it, give the answer that they make most likely.
    """

    passages: list[str] = dspy.InputField(
        desc="texts that a search brought, numbered from 1; not all of them need be of use"
    )


def one_of(options: Sequence[str]) -> Any:
    """Returns the type of a text that the reply's schema limits to `options`.

    If no schema constrains a reply, an option in other spelling (`Yes.`, `(b)`) becomes that option, and
    another text is still read.
    """

    def to_option(value: Any) -> Any:
        return (option_of(value, options) or value) if isinstance(value, str) else value

    allowed: dict[str, Any] = {"const": options[0]} if len(options) == 1 else {"enum": list(options)}
    return Annotated[str, BeforeValidator(to_option), WithJsonSchema({"type": "string", **allowed})]


def option_of(text: str, options: Sequence[str]) -> str:
    """Returns the one of `options` that `text` is, ignoring case and marks around it; "" when it is none."""
    return next((option for option in options if _bare(option) == _bare(text)), "")


def _bare(text: str) -> str:
    return text.strip(" \t\n.,;:!()[]\"'").casefold()


def limit_options(signature: Any, name: str, options: Sequence[str]) -> Any:
    """Returns `signature` with the output `name` limited to `options`."""
    return redeclare_output(signature, name, one_of(options))


def redeclare_output(signature: Any, name: str, kind: Any, desc: str = "", *, brief: str = "") -> Any:
    """Returns `signature` with the output `name` declared again in place, with both texts if given."""
    described = describe(signature, name, desc, brief=brief) if desc else signature
    position, info = list(described.output_fields).index(name), described.output_fields[name]
    plain = dspy.OutputField(desc=info.json_schema_extra["desc"])
    plain.json_schema_extra.update(info.json_schema_extra)
    return described.delete(name).insert(position, name, plain, kind)


@derived
def apply_format(signature: Any, answer_format: str, also: tuple[str, ...] = ()) -> Any:
    """Returns `signature`, which asks for a short answer, asking for one in `answer_format` instead.

    If the format has options, an output `answer` is limited to them and to `also`.
    """
    if answer_format not in FORMATS:
        raise UnknownName("answer format", answer_format, FORMATS)
    form, short = FORMATS[answer_format], FORMATS["short"]

    def change(text: str) -> str:
        text = text.replace(short.how, form.how).replace(short.what, form.what)
        return text if form is short else text.replace(" in a few words", f": {form.what}")

    changed = change_texts(signature, change, more=form.rules)
    if form.options and "answer" in changed.output_fields:
        return limit_options(changed, "answer", (*form.options, *also))
    return changed


@derived
def with_reasoning(signature: Any) -> Any:
    """Returns `signature` with a step-by-step `reasoning` before its other outputs."""
    return signature.prepend(
        "reasoning",
        output_field(
            "how the answer is reached: what must be known first, what of it stands firm and why, and what "
            "follows, a short step for each fact, as many as it takes",
            brief="short steps that lead to the answer, one for each fact that it takes",
            default="",
        ),
        str,
    )


@derived
def with_knowledge(signature: Any, own: bool) -> Any:
    """Returns `signature` with the instructions that allow, or forbid, the model's `own` knowledge.

    One of them is its docstring, the other its `otherwise` in the case `MEMORY` or `ALONE`. With `own` the
    passages come first, and the model's knowledge fills what is missing. Raises TypeError for a signature
    that declares neither.
    """
    case, first = (MEMORY, ALONE) if own else (ALONE, MEMORY)
    return in_case(signature, case, first)


@derived
def with_question(signature: Any, position: str) -> Any:
    """Returns `signature` with its `question` `before` or `after` its other inputs, or `both`.

    With `both` an input `question_again` echoes it at the end; the predictor fills it in.
    """
    field = signature.input_fields["question"]
    if position == "before":
        return signature
    if position == "after":
        return signature.delete("question").insert(len(signature.input_fields) - 1, "question", field, str)
    again = input_field("the same question once more", echo="question")
    return signature.insert(len(signature.input_fields), "question_again", again, str)


MARK = re.compile(r"(\s*)\[(\d+(?:\s*[,;]\s*\d+)*)\]")


def drop_wrong_marks(answer: str, n: int, *, single: bool = False) -> tuple[str, int]:
    """`answer` without marks of passages beyond the first `n`, and how many marks were dropped.

    A mark of several passages, `[1, 2]`, becomes one for each. With `single` only the first of several marks
    in a row stays, as an item of a list is to have one.
    """
    wrong = 0

    def filter_marks(match: re.Match[str]) -> str:
        nonlocal wrong
        numbers = [int(number) for number in re.findall(r"\d+", match[2])]
        inside = [number for number in numbers if 1 <= number <= n]
        wrong += len(numbers) - len(inside)
        return match[1] + "".join(f"[{number}]" for number in inside) if inside else ""

    marked = MARK.sub(filter_marks, answer).strip()
    if single:
        lone = re.sub(r"(\[\d+\])(?:\s*\[\d+\])+", r"\1", marked)
        wrong += marked.count("[") - lone.count("[")
        marked = lone
    return marked, wrong


INVALID = "invalid question"
UNSURE = "I don't know"

_ASKED_AT = "when the question was asked; mm/dd/yyyy, hh:mm:ss PT is Pacific Time, the month first"
_BRIEF_TIME = "when it was asked; in mm/dd/yyyy, hh:mm:ss PT the month is first"
"""The form that the times of RAG-X's questions have; other times are shown as they are given."""

_SAYS_UNSURE = re.compile(
    r"(?:sorry,? )?(?:but )?i(?:'m| am)? (?:do not|don't|can't|cannot|not|have no)(?: really)? "
    r"(?:know|sure|certain|say|tell|idea)"
    r"(?: (?:the answer|this|that|it|for sure|to this question|for certain))*",
    re.IGNORECASE,
)
_SAYS_INVALID = re.compile(
    r"(?:this|the|your|it|that)(?: question)? (?:is|seems|looks) "
    r"(?:an )?invalid(?: question)?|invalid(?: question)?|"
    r"(?:this|the) question (?:has|rests on|assumes|is based on) a (?:false|wrong) (?:premise|assumption)",
    re.IGNORECASE,
)


def _exact_refusal(value: Any) -> Any:
    """Returns `value` as it is; `INVALID` or `UNSURE` if all of it is that in other words."""
    plain = value.replace("\u2019", "'").strip(" \n\"'.!*") if isinstance(value, str) else ""
    if _SAYS_UNSURE.fullmatch(plain):
        return UNSURE
    return INVALID if _SAYS_INVALID.fullmatch(plain) else value


Refusable = Annotated[str, BeforeValidator(_exact_refusal)]
"""The type of an answer that may be a refusal, in the exact words."""


@brief(
    "Answer the question from what you know, in as few words as possible.\n\n"
    "If the question assumes something false, answer exactly: invalid question\n"
    "If you are not sure, answer exactly: I don't know",
    query_time=_BRIEF_TIME,
    answer="a name, number or short phrase",
)
class KnownAnswer(dspy.Signature):
    """Answer the question from what you know, in as few words as possible.

    If the question assumes something false, answer exactly: invalid question
    If you are not sure, answer exactly: I don't know

    A wrong answer is worse than none, so do not guess. Check first what the question takes for granted: an
    event that never took place, or a title that somebody never held, makes it invalid. "Now", "latest" and
    "this year" mean the time at which it was asked; you cannot know prices, scores and standings of a day
    that you have not read of.
    """

    question: str = dspy.InputField(desc="what to answer")
    query_time: str = dspy.InputField(desc=_ASKED_AT)
    answer: Refusable = dspy.OutputField(desc="a name, number or short phrase")


@brief(
    "Answer the question from the passages and from what you know, in as few words as possible.\n\n"
    "If the question assumes something false, answer exactly: invalid question\n"
    "If you are not sure, answer exactly: I don't know",
    query_time=_BRIEF_TIME,
    answer="a name, number or short phrase",
)
class OpenAnswer(KnownAnswer):
    """Answer the question from the passages and from what you know, in as few words as possible.

    If the question assumes something false, answer exactly: invalid question
    If you are not sure, answer exactly: I don't know

    A wrong answer is worse than none, so do not guess. Some passages may be irrelevant, out of date, or about
    something else with a similar name. For what changes with time trust the passages, those closest to the
    time of the question first; for lasting facts use what you know as well. Check what the question takes
    for granted: an event that never took place, or a title that somebody never held, makes it invalid.
    """

    query_time: str = dspy.InputField(desc=f"{_ASKED_AT}; now and latest mean then")
    passages: list[str] = dspy.InputField(
        desc="texts from web pages and facts from a database, numbered from 1; not all need be of use"
    )


@brief(
    "Answer the question from the passages alone, in as few words as possible.\n\n"
    "If the question assumes something false, answer exactly: invalid question\n"
    "If the passages do not hold the answer, answer exactly: I don't know",
    query_time=_BRIEF_TIME,
    answer="a name, number or short phrase",
)
class ReferenceAnswer(OpenAnswer):
    """Answer the question from the passages alone, in as few words as possible.

    If the question assumes something false, answer exactly: invalid question
    If the passages do not hold the answer, answer exactly: I don't know

    A wrong answer is worse than none: add nothing that you only remember. Some passages may be irrelevant,
    out of date, or about something else with a similar name; the answer may have to be put together from
    several. Where they differ, go by those closest to the time of the question. The question is invalid when
    the passages show that what it takes for granted is false, not when they are silent.
    """


def normalize_refusal(text: str) -> str:
    """`text`, or `INVALID` or `UNSURE` where it says so in other spelling; nothing said is unsure."""
    plain = text.replace("\u2019", "'").strip(" \n\"'.!").casefold().replace("do not know", "don't know")
    if not plain or UNSURE.casefold() in plain:
        return UNSURE
    return INVALID if plain.startswith(INVALID) else text


UNKNOWN = "unknown"


class Note(pydantic.BaseModel):
    """What one passage says about the question. `passage` is its number, counted from 1."""

    passage: int = pydantic.Field(ge=1, le=30)
    note: str = pydantic.Field(max_length=160)
    kind: Literal["answers", "context", "irrelevant"]


class Notes(pydantic.BaseModel):
    """The notes in the order of the passages."""

    notes: list[Note] = pydantic.Field(max_length=30)


@brief(
    "Note what each passage says about the question, then answer it in as few words as possible.",
    reading="a short note for each passage: it answers, gives only context, or is irrelevant",
    answer="a name, number or short phrase",
    otherwise=Otherwise(
        MEMORY,
        """
    Note what each passage says about the question, then answer it in as few words as possible.

    Take the passages one by one, in their order, and write down the fact in each that bears on the question,
    or that it has none. Its kind is "answers" when it states the answer, "context" when it only helps to find
    it, "irrelevant" when it is about something else, such as a namesake. Then answer from the notes: where
    passages answer, take what they say; where they give only context, work the answer out from it and from
    what you know.

    Where that does not give the answer, answer from what you know.
    """,
        brief="Note what each passage says about the question, then answer it in as few words as possible."
        "\n\nWhere that does not give the answer, answer from what you know.",
    ),
)
class ReadingNotes(dspy.Signature):
    """Note what each passage says about the question, then answer it in as few words as possible.

    Take the passages one by one, in their order, and write down the fact in each that bears on the question,
    or that it has none. Its kind is "answers" when it states the answer, "context" when it only helps to find
    it, "irrelevant" when it is about something else, such as a namesake. Then answer from the notes: where
    passages answer, take what they say; where they give only context, work the answer out from it and from
    what you know.
    """

    question: str = dspy.InputField(desc="what to answer")
    passages: list[str] = dspy.InputField(
        desc="texts that a search brought, numbered from 1; not all of them need be of use"
    )
    reading: Notes = dspy.OutputField(
        desc="for each passage its number, a note of at most a sentence, and its kind"
    )
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


@derived
def limited_to(signature: Any, most: int) -> Any:
    """Returns `signature` whose schema allows `most` notes; a reply with more is still read."""
    return signature.with_updated_fields("reading", type_=_notes(most))


@cache
def _notes(most: int) -> type[pydantic.BaseModel]:
    notes = Annotated[list[Note], pydantic.Field(max_length=30, json_schema_extra={"maxItems": most})]
    return pydantic.create_model("Notes", __doc__=Notes.__doc__, notes=notes)


@derived
def abstaining(signature: Any, *, own: bool = False) -> Any:
    """Returns `signature` with an answer that is `unknown` when nothing supports one.

    With `own` the model's knowledge may support one too.
    """
    support = "neither a passage nor what you know" if own else "no passage"
    description = f"a name, number or short phrase; {UNKNOWN} when {support} supports one"
    rule = f"If {support} supports an answer, answer with the one word {UNKNOWN}."
    careful = change_texts(signature, lambda text: text.replace(_BEST_GUESS, rule), more=rule)
    return describe(careful, "answer", description, brief=description)


NOTHING = "none"
"""What prompts write for an empty list; models repeat it where they have nothing to say."""


_NOTHING_WORDS = (NOTHING, "n/a", "na", "null", "nil", "nothing", "empty", "-", "\u2014", "not applicable")
_NO_ANSWERS = (
    *_NOTHING_WORDS,
    "unknown",
    "not known",
    "not found",
    "not available",
    "no answer",
    "undefined",
)


def blank_if_nothing(text: str) -> str:
    """Returns `text` without white space around it; "" if it is only a word for nothing."""
    return "" if _bare(text) in _NOTHING_WORDS else text.strip()


def or_nothing(value: Any) -> Any:
    """Returns `value` as it is; nothing if it is a word for nothing."""
    return "" if isinstance(value, str) and _bare(value) in _NOTHING_WORDS else value


OrNothing = Annotated[str, BeforeValidator(or_nothing)]
"""The type of a text that may be empty, where a reply may have a word for nothing."""


def step_answer(text: str, answer_format: str) -> str:
    """Returns `text` as an answer in `answer_format`; nothing when it is none, or a word for none.

    A format with options accepts one of them, ignoring case and the marks around it, in its own spelling.
    """
    options = FORMATS[answer_format].options
    if not options:
        return "" if _bare(text) in _NO_ANSWERS else text.strip()
    return option_of(text, options)


def text_tokens(answer_format: str) -> int:
    """Returns the token limit of a text that may be a query, a question or an answer in `answer_format`."""
    return max(FORMATS["short"].tokens, FORMATS[answer_format].tokens)
