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

from ragc.exports.formats.base import ExportedPrompt, Format, free, frontmatter, metadata, per_prompt
from ragc.prompts.model import (
    ALL_CAN,
    INPUTS,
    CompiledPrompt,
    ExportedProgram,
    Input,
    NotExpressible,
    TemplateMessage,
)
from ragc.prompts.render import template
from ragc.targets.wire import response_format

SUFFIX = ".prompty"
LOADED = "Load it with prompty.prepare(prompty.load(file), inputs)."
LIMITS = (
    "An input with a line that reads as a role, such as `user:`, is refused by Prompty.",
    "Line breaks of inputs other than LF, such as CR or U+2028, come out as LF.",
    "LFs at the ends of the last message are lost.",
    INPUTS,
)
_KINDS = {"text": "string", "integer": "integer", "number": "float", "flag": "boolean"}
_TYPES = {"string": "string", "integer": "integer", "number": "float", "boolean": "boolean"}
_OPTIONS = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "stop": "stopSequences",
}
_ROLE = re.compile(r"\s*#?\s*(system|user|assistant|developer)(\[.*\])?\s*:\s*", re.IGNORECASE)


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    *fixed, last = prompt.messages
    if not _survives_body(last.outline):
        why = (
            "its last message has line breaks at its ends or other than LF, or a line that reads as a role, "
            "and Prompty would change them"
        )
        raise NotExpressible(f"The prompt {prompt.name!r}", why, ALL_CAN)
    thread = "" if all(_survives_body(m.fixed_text or "") for m in fixed) else free("fixed", prompt)
    facts, outputs = metadata(program, prompt, LOADED), _outputs(prompt)
    head: dict[str, Any] = {
        "name": prompt.name,
        "description": f"The prompt {prompt.name} of the compiled program {program.method}",
        "metadata": {
            "load": LOADED,
            "limits": list(LIMITS),
            **{name: facts[name] for name in ("program", "note", "reply") if name in facts},
        },
        "model": {
            "id": prompt.openai_model,
            "provider": "openai",
            "apiType": "chat",
            "options": _options(prompt, outputs),
        },
        "inputs": [_input(input) for input in prompt.inputs]
        + ([_thread_input(thread, fixed)] if thread else []),
        **({"outputs": outputs} if outputs else {}),
        "template": {"format": {"kind": "jinja2", "strict": True}, "parser": {"kind": "prompty"}},
    }
    shown = "".join(f"{m.role}:\n{template(prompt, m)}\n" for m in ((last,) if thread else prompt.messages))
    body = f"system:\n{{{{ {thread} }}}}\n" if thread else ""
    # The final empty line makes a role in the last line of an input an error too.
    return frontmatter(head, f"{body}{shown}\n")


def _survives_body(text: str) -> bool:
    """Returns whether Prompty reads a message `text` in the body back unchanged."""
    lines = text.splitlines()
    return "\n".join(lines) == text == text.strip("\n") and not any(map(_ROLE.fullmatch, lines))


def _thread_input(name: str, fixed: Sequence[TemplateMessage]) -> dict[str, Any]:
    about = "the fixed messages, which the body cannot hold; give nothing"
    messages = [{"role": message.role, "content": message.fixed_text} for message in fixed]
    return {"name": name, "kind": "thread", "description": about, "default": messages}


def _input(input: Input) -> dict[str, Any]:
    item: dict[str, Any] = {"kind": _KINDS[input.kind]}
    kind = {"kind": "array", "items": item} if input.many else item
    about = {"description": input.about} if input.about else {}
    return {"name": input.name, **kind, "required": True, **about}


def _options(prompt: CompiledPrompt, outputs: Sequence[Any]) -> dict[str, Any]:
    """Returns the sampling parameters, named so that Prompty sends the same names to OpenAI as ragc."""
    sent = prompt.sampling if outputs else prompt.parameters
    options = {_OPTIONS[name]: value for name, value in sent.items() if name in _OPTIONS}
    rest = {name: value for name, value in sent.items() if name not in _OPTIONS}
    return {**options, **({"additionalProperties": rest} if rest else {})}


def _outputs(prompt: CompiledPrompt) -> list[dict[str, Any]]:
    """Returns the outputs where their schema is sent and Prompty can express it; else none."""
    sent = prompt.parameters.get("response_format") == response_format(prompt.output_schema)
    return _property(prompt.output_schema).get("properties", []) if sent else []


def _property(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `schema` as a property of Prompty; empty if no property can express it."""
    rest = {name: value for name, value in schema.items() if name not in ("type", "description", "enum")}
    if str(schema.get("description", "")).startswith("${"):  # Prompty would substitute it
        return {}
    extras = {"description": schema["description"]} if "description" in schema else {}
    extras |= {"enumValues": schema["enum"]} if "enum" in schema else {}
    kind = schema.get("type")
    if kind == "array" and rest.keys() == {"items"} and (item := _property(rest["items"])):
        return {"kind": "array", "items": item, **extras}
    closed = (
        rest.keys() == {"properties", "required", "additionalProperties"} and not rest["additionalProperties"]
    )
    if kind == "object" and closed and rest["required"] == list(rest["properties"]):
        inner = {name: _property(node) for name, node in rest["properties"].items()}
        listed = [{"name": name, **node, "required": True} for name, node in inner.items()]
        return {"kind": "object", "properties": listed, **extras} if all(inner.values()) else {}
    return {"kind": _TYPES[kind], **extras} if kind in _TYPES and not rest else {}


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (place.inputs, "import prompty", f"messages = prompty.prepare(prompty.load({place.file}), inputs)")


KIND = Format(
    id="prompty",
    about="a Prompty file of version 2 with a Jinja2 template, typed inputs and outputs",
    suffix=SUFFIX,
    consumer="prompty[jinja2] 2.1.0",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
