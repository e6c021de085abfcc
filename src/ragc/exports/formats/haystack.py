"""haystack: a YAML pipeline with one ChatPromptBuilder, to which the user connects a generator.

The model, the generator's parameters and the schemas are in the pipeline's metadata. A missing input is an
error in Haystack.
"""

from __future__ import annotations

from typing import Any

from ragc.exports.formats.base import metadata, per_prompt, refuse_inputs
from ragc.exports.loading import ExportedPrompt
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram, TemplateMessage

SUFFIX = ".haystack.yaml"
BUILDER = "prompt_builder"
"""The name of the component that builds the messages."""

_BUILDER = "haystack.components.builders.chat_prompt_builder.ChatPromptBuilder"
_REFUSED = "templatize_part"
"""Forbidden in a template of several messages; Haystack checks the fixed text too."""

TAKEN = ("self", "template", "template_variables", _REFUSED)
"""Reserved inputs of the component."""


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    """Raises NotExpressible for an input with a reserved name."""
    refuse_inputs(prompt, TAKEN, "Haystack")
    names = [one.name for one in prompt.inputs]
    how = f"Load it with Pipeline.loads, add a chat generator and connect {BUILDER}.prompt to its messages."
    template = [_message(prompt, message) for message in prompt.messages]
    values = {"template": template, "variables": names, "required_variables": names}
    pipeline = {
        "metadata": metadata(program, prompt, how),
        "max_runs_per_component": 100,
        "components": {BUILDER: {"type": _BUILDER, "init_parameters": values}},
        "connections": [],
        "connection_type_validation": True,
    }
    return _yaml(pipeline).encode()


def _message(prompt: CompiledPrompt, message: TemplateMessage) -> dict[str, Any]:
    """Returns a message in Haystack's format; the assistant's are not templates."""
    from ragc.prompts.render import template

    text = message.fixed_text if message.role == "assistant" else _source(template(prompt, message))
    return {"role": message.role, "meta": {}, "name": None, "content": [{"text": text}]}


def _source(source: str) -> str:
    return source.replace(_REFUSED, 'templatize{{ "_" }}part')


def _yaml(value: Any) -> str:
    """Returns YAML with multi-line texts as blocks, quoted where a block would not be read back the same."""
    import yaml

    class Quotes(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        style = "|" if "\n" in data else None
        style = style if data.replace("\n", "").isprintable() else '"'  # only quoted strings preserve U+0085
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    class Blocks(Quotes):
        pass

    Blocks.add_representer(str, text)
    document = yaml.dump(value, Dumper=Blocks, sort_keys=False, allow_unicode=True, width=110)
    try:
        same = yaml.safe_load(document) == value
    except yaml.YAMLError:
        same = False
    if not same:
        document = yaml.dump(value, Dumper=Quotes, sort_keys=False, allow_unicode=False, width=110)
    return str(document)


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        at.inputs,
        "import pathlib",
        "from haystack import Pipeline",
        f"made = Pipeline.loads(pathlib.Path({at.file}).read_text('utf-8'))",
        f"messages = made.run({{'{BUILDER}': inputs}})['{BUILDER}']['prompt']",
    )


KIND = Format(
    id="haystack",
    about="a Haystack pipeline of one ChatPromptBuilder, with the parameters and schemas in its metadata",
    suffix=SUFFIX,
    consumer="haystack-ai 3.4.0, Pipeline.loads",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
