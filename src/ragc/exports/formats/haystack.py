"""haystack: a YAML pipeline with one ChatPromptBuilder, to which the user connects a generator.

The model, the generator's parameters and the schemas are in the pipeline's metadata. A missing input is an
error in Haystack.
"""

from __future__ import annotations

from typing import Any

from ragc.exports.formats.base import ExportedPrompt, Format, metadata, per_prompt, refuse_inputs, yaml_text
from ragc.prompts.model import CompiledPrompt, ExportedProgram, TemplateMessage
from ragc.prompts.render import template

SUFFIX = ".haystack.yaml"
BUILDER = "prompt_builder"
"""The name of the component that builds the messages."""

_REFUSED = "templatize_part"
"""Forbidden in a template of several messages; Haystack checks the fixed text too."""

TAKEN = ("self", "template", "template_variables", _REFUSED)
"""Reserved inputs of the component."""


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    refuse_inputs(prompt, TAKEN, "Haystack")
    names = [input.name for input in prompt.inputs]
    how = f"Load it with Pipeline.loads, add a chat generator and connect {BUILDER}.prompt to its messages."
    messages = [_message(prompt, message) for message in prompt.messages]
    component = {
        "type": "haystack.components.builders.chat_prompt_builder.ChatPromptBuilder",
        "init_parameters": {"template": messages, "variables": names, "required_variables": names},
    }
    pipeline = {
        "metadata": metadata(program, prompt, how),
        "max_runs_per_component": 100,
        "components": {BUILDER: component},
        "connections": [],
        "connection_type_validation": True,
    }
    return yaml_text(pipeline, blocks=True)


def _message(prompt: CompiledPrompt, message: TemplateMessage) -> dict[str, Any]:
    """Returns a message in Haystack's format; the assistant's are not templates."""
    text = message.fixed_text
    if message.role != "assistant":
        text = template(prompt, message).replace(_REFUSED, 'templatize{{ "_" }}part')
    return {"role": message.role, "meta": {}, "name": None, "content": [{"text": text}]}


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        place.inputs,
        "import pathlib",
        "from haystack import Pipeline",
        f"pipeline = Pipeline.loads(pathlib.Path({place.file}).read_text('utf-8'))",
        f"messages = pipeline.run({{'{BUILDER}': inputs}})['{BUILDER}']['prompt']",
    )


KIND = Format(
    id="haystack",
    about="a Haystack pipeline of one ChatPromptBuilder, with the parameters and schemas in its metadata",
    suffix=SUFFIX,
    consumer="haystack-ai 3.4.0, Pipeline.loads",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
