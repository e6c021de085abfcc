r"""dotprompt: a .prompt file with a Handlebars template.

Workarounds for what Handlebars lacks: the numbers of list items are written one by one, up to 100; a list
shown as JSON, and a number that is not an integer, are passed as text, because implementations format them
differently; braces that would read as a tag, and NUL, are string literals; a CR is a constant of the
frontmatter, since text readers lose it. A text in place of a list becomes its only item, because no
Handlebars helper can refuse it.

Fixed messages that are blank or contain a dotprompt marker are refused. The remaining limits are listed in
the file as `ragc.limits`: an input with a marker such as `<<<dotprompt:role:user>>>` begins a new message or
part, a blank last message is left out, and items after the 100th get no number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ragc.exports.formats.base import per_prompt
from ragc.exports.formats.frontmatter import (
    about,
    description_of,
    free,
    metadata,
    outline,
    page,
    style,
)
from ragc.exports.loading import ExportedPrompt, example_inputs, inputs_line
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Input, NotExpressible, Slot, TemplateMessage

SUFFIX = ".prompt"
MOST = 100
"""Maximum number of list items with a number."""

LOADED = (
    "Render it with Dotprompt().render(text, DataArgument(input=inputs)) of dotpromptz, or npm's dotprompt."
)
AS_JSON = "a text: the list as a JSON array, `, ` between items, characters beyond ASCII as they are"
"""How a list is passed where the template cannot write it."""

LIMITS = (
    "Give no input that has a marker of dotprompt, such as <<<dotprompt:role:user>>>: it cuts the message.",
    "The last message is left out when it is blank.",
    f"Items of a list beyond number {MOST} get no number.",
)
MARKER = "<<<dotprompt:"
CONFIG = {"top_p": "topP", "top_k": "topK", "max_tokens": "maxOutputTokens", "stop": "stopSequences"}
_TAKEN = ("json", "role", "history", "section", "media", "ifEquals", "unlessEquals", "helperMissing",
          "blockHelperMissing", "each", "if", "else", "unless", "with", "log", "lookup", "true", "false",
          "null", "undefined", "this", "as")  # fmt: skip
"""Names that Handlebars does not read as an input."""

_AWKWARD = re.compile(
    r"""(?P<cr>\r)
      | (?P<string>\{{2,} | \{(?=[\r\x00]|\Z) | \x00+)  # it would begin or join a tag; no text may hold NUL
      | (?P<close>(?:(?<=\{\{) | (?<=[\r\x00]) | \A)\}+)  # it would join the tag before it
      | (?P<slash>\\+(?=\{{2} | \{?[\r\x00] | \{?\Z))  # it would undo the tag after it""",
    re.VERBOSE,
)


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    """Raises NotExpressible where a fixed message is blank or has a marker."""
    if any(MARKER in text or not re.search(r"[^\s\ufeff]", text) for text in map(outline, prompt.messages)):
        why = f"a message is blank, which dotprompt leaves out, or holds {MARKER}, which begins its markers"
        raise NotExpressible(f"The prompt {prompt.name!r}", why, ("jinja2", "openai-json"))
    cr = free("carriage_return", prompt.inputs)
    body = "".join(_message(prompt, message, cr) for message in prompt.messages)
    last = prompt.messages[-1].parts[-1]
    if isinstance(last, str) and re.search(r"[\s\ufeff\\{]\Z", last):
        # renders as nothing; without it the end would be trimmed
        body += f"{{{{{free('end', prompt.inputs)}}}}}"
    sampling = {name: value for name, value in prompt.parameters().items() if name != "response_format"}
    head = {
        "name": prompt.name,
        "description": about(program, prompt),
        "model": program.model(prompt),
        "config": {CONFIG.get(name, name): value for name, value in sampling.items()},
        "input": _inputs(prompt, cr if f"{{{cr}}}" in body else ""),
        **({"output": {"format": "json", "schema": dict(prompt.output_schema)}} if prompt.enforced else {}),
        **{f"ragc.{name}": value for name, value in metadata(program, prompt, LOADED, LIMITS).items()},
    }
    return page(head, body + "\n")


def _inputs(prompt: CompiledPrompt, cr: str) -> dict[str, Any]:
    """Returns the schema of the inputs, with a constant called `cr` unless that is empty."""
    schema = prompt.input_schema
    schema["properties"] = {one.name: _schema(prompt, one) for one in prompt.inputs}
    if not cr:
        return {"schema": schema}
    schema["properties"][cr] = {"type": "string", "description": "a constant of the template; give nothing"}
    return {"default": {cr: "\r"}, "schema": schema}


def _schema(prompt: CompiledPrompt, one: Input) -> dict[str, Any]:
    if one.many and style(prompt, one) == "json":
        return {"type": "string", **description_of(one, AS_JSON)}
    if one.kind != "number":
        return one.schema()
    text = {"type": "string"}
    schema = {"type": "array", "items": text} if one.many else text
    return {**schema, **description_of(one, "numbers in decimal, as texts")}


def _message(prompt: CompiledPrompt, message: TemplateMessage, cr: str) -> str:
    role = "model" if message.role == "assistant" else message.role
    parts = (_text(part, cr) if isinstance(part, str) else _slot(prompt, part) for part in message.parts)
    return f'{{{{role "{role}"}}}}' + "".join(parts)


def _text(text: str, cr: str) -> str:
    """Handlebars source that renders as `text` between two tags."""

    def escape_match(match: re.Match[str]) -> str:
        if match["cr"]:
            # Implementations such as the npm package do not apply defaults, so the frontmatter itself is
            # read.
            raw = f"@metadata.prompt.raw.input.default.{cr}"
            return f"{{{{#if {cr}}}}}{{{{{cr}}}}}{{{{else}}}}{{{{{raw}}}}}{{{{/if}}}}"
        if match["close"]:
            return _string("}") * len(match[0])
        return f"{match[0]}\\" if match["slash"] else _string(match[0])

    return _AWKWARD.sub(escape_match, text)


def _string(text: str) -> str:
    return f'{{{{#with "{text}"}}}}{{{{this}}}}{{{{/with}}}}'


def _slot(prompt: CompiledPrompt, slot: Slot) -> str:
    flag = prompt.input(slot.name).kind == "flag"
    name = f"this.[{slot.name}]" if slot.name in _TAKEN else slot.name
    if slot.style != "lines":
        return _value(name, slot.words) if flag and slot.style == "plain" else f"{{{{{name}}}}}"
    number = "".join(f"{{{{#ifEquals @index {i}}}}}{i + 1}{{{{/ifEquals}}}}" for i in range(MOST))
    item = _value("this", ("true", "false")) if flag else "{{this}}"
    gap = "{{#unless @first}}\n{{/unless}}"
    # `each` skips a text, and no helper can refuse it: it becomes the only item.
    one = f"{{{{#if {name}}}}}[1] {{{{{name}}}}}{{{{else}}}}none{{{{/if}}}}"
    return f"{{{{#each {name}}}}}{gap}[{number}] {item}{{{{else}}}}{'none' if flag else one}{{{{/each}}}}"


def _value(name: str, words: Sequence[str]) -> str:
    return f"{{{{#if {name}}}}}{words[0]}{{{{else}}}}{words[1]}{{{{/if}}}}"


def _placeholder_inputs(prompt: CompiledPrompt) -> dict[str, Any]:
    """Returns placeholder inputs; a list shown as JSON, and a number, is a text."""
    texts = {one.name: '["..."]' for one in prompt.inputs if one.many and style(prompt, one) == "json"}
    numbers = {one.name: "1.0" for one in prompt.inputs if one.kind == "number" and not one.many}
    return example_inputs(prompt) | numbers | texts


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        inputs_line(_placeholder_inputs(at.prompt)),
        "import asyncio, pathlib, dotpromptz.dotprompt, dotpromptz.typing",
        "given = dotpromptz.typing.DataArgument(input=inputs)",
        f"made = dotpromptz.dotprompt.Dotprompt().render(pathlib.Path({at.file}).read_text('utf-8'), given)",
        "messages = asyncio.run(made).messages",
    )


KIND = Format(
    id="dotprompt",
    about="a .prompt file with a Handlebars template, JSON schemas of inputs and output",
    suffix=SUFFIX,
    consumer="dotpromptz 0.2.0 (Python), dotprompt 1.1.2 (npm)",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
