"""Reads edited messages of a layout, and finds the parts of them that a program would not send.

The result is written again in the same layout, and the two texts are compared: each line that differs is
listed, as in a diff, so that no loss goes unseen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain, combinations
from typing import Any

from ragc.programs.calls.demos import plain
from ragc.programs.calls.layouts import JSON_LAYOUTS, adapter
from ragc.programs.calls.prompt import fill_echoes, render
from ragc.programs.calls.replies import read_laid_out
from ragc.prompts.demos import inputs_in, outputs_in
from ragc.prompts.model import Input, Kind, Output, Part, Slot
from ragc.prompts.sections import split_system
from ragc.signatures.wording import described

MAX_LINES = 400
"""Lines of a diff that are listed."""

_KINDS: Sequence[tuple[str, Kind]] = (("bool", "flag"), ("int", "integer"), ("float", "number"))
_PARTIAL = "This is an example of the task, though some input or output fields are not supplied."
_ABSENT = ("Not supplied for this particular example.", "Not supplied for this conversation history message.")
_MARK = re.compile('(?:\\[1\\] )?\ue000(\\w+)\ue001|\\["\ue000(\\w+)\ue001"\\]')

Turn = tuple[str, tuple[Part, ...]]
"""A message: its role, and its text with the slots of inputs."""


@dataclass(frozen=True, slots=True)
class LaidOut:
    """The content of a layout's messages, in the form of a program's prompt.

    `relocated` are the lines that are now at the end of the instructions. `lost` are the lines of a diff from
    the file to what would be sent: with `-` those not sent, with `+` those sent in their place.
    """

    instructions: str
    descriptions: Mapping[str, str]
    demos: tuple[Mapping[str, Any], ...]
    relocated: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def read_laid_out_messages(
    turns: Sequence[Turn], signature: Any, layout: str, known: Sequence[Mapping[str, Any]] = ()
) -> LaidOut:
    """Reads `turns`, written in `layout`, as the fields of `signature`; the last turn is the user's.

    `known` are demonstrations that the messages showed before they were edited.
    """
    systems = ["".join(_texts(parts)) for role, parts in turns if role == "system"]
    system = split_system(systems[0] if systems else "", layout, signature)
    shown, last = [turn for turn in turns[:-1] if turn[0] != "system"], turns[-1][1]
    template = user_template(signature, layout)
    remaining, added = _without_insertions(_lines(last), _lines(template))
    relocated = [*chain.from_iterable(text.split("\n") for text in systems[1:]), *added]
    demos, canonical = _read_demos(shown, (*_demo_templates(signature, layout, known),), signature, layout)
    about = {**_own(signature), **system.descriptions}
    built = described(signature, system.instructions, about)
    sent = render(built, demos, layout, len(demos)).prefix
    written = [("system", _without(systems[0] if systems else "", system.preface)), *canonical]
    lost = _diff(
        [*written, ("user", "\n".join(remaining))],
        [
            *((m.role, _canonical(m.role, m.content, layout)) for m in sent),
            ("user", "\n".join(_lines(template))),
        ],
    )
    texts = [system.preface, system.instructions, "\n".join(line for line in relocated if line.strip())]
    return LaidOut(
        instructions="\n\n".join(text for text in texts if text.strip()),
        descriptions=about,
        demos=tuple(demos),
        relocated=tuple(line for line in (*system.preface.split("\n"), *relocated) if line.strip()),
        lost=lost,
    )


def user_template(
    signature: Any, layout: str, *, names: Sequence[str] | None = None, prefix: str = ""
) -> tuple[Part, ...]:
    """Returns the parts of the user's message in `layout`; of a demonstration with the inputs `names`, if
    given.
    """
    inputs = {one.name: one for one in inputs_of(signature)}
    echoes = _echoes(signature)
    chosen = [name for name in inputs if name not in dict(echoes) and (names is None or name in names)]
    marks: dict[str, Any] = {
        name: [f"\ue000{name}\ue001"] if inputs[name].many else f"\ue000{name}\ue001" for name in chosen
    }
    more = {"main_request": True} if names is None else {"prefix": prefix}
    text = adapter(layout).format_user_message_content(signature, fill_echoes(marks, echoes), **more)
    parts: list[Part] = []
    at = 0
    for match in _MARK.finditer(text):
        style = "lines" if match[0].startswith("[1]") else "json" if match[2] else "plain"
        words = ("true", "false") if layout == "minimal" else ("True", "False")
        parts += [text[at : match.start()], Slot(match[1] or match[2], style, words)]  # type: ignore[arg-type]
        at = match.end()
    return tuple(part for part in (*parts, text[at:]) if part != "")


def inputs_of(signature: Any) -> tuple[Input, ...]:
    """Returns the inputs of `signature`, as texts if they have no other supported type."""
    listed = []
    for name, info in signature.input_fields.items():
        annotation = getattr(info.annotation, "__name__", "") or ""
        many = str(info.annotation).startswith(("list", "tuple"))
        inner = str(info.annotation).partition("[")[2] if many else annotation
        kinds: list[Kind] = [kind for begin, kind in _KINDS if inner.startswith(begin)]
        listed.append(Input(name, kinds[0] if kinds else "text", many))
    return tuple(listed)


def _echoes(signature: Any) -> list[tuple[str, str]]:
    extras = {name: info.json_schema_extra or {} for name, info in signature.input_fields.items()}
    return [(name, extra["echo"]) for name, extra in extras.items() if extra.get("echo")]


def _own(signature: Any) -> dict[str, str]:
    """Returns the descriptions before any message is read: "" for a field, its own for an echoed input."""
    from ragc.signatures.wording import description

    echoes = dict(_echoes(signature))
    return {
        name: description(name, info) if name in echoes else "" for name, info in signature.fields.items()
    }


def _texts(parts: Sequence[Part]) -> Iterator[str]:
    """Yields the texts of `parts`, a slot as its name in braces."""
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            words = "" if part.words in (("true", "false"), ("True", "False")) else f" as {part.words}"
            yield f"{{{{ {part.name}{words} }}}}"


def _lines(parts: Sequence[Part]) -> list[str]:
    return "".join(_texts(parts)).split("\n")


def _without_insertions(lines: Sequence[str], base: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns `lines` without those that were added to `base`, and the added ones; lines with a slot stay."""
    remaining: list[str] = []
    added: list[str] = []
    before, after = ([_fold(line) for line in one] for one in (base, lines))
    for tag, _, _, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for line in lines[start:end]:
            inserted = tag == "insert" and "{{ " not in line
            (added if inserted else remaining).append(line)
    return remaining, added


def _without(text: str, preface: str) -> str:
    return text.replace(preface, "", 1) if preface else text


def _demo_templates(
    signature: Any, layout: str, known: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, tuple[Part, ...]]]:
    """Yields the forms of a demonstration: with all inputs, or marked as partial with some of them."""
    names = [one.name for one in inputs_of(signature)]
    yield "", user_template(signature, layout, names=names)
    subsets = {tuple(name for name in names if name in demo) for demo in known}
    if len(names) <= 5:
        subsets |= {choice for n in range(1, len(names) + 1) for choice in combinations(names, n)}
    for some in sorted(subsets, key=lambda some: (-len(some), some)):
        if some:
            yield _PARTIAL, user_template(signature, layout, names=some, prefix=_PARTIAL)
            yield "", user_template(signature, layout, names=some)


def _read_demos(
    shown: Sequence[Turn],
    templates: Sequence[tuple[str, tuple[Part, ...]]],
    signature: Any,
    layout: str,
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Returns the demonstrations of the messages `shown`, and these with replies in the notation of the
    layout.
    """
    inputs = {one.name: one for one in inputs_of(signature)}
    demos: list[dict[str, Any]] = []
    canonical: list[tuple[str, str]] = []
    at = 0
    while at < len(shown):
        role, text = shown[at][0], "".join(_texts(shown[at][1]))
        reply = shown[at + 1] if at + 1 < len(shown) and role == "user" else None
        if reply is None or reply[0] != "assistant":
            canonical.append((role, text))
            at += 1
            continue
        answer = "".join(_texts(reply[1]))
        values = next(
            (read for _, parts in templates if (read := inputs_in(text, parts, inputs)) is not None), None
        )
        outputs = _reply_values(answer, signature, layout)
        if values is not None and outputs is not None:
            demos.append({name: v for name, v in values.items() if name in signature.fields} | outputs)
            answer = _plain_reply(answer, outputs, layout)
        canonical += [("user", text), ("assistant", _canonical("assistant", answer, layout))]
        at += 2
    return demos, canonical


def _reply_values(text: str, signature: Any, layout: str) -> dict[str, Any] | None:
    """Returns the outputs of a demonstrated reply, without those marked as absent; None without any."""
    outputs = tuple(Output(name, {"type": _type(info)}) for name, info in signature.output_fields.items())
    if layout in JSON_LAYOUTS:
        values = outputs_in(text, outputs)
        if (
            values is not None
            and len(outputs) == 1
            and text.lstrip().startswith("{")
            and text in values.values()
        ):
            return None
    else:
        values = _framed_values(text, signature, layout)
    if values is None:
        return None
    return {
        name: value
        for name, value in values.items()
        if not (isinstance(value, str) and value.strip() in _ABSENT)
    }


def _type(info: Any) -> str:
    return "string" if info.annotation is str else "object"


def _framed_values(text: str, signature: Any, layout: str) -> dict[str, Any] | None:
    from ragc.errors import ParseFailure

    try:
        reading = read_laid_out(signature, text, layout)
    except ParseFailure:
        return _texts_between_markers(text, signature) if layout == "chat" else None
    return plain(reading.outputs)


def _texts_between_markers(text: str, signature: Any) -> dict[str, Any] | None:
    """Returns the outputs of a reply of the layout `chat` whose values are texts, or JSON."""
    pieces = re.split(r"\[\[ ## (\w+) ## \]\]", text)
    values: dict[str, Any] = {}
    for name, value in zip(pieces[1::2], pieces[2::2], strict=False):
        if name in signature.output_fields:
            values[name] = value.strip()
            if signature.output_fields[name].annotation is not str and value.strip() not in _ABSENT:
                try:
                    values[name] = json.loads(value)
                except ValueError:
                    return None
    return values or None


def _plain_reply(answer: str, outputs: Mapping[str, Any], layout: str) -> str:
    """Returns a reply that is only the value as the object that the layout writes."""
    single = list(outputs.values())
    if layout in JSON_LAYOUTS and len(single) == 1 and single[0] == answer:
        return json.dumps(dict(outputs), ensure_ascii=False)
    return answer


def _canonical(role: str, text: str, layout: str) -> str:
    """Returns a reply that is a JSON object, in one notation; other messages as they are."""
    if role != "assistant" or layout not in JSON_LAYOUTS:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else text


def _fold(line: str) -> str:
    return " ".join(line.split())


def _diff(written: Sequence[tuple[str, str]], sent: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Returns the lines that differ, except in white space: `-` of `written`, `+` of `sent`, by message."""
    before, after = _numbered(written), _numbered(sent)
    written_keys, sent_keys = ([(role, _fold(line)) for _, role, line in one] for one in (before, after))
    listed: list[str] = []
    where = ""
    for tag, a, b, c, d in SequenceMatcher(None, written_keys, sent_keys, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for sign, lines in (("-", before[a:b]), ("+", after[c:d])):
            for name, _, line in lines:
                if name != where:
                    where = name
                    listed.append(f"@ {name}")
                listed.append(f"{sign}{line.strip()}")
    more = len(listed) - MAX_LINES
    return (*listed[:MAX_LINES], *([f"and {more} lines more"] if more > 0 else []))


def _numbered(messages: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Returns the name of the message, its role, and the text of each line that is not blank."""
    lines = []
    for number, (role, text) in enumerate(messages, 1):
        name = f"message {number} of the {role}" if role != "system" else "the system message"
        lines += [(name, role, line) for line in text.split("\n") if line.strip()]
    return lines
