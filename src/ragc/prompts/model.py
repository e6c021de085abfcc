"""Data model of an export: prompts as fixed text with slots for inputs, and their metadata.

The records are plain data: a format needs nothing else, and nothing here imports an LM library.
`ragc.exports.derive` builds them from a compiled program.

`reading` describes as data how a consumer gets a prompt's outputs from a reply's text.

`source` is the block of an export from which the prompt can be imported again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ragc.core.digest import digest
from ragc.errors import UsageError
from ragc.targets.base import Role

Kind = Literal["text", "number", "integer", "flag"]
Style = Literal["plain", "lines", "json"]

ALL_CAN = ("jinja2", "openai-json")
"""The formats that can express every prompt."""


class NotExpressible(UsageError):
    """A program or prompt that cannot be written as a fixed template, or not in this format.

    The message names the obstacle and the formats that can express it, if any.
    """

    def __init__(self, what: str, why: str, formats: tuple[str, ...] = ()) -> None:
        can = f"These formats can: {', '.join(formats)}." if formats else "No format can."
        super().__init__(f"{what} cannot be exported: {why}. {can}")


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a prompt: its name, the type of one value, and whether it is a list of them.

    `about` describes it, "" without a description. Passages are a list of texts.
    """

    name: str
    kind: Kind = "text"
    many: bool = False
    about: str = ""

    def schema(self) -> dict[str, Any]:
        """Returns the JSON schema of a value."""
        names = {"text": "string", "number": "number", "integer": "integer", "flag": "boolean"}
        value: dict[str, Any] = {"type": names[self.kind]}
        schema = {"type": "array", "items": value} if self.many else value
        return {**schema, **({"description": self.about} if self.about else {})}


class Slot(NamedTuple):
    r"""The position of the input `name` in a message.

    `style` is its notation. plain: one value; a text unchanged, a number in decimal, a flag as `words`.
    lines: a list, `[1] item` per line from 1, with LF between them, and `none` when it is empty. json: a list
    as a JSON array with `, ` between the items, where only `"`, a backslash and characters below U+0020 are
    escaped (\b \f \n \r \t, else \u00xx). `words` are the texts for true and false.
    """

    name: str
    style: Style = "plain"
    words: tuple[str, str] = ("true", "false")


Part = str | Slot
"""Non-empty fixed text, or a slot."""


class TemplateMessage(NamedTuple):
    """A chat message: its role and the parts of its content, in order. No two texts are adjacent."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]

    @property
    def fixed_text(self) -> str | None:
        """The content of a message without slots, else None."""
        return None if self.slots else "".join(map(str, self.parts))

    @property
    def outline(self) -> str:
        """The content with a letter in place of each input."""
        return "".join("x" if isinstance(part, Slot) else part for part in self.parts)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots in order; an input may have several."""
        return tuple(part for part in self.parts if isinstance(part, Slot))


@dataclass(frozen=True, slots=True)
class CompiledPrompt:
    """One typed call of a compiled program: everything it sends, except the values of its inputs.

    `name` is the predictor's, `role` that of its target. All messages but the last are fixed (instructions,
    then demonstrations); the last is the user's and holds every slot. `outputs` are the descriptions of the
    output fields by name, `output_schema` is the strict JSON schema of a reply; with `enforced` it is sent,
    and the reply is JSON. `layout` names the notation of replies, see `reading`. `parameters` are the body of
    a chat request of OpenAI's API without model and messages; its `max_tokens` include `reasoning_tokens`.
    `demonstrations` are the values of those in the messages, by field. `fingerprint` is a digest of
    everything that affects the prompt, `laid_out` one of its layout without its texts, "" if unknown. `model`
    is the id of the model that answers, without a path or address, or the word `model`; `openai_model` is the
    same as a request to OpenAI's API names it.
    """

    name: str
    role: Role
    instructions: str
    messages: tuple[TemplateMessage, ...]
    inputs: tuple[Input, ...]
    outputs: Mapping[str, str]
    output_schema: Mapping[str, Any]
    layout: str
    enforced: bool
    parameters: Mapping[str, Any]
    fingerprint: str
    demonstrations: tuple[Mapping[str, Any], ...] = ()
    reasoning_tokens: int = 0
    laid_out: str = ""
    model: str = "model"
    openai_model: str = "model"

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of the inputs by name: all are required, no others are allowed."""
        return {
            "type": "object",
            "properties": {input.name: input.schema() for input in self.inputs},
            "required": [input.name for input in self.inputs],
            "additionalProperties": False,
        }

    @property
    def sampling(self) -> dict[str, Any]:
        """The parameters without the schema of the reply."""
        return {name: value for name, value in self.parameters.items() if name != "response_format"}

    @property
    def demos(self) -> int:
        """The number of demonstrations in the messages."""
        return sum(message.role == "assistant" for message in self.messages)

    def input(self, name: str) -> Input:
        """Returns the input called `name`; raises KeyError."""
        return {input.name: input for input in self.inputs}[name]

    def style_of(self, name: str) -> Style:
        """Returns the style in which the input `name` is written; `plain` if no message contains it."""
        styles: dict[str, Style] = {slot.name: slot.style for slot in self.messages[-1].slots}
        return styles.get(name, "plain")

    def placeholders(self) -> dict[str, Any]:
        """Returns a made-up value of the right type for each input."""
        values = {"text": "...", "integer": 1, "number": 1.0, "flag": True}
        return {
            input.name: [values[input.kind]] if input.many else values[input.kind] for input in self.inputs
        }


@dataclass(frozen=True, slots=True)
class Case:
    """The input of the prompt called `prompt` for a dev or train question, with its gold answers.

    For formats with test cases or a batch. `inputs` are the values by name.
    """

    id: str
    prompt: str
    inputs: Mapping[str, Any]
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportedProgram:
    """A compiled program for export: its prompts and what they are of.

    `single` says that it is a single call: one prompt, called once per question. `note` gives the origin and
    licence of demonstrations, "" without any. `cases` and `example` (one traced question, JSON values) are
    optional; `metric` is the id of the metric that the program was compiled for, "" when unknown.
    """

    method: str
    about: str
    fingerprint: str
    knobs: Mapping[str, Any]
    prompts: tuple[CompiledPrompt, ...]
    single: bool
    learned: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    metric: str = ""
    cases: tuple[Case, ...] = ()
    example: Mapping[str, Any] | None = None

    def __iter__(self) -> Iterator[CompiledPrompt]:
        return iter(self.prompts)

    def prompt(self, name: str) -> CompiledPrompt:
        """Returns the prompt called `name`; raises KeyError."""
        return {prompt.name: prompt for prompt in self.prompts}[name]

    @property
    def flow_note(self) -> str:
        """Returns what no export holds, and where it stands."""
        code = self.method if ":" in self.method else f"the program {self.method}"
        return f"What happens between the calls is the code of {code}, which no export holds."


AGAIN = (
    "That reply could not be read: {error} "
    "Reply again with only a JSON object that has exactly these fields: {fields}."
)
"""The single repair message after an unreadable reply; `fields` are the names in double quotes."""

INPUTS = (
    "Inputs are inserted as they are. The compiled program first puts a space into what a chat template or a "
    "reader of replies would take for a command, such as <|im_start|> or [[ ## answer ## ]], and into a "
    "line's beginning that reads as the number of a list's next item."
)
"""What an export cannot do with the texts of others, for its readers."""

_HOW = {
    "json": "The reply is a JSON object that fits the schema; prose around it is cut off first.",
    "markers": (
        "A line that begins with a field's marker begins its value, on the same line or after it, up to the "
        "next marker; the value loses white space at its ends. A value that is not a text is JSON."
    ),
    "tags": (
        "Each field's value stands between its tags, white space at its ends lost and XML entities read. "
        "Nested values are nested tags, list items <item>. A value that is not a text is JSON."
    ),
}
_MARKERS = {"json": "", "markers": "[[ ## {} ## ]]", "tags": "<{}>"}


def style(prompt: CompiledPrompt) -> str:
    """Returns the notation of the reply: `json`, `markers` or `tags`."""
    return {"chat": "markers", "xml": "tags"}.get(prompt.layout, "json")


def reading(prompt: CompiledPrompt) -> dict[str, Any]:
    """Returns how to parse a reply of `prompt`, and what to send when that fails, as JSON values."""
    kind = style(prompt)
    fields: dict[str, dict[str, str]] = {}
    for name, about in prompt.outputs.items():
        texts = {"marker": _MARKERS[kind].format(name), "about": about}
        fields[name] = {key: text for key, text in texts.items() if text}
    repair = {
        "append": ["assistant: the reply", "user: the text below"],
        "text": AGAIN,
        "fields": ", ".join(f'"{name}"' for name in prompt.outputs),
    }
    return {"style": kind, "how": _HOW[kind], "fields": fields, "repair": repair}


SOURCE = "source"
_REMARKS = frozenset({"about", "note", SOURCE})


def with_source(prompt: CompiledPrompt, document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `document` of an export with the block `source`, from which `[prompts]` takes the prompt.

    A digest of the rest of the document shows whether that was edited.
    """
    block = {
        "instructions": prompt.instructions,
        "fields": {input.name: input.about for input in prompt.inputs} | dict(prompt.outputs),
        "demonstrations": [dict(demo) for demo in prompt.demonstrations],
        **({"laid_out": prompt.laid_out} if prompt.laid_out else {}),
        "digest": digest_without_source(document),
    }
    return {**document, SOURCE: block}


def digest_without_source(document: Mapping[str, Any]) -> str:
    """Returns the digest of all in the `document` of an export that is made from its source, without
    remarks. Raises ValueError and RecursionError for what no export holds.
    """
    return digest({name: value for name, value in document.items() if name not in _REMARKS})
