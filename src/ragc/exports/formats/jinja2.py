"""jinja2: a JSON array of messages, each content a Jinja2 template, with the schemas of inputs and reply."""

from __future__ import annotations

from typing import Any

from ragc.exports.formats.base import json_bytes, per_prompt
from ragc.exports.loading import ExportedPrompt
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram

SUFFIX = ".jinja.json"


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    from ragc.prompts.model import reading, with_source
    from ragc.prompts.render import template

    messages = [{"role": m.role, "content": template(prompt, m)} for m in prompt.messages]
    document: dict[str, Any] = {
        "about": f"The prompt {prompt.name} of {program.method}. Render each content, without autoescape.",
        "program": program.fingerprint,
        **({"note": program.note} if program.note else {}),
        "messages": messages,
        "input_schema": prompt.input_schema,
        "output_schema": dict(prompt.output_schema),
        "reply": reading(prompt),
        "model": program.model(prompt),
        "parameters": prompt.parameters(),
    }
    return json_bytes(with_source(prompt, document))


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        at.inputs,
        "import json, pathlib, jinja2",
        f"made = json.loads(pathlib.Path({at.file}).read_text('utf-8'))",
        "jinja = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)",
        "render = lambda text: jinja.from_string(text).render(inputs)",
        "messages = [{**one, 'content': render(one['content'])} for one in made['messages']]",
    )


KIND = Format(
    id="jinja2",
    about="a JSON array of messages, each content a Jinja2 template, with the schemas of inputs and reply",
    suffix=SUFFIX,
    consumer="jinja2 3.1, any environment without autoescape",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
