"""How replies are read, as data: what a consumer has to do to get a prompt's outputs from a reply's text."""

from __future__ import annotations

from typing import Any

from ragc.exports.prompt import CompiledPrompt

AGAIN = (
    "That reply could not be read: {error} "
    "Reply again with only a JSON object that has exactly these fields: {fields}."
)
"""What a reply that cannot be read is answered with, once; `fields` are the names in double quotes."""

_HOW = {
    "json": "The reply is a JSON object that fits the schema; prose around it is cut off first.",
    "markers": (
        "A line that begins with a field's marker begins its value, on the same line or after it, up to the "
        "next marker; the value loses white space at its ends. A value that is not a text is JSON."
    ),
    "tags": (
        "Each field's value stands between its tags, white space at its ends lost and XML entities read. "
        "Nested values are nested tags, list items <item>. A value that is not a text is JSON."
    ),
}


def style(prompt: CompiledPrompt) -> str:
    """How the reply is written: `json`, `markers` or `tags`."""
    return {"chat": "markers", "xml": "tags"}.get(prompt.layout, "json")


def marker(prompt: CompiledPrompt, field: str) -> str:
    """What stands before the value of an output `field`; empty where the reply is JSON."""
    return {"markers": f"[[ ## {field} ## ]]", "tags": f"<{field}>"}.get(style(prompt), "")


def reading(prompt: CompiledPrompt) -> dict[str, Any]:
    """JSON values that say how a reply of `prompt` is read, and what is sent when it cannot be."""
    kind = style(prompt)
    names = ", ".join(f'"{one.name}"' for one in prompt.outputs)
    return {
        "style": kind,
        "how": _HOW[kind],
        "fields": {
            one.name: {
                **({"marker": marker(prompt, one.name)} if kind != "json" else {}),
                **({"about": one.about} if one.about else {}),
            }
            for one in prompt.outputs
        },
        "repair": {
            "append": ["assistant: the reply", "user: the text below"],
            "text": AGAIN,
            "fields": names,
        },
    }
