"""langchain: a ChatPromptTemplate in LangChain's JSON, as written by `langchain_core.load.dumps`.

Fixed messages are literal. The last one is an f-string template, or Jinja2 where it contains a list or a
flag: neither f-strings nor mustache can number the items of a list or preserve an empty one. `loads` refuses
Jinja2 unless it is called with `init_validator=None`, which the metadata of each such file states.
"""

from __future__ import annotations

from typing import Any

from ragc.exports.formats.base import ExportedPrompt, Format, json_text, metadata, per_prompt, refuse_inputs
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Slot, TemplateMessage
from ragc.prompts.render import template

SUFFIX = ".langchain.json"
TAKEN = ("self",)
"""An argument of LangChain's methods."""

_MESSAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "system": ("SystemMessage", {"type": "system"}),
    "user": ("HumanMessage", {"type": "human"}),
    "assistant": ("AIMessage", {"type": "ai", "tool_calls": [], "invalid_tool_calls": []}),
}
_BRACES = str.maketrans({"{": "{{", "}": "}}"})


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    refuse_inputs(prompt, TAKEN, "LangChain")
    option, why = ("", "")
    if not _plain(prompt):
        option, why = ", init_validator=None", " Without that, loads refuses Jinja2."
    how = f'Load it with langchain_core.load.loads(text, allowed_objects="core"{option}).{why}'
    values = {
        "input_variables": sorted(input.name for input in prompt.inputs),
        "metadata": metadata(program, prompt, how),
        "messages": [_message(prompt, message) for message in prompt.messages],
    }
    document = _constructor("prompts", "chat", "ChatPromptTemplate", values)
    return json_text({**document, "name": "ChatPromptTemplate"})


def _plain(prompt: CompiledPrompt) -> bool:
    """Returns whether an f-string can express the last message of `prompt`, so `loads` needs no option."""
    slots = prompt.messages[-1].slots
    return all(slot.style == "plain" and prompt.input(slot.name).kind != "flag" for slot in slots)


def _message(prompt: CompiledPrompt, message: TemplateMessage) -> dict[str, Any]:
    if message.fixed_text is not None:
        name, more = _MESSAGES[message.role]
        return _constructor("schema", "messages", name, {"content": message.fixed_text, **more})
    text, format = template(prompt, message), "jinja2"
    if _plain(prompt):
        parts = (f"{{{p.name}}}" if isinstance(p, Slot) else p.translate(_BRACES) for p in message.parts)
        text, format = "".join(parts), "f-string"
    names = sorted(input.name for input in prompt.inputs)
    values = {"input_variables": names, "template": text, "template_format": format}
    inner = {**_constructor("prompts", "prompt", "PromptTemplate", values), "name": "PromptTemplate"}
    return _constructor("prompts", "chat", "HumanMessagePromptTemplate", {"prompt": inner})


def _constructor(*names_and_values: Any) -> dict[str, Any]:
    """Returns LangChain's serialization of an object: the path of its class and its constructor arguments."""
    *names, values = names_and_values
    return {"lc": 1, "type": "constructor", "id": ["langchain", *names], "kwargs": values}


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        place.inputs,
        "import pathlib",
        "from langchain_core.load import loads",
        f"text = pathlib.Path({place.file}).read_text('utf-8')",
        "prompt = loads(text, allowed_objects='core', init_validator=None)  # without both it is refused",
        "messages = prompt.invoke(inputs).to_messages()",
    )


KIND = Format(
    id="langchain",
    about="a ChatPromptTemplate as LangChain writes it, with the parameters and schemas in its metadata",
    suffix=SUFFIX,
    consumer="langchain-core 1.7.2, loads(text, allowed_objects='core', init_validator=None)",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
