"""langchain: a ChatPromptTemplate in LangChain's JSON, as written by `langchain_core.load.dumps`.

Fixed messages are literal. The last one is an f-string template, or Jinja2 where it contains a list or a
flag: neither f-strings nor mustache can number the items of a list or preserve an empty one. `loads` refuses
Jinja2 unless it is called with `init_validator=None`, which the metadata of each such file states.
"""

from __future__ import annotations

from typing import Any

from ragc.exports.formats.base import json_bytes, metadata, per_prompt, refuse_inputs
from ragc.exports.loading import ExportedPrompt
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Slot, TemplateMessage

SUFFIX = ".langchain.json"
_MESSAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "system": ("SystemMessage", {"type": "system"}),
    "user": ("HumanMessage", {"type": "human"}),
    "assistant": ("AIMessage", {"type": "ai", "tool_calls": [], "invalid_tool_calls": []}),
}


def plain(prompt: CompiledPrompt) -> bool:
    """Returns whether an f-string can express the last message of `prompt`, so `loads` needs no option."""
    slots = prompt.messages[-1].slots
    return all(slot.style == "plain" and prompt.input(slot.name).kind != "flag" for slot in slots)


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    """Raises NotExpressible for an input called `self`, which is an argument of LangChain's methods."""
    refuse_inputs(prompt, ("self",), "LangChain")
    leave = "" if plain(prompt) else ", init_validator=None"
    how = f'Load it with langchain_core.load.loads(text, allowed_objects="core"{leave}).'
    how += "" if plain(prompt) else " Without that, loads refuses Jinja2."
    values = {
        "input_variables": _names(prompt),
        "metadata": metadata(program, prompt, how),
        "messages": [_message(prompt, message) for message in prompt.messages],
    }
    document = {**_constructor("prompts", "chat", "ChatPromptTemplate", values), "name": "ChatPromptTemplate"}
    return json_bytes(document)


def _names(prompt: CompiledPrompt) -> list[str]:
    return sorted(one.name for one in prompt.inputs)


def _message(prompt: CompiledPrompt, message: TemplateMessage) -> dict[str, Any]:
    if message.fixed_text is not None:
        name, more = _MESSAGES[message.role]
        return _constructor("schema", "messages", name, {"content": message.fixed_text, **more})
    values = {
        "input_variables": _names(prompt),
        "template": _braces(message) if plain(prompt) else _jinja2(prompt, message),
        "template_format": "f-string" if plain(prompt) else "jinja2",
    }
    template = {**_constructor("prompts", "prompt", "PromptTemplate", values), "name": "PromptTemplate"}
    return _constructor("prompts", "chat", "HumanMessagePromptTemplate", {"prompt": template})


def _constructor(*names_and_values: Any) -> dict[str, Any]:
    """Returns LangChain's serialization of an object: the path of its class and its constructor arguments."""
    *names, values = names_and_values
    return {"lc": 1, "type": "constructor", "id": ["langchain", *names], "kwargs": values}


def _braces(message: TemplateMessage) -> str:
    """Returns the f-string template of `message`."""
    escaped = str.maketrans({"{": "{{", "}": "}}"})
    return "".join(f"{{{p.name}}}" if isinstance(p, Slot) else p.translate(escaped) for p in message.parts)


def _jinja2(prompt: CompiledPrompt, message: TemplateMessage) -> str:
    from ragc.prompts.render import template

    return template(prompt, message)


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        at.inputs,
        "import pathlib",
        "from langchain_core.load import loads",
        f"text = pathlib.Path({at.file}).read_text('utf-8')",
        "made = loads(text, allowed_objects='core', init_validator=None)  # without both it is refused",
        "messages = made.invoke(inputs).to_messages()",
    )


KIND = Format(
    id="langchain",
    about="a ChatPromptTemplate as LangChain writes it, with the parameters and schemas in its metadata",
    suffix=SUFFIX,
    consumer="langchain-core 1.7.2, loads(text, allowed_objects='core', init_validator=None)",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
