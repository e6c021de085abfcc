"""Prompt import: turns an exported or hand-written prompt into a signature with demonstrations.

Files are only parsed: templates in them are never rendered.

`import_prompt` reads the messages of a file into an `ImportedPrompt`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragc.errors import RagcError
from ragc.prompts.demos import inputs_in, outputs_in, outputs_of
from ragc.prompts.files import PromptFile, contents, read
from ragc.prompts.imported import DEFAULT, ImportedPrompt
from ragc.prompts.laid_out import Turn
from ragc.prompts.model import KEY, Input, Output, Slot, edited_parts
from ragc.prompts.render import fits
from ragc.prompts.sections import detect_layout, reply_fields
from ragc.prompts.templates import (
    Template,
    Untranslatable,
    Wording,
    jinja,
    plain,
    split_at_marks,
    wording,
)
from ragc.prompts.types import input_of
from ragc.targets.base import Sampling

__all__ = ["DEFAULT", "ImportedPrompt", "contents", "import_prompt"]


def import_prompt(path: str | Path, *, format: str | None = None) -> ImportedPrompt:
    """Imports the prompt in the file at `path`, an export of `jinja2` or `openai-json` or a hand-written one.

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
    """Returns the prompt of an export with unchanged messages, read from its `source` block."""
    source = file.document[KEY]
    lost: list[str] = []
    turns = [(role, _template(file, n, text, lost).parts) for n, (role, text) in _enumerate_messages(file)]
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
            layout=_layout(source["layout"]),
            turns=tuple(turns),
            stated=_stated(file),
            edited=edited_parts(file.document),
            before=source,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise file.wrong(f"its {KEY!r} is not what an export writes: {error}.") from error


def _layout(name: Any) -> str:
    """Returns the layout `name`; "" for an unknown one."""
    from ragc.programs.knobs import LAYOUTS

    return str(name) if name in LAYOUTS else ""


def _stated(file: PromptFile) -> Mapping[str, Any]:
    """Returns the file's request parameters, the model included."""
    if not _mapping(file, KEY):
        nested = "messages" not in file.document
        beside = {k: v for k, v in file.document.items() if nested and k not in ("request", "program")}
        stated = {**beside, **(file.document.get("request") or {})}
        stated = {name: value for name, value in stated.items() if name not in _FOR_READERS}
    elif "messages" in file.document:
        stated = {**_mapping(file, "parameters"), "model": file.document.get("model")}
    else:
        stated = dict(file.document.get("request") or {})
    return {name: value for name, value in stated.items() if name != "messages"}


_FOR_READERS = frozenset({"about", "note", "name", "description", "model", "input_schema", "output_schema"})
"""Keys of a hand-written file that say nothing of requests, or that its recipe says."""


def _declared_demos(file: PromptFile, demos: Any) -> tuple[Mapping[str, Any], ...]:
    """Returns the demonstrations of an export; raises DataError where an input of one has the wrong type."""
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
    """Returns the prompt, inferred from the messages themselves; raises DataError."""
    left: list[str] = []
    lost: list[str] = []
    read = [(role, _template(file, number, text, lost)) for number, (role, text) in _enumerate_messages(file)]
    turns = tuple((role, template.parts) for role, template in read)
    system = [template for role, template in read if role == "system"]
    if not turns or turns[-1][0] != "user":
        raise file.wrong("its last message must be the user's, with the inputs as slots.")
    if not any(isinstance(part, Slot) for part in turns[-1][1]):
        raise file.wrong("its last message has no slot such as {{ question }}, so it takes no input.")
    layout = _written_in(file, system)
    _check_marks(file)
    if layout:
        _check_slots(file, turns[:-1])
    inputs, guessed = _inputs(file, [*(() if layout else system), read[-1][1]])
    pairs = _pairs([turn for turn in read[:-1] if turn[0] != "system"], lost)
    outputs = _declared_outputs(file, {})
    if not outputs and layout:
        names = reply_fields(plain(system[0].parts), layout)
        outputs = tuple(Output(name, {"type": "string"}) for name in names)
    outputs = outputs or outputs_of([reply for _, reply in pairs])
    if not _schema(file):
        guessed |= {one.name for one in outputs}
    prompt = ImportedPrompt(
        path=file.path,
        format=file.format,
        instructions="",
        inputs=inputs,
        outputs=outputs,
        sampling=_sampling(file),
        guessed=frozenset(guessed),
        definitions=_definitions(file),
        layout=layout,
        turns=turns,
        stated=_stated(file),
        edited=edited_parts(file.document),
        before=_mapping(file, KEY),
    )
    if layout:
        return _as_laid_out(replace(prompt, lost=(*_marked(lost), *_roles(file))))
    demos = tuple(_demos(pairs, turns[-1][1], {one.name: one for one in inputs}, outputs, lost))
    beside = wording(turns[-1][1])
    return replace(
        prompt,
        instructions=_instructions(system, beside, outputs, left),
        descriptions=_labels(beside, inputs) | {one.name: one.about for one in outputs if one.about},
        demos=demos,
        left=(*lost, *left),
        lost=(*_marked(lost), *_roles(file)),
    )


def _roles(file: PromptFile) -> Iterator[str]:
    """Yields the lines of a diff for each message whose role is sent under another name."""
    for number, (one, (role, _)) in enumerate(zip(file.raw, file.messages, strict=False), 1):
        if (written := one["role"]) != role:
            yield f"@ the role of message {number}"
            yield from (f'-"role": {json.dumps(written)}', f'+"role": {json.dumps(role)}')


def _marked(lost: Sequence[str]) -> tuple[str, ...]:
    """Returns `lost` as lines of a diff."""
    return tuple(f"-{line}" for text in lost for line in text.split("\n") if line.strip())


def _as_laid_out(prompt: ImportedPrompt) -> ImportedPrompt:
    """Returns `prompt` with what its messages say in their layout, as far as that shows without a program."""
    from ragc.prompts.laid_out import read_laid_out_messages

    known = prompt.before.get("demonstrations") or ()
    read = read_laid_out_messages(prompt.turns, prompt.signature(), prompt.layout, known)
    left = ("the messages were changed after the export, so they were read as they are",)
    return replace(
        prompt,
        instructions=read.instructions,
        descriptions=read.descriptions,
        demos=read.demos,
        left=left if prompt.before else (),
    )


def _written_in(file: PromptFile, system: Sequence[Template]) -> str:
    """Returns the layout that wrote the messages of `file`; "" for none."""
    return _layout(_mapping(file, KEY).get("layout")) or detect_layout(
        plain(system[0].parts) if system else ""
    )


_FOREIGN_MARK = re.compile(r"\{\{\s*[A-Za-z_]\w*\s*\}\}")


def _check_marks(file: PromptFile) -> None:
    """Raises DataError for a text in the place of a slot that is none, or for characters that mark slots."""
    slots, old = _mapping(file, "slots"), str(_mapping(file, KEY))
    for number, (_, text) in _enumerate_messages(file):
        if "\ue000" in text or "\ue001" in text:
            raise file.wrong(f"message {number} holds U+E000 or U+E001, which mark the inputs; remove them.")
        marks = _FOREIGN_MARK.findall(text) if slots and file.format == "openai-json" else ()
        if foreign := [mark for mark in marks if mark not in slots and mark not in old]:
            raise file.wrong(
                f"message {number} holds {foreign[0]}, which is no slot of this prompt; its slots are "
                f"{', '.join(slots)}."
            )


def _check_slots(file: PromptFile, turns: Sequence[Turn]) -> None:
    """Raises DataError for a slot in a message of a layout before the last one, which has the inputs."""
    for number, (_, parts) in enumerate(turns, 1):
        names = [part.name for part in parts if isinstance(part, Slot)]
        if names:
            lines = file.messages[number - 1][1].split("\n")
            line = next((one.strip() for one in lines if "{" in one and names[0] in one), names[0])
            raise file.wrong(
                f"message {number} has a slot in {line!r}, and a program puts its inputs in the last message "
                "alone; write the name without braces."
            )


def _demos(
    pairs: Sequence[tuple[str, str]],
    parts: Any,
    inputs: Mapping[str, Input],
    outputs: Sequence[Output],
    lost: list[str],
) -> Iterator[Mapping[str, Any]]:
    for user_text, reply in pairs:
        input_values, output_values = inputs_in(user_text, parts, inputs), outputs_in(reply, outputs)
        if input_values is None or output_values is None:
            lost.append(f"a pair of messages that is not written as the last one: {user_text}\n{reply}")
        else:
            yield input_values | output_values


def _enumerate_messages(file: PromptFile) -> Iterable[tuple[int, tuple[str, str]]]:
    return enumerate(file.messages, 1)


def _template(file: PromptFile, number: int, text: str, lost: list[str]) -> Template:
    try:
        template = jinja(text) if file.format == "jinja2" else split_at_marks(text, _mapping(file, "slots"))
    except Untranslatable as error:
        raise file.wrong(f"message {number} cannot be imported: {error}.") from error
    lost += template.left
    return template


_REPLIES = frozenset({"answer", "response", "reply", "output", "assistant", "your answer"})
"""Labels at the end of a message that only say that the reply follows."""


def _instructions(
    system: Sequence[Template], beside: Wording, outputs: Sequence[Output], left: list[str]
) -> str:
    """Returns the system messages, and the text of the last message without its inputs."""
    text = "\n\n".join(plain(template.parts) for template in system)
    if slots := sorted({slot.name for t in system for slot in t.parts if isinstance(slot, Slot)}):
        left.append(f"the place of {', '.join(slots)} in the system message: an input comes with the others")
    known = _REPLIES | {one.name.replace("_", " ").lower() for one in outputs}
    ends = [line for line in beside.ends if line.strip("#*_:=-<>/ ").lower() not in known]
    more = "\n".join(part for part in (beside.text, *ends) if part)
    if more:
        left.append("the wording of the last message, which is now the end of the instructions")
    return "\n".join(part for part in (text.strip(), more) if part)


def _labels(beside: Wording, inputs: Sequence[Input]) -> dict[str, str]:
    """Returns the labels of inputs that differ from their name, as their descriptions."""
    own = {one.name: one.name.replace("_", " ").lower() for one in inputs}
    return {name: label for name, label in beside.labels.items() if label.lower() != own.get(name)}


def _inputs(file: PromptFile, templates: Sequence[Template]) -> tuple[tuple[Input, ...], set[str]]:
    """Returns the inputs, and the names of those of a guessed type: plain slots that no schema describes."""
    declared = {one.name: one for one in _declared_inputs(file)}
    slots = [part for template in templates for part in template.parts if isinstance(part, Slot)]
    guesses = {slot.name: Input(slot.name, many=slot.style != "plain") for slot in reversed(slots)}
    names = list(dict.fromkeys(slot.name for slot in slots))
    guessed = {name for name in names if name not in declared and not guesses[name].many}
    return tuple(declared.get(name, guesses[name]) for name in names), guessed


def _pairs(turns: Sequence[tuple[str, Template]], lost: list[str]) -> list[tuple[str, str]]:
    """Returns consecutive user and assistant messages; adds unpaired and slotted ones to `lost`."""
    pairs: list[tuple[str, str]] = []
    waiting: str | None = None
    for role, template in turns:
        text = plain(template.parts)
        slotted = any(isinstance(part, Slot) for part in template.parts)
        if role == "assistant" and waiting is not None and not slotted:
            pairs.append((waiting, text))
            waiting = None
            continue
        if waiting is not None:
            lost.append(f"a message of a turn that is no demonstration: {waiting}")
        if role == "assistant" or slotted:
            lost.append(f"a message of a turn that is no demonstration: {text}")
        waiting = text if role == "user" and not slotted else None
    if waiting is not None:
        lost.append(f"a message of a turn that is no demonstration: {waiting}")
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
    """Returns the JSON schema of a reply, from the export's metadata or the request's format; raises
    DataError.
    """
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
    """Returns the sampling in the file, with defaults for what it omits."""
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
