"""Prompt import: turns an exported or hand-written prompt into a signature with demonstrations.

Files are only parsed: templates in them are never rendered.

`import_prompt` reads the messages of a file into an `ImportedPrompt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.errors import RagcError, UnknownName, UsageError
from ragc.prompts.demos import inputs_in, outputs_in, outputs_of
from ragc.prompts.files import PromptFile, contents, read
from ragc.prompts.model import KEY, Input, Output, Slot
from ragc.prompts.render import fits
from ragc.prompts.templates import (
    Template,
    Untranslatable,
    jinja,
    plain,
    split_at_marks,
    without_layout,
    wording,
)
from ragc.prompts.types import input_of
from ragc.targets.base import Sampling

__all__ = ["DEFAULT", "ImportedPrompt", "contents", "import_prompt"]

DEFAULT = Sampling()
"""The sampling of a file that specifies none."""

if TYPE_CHECKING:
    from ragc.programs.base import RagProgram
    from ragc.programs.calls.predict import RagPredict


@dataclass(frozen=True, slots=True)
class ImportedPrompt:
    """An imported prompt.

    `inputs` and `outputs` are its fields; those in `guessed` have a type that the file does not state.
    `demos` are values by field name. `definitions` are referenced by the schemas of outputs. `left` lists,
    one sentence each, what was not imported as it is. `exported` means that all of this comes from an
    export's `source` block. `sampling` is information only: knobs decide the sampling of a program.
    """

    path: Path
    format: str
    instructions: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    demos: tuple[Mapping[str, Any], ...] = ()
    sampling: Sampling = DEFAULT
    guessed: frozenset[str] = frozenset()
    definitions: Mapping[str, Any] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    exported: bool = False

    def signature(self) -> Any:
        """The DSPy signature of the prompt; raises UsageError for a field with an unusable name or type."""
        from ragc.prompts.types import signature_of

        return signature_of(self.instructions, self.inputs, self.outputs, self.definitions)

    def apply(self, program: RagProgram, predictor: str, *, demos: bool = True) -> None:
        """Set the instructions and demonstrations of a predictor of `program` to those of this prompt.

        Without `demos` its demonstrations are unchanged, and so are its instructions where this prompt has
        none. Raises UnknownName for an unknown predictor, and UsageError when its fields differ, or when the
        program shows fewer demonstrations than there are.
        """
        calls = dict(program.named_predictors())
        if predictor not in calls:
            raise UnknownName(f"predictor of {program.method.id!r}", predictor, calls)
        call = calls[predictor]
        what = f"{self.path} cannot be the prompt of {predictor!r} of {program.method.id}"
        self._check(what, call)
        if demos and len(self.demos) > call.max_demos:
            raise UsageError(
                f"{what}: it has {len(self.demos)} demonstrations and the program shows {call.max_demos}; "
                f"set the knob icl_n to {len(self.demos)}, or take its instructions only."
            )
        if self.exported or self.instructions:
            call.signature = call.signature.with_instructions(self.instructions)
        if demos:
            call.demos = [_wrap_items(demo, call.signature) for demo in self.demos]

    def _check(self, what: str, call: RagPredict) -> None:
        """Raise UsageError unless the fields of `call` are those of this prompt."""
        fields = call.signature.input_fields
        own = {name: info for name, info in fields.items() if not (info.json_schema_extra or {}).get("echo")}
        hidden = {"domain"} if type(call).messages is not _messages() else set()
        input_names = {one.name for one in self.inputs}
        if not (own.keys() - hidden <= input_names <= own.keys()):
            raise UsageError(f"{what}: its inputs are {_names(input_names)}, wanted are {_names(own)}.")
        for one in self.inputs:
            many = str(own[one.name].annotation).startswith(("list", "tuple"))
            if many != one.many and one.name not in self.guessed:
                raise UsageError(
                    f"{what}: its input {one.name!r} is {_many(one.many)}, wanted is {_many(many)}."
                )
        outputs = call.signature.output_fields
        output_names = {one.name for one in self.outputs}
        wrong = (
            output_names - outputs.keys() if output_names & self.guessed else output_names ^ outputs.keys()
        )
        if wrong:
            raise UsageError(f"{what}: its outputs are {_names(output_names)}, wanted are {_names(outputs)}.")


def _messages() -> Any:
    from ragc.programs.calls.predict import RagPredict

    return RagPredict.messages


def _names(names: Any) -> str:
    return ", ".join(name[:60] for name in sorted(names)[:20]) or "none"


def _many(many: bool) -> str:
    return "a list" if many else "one value"


def _wrap_items(demo: Mapping[str, Any], signature: Any) -> dict[str, Any]:
    """`demo` with a single value wrapped in a list where a list is expected."""
    values = dict(demo)
    for name, info in signature.input_fields.items():
        if isinstance(values.get(name), str) and str(info.annotation).startswith(("list", "tuple")):
            values[name] = [values[name]]
    return values


def import_prompt(path: str | Path, *, format: str | None = None) -> ImportedPrompt:
    """Import the prompt in the file at `path`, an export of `jinja2` or `openai-json` or a hand-written one.

    The file is a JSON array of messages, an object with `messages`, or a text template (`.jinja`, `.jinja2`,
    `.j2`). Pairs of user and assistant messages before the last message become demonstrations where they
    match its template. Raises UnknownName for another format, and DataError, in one sentence, for a file that
    is not a prompt or uses unsupported features.
    """
    from ragc.prompts.model import is_intact

    file = read(path, format)
    return read_source(file) if is_intact(file.document, file.raw) else read_messages(file)


_NUMBERS = {
    "temperature": float,
    "top_p": float,
    "max_tokens": int,
    "top_k": int,
    "min_p": float,
    "seed": int,
}


def read_source(file: PromptFile) -> ImportedPrompt:
    """The prompt of an export with unchanged messages, read from its `source` block."""
    source = file.document[KEY]
    try:
        return ImportedPrompt(
            path=file.path,
            format=file.format,
            instructions=str(source["instructions"]),
            inputs=_declared_inputs(file),
            outputs=_declared_outputs(file, source["outputs"]),
            demos=_declared_demos(file, source["demonstrations"]),
            sampling=_sampling(file),
            definitions=_definitions(file),
            exported=True,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise file.wrong(f"its {KEY!r} is not what an export writes: {error}.") from error


def _declared_demos(file: PromptFile, demos: Any) -> tuple[Mapping[str, Any], ...]:
    """The demonstrations of an export; raises DataError where an input of one has the wrong type."""
    known = {one.name: one for one in _declared_inputs(file)}
    for number, demo in enumerate(demos, 1):
        for name, value in dict(demo).items():
            if name in known and not fits(known[name], value):
                raise file.wrong(
                    f"its demonstration {number} has an input {name!r} that is {_type_problem(value)}."
                )
    return tuple(dict(demo) for demo in demos)


def _type_problem(value: Any) -> str:
    return f"{str(value)[:60]!r}, not of the type that its input_schema says"


def read_messages(file: PromptFile) -> ImportedPrompt:
    """The prompt, inferred from the messages themselves; raises DataError."""
    left: list[str] = []
    read = [(role, _template(file, number, text, left)) for number, (role, text) in _enumerate_messages(file)]
    system = [template for role, template in read if role == "system"]
    turns = [(role, template) for role, template in read if role != "system"]
    if not turns or turns[-1][0] != "user":
        raise file.wrong("its last message must be the user's, with the inputs as slots.")
    last = turns.pop()[1]
    if not any(isinstance(part, Slot) for part in last.parts):
        raise file.wrong("its last message has no slot such as {{ question }}, so it takes no input.")
    inputs, guessed = _inputs(file, [*system, last])
    pairs = _pairs(turns, left)
    outputs = _declared_outputs(file, {}) or outputs_of([reply for _, reply in pairs])
    if not _schema(file):
        guessed |= {one.name for one in outputs}
    names = {one.name: one for one in inputs}
    demos = []
    for user_text, reply in pairs:
        input_values, output_values = inputs_in(user_text, last.parts, names), outputs_in(reply, outputs)
        if input_values is None or output_values is None:
            left.append(f"a pair of messages that is not written as the last one: {user_text[:60]!r}")
        else:
            demos.append(input_values | output_values)
    return ImportedPrompt(
        path=file.path,
        format=file.format,
        instructions=_instructions(file, system, last, left),
        inputs=inputs,
        outputs=outputs,
        demos=tuple(demos),
        sampling=_sampling(file),
        guessed=frozenset(guessed),
        definitions=_definitions(file),
        left=tuple(left),
    )


def _enumerate_messages(file: PromptFile) -> Iterable[tuple[int, tuple[str, str]]]:
    return enumerate(file.messages, 1)


def _template(file: PromptFile, number: int, text: str, left: list[str]) -> Template:
    try:
        template = jinja(text) if file.format == "jinja2" else split_at_marks(text, _mapping(file, "slots"))
    except Untranslatable as error:
        raise file.wrong(f"message {number} cannot be imported: {error}.") from error
    left += template.left
    return template


def _instructions(file: PromptFile, system: Sequence[Template], last: Template, left: list[str]) -> str:
    """The system messages, and the text of the last message without its inputs."""
    layout = str(_mapping(file, KEY).get("layout") or "")
    text = "\n\n".join(plain(template.parts) for template in system)
    if layout:
        left.append("the messages were changed after the export, so they were read as they are")
        return without_layout(text, layout)
    if slots := sorted({slot.name for t in system for slot in t.parts if isinstance(slot, Slot)}):
        left.append(f"the place of {', '.join(slots)} in the system message: an input comes with the others")
    more = wording(last.parts)
    if more:
        left.append("the wording of the last message, which is now the end of the instructions")
    return "\n".join(part for part in (text.strip(), more) if part)


def _inputs(file: PromptFile, templates: Sequence[Template]) -> tuple[tuple[Input, ...], set[str]]:
    """The inputs, and the names of those with a guessed type: plain slots that no schema describes."""
    declared = {one.name: one for one in _declared_inputs(file)}
    slots = [part for template in templates for part in template.parts if isinstance(part, Slot)]
    guesses = {slot.name: Input(slot.name, many=slot.style != "plain") for slot in reversed(slots)}
    names = list(dict.fromkeys(slot.name for slot in slots))
    guessed = {name for name in names if name not in declared and not guesses[name].many}
    return tuple(declared.get(name, guesses[name]) for name in names), guessed


def _pairs(turns: Sequence[tuple[str, Template]], left: list[str]) -> list[tuple[str, str]]:
    """Consecutive user and assistant messages; unpaired ones, and those with slots, are added to `left`."""
    pairs: list[tuple[str, str]] = []
    waiting: str | None = None
    for role, template in turns:
        text = plain(template.parts)
        slotted = any(isinstance(part, Slot) for part in template.parts)
        if role == "assistant" and waiting is not None and not slotted:
            pairs.append((waiting, text))
            waiting = None
            continue
        if waiting is not None or role == "assistant" or slotted:
            left.append(f"a message of a turn that is no demonstration: {(waiting or text)[:60]!r}")
        waiting = text if role == "user" and not slotted else None
    if waiting is not None:
        left.append(f"a message of a turn that is no demonstration: {waiting[:60]!r}")
    return pairs


def _mapping(file: PromptFile, key: str) -> Mapping[str, Any]:
    value = file.document.get(key)
    return value if isinstance(value, dict) else {}


def _declared_inputs(file: PromptFile) -> tuple[Input, ...]:
    try:
        schemas = _mapping(file, "input_schema").get("properties") or {}
        return tuple(input_of(name, schema) for name, schema in schemas.items())
    except (RagcError, AttributeError) as error:
        raise file.wrong(f"its input_schema cannot be read: {error}") from error


def _schema(file: PromptFile) -> Mapping[str, Any]:
    """The JSON schema of a reply, from the export's metadata or the request's format; raises DataError."""
    schema = _mapping(file, "output_schema")
    if not schema:
        try:
            request_schema = (file.document.get("request") or {})["response_format"]["json_schema"]["schema"]
        except (KeyError, TypeError):
            return {}
        schema = request_schema if isinstance(request_schema, dict) else {}
    for key in ("properties", "$defs"):
        parts = schema.get(key) or {}
        if not isinstance(parts, dict) or not all(isinstance(part, dict) for part in parts.values()):
            raise file.wrong(f"the {key!r} of its reply's schema must be an object of schemas by name.")
    return schema


def _declared_outputs(file: PromptFile, about: Mapping[str, str]) -> tuple[Output, ...]:
    properties = _schema(file).get("properties") or {}
    descriptions = {name: str(schema.get("description") or "") for name, schema in properties.items()}
    return tuple(
        Output(name, schema, about.get(name, descriptions[name])) for name, schema in properties.items()
    )


def _definitions(file: PromptFile) -> Mapping[str, Any]:
    definitions = _schema(file).get("$defs")
    return definitions if isinstance(definitions, dict) else {}


def _sampling(file: PromptFile) -> Sampling:
    """The sampling in the file, with defaults for what it omits."""
    parameters = {**(file.document.get("request") or {}), **_mapping(file, "parameters")}
    parameters.setdefault("max_tokens", parameters.get("max_completion_tokens"))
    numbers: dict[str, Any] = {}
    for name, kind in _NUMBERS.items():
        value = parameters.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or kind(value) != value:
            raise file.wrong(f"its {name} is no {'number' if kind is float else 'integer'}.")
        numbers[name] = kind(value)
    stop = parameters.get("stop")
    ends = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(ends, list) or not all(isinstance(end, str) for end in ends):
        raise file.wrong("its stop is neither a text nor a list of texts.")
    return Sampling(**numbers, stop=tuple(ends))
