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
from typing import Any

from ragc.exports.formats.base import ExportedPrompt, Format, free, frontmatter, metadata, per_prompt
from ragc.prompts.model import ALL_CAN, INPUTS, CompiledPrompt, ExportedProgram, NotExpressible, Slot

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
    INPUTS,
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


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    """Raises NotExpressible where a fixed message is blank or has a marker."""
    texts = [message.outline for message in prompt.messages]
    if any(MARKER in text or not re.search(r"[^\s\ufeff]", text) for text in texts):
        why = f"a message is blank, which dotprompt leaves out, or holds {MARKER}, which begins its markers"
        raise NotExpressible(f"The prompt {prompt.name!r}", why, ALL_CAN)
    cr, body = free("carriage_return", prompt), ""
    for message in prompt.messages:
        body += f'{{{{role "{"model" if message.role == "assistant" else message.role}"}}}}'
        body += "".join(_text(p, cr) if isinstance(p, str) else _slot(prompt, p) for p in message.parts)
    last = prompt.messages[-1].parts[-1]
    if isinstance(last, str) and re.search(r"[\s\ufeff\\{]\Z", last):
        # renders as nothing; without it the end would be trimmed
        body += f"{{{{{free('end', prompt)}}}}}"
    facts, schema = metadata(program, prompt, LOADED), prompt.input_schema
    schema["properties"] = {input.name: _schema(prompt, input.name) for input in prompt.inputs}
    inputs: dict[str, Any] = {"schema": schema}
    if f"{{{cr}}}" in body:
        schema["properties"][cr] = {
            "type": "string",
            "description": "a constant of the template; give nothing",
        }
        inputs = {"default": {cr: "\r"}, **inputs}
    head = {
        "name": prompt.name,
        "description": f"The prompt {prompt.name} of the compiled program {program.method}",
        "model": prompt.model,
        "config": {CONFIG.get(name, name): value for name, value in prompt.sampling.items()},
        "input": inputs,
        **({"output": {"format": "json", "schema": dict(prompt.output_schema)}} if prompt.enforced else {}),
        "ragc.load": LOADED,
        "ragc.limits": list(LIMITS),
        **{f"ragc.{name}": facts[name] for name in ("program", "note", "reply") if name in facts},
    }
    return frontmatter(head, body + "\n")


def _in_json(prompt: CompiledPrompt, name: str) -> bool:
    """Returns whether the input `name` is a list that is shown as JSON."""
    return prompt.input(name).many and prompt.style_of(name) == "json"


def _schema(prompt: CompiledPrompt, name: str) -> dict[str, Any]:
    input, how = prompt.input(name), ""
    schema, text = input.schema(), {"type": "string"}
    if _in_json(prompt, name):
        schema, how = text, AS_JSON
    elif input.kind == "number":
        schema, how = {"type": "array", "items": text} if input.many else text, "numbers in decimal, as texts"
    about = "; ".join(filter(None, (how, input.about)))
    return {**schema, **({"description": about} if about else {})}


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
        return _choice(name, *slot.words) if flag and slot.style == "plain" else f"{{{{{name}}}}}"
    number = "".join(f"{{{{#ifEquals @index {i}}}}}{i + 1}{{{{/ifEquals}}}}" for i in range(MOST))
    item = _choice("this", "true", "false") if flag else "{{this}}"
    gap = "{{#unless @first}}\n{{/unless}}"
    # `each` skips a text, and no helper can refuse it: it becomes the only item.
    empty = "none" if flag else f"{{{{#if {name}}}}}[1] {{{{{name}}}}}{{{{else}}}}none{{{{/if}}}}"
    return f"{{{{#each {name}}}}}{gap}[{number}] {item}{{{{else}}}}{empty}{{{{/each}}}}"


def _choice(name: str, yes: str, no: str) -> str:
    return f"{{{{#if {name}}}}}{yes}{{{{else}}}}{no}{{{{/if}}}}"


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export; a list shown as JSON, and a number, is a text."""
    values = place.prompt.placeholders()
    values |= {name: '["..."]' for name in values if _in_json(place.prompt, name)}
    values |= {name: "1.0" for name, value in values.items() if isinstance(value, float)}
    return (
        f"inputs = {values!r}",
        "import asyncio, pathlib, dotpromptz.dotprompt, dotpromptz.typing",
        "given = dotpromptz.typing.DataArgument(input=inputs)",
        f"text = pathlib.Path({place.file}).read_text('utf-8')",
        "rendering = dotpromptz.dotprompt.Dotprompt().render(text, given)",
        "messages = asyncio.run(rendering).messages",
    )


KIND = Format(
    id="dotprompt",
    about="a .prompt file with a Handlebars template, JSON schemas of inputs and output",
    suffix=SUFFIX,
    consumer="dotpromptz 0.2.0 (Python), dotprompt 1.1.2 (npm)",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
