"""ImportedPrompt: a prompt read from a file, and its application to a predictor.

Each text of the file is sent by the program that it is applied to, or listed as lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import ndiff
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.errors import UnknownName, UsageError
from ragc.prompts.model import KEY, Input, Output
from ragc.targets.base import ChatRequest, Sampling

if TYPE_CHECKING:
    from ragc.programs.base import RagProgram
    from ragc.programs.calls.predict import RagPredict
    from ragc.prompts.laid_out import Turn

DEFAULT = Sampling()
"""The sampling of a file that specifies none."""


@dataclass(frozen=True, slots=True)
class ImportedPrompt:
    """An imported prompt.

    `inputs` and `outputs` are its fields; those in `guessed` have a type that the file does not state.
    `descriptions` are those of the fields, by name; the program's own are used for the others. `demos` are
    values by field name. `definitions` are referenced by the schemas of outputs. `left` lists, one sentence
    each, what was not imported as it is; `lost` are the lines of the file that no program would send.
    `exported` means that all of this comes from an export's `source` block. `layout` is the layout that wrote
    the messages `turns`; "" for messages of no layout. `stated` are the parameters of requests in the file,
    and `edited` the parts beside its messages that were changed after the export. `sampling` is the file's
    sampling; knobs decide the sampling of a program.
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
    descriptions: Mapping[str, str] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    layout: str = ""
    turns: tuple[Turn, ...] = ()
    stated: Mapping[str, Any] = field(default_factory=dict)
    edited: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)

    def signature(self) -> Any:
        """Returns the DSPy signature of the prompt; raises UsageError for a field with an unusable name or
        type.
        """
        from ragc.prompts.types import signature_of

        return signature_of(self.instructions, self.inputs, self.outputs, self.definitions)

    def apply(
        self, program: RagProgram, predictor: str, *, demos: bool = True, allow_loss: bool = False
    ) -> tuple[str, ...]:
        """Sets the prompt of a predictor of `program` to this one, and returns the lines that are lost.

        Without `demos` its demonstrations are unchanged, and so are its instructions if this prompt has none.
        Raises UnknownName for an unknown predictor, and UsageError when its fields differ, when the program
        shows
        fewer demonstrations than there are, when a text holds a marker of the program's layout, or when
        something
        would be lost and `allow_loss` is not set.
        """
        calls = dict(program.named_predictors())
        if predictor not in calls:
            raise UnknownName(f"predictor of {program.method.id!r}", predictor, calls)
        call = calls[predictor]
        what = f"{self.path} cannot be the prompt of {predictor!r} of {program.method.id}"
        self._check(what, call)
        fitted = self._fitted(call)
        if demos and len(fitted.demos) > call.max_demos:
            raise UsageError(
                f"{what}: it has {len(fitted.demos)} demonstrations and the program shows {call.max_demos}; "
                f"set the knob icl_n to {len(fitted.demos)}, or take its instructions only."
            )
        fitted._check_markers(what, call)
        if fitted.lost and not allow_loss:
            raise UsageError(f"{what} as it stands: {loss_text(fitted.lost)}\n{_WAY_OUT}")
        fitted._put(call, demos)
        return fitted.lost

    def _put(self, call: RagPredict, demos: bool) -> None:
        from ragc.signatures.wording import described, description

        if self.descriptions:
            fields = call.signature.fields
            own = {name: description(name, info) for name, info in fields.items()}
            instructions = self.instructions or call.signature.instructions
            call.signature = described(call.signature, instructions, {**own, **self.descriptions})
        if self.exported or self.instructions:
            call.signature = call.signature.with_instructions(self.instructions)
        if demos:
            call.demos = [_wrap_items(demo, call.signature) for demo in self.demos]

    def _fitted(self, call: RagPredict) -> ImportedPrompt:
        """Returns the prompt as `call` would send it, with all that is lost."""
        from ragc.prompts.laid_out import read_laid_out_messages
        from ragc.prompts.sections import split_system

        if self.exported and "parts" in self.before and not self.edited:
            return self
        if not self.layout:
            return replace(self, lost=(*self.lost, *_lost_settings(self, call)))
        if self.exported:  # the messages are those of the export: what its other parts say counts
            system = "".join(str(part) for role, parts in self.turns if role == "system" for part in parts)
            shown = split_system(system, self.layout, call.signature).descriptions
            metadata = {one.name: one.about for one in self.inputs} | {o.name: o.about for o in self.outputs}
            changed = {name: text for name, text in metadata.items() if text != shown.get(name, "")}
            fitted = replace(self, descriptions=changed)
        else:
            known = self.before.get("demonstrations") or ()
            read = read_laid_out_messages(self.turns, call.signature, self.layout, known)
            notes = (f"a line that stands in the instructions now: {one}" for one in read.relocated)
            fitted = replace(
                self,
                instructions=read.instructions,
                descriptions=read.descriptions,
                demos=read.demos,
                left=(*self.left, *notes),
                lost=(*self.lost, *read.lost),
            )
        return replace(fitted, lost=(*fitted.lost, *_lost_settings(fitted, call)))

    def _check_markers(self, what: str, call: RagPredict) -> None:
        """Raises UsageError if a new text holds a marker of the layout of `call` or of its file."""
        if self.exported and not self.edited:
            return
        fields = "|".join(map(re.escape, (*call.signature.fields, "completed")))
        patterns = [rf"\[\[ ## (?:{fields}) ## \]\]"]
        if "xml" in (call.layout, self.layout):
            patterns.append(rf"</?(?:{fields})>")
        old = json.dumps(self.before, ensure_ascii=False)
        for text in self._texts():
            for marker in re.finditer("|".join(patterns), text):
                if marker[0] not in old:
                    raise UsageError(
                        f"{what}: its text {_around(text, marker)!r} holds {marker[0]!r}, which marks a "
                        "field in prompts and replies; write it in another way."
                    )

    def _texts(self) -> Iterator[str]:
        yield self.instructions
        yield from self.descriptions.values()
        for demo in self.demos:
            for value in demo.values():
                yield from map(str, value) if isinstance(value, list) else (str(value),)

    def _check(self, what: str, call: RagPredict) -> None:
        """Raises UsageError unless the fields of `call` are those of this prompt."""
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
        if output_names <= self.guessed and not self.demos and not self.layout:
            return  # nothing in the file tells what a reply holds
        wrong = (
            output_names - outputs.keys() if output_names & self.guessed else output_names ^ outputs.keys()
        )
        if wrong:
            raise UsageError(f"{what}: its outputs are {_names(output_names)}, wanted are {_names(outputs)}.")


_WAY_OUT = "Undo that, or go on without it: --allow-loss on the command line, allow_loss=True in Python."


def loss_text(lost: Sequence[str]) -> str:
    """Returns what is `lost`, line by line: `-` would not be sent, `+` would be sent in its place."""
    heading = "this would be lost (- is not sent, + is sent in its place):"
    return "\n    ".join([heading, *(part for line in lost for part in line.split("\n"))])


def _lost_settings(prompt: ImportedPrompt, call: RagPredict) -> Iterator[str]:
    """Yields the file's settings beside its messages that `call` does not follow."""
    edited = prompt.edited
    for name, value in _parameters(prompt):
        yield from _lost_parameters(name, value, call)
    if prompt.before and not prompt.exported:
        yield from _lost_source_settings(prompt)
    if isinstance(schema := edited.get("output_schema"), dict):
        yield from _other_schema(schema, call)
    if "reply" in edited:
        yield from _other_reply(prompt)
    for name in ("slots", "styles", "input_schema"):
        if name in edited and (name != "input_schema" or not prompt.exported):
            yield from _other_part(name, edited[name], prompt)
    if "source.layout" in edited:
        yield f"-source.layout: {edited['source.layout']!r}; the knob layout decides"


def _lost_parameters(name: str, value: Any, call: RagPredict) -> Iterator[str]:
    """Yields a parameter of requests that `call` sends with another value, or not at all."""
    as_sent = {"stream": False, "n": 1, "logprobs": call.logprobs, "top_logprobs": int(call.logprobs)}
    if value is None or (name in as_sent and value == as_sent[name]):
        return
    if name == "response_format":
        yield from _other_format(value, call)
        return
    if name == "model":
        model = call.runtime.target(call.role).model
        if value not in (model, model.removeprefix("openai/"), "model"):
            yield f"-model: {value!r}; the target is of the model {model!r}, see [targets]"
        return
    from ragc.targets.openai_wire import request_body
    from ragc.targets.thinking import with_room

    name = {"max_completion_tokens": "max_tokens"}.get(name, name)
    request = with_room(call.runtime.target(call.role), ChatRequest((), sampling=call.sampling))
    sent = request_body(request, "").get(name)
    if sent == value or (name == "stop" and sent == [value]):
        return
    yield f"-{name}: {json.dumps(value, ensure_ascii=False)}"
    if sent is not None:
        yield f"+{name}: {json.dumps(sent, ensure_ascii=False)}, which knobs decide"


_BESIDE = frozenset({"slots", "styles", "input_schema", "output_schema", "reply"})
_SOURCE = frozenset({"layout", "instructions", "demonstrations", "outputs"})
_READ = _BESIDE | {f"{KEY}.{name}" for name in _SOURCE}
"""Parts of an export that are no parameters of requests and are compared each in its own way."""


def _parameters(prompt: ImportedPrompt) -> Iterator[tuple[str, Any]]:
    """Yields the file's request parameters and unknown keys; for an export only the edited ones."""
    edited = [(name, value) for name, value in prompt.edited.items() if name not in _READ]
    if prompt.layout and prompt.before:
        for name, value in edited:
            yield name.removeprefix("request.").removeprefix("parameters."), value
        return
    yield from ((name, value) for name, value in prompt.stated.items() if name != "slots")
    inside = ("request.", "parameters.")
    yield from ((n, v) for n, v in edited if n not in prompt.stated and not n.startswith(inside))


def _other_format(value: Any, call: RagPredict) -> Iterator[str]:
    """Yields how the file's format of replies differs from the one that `call` requests from a target."""
    from ragc.programs.calls.layouts import JSON_LAYOUTS
    from ragc.programs.calls.outputs import reply_schema
    from ragc.programs.own.schemas import is_closed
    from ragc.targets.openai_wire import response_format

    schema = reply_schema(call.signature)
    if call.layout not in JSON_LAYOUTS or not is_closed(schema):
        yield f"-response_format: {json.dumps(value, ensure_ascii=False)}"
        return
    yield from _differing("response_format", _frame(value), _frame(response_format(schema)))
    if isinstance(written := _schema_in(value), dict):
        yield from _other_schema(written, call)


def _frame(format: Any) -> Any:
    """Returns a response format without its schema."""
    if not isinstance(_schema_in(format), dict):
        return format
    inner = {name: part for name, part in format["json_schema"].items() if name != "schema"}
    return {**format, "json_schema": inner}


def _lost_source_settings(prompt: ImportedPrompt) -> Iterator[str]:
    """Yields the parts of the block `source` that contradict messages which were edited too."""
    edited = prompt.edited
    now: Mapping[str, Any] = {
        "instructions": prompt.instructions,
        "demonstrations": [dict(demo) for demo in prompt.demos],
        "outputs": {one.name: prompt.descriptions.get(one.name, "") for one in prompt.outputs},
    }
    for name, value in now.items():
        if f"source.{name}" in edited and edited[f"source.{name}"] != value:
            yield from _differing(f"source.{name}", edited[f"source.{name}"], value)


def _schema_in(response_format: Any) -> Any:
    try:
        return response_format["json_schema"]["schema"]
    except (KeyError, TypeError):
        return None


def _other_schema(schema: Mapping[str, Any], call: RagPredict) -> Iterator[str]:
    """Yields how `schema` differs from that of `call`'s replies, except in titles, order and omissions."""
    from ragc.programs.calls.outputs import reply_schema

    sent = reply_schema(call.signature)
    yield from _differing("the schema of replies", _bare(schema), _bare(_closed_as(schema, sent)))


def _bare(schema: Any) -> Any:
    """Returns `schema` without titles and order."""
    if isinstance(schema, dict):
        return {
            name: sorted(part, key=str) if name == "required" and isinstance(part, list) else _bare(part)
            for name, part in sorted(schema.items())
            if name != "title" or isinstance(part, dict)
        }
    return [_bare(part) for part in schema] if isinstance(schema, list) else schema


_OPEN = frozenset({"required", "additionalProperties", "type"})
"""What a schema may leave out, and a program says of every object."""


def _closed_as(written: Any, sent: Any) -> Any:
    """Returns the schema `sent` without statements on objects that `written` leaves open."""
    if isinstance(written, dict) and isinstance(sent, dict):
        left = {name for name in _OPEN - written.keys() if sent.get("type") == "object"}
        return {name: _closed_as(written.get(name), part) for name, part in sent.items() if name not in left}
    if isinstance(written, list) and isinstance(sent, list) and len(written) == len(sent):
        return [_closed_as(one, other) for one, other in zip(written, sent, strict=True)]
    return sent


def _other_reply(prompt: ImportedPrompt) -> Iterator[str]:
    """Yields descriptions under `reply` that differ from those sent, and all other changes there."""
    reply = prompt.edited["reply"]
    fields = reply.get("fields") if isinstance(reply, dict) else None
    about = (
        {name: one.get("about", "") for name, one in fields.items() if isinstance(one, dict)}
        if (isinstance(fields, dict))
        else {}
    )
    sent = {one.name: prompt.descriptions.get(one.name, one.about) for one in prompt.outputs}
    if about != sent:
        yield from _differing("reply.fields", about, sent)
    else:
        yield from _listing("reply", reply)


def _other_part(name: str, value: Any, prompt: ImportedPrompt) -> Iterator[str]:
    if name == "input_schema" and isinstance(value, dict):
        properties = value.get("properties") or {}
        about = {key: str(one.get("description") or "") for key, one in properties.items()}
        yield from _differing(name, about, {key: prompt.descriptions.get(key, "") for key in about})
        return
    yield from _listing(name, value)


def _differing(name: str, written: Any, sent: Any) -> Iterator[str]:
    if written == sent:
        return
    yield f"@ {name}"
    for line in ndiff(_text_of(sent).split("\n"), _text_of(written).split("\n")):
        if line[:2] in ("- ", "+ "):
            yield {"+": "-", "-": "+"}[line[0]] + line[2:].strip()


def _listing(name: str, value: Any) -> Iterator[str]:
    yield f"@ {name}, which is for readers and is not sent"
    yield from (f"-{line.strip()}" for line in _text_of(value).split("\n") if line.strip(" {}[],"))


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)


def _around(text: str, match: re.Match[str]) -> str:
    """Returns the line of `text` that `match` is in, cut to 200 characters."""
    start = text.rfind("\n", 0, match.start()) + 1
    return text[start:].split("\n", 1)[0][:200]


def _messages() -> Any:
    from ragc.programs.calls.predict import RagPredict

    return RagPredict.messages


def _names(names: Any) -> str:
    return ", ".join(name[:60] for name in sorted(names)[:20]) or "none"


def _many(many: bool) -> str:
    return "a list" if many else "one value"


def _wrap_items(demo: Mapping[str, Any], signature: Any) -> dict[str, Any]:
    """Returns `demo` with a single value wrapped in a list where a list is expected."""
    values = dict(demo)
    for name, info in signature.input_fields.items():
        if isinstance(values.get(name), str) and str(info.annotation).startswith(("list", "tuple")):
            values[name] = [values[name]]
    return values
