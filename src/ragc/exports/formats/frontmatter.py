"""Helpers for formats with YAML frontmatter between two lines of `---`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragc.prompts.model import CompiledPrompt, ExportedProgram, Input, TemplateMessage

_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


def page(head: Mapping[str, Any], body: str) -> bytes:
    """Returns a file with `head`, JSON values by name, as its frontmatter, followed by `body`.

    No text of the head contains `---` or `+++`, which some readers take for its end anywhere.
    """
    return f"---\n{yaml(head)}---\n{body}".encode()


def yaml(value: Mapping[str, Any]) -> str:
    """Returns `value` as block YAML that versions 1.1 and 1.2 read alike: quoted texts, one line each."""
    return "".join(f"{line}\n" for line in _block(value))


def about(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    """Returns a one-line description of the file."""
    return f"The prompt {prompt.name} of the compiled program {program.method}"


def metadata(
    program: ExportedProgram, prompt: CompiledPrompt, load: str, limits: tuple[str, ...]
) -> dict[str, Any]:
    """Returns metadata of a prompt: program, licence note, how to load it, limits, how to read replies."""
    from ragc.prompts.model import reading

    note = {"note": program.note} if program.note else {}
    about = {"program": program.fingerprint, **note, "load": load, "limits": list(limits)}
    return {**about, "reply": reading(prompt)}


def style(prompt: CompiledPrompt, one: Input) -> str:
    """Returns the style in which the input `one` is written; `plain` if no message contains it."""
    shown = (slot for message in prompt.messages for slot in message.slots)
    return next((slot.style for slot in shown if slot.name == one.name), "plain")


def description_of(one: Input, how: str = "") -> dict[str, str]:
    """Returns the `description` of an input: `how` to pass it and what it is; empty without either."""
    description = "; ".join(filter(None, (how, one.about)))
    return {"description": description} if description else {}


def free(name: str, inputs: Sequence[Input]) -> str:
    """Returns `name`, with `_` appended until it is not the name of an input."""
    taken = {one.name for one in inputs}
    while name in taken:
        name += "_"
    return name


def outline(message: TemplateMessage) -> str:
    """Returns the content of `message` with a letter in place of each input."""
    return "".join(part if isinstance(part, str) else "x" for part in message.parts)


def _block(value: Any) -> Iterator[str]:
    """Yields the lines of a non-empty mapping or list."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            inner = list(_inner(item))
            yield f"{_key(name)}: {inner[0]}" if _flat(item) else f"{_key(name)}:"
            yield from () if _flat(item) else (f"  {line}" for line in inner)
    else:
        for item in value:
            first, *rest = _inner(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _inner(value: Any) -> Iterator[str]:
    return iter((_scalar(value),)) if _flat(value) else _block(value)


def _flat(value: Any) -> bool:
    return not (isinstance(value, Mapping | list | tuple) and value)


def _key(name: str) -> str:
    plain = name.isascii() and name.replace(".", "").isidentifier() and name.lower() not in _WORDS
    return name if plain else _quote(name)


def _scalar(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list | tuple):
        return "[]"
    if isinstance(value, str):
        return _quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    number = repr(value)
    return number.replace("e", ".0e") if "e" in number and "." not in number else number


def _quote(text: str) -> str:
    escaped = "".join(map(_char, text)).replace("---", r"\x2d\x2d\x2d").replace("+++", r"\x2b\x2b\x2b")
    return f'"{escaped}"'


def _char(c: str) -> str:
    if c in _SHORT:
        return _SHORT[c]
    if c < " " or "\x7f" <= c <= "\xa0":
        return f"\\x{ord(c):02x}"
    return f"\\u{ord(c):04x}" if c in "\u2028\u2029\ufeff\ufffe\uffff" else c
