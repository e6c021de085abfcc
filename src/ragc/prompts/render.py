"""The prompt renderer: a prompt as Jinja2 templates, and its messages for given inputs.

Templates depend on nothing of ragc. They render the same for any `trim_blocks`, `lstrip_blocks` and
`keep_trailing_newline`, as long as autoescape is off, and fail for a missing input if `undefined` is
StrictUndefined. A text in the place of a list is refused in every environment, including sandboxes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from ragc.core.text import escape_numbers, escape_value
from ragc.errors import UsageError
from ragc.prompts.model import CompiledPrompt, Input, Slot, TemplateMessage
from ragc.targets.base import Message

_SHORT = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
ESCAPES: Mapping[str, str] = {**_SHORT, **{chr(i): f"\\u{i:04x}" for i in range(32) if chr(i) not in _SHORT}}
"""JSON escapes of the characters that need one; the backslash comes first."""

_NOUNS = {"text": "a text", "number": "a number", "integer": "an integer", "flag": "true or false"}
_PYTHON: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "number": (int, float),
    "flag": (bool,),
}


def render(prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> tuple[Message, ...]:
    """Returns the messages that a call of `prompt` with `inputs` sends.

    Raises UsageError when an input is missing, unknown or of the wrong type.
    """
    check_inputs(prompt, inputs)
    lines = {slot.name for message in prompt.messages for slot in message.slots if slot.style == "lines"}
    shown = {
        name: [escape_numbers(item) if isinstance(item, str) else item for item in value]
        if name in lines
        else value
        for name, value in escape_value(dict(inputs)).items()
    }
    return tuple(
        Message(message.role, _compile_template(template(prompt, message)).render(**shown))
        for message in prompt.messages
    )


def check_inputs(prompt: CompiledPrompt, inputs: Mapping[str, Any]) -> None:
    """Raises UsageError unless `inputs` are exactly those of `prompt`, each of its type."""
    known = {one.name: one for one in prompt.inputs}
    if inputs.keys() != known.keys():
        expected, received = ", ".join(known) or "none", ", ".join(inputs) or "none"
        raise UsageError(f"The prompt {prompt.name!r} has the inputs {expected}; found {received}.")
    for name, one in known.items():
        if not fits(one, inputs[name]):
            expected = f"a list of {one.kind} items" if one.many else _NOUNS[one.kind]
            raise UsageError(f"The input {name!r} of {prompt.name!r} must be {expected}.")


def fits(one: Input, value: Any) -> bool:
    """Returns whether `value` has the type of the input `one`; numbers must be finite."""
    if one.many:
        return isinstance(value, list | tuple) and all(_fits(one.kind, item) for item in value)
    return _fits(one.kind, value)


def _fits(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "flag"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _PYTHON[kind])


def template(prompt: CompiledPrompt, message: TemplateMessage) -> str:
    """Returns the Jinja2 source of the content of `message`."""
    source, after = "", False
    for part in message.parts:
        if isinstance(part, str):
            source += literal(part, after_block=after, rest=part is not message.parts[-1])
            after = False
        else:
            source += _slot(prompt, part)
            after = source.endswith("%}")
    return source


def literal(text: str, *, after_block: bool = False, rest: bool = False) -> str:
    """Returns Jinja2 source that renders as `text`.

    Some characters are written as expressions: an opening brace that could begin a tag, every CR, white space
    at the end of the last line (`lstrip_blocks`), a final LF where nothing follows (`rest` is false), and a
    leading one after a block (`trim_blocks`).
    """
    awkward = r"\{(?=[{%#\s]|\Z)|\r|\n[^\S\n]+\Z|\A[^\S\n]+\Z"
    awkward += ("" if rest else r"|\n\Z") + (r"|\A\n" if after_block else "")
    return re.sub(awkward, lambda match: f"{{{{ {_quote(match[0])} }}}}", text)


def _quote(text: str) -> str:
    """Returns `text` as a string literal of Jinja2."""
    return '"' + "".join(ESCAPES.get(c, c).replace("\\u00", "\\x") for c in text) + '"'


def _slot(prompt: CompiledPrompt, slot: Slot) -> str:
    kind, name = prompt.input(slot.name).kind, slot.name
    if slot.style == "plain":
        return f"{{{{ {_value(kind, name, slot.words)} }}}}"
    item = _value(kind, "item", ("true", "false"))
    shown = f"{{{{ {item} }}}}"
    if slot.style == "json" and kind == "text":
        shown = f'"{{{{ {_add_escapes(item)} }}}}"'
    return guard(slot.name, name) + loop(slot, name, shown)


def loop(slot: Slot, name: str, shown: str) -> str:
    """Returns Jinja2 and Nunjucks source that writes the list `name` in the style of `slot`; `shown` is the
    source of one `item`.
    """
    if slot.style == "lines":
        return (
            f"{{% for item in {name} %}}[{{{{ loop.index }}}}] {shown}"
            '{% if not loop.last %}{{ "\\n" }}{% endif %}{% else %}none{% endfor %}'
        )
    return f"[{{% for item in {name} %}}{shown}{{% if not loop.last %}}, {{% endif %}}{{% endfor %}}]"


def guard(input: str, name: str) -> str:
    """Returns Jinja2 and Nunjucks source that fails where `name` is a text, which a loop would split into
    letters.

    `input` is its name in the error. Calling an undefined function fails in every environment.
    """
    message = _quote(f"{input} must be a list, not a text")
    return f"{{% if {name} is string %}}{{{{ {name}[{message}]() }}}}{{% endif %}}"


def _value(kind: str, name: str, words: tuple[str, str]) -> str:
    return f'"{words[0]}" if {name} else "{words[1]}"' if kind == "flag" else name


def _add_escapes(name: str) -> str:
    return name + "".join(f"|replace({_quote(raw)}, {_quote(escaped)})" for raw, escaped in ESCAPES.items())


@cache
def environment() -> SandboxedEnvironment:
    """Returns the environment of all rendering: sandboxed, strict on undefined names, no autoescape."""
    return SandboxedEnvironment(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True)


@cache
def _compile_template(source: str) -> Any:
    return environment().from_string(source)
