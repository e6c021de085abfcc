"""prompty-v1: a Prompty file of version 1 with a Mustache template, as LangChain reads it.

Mustache can neither number the items of a list nor write JSON, so a list is passed as one text, formatted as
its input's description says. White space at the ends of every message is lost. A fixed text that the format
would change otherwise (it is blank, or has a CR, a line that reads as a role, or a Markdown image) is
refused. Inputs are not escaped, as the file states under `limits`: a line of an input that reads as a role
(`user:`, `# System :`, `AI:`) begins a new message or is lost, and a Markdown image in an input is opened and
sent as an image. Such inputs must be filtered out by the caller.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from ragc.exports.formats.frontmatter import AS_TEXT, about, description_of, metadata, outline, page, style
from ragc.exports.loading import ExportedPrompt, example_inputs, inputs_line
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Input, NotExpressible, Slot, TemplateMessage

SUFFIX = ".v1.prompty"
LOADED = "Load it with langchain_prompty.create_chat_prompt(file); a list is given as one text."
LIMITS = (
    "White space at the ends of a message is lost.",
    "Give no input with a line that reads as a role, such as `user:`: it begins a new message or is lost.",
    "Give no input with a Markdown image, ![text](file): the file is opened and sent as an image.",
)
CAN = ("prompty", "jinja2", "openai-json")
"""Formats that can express what this one cannot."""

KINDS = {"text": "string", "integer": "number", "number": "number", "flag": "boolean"}
_ROLE = re.compile(r"(?im)^\s*#?\s*(system|user|human|assistant|ai|function)\s*:\s*\n")
_IMAGE = re.compile(r"!\[[^\]]*\]\(.*?[\")]")


def write(program: ExportedProgram) -> dict[str, bytes]:
    """One file per prompt; raises NotExpressible where fixed text or parameters would be changed."""
    return {f"{prompt.name}{SUFFIX}": _file(program, prompt) for prompt in program}


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    _check(prompt)
    head = {
        "name": prompt.name,
        "description": about(program, prompt),
        **metadata(program, prompt, LOADED, LIMITS),
        "model": {
            "api": "chat",
            "configuration": {"type": "openai", "name": program.model(prompt)},
            "parameters": prompt.parameters(),
        },
        "inputs": {one.name: _input(prompt, one) for one in prompt.inputs},
        "template": {"type": "mustache", "parser": "prompty"},
    }
    if not _is_verbatim(head):
        why = "a text of its parameters or schemas has white space at an end or begins with `${` or `file:`"
        raise NotExpressible(f"The prompt {prompt.name!r}", why, CAN)
    return page(head, _body(prompt))


def _check(prompt: CompiledPrompt) -> None:
    expected = [(message.role, outline(message).strip()) for message in prompt.messages]
    if _read("".join(f"{role}:\n{text}\n" for role, text in expected)) != expected:
        why = (
            "a message is blank, or has a CR, a line that reads as a role, or a "
            "Markdown image, which version 1 of Prompty would change"
        )
        raise NotExpressible(f"The prompt {prompt.name!r}", why, CAN)


def _read(text: str) -> list[tuple[str, str]]:
    """The messages of a body without inputs as LangChain reads it; none if unreadable or with images."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # as in reading the file
    pieces = [piece.strip() for piece in _ROLE.split(text) if piece.strip()]
    if len(pieces) % 2 or any(map(_IMAGE.search, pieces)):
        return []
    return list(zip((role.lower() for role in pieces[::2]), pieces[1::2], strict=True))


def _is_verbatim(value: Any) -> bool:
    """Whether every text in the JSON value `value` is read back unchanged."""
    if isinstance(value, dict):
        return all(map(_is_verbatim, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_verbatim, value))
    return not isinstance(value, str) or (value == value.strip() and not value.startswith(("${", "file:")))


def _input(prompt: CompiledPrompt, one: Input) -> dict[str, Any]:
    if one.many:
        return {"type": "string", **description_of(one, AS_TEXT[style(prompt, one)])}
    return {
        "type": KINDS[one.kind],
        **description_of(one, {"text": "a text", "flag": "a flag"}.get(one.kind, "")),
    }


def _body(prompt: CompiledPrompt) -> str:
    """The messages as a Mustache template, with delimiters that occur in no fixed text."""
    texts = [part for message in prompt.messages for part in message.parts if isinstance(part, str)]
    opened, closed = marks = _delimiters(texts)
    begin = f"{{{{={opened} {closed}=}}}}\n" if opened != "{{" else ""
    return begin + "".join(f"{m.role}:\n{_content(prompt, m, *marks)}\n" for m in prompt.messages)


def _delimiters(texts: Sequence[str]) -> tuple[str, str]:
    if not any("{{" in text or text.endswith("{") for text in texts):
        return "{{", "}}"
    count = next(n for n in itertools.count(1) if not any(f"<{'%' * n}" in text for text in texts))
    return f"<{'%' * count}", f"{'%' * count}>"


def _content(prompt: CompiledPrompt, message: TemplateMessage, opened: str, closed: str) -> str:
    def render_part(part: str | Slot) -> str:
        if isinstance(part, str):
            return part
        one = prompt.input(part.name)
        if one.kind != "flag" or one.many:
            return f"{opened}& {one.name}{closed}"
        yes, no = (f"{opened}{sign}{one.name}{closed}" for sign in "#^")
        end = f"{opened}/{one.name}{closed}"
        return f"{yes}{part.words[0]}{end}{no}{part.words[1]}{end}"

    return "".join(map(render_part, message.parts))


def _placeholder_inputs(prompt: CompiledPrompt) -> dict[str, Any]:
    """Placeholder inputs; a list is one text."""
    lists = {one.name: "[1] ..." for one in prompt.inputs if one.many}
    return example_inputs(prompt) | lists


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """The lines that load a prompt of an export."""
    return (
        inputs_line(_placeholder_inputs(at.prompt)),
        "from langchain_prompty import create_chat_prompt",
        f"messages = create_chat_prompt({at.file}).invoke(inputs).to_messages()",
    )


FORMAT = Format(
    id="prompty-v1",
    about="a Prompty file of version 1 with a Mustache template, lists given as texts",
    suffix=SUFFIX,
    consumer="langchain-prompty 1.0.0",
    write=write,
    load=load,
)
