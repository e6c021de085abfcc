"""jinja2: a JSON array of messages, each content a Jinja2 template, with the schemas of inputs and reply."""

from __future__ import annotations

from typing import Any

from ragc.exports.formats.base import ExportedPrompt, Format, json_text, metadata, per_prompt
from ragc.prompts.model import CompiledPrompt, ExportedProgram, with_source
from ragc.prompts.render import template

SUFFIX = ".jinja.json"


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    facts = metadata(program, prompt, "Render each content, without autoescape.")
    head: dict[str, Any] = {key: facts.pop(key) for key in ("about", "program", "note") if key in facts}
    messages = [{"role": m.role, "content": template(prompt, m)} for m in prompt.messages]
    return json_text(with_source(prompt, {**head, "messages": messages, **facts}))


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        place.inputs,
        "import json, pathlib, jinja2",
        f"prompt = json.loads(pathlib.Path({place.file}).read_text('utf-8'))",
        "jinja = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)",
        "render = lambda text: jinja.from_string(text).render(inputs)",
        "messages = [{**message, 'content': render(message['content'])} for message in prompt['messages']]",
    )


KIND = Format(
    id="jinja2",
    about="a JSON array of messages, each content a Jinja2 template, with the schemas of inputs and reply",
    suffix=SUFFIX,
    consumer="jinja2 3.1, any environment without autoescape",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
