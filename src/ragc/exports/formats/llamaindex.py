r"""llamaindex: the text of a RichPromptTemplate: `{% chat role="system" %}` blocks with Jinja2 in them.

LlamaIndex strips white space from both ends of a message. If that could change one, the message passes
through `cache_control`, a filter that preserves its text. The filter's own end mark inside a text would end
it, so each `<` is written as U+E000 `b` inside it, and U+E000 itself as U+E000 `a`. LlamaIndex renders a
missing input as nothing.
"""

from __future__ import annotations

import json

from ragc.exports.formats.base import metadata, per_prompt, refuse_inputs
from ragc.exports.loading import ExportedPrompt
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram, Part, TemplateMessage

SUFFIX = ".llamaindex.jinja"
TAKEN = ("llm", "self", "canary_word")
"""Reserved names in `format_messages` and in banks, which renders for LlamaIndex."""

_OPEN = (
    '{% filter replace("\\ue000", "\\ue000a") | replace("<", "\\ue000b") | cache_control'
    ' | replace("\\ue000b", "\\\\u003c") | replace("\\ue000a", "\\ue000") %}'
)
_CLOSE = "{%+ endfilter %}"


def _file(program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    """Raises NotExpressible for an input called `llm`, `self` or `canary_word`."""
    refuse_inputs(prompt, TAKEN, "LlamaIndex")
    how = (
        "Give this text to llama_index.core.prompts.RichPromptTemplate and call its format_messages with"
        " every input: a missing one is written as nothing."
    )
    header = json.dumps(metadata(program, prompt, how), indent=2, ensure_ascii=False)
    head = "{#\n" + header.replace("#}", "#\\u007d") + "\n#}\n"
    return (head + "".join(_block(prompt, message) for message in prompt.messages)).encode()


def _block(prompt: CompiledPrompt, message: TemplateMessage) -> str:
    from ragc.prompts.render import template

    source = template(prompt, message)
    if source.startswith("\n"):  # a newline directly after a block is dropped
        source = '{{ "\\n" }}' + source[1:]
    before, after = (_OPEN, _CLOSE) if _may_end_in_space(message) else ("", "")
    return f'{{% chat role="{message.role}" %}}{before}{source}{after}{{% endchat %}}\n'


def _may_end_in_space(message: TemplateMessage) -> bool:
    """Returns whether `message` may begin or end with white space."""
    ends = [*message.parts[:1], *message.parts[-1:]]
    return any(_may_be_space(part, at) for part, at in zip(ends, (0, -1), strict=False))


def _may_be_space(part: Part, at: int) -> bool:
    return part[at].isspace() if isinstance(part, str) else part.style != "json"


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        at.inputs,
        "import pathlib",
        "from llama_index.core.prompts import RichPromptTemplate",
        f"made = RichPromptTemplate(pathlib.Path({at.file}).read_text('utf-8'))",
        "messages = made.format_messages(**inputs)",
    )


KIND = Format(
    id="llamaindex",
    about="the text of a RichPromptTemplate of LlamaIndex, with the parameters and schemas in a comment",
    suffix=SUFFIX,
    consumer="llama-index-core 0.14.25, RichPromptTemplate(text).format_messages",
    write=per_prompt(SUFFIX, _file),
    load=load,
)
