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
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import dspy
import pydantic
from pydantic import BeforeValidator, WithJsonSchema

from ragc.errors import UnknownName


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """One way to word the final answer.

    `how` stands in the instructions, `what` describes the field. With `options` the reply's schema
    allows nothing else. `tokens` is what a reply may take, reasoning not counted.
    """

    how: str
    what: str
    options: tuple[str, ...] = ()
    tokens: int = 100


_SHORT = AnswerFormat("in as few words as possible", "a name, number or short phrase")
_FEW = "in a few words"

FORMATS = {
    "short": _SHORT,
    "list": AnswerFormat(
        "with every answer that may be right, each in few words",
        "all answers that may be right, with commas between them",
        tokens=200,
    ),
    "yesno": AnswerFormat("with yes or no", "yes or no", ("yes", "no"), 20),
    "choice": AnswerFormat(
        "with the letter of the right option", "the letter of one option", ("A", "B", "C", "D", "E"), 20
    ),
    "long": AnswerFormat("in one paragraph", "a paragraph", tokens=300),
    "cited": AnswerFormat(
        "briefly and in one paragraph, and end every sentence with the numbers of the one to three passages "
        "that support it, such as [1] or [2][3]",
        "text with marks such as [1]",
        tokens=300,
    ),
}
"""How the final answer may be worded, by the value of the knob `answer_format`."""


class ShortAnswer(dspy.Signature):
    """Answer the question from the passages in as few words as possible."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


class ClosedBookAnswer(dspy.Signature):
    """Answer the question from what you know in as few words as possible."""

    question: str = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


def one_of(options: Sequence[str]) -> Any:
    """The type of a text that the reply's schema limits to `options`.

    Where no schema holds a reply, an option in other spelling (`Yes.`, `(b)`) becomes that option, and
    another text is still read.
    """

    def to_option(value: Any) -> Any:
        return (option_of(value, options) or value) if isinstance(value, str) else value

    return Annotated[
        str, BeforeValidator(to_option), WithJsonSchema({"type": "string", "enum": list(options)})
    ]


def option_of(text: str, options: Sequence[str]) -> str:
    """The one of `options` that `text` is, whatever its case and the marks around it; "" when it is none."""
    return next((option for option in options if _bare(option) == _bare(text)), "")


def _bare(text: str) -> str:
    return text.strip(" \t\n.,;:!()[]\"'").casefold()


def limit_options(signature: Any, name: str, options: Sequence[str], desc: str = "") -> Any:
    """`signature` with the output `name` limited to `options`, and described by `desc` if given."""
    description = desc or signature.output_fields[name].json_schema_extra["desc"]
    return _redeclare_output(signature, name, one_of(options), description)


def _redeclare_output(signature: Any, name: str, kind: Any, desc: str) -> Any:
    """`signature` with the output `name` declared anew in its place."""
    position = list(signature.output_fields).index(name)
    return signature.delete(name).insert(position, name, dspy.OutputField(desc=desc), kind)


def apply_format(signature: Any, answer_format: str, also: Sequence[str] = ()) -> Any:
    """`signature`, which asks for a short answer, asking for one in `answer_format` instead.

    Where the format has options, an output `answer` is limited to them and to `also`.
    """
    if answer_format not in FORMATS:
        raise UnknownName("answer format", answer_format, FORMATS)
    if answer_format == "short":
        return signature
    wanted = FORMATS[answer_format]
    phrases = ((_SHORT.how, wanted.how), (_SHORT.what, wanted.what), (f" {_FEW}", f": {wanted.what}"))
    new_signature = signature.with_instructions(_replace_all(signature.instructions, phrases))
    for name, info in signature.output_fields.items():
        description = (info.json_schema_extra or {}).get("desc") or ""
        if (other := _replace_all(description, phrases)) != description:
            new_signature = new_signature.with_updated_fields(name, desc=other)
    if wanted.options and "answer" in new_signature.output_fields:
        return limit_options(new_signature, "answer", (*wanted.options, *also))
    return new_signature


def _replace_all(text: str, phrases: Sequence[tuple[str, str]]) -> str:
    for old, new in phrases:
        text = text.replace(old, new)
    return text


def with_reasoning(signature: Any) -> Any:
    """`signature` with a step-by-step `reasoning` before its other outputs."""
    return signature.prepend(
        "reasoning", dspy.OutputField(desc="one or two short steps that lead to the answer"), str
    )


_FROM_MEMORY = "Where that does not give the answer, answer from what you know."
_NOT_FROM_MEMORY = "Say nothing that only your memory gives."


def with_knowledge(signature: Any, own: bool) -> Any:
    """`signature`, whose text has the other rule, letting the model answer from its `own` knowledge or not.

    With `own` what is shown comes first, and what the model knows fills what is missing.
    """
    rule = _FROM_MEMORY if own else _NOT_FROM_MEMORY
    return signature.with_instructions(f"{signature.instructions}\n\n{rule}")


def with_question(signature: Any, position: str) -> Any:
    """`signature` with its `question` `before` or `after` its other inputs, or `both`.

    With `both` an input `question_again` echoes it at the end; the predictor fills it in.
    """
    field = signature.input_fields["question"]
    if position == "before":
        return signature
    if position == "after":
        return signature.delete("question").insert(len(signature.input_fields) - 1, "question", field, str)
    again = dspy.InputField()
    again.json_schema_extra["echo"] = "question"
    return signature.insert(len(signature.input_fields), "question_again", again, str)


_MARK = re.compile(r"(\s*)\[(\d+(?:\s*[,;]\s*\d+)*)\]")


def drop_wrong_marks(answer: str, n: int) -> tuple[str, int]:
    """`answer` without marks of passages beyond the first `n`, and how many such marks there were.

    A mark of several passages, `[1, 2]`, becomes one for each.
    """
    wrong = 0

    def filter_marks(match: re.Match[str]) -> str:
        nonlocal wrong
        numbers = [int(number) for number in re.findall(r"\d+", match[2])]
        inside = [number for number in numbers if 1 <= number <= n]
        wrong += len(numbers) - len(inside)
        return match[1] + "".join(f"[{number}]" for number in inside) if inside else ""

    return _MARK.sub(filter_marks, answer).strip(), wrong


INVALID = "invalid question"
UNSURE = "I don't know"


class KnownAnswer(dspy.Signature):
    """Answer the question from what you know, in as few words as possible.

    If the question assumes something false, answer exactly: invalid question
    If you are not sure, answer exactly: I don't know
    """

    question: str = dspy.InputField()
    query_time: str = dspy.InputField(desc="when the question was asked")
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


class OpenAnswer(dspy.Signature):
    """Answer the question from the passages and from what you know, in as few words as possible.

    If the question assumes something false, answer exactly: invalid question
    If you are not sure, answer exactly: I don't know
    """

    question: str = dspy.InputField()
    query_time: str = dspy.InputField(desc="when the question was asked")
    passages: list[str] = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


class ReferenceAnswer(dspy.Signature):
    """Answer the question from the passages alone, in as few words as possible.

    If the question assumes something false, answer exactly: invalid question
    If the passages do not hold the answer, answer exactly: I don't know
    """

    question: str = dspy.InputField()
    query_time: str = dspy.InputField(desc="when the question was asked")
    passages: list[str] = dspy.InputField()
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


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


class ReadingNotes(dspy.Signature):
    """Note what each passage says about the question, then answer it in as few words as possible."""

    question: str = dspy.InputField()
    passages: list[str] = dspy.InputField()
    reading: Notes = dspy.OutputField(
        desc="a short note for each passage: it answers, gives only context, or is irrelevant"
    )
    answer: str = dspy.OutputField(desc="a name, number or short phrase")


def limited_to(signature: Any, most: int) -> Any:
    """`signature` whose schema allows `most` notes; a reply with more is still read."""
    return signature.with_updated_fields("reading", type_=_notes(most))


@cache
def _notes(most: int) -> type[pydantic.BaseModel]:
    notes = Annotated[list[Note], pydantic.Field(max_length=30, json_schema_extra={"maxItems": most})]
    return pydantic.create_model("Notes", __doc__=Notes.__doc__, notes=notes)


def abstaining(signature: Any) -> Any:
    """`signature` with an answer that says `unknown` when nothing supports one."""
    return signature.with_updated_fields(
        "answer", desc=f"a name, number or short phrase; {UNKNOWN} when no passage supports one"
    )


_SHORT_TOKENS = FORMATS["short"].tokens


NOTHING = "none"
"""What prompts write for an empty list; models repeat it where they have nothing to say."""


def blank_if_nothing(text: str) -> str:
    """`text` without white space around it; empty when it only says that there is nothing."""
    return "" if _bare(text) == NOTHING else text.strip()


def step_answer(text: str, answer_format: str) -> str:
    """`text` as an answer in `answer_format`; nothing when it is none, or says that there is none.

    A format with options takes one of them, whatever its case and the marks around it, as it is written.
    """
    options = FORMATS[answer_format].options
    if not options:
        return blank_if_nothing(text)
    return option_of(text, options)


def text_tokens(answer_format: str) -> int:
    """What a text takes that is a query or question as well as an answer in `answer_format`."""
    return max(_SHORT_TOKENS, FORMATS[answer_format].tokens)
