r"""prompty: a Prompty file of version 2, with a Jinja2 template.

The body marks messages by lines such as `user:`, so it cannot contain every text. If it cannot contain a
fixed message, all fixed messages go into the default of an input of the kind `thread`. The remaining limits
are listed in the file under `metadata.limits` and concern the last message only: an input with a line that
reads as a role (`user:`, `# System :`) is an error in Prompty, line breaks other than LF become LF (CR, CRLF,
U+000B, U+000C, U+001C to U+001E, U+0085, U+2028, U+2029), and LFs at the ends of the message are lost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.exports.formats.base import per_prompt
from ragc.exports.formats.frontmatter import about, description_of, free, metadata, outline, page
from ragc.exports.loading import ExportedPrompt
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Input, NotExpressible, TemplateMessage

SUFFIX = ".prompty"
LOADED = "Load it with prompty.prepare(prompty.load(file), inputs)."
LIMITS = (
    "An input with a line that reads as a role, such as `user:`, is refused by Prompty.",
    "Line breaks of inputs other than LF, such as CR or U+2028, come out as LF.",
    "LFs at the ends of the last message are lost.",
)
KINDS = {"text": "string", "integer": "integer", "number": "float", "flag": "boolean"}
_SCHEMA_KINDS = {"string": "string", "integer": "integer", "number": "float", "boolean": "boolean"}
_OPTIONS = {"temperature": "temperature", "top_p": "topP", "top_k": "topK", "seed": "seed"}
_ROLE = re.compile(r"\s*#?\s*(system|user|assistant|developer)(\[.*\])?\s*:\s*", re.IGNORECASE)


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    """Raises NotExpressible where the body cannot contain the last message's text."""
    *fixed, last = prompt.messages
    if not _survives_body(outline(last)):
        raise NotExpressible(
            f"The prompt {prompt.name!r}",
            "its last message has line breaks at its ends or other than LF, or a line that reads as a role, "
            "and Prompty would change them",
            ("jinja2", "openai-json"),
        )
    plain = all(_survives_body(message.fixed_text or "") for message in fixed)
    thread = "" if plain else free("fixed", prompt.inputs)
    head = {
        "name": prompt.name,
        "description": about(program, prompt),
        "metadata": metadata(program, prompt, LOADED, LIMITS),
        "model": {
            "id": program.openai_model(prompt),
            "provider": "openai",
            "apiType": "chat",
            "options": _options(prompt),
        },
        "inputs": [_input(one) for one in prompt.inputs] + ([_thread_input(thread, fixed)] if thread else []),
        **({"outputs": outputs} if (outputs := _outputs(prompt)) else {}),
        "template": {"format": {"kind": "jinja2", "strict": True}, "parser": {"kind": "prompty"}},
    }
    return page(head, _body(prompt, fixed if plain else (), last, thread))


def _body(
    prompt: CompiledPrompt, fixed: Sequence[TemplateMessage], last: TemplateMessage, thread: str
) -> str:
    """Returns the messages; the final empty line makes a role in the last line of an input an error too."""
    from ragc.prompts.render import template

    shown = [f"{message.role}:\n{template(prompt, message)}\n" for message in (*fixed, last)]
    return "".join([f"system:\n{{{{ {thread} }}}}\n"] * bool(thread) + shown) + "\n"


def _survives_body(text: str) -> bool:
    """Returns whether Prompty reads a message `text` in the body back unchanged."""
    lines = text.splitlines()
    return "\n".join(lines) == text == text.strip("\n") and not any(map(_ROLE.fullmatch, lines))


def _thread_input(name: str, fixed: Sequence[TemplateMessage]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "thread",
        "description": "the fixed messages, which the body cannot hold; give nothing",
        "default": [{"role": message.role, "content": message.fixed_text} for message in fixed],
    }


def _input(one: Input) -> dict[str, Any]:
    item = {"kind": KINDS[one.kind]}
    kind = {"kind": "array", "items": item} if one.many else item
    return {"name": one.name, **kind, "required": True, **description_of(one)}


def _options(prompt: CompiledPrompt) -> dict[str, Any]:
    """Returns the sampling parameters, named so that Prompty sends the same names to OpenAI as ragc."""
    sent = prompt.parameters()
    if _outputs(prompt):
        del sent["response_format"]
    options = {_OPTIONS[name]: value for name, value in sent.items() if name in _OPTIONS}
    options |= {"stopSequences": sent["stop"]} if "stop" in sent else {}
    rest = {name: value for name, value in sent.items() if name not in (*_OPTIONS, "stop")}
    return {**options, **({"additionalProperties": rest} if rest else {})}


def _outputs(prompt: CompiledPrompt) -> list[dict[str, Any]]:
    """Returns the outputs where the reply is enforced and Prompty can express its schema; else none."""
    if not prompt.enforced or "response_format" not in prompt.parameters():
        return []
    whole = _property(prompt.output_schema)
    outputs: list[dict[str, Any]] = whole["properties"] if whole else []
    return outputs


def _property(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `schema` as a property of Prompty; empty if no property can express it."""
    rest = {name: value for name, value in schema.items() if name not in ("type", "description", "enum")}
    if str(schema.get("description", "")).startswith("${"):  # Prompty would substitute it
        return {}
    extras = {"description": schema["description"]} if "description" in schema else {}
    extras |= {"enumValues": schema["enum"]} if "enum" in schema else {}
    match schema.get("type"):
        case "array" if rest.keys() == {"items"} and (item := _property(rest["items"])):
            return {"kind": "array", "items": item, **extras}
        case "object" if _strict(rest):
            inner = {name: _property(one) for name, one in rest["properties"].items()}
            listed = [{"name": name, **one, "required": True} for name, one in inner.items()]
            return {"kind": "object", "properties": listed, **extras} if all(inner.values()) else {}
        case str(kind) if kind in _SCHEMA_KINDS and not rest:
            return {"kind": _SCHEMA_KINDS[kind], **extras}
    return {}


def _strict(rest: Mapping[str, Any]) -> bool:
    """Returns whether an object allows exactly its named properties."""
    known = rest.keys() == {"properties", "required", "additionalProperties"}
    return known and not rest["additionalProperties"] and rest["required"] == list(rest["properties"])


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        at.inputs,
        "import prompty",
        f"messages = prompty.prepare(prompty.load({at.file}), inputs)",
    )


KIND = Format(
    id="prompty",
    about="a Prompty file of version 2 with a Jinja2 template, typed inputs and outputs",
    suffix=SUFFIX,
    consumer="prompty[jinja2] 2.1.0",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
