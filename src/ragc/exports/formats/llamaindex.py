r"""llamaindex: the text of a RichPromptTemplate: `{% chat role="system" %}` blocks with Jinja2 in them.

LlamaIndex strips white space from both ends of a message. If that could change one, the message passes
through `cache_control`, a filter that preserves its text. The filter's own end mark inside a text would end
it, so each `<` is written as U+E000 `b` inside it, and U+E000 itself as U+E000 `a`. LlamaIndex renders a
missing input as nothing.
"""

from __future__ import annotations

from ragc.exports.formats.base import ExportedPrompt, Format, json_text, metadata, per_prompt, refuse_inputs
from ragc.prompts.model import CompiledPrompt, ExportedProgram, TemplateMessage
from ragc.prompts.render import template

SUFFIX = ".llamaindex.jinja"
TAKEN = ("llm", "self", "canary_word")
"""Reserved names in `format_messages` and in banks, which renders for LlamaIndex."""

_OPEN = (
    '{% filter replace("\\ue000", "\\ue000a") | replace("<", "\\ue000b") | cache_control'
    ' | replace("\\ue000b", "\\\\u003c") | replace("\\ue000a", "\\ue000") %}'
)
_CLOSE = "{%+ endfilter %}"


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    refuse_inputs(prompt, TAKEN, "LlamaIndex")
    how = (
        "Give this text to llama_index.core.prompts.RichPromptTemplate and call its format_messages with"
        " every input: a missing one is written as nothing."
    )
    header = json_text(metadata(program, prompt, how)).replace("#}", "#\\u007d")
    return f"{{#\n{header}#}}\n" + "".join(_block(prompt, message) for message in prompt.messages)


def _block(prompt: CompiledPrompt, message: TemplateMessage) -> str:
    source = template(prompt, message)
    if source.startswith("\n"):  # a newline directly after a block is dropped
        source = '{{ "\\n" }}' + source[1:]
    ends = zip((*message.parts[:1], *message.parts[-1:]), (0, -1), strict=False)
    if any(part[end].isspace() if isinstance(part, str) else part.style != "json" for part, end in ends):
        source = _OPEN + source + _CLOSE
    return f'{{% chat role="{message.role}" %}}{source}{{% endchat %}}\n'


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        place.inputs,
        "import pathlib",
        "from llama_index.core.prompts import RichPromptTemplate",
        f"prompt = RichPromptTemplate(pathlib.Path({place.file}).read_text('utf-8'))",
        "messages = prompt.format_messages(**inputs)",
    )


KIND = Format(
    id="llamaindex",
    about="the text of a RichPromptTemplate of LlamaIndex, with the parameters and schemas in a comment",
    suffix=SUFFIX,
    consumer="llama-index-core 0.14.25, RichPromptTemplate(text).format_messages",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
