"""The prompt renderer: a prompt as Jinja2 templates, and its messages for given inputs.

Templates depend on nothing of ragc. They render the same for any `trim_blocks`, `lstrip_blocks` and
`keep_trailing_newline`, as long as autoescape is off, and fail for a missing input if `undefined` is
StrictUndefined. A text in the place of a list is refused in every environment, including sandboxes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ragc.core.text import escape_numbers, escape_value
from ragc.errors import UsageError
from ragc.prompts.model import CompiledPrompt, Input, Slot, TemplateMessage
from ragc.targets.base import Message

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

_SHORT = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
ESCAPES: Mapping[str, str] = {**_SHORT, **{chr(i): f"\\u{i:04x}" for i in range(32) if chr(i) not in _SHORT}}
"""JSON escapes of the characters that need one; the backslash comes first."""


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


_FITS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "text": ("a text", lambda value: isinstance(value, str)),
    "integer": ("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "number": (
        "a number",
        lambda value: type(value) is int or (isinstance(value, float) and math.isfinite(value)),
    ),
    "flag": ("true or false", lambda value: isinstance(value, bool)),
}


def escaped_inputs(prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `inputs` as the program shows them: markers, and numbers in a numbered list, lose their effect.

    Raises UsageError when an input is missing, unknown or of the wrong type.
    """
    names = [input.name for input in prompt.inputs]
    if inputs.keys() != set(names):
        expected, received = ", ".join(names) or "none", ", ".join(inputs) or "none"
        raise UsageError(f"The prompt {prompt.name!r} has the inputs {expected}; found {received}.")
    for input in prompt.inputs:
        if not fits(input, inputs[input.name]):
            expected = f"a list of {input.kind} items" if input.many else _FITS[input.kind][0]
            raise UsageError(f"The input {input.name!r} of {prompt.name!r} must be {expected}.")
    escaped: dict[str, Any] = escape_value(dict(inputs))
    for name in names:
        if prompt.style_of(name) == "lines" and prompt.input(name).kind == "text":
            escaped[name] = [escape_numbers(item) for item in escaped[name]]
    return escaped


def fits(input: Input, value: Any) -> bool:
    """Returns whether `value` has the type of `input`; numbers must be finite."""
    item_fits = _FITS[input.kind][1]
    return isinstance(value, list | tuple) and all(map(item_fits, value)) if input.many else item_fits(value)


def render(prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> tuple[Message, ...]:
    """Returns the messages that a call of `prompt` with `inputs` sends. Raises as `escaped_inputs`."""
    shown = escaped_inputs(prompt, inputs)
    return tuple(
        Message(m.role, _compile_template(template(prompt, m)).render(shown)) for m in prompt.messages
    )


@cache
def environment() -> SandboxedEnvironment:
    """Returns the environment of all rendering: sandboxed, strict on undefined names, no autoescape."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)


@cache
def _compile_template(source: str) -> Any:
    return environment().from_string(source)


def template(prompt: CompiledPrompt, message: TemplateMessage) -> str:
    """Returns the Jinja2 source of the content of `message`."""
    return compose(message, lambda slot: slot_source(prompt.input(slot.name), slot, slot.name))


def compose(message: TemplateMessage, slot: Callable[[Slot], str], fixed: Callable[[str], str] = str) -> str:
    """Returns the source of `message`: each slot by `slot`, each fixed text as Jinja2, changed by `fixed`."""
    source = ""
    for part in message.parts:
        if isinstance(part, Slot):
            source += slot(part)
        else:
            rest = part is not message.parts[-1]
            source += fixed(literal(part, after_block=source.endswith("%}"), rest=rest))
    return source


def literal(text: str, *, after_block: bool = False, rest: bool = False) -> str:
    """Returns Jinja2 source that renders as `text`.

    Some characters are written as expressions: an opening brace that could begin a tag, every CR, white space
    at the end of the last line (`lstrip_blocks`), a final LF where nothing follows (`rest` is false), and a
    leading one after a block (`trim_blocks`).
    """
    awkward = r"\{(?=[{%#\s]|\Z)|\r|\n[^\S\n]+\Z|\A[^\S\n]+\Z"
    awkward += ("" if rest else r"|\n\Z") + (r"|\A\n" if after_block else "")
    return re.sub(awkward, lambda match: f"{{{{ {quote(match[0])} }}}}", text)


def quote(text: str) -> str:
    """Returns `text` as a string literal of Jinja2."""
    return '"' + "".join(ESCAPES.get(c, c).replace("\\u00", "\\x") for c in text) + '"'


JSON_FILTERS = "".join(f"|replace({quote(raw)}, {quote(escaped)})" for raw, escaped in ESCAPES.items())
"""Jinja2 filters that escape a text for JSON."""


def slot_source(
    input: Input,
    slot: Slot,
    name: str,
    *,
    text: str = "{}",
    in_json: str = f'"{{{{ item{JSON_FILTERS} }}}}"',
    guarded: bool = True,
) -> str:
    """Returns Jinja2 or Nunjucks source of a slot of `input`, whose variable is called `name`.

    `text` makes the expression of a text from its variable, `in_json` is the source of an item in JSON. With
    `guarded` it fails for a text in the place of a list, which a loop would split into letters.
    """

    def value(variable: str, words: tuple[str, str]) -> str:
        if input.kind == "flag":
            return f'{{{{ "{words[0]}" if {variable} else "{words[1]}" }}}}'
        return f"{{{{ {text.format(variable) if input.kind == 'text' else variable} }}}}"

    if slot.style == "plain":
        return value(name, slot.words)
    item = value("item", ("true", "false"))
    # calling an undefined function fails in every environment
    call = f"{name}[{quote(f'{input.name} must be a list, not a text')}]()"
    refusal = f"{{% if {name} is string %}}{{{{ {call} }}}}{{% endif %}}" if guarded else ""
    if slot.style == "lines":
        line = f'[{{{{ loop.index }}}}] {item}{{% if not loop.last %}}{{{{ "\\n" }}}}{{% endif %}}'
        return f"{refusal}{{% for item in {name} %}}{line}{{% else %}}none{{% endfor %}}"
    item = in_json if input.kind == "text" else item
    return f"{refusal}[{{% for item in {name} %}}{item}{{% if not loop.last %}}, {{% endif %}}{{% endfor %}}]"
