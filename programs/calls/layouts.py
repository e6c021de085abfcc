"""Layouts: how a signature's instructions, demonstrations and inputs become chat messages.

`json`, `chat` and `xml` are DSPy's adapters, unchanged. `minimal` is the same in fewer tokens: labelled
inputs, numbered lists, a JSON object as the reply. Replies of `json` and `minimal` are JSON objects that a
target can enforce.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import dspy
import pydantic
from pydantic_core import to_jsonable_python

from ragc.core.text import escape_numbers
from ragc.errors import UnknownName
from ragc.programs.knobs import LAYOUTS
from ragc.signatures.wording import description

JSON_LAYOUTS = frozenset({"minimal", "json"})

INPUTS, OUTPUTS = "You are given:", "Reply with a JSON object:"
"""The lines of the layout `minimal` above what explains the inputs and above what describes the outputs."""


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


class MinimalAdapter(dspy.JSONAdapter):
    """The shortest prompt that still names every field.

    Demonstrations must hold every input and output field to be shown in full; DSPy's rule for
    incomplete ones applies unchanged.
    """

    def format_system_message(self, signature: Any) -> str:
        """Instructions, one line for each input that is explained, then one for each output field."""
        output_lines = [self._describe_output(name, info) for name, info in signature.output_fields.items()]
        explained = [
            f"- {_label(name)}: {about}"
            for name, info in signature.input_fields.items()
            if (about := description(name, info))
        ]
        inputs = ["", INPUTS, *explained] if explained else []
        return "\n".join([signature.instructions.strip(), *inputs, OUTPUTS, *output_lines])

    @staticmethod
    def _describe_output(name: str, info: Any) -> str:
        desc = description(name, info)
        about = f": {desc}" if desc else ""
        kind = "" if info.annotation is str else f" ({shape(info.annotation)})"
        return f'- "{name}"{kind}{about}'

    def format_user_message_content(
        self,
        signature: Any,
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,
    ) -> str:
        """Returns one labelled section for each input that is present."""
        sections = [self._section(name, inputs[name]) for name in signature.input_fields if name in inputs]
        return "\n".join(part for part in (prefix, *sections, suffix) if part)

    @staticmethod
    def _section(name: str, value: Any) -> str:
        if isinstance(value, list | tuple):
            items = (f"[{number}] {escape_numbers(_text(item))}" for number, item in enumerate(value, 1))
            return f"{_label(name)}:\n" + ("\n".join(items) or "none")
        return f"{_label(name)}: {_text(value)}"

    def format_assistant_message_content(
        self, signature: Any, outputs: dict[str, Any], missing_field_message: Any = None
    ) -> str:
        """Returns the JSON object of a reply."""
        return _text({name: outputs.get(name, missing_field_message) for name in signature.output_fields})


def _text(value: Any) -> str:
    """Returns a text as it is, and any other value as JSON."""
    plain = value if isinstance(value, str) else to_jsonable_python(value, fallback=str)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


@cache
def shape(annotation: Any) -> str:
    """Returns the JSON of an `annotation` in a few words: `[{"id": integer, "grade": "yes" | "no"}]`."""
    schema = pydantic.TypeAdapter(annotation).json_schema()
    return _shape(schema, schema.get("$defs") or {})


def _shape(node: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    if "$ref" in node:
        return _shape(named[node["$ref"].rsplit("/", 1)[-1]], named)
    if "enum" in node or "const" in node:
        options = node.get("enum") or [node["const"]]
        return " | ".join(json.dumps(option, ensure_ascii=False) for option in options)
    if parts := node.get("anyOf") or node.get("oneOf") or node.get("allOf"):
        return " | ".join(_shape(part, named) for part in parts)
    match node.get("type"):
        case "object":
            fields = (node.get("properties") or {}).items()
            return "{" + ", ".join(f'"{name}": {_field(part, named)}' for name, part in fields) + "}"
        case "array":
            most = f", at most {node['maxItems']}" if "maxItems" in node else ""
            return f"[{_shape(node.get('items') or {}, named)}]{most}"
        case "integer" | "number" if "minimum" in node and "maximum" in node:
            return f"{node['type']} {node['minimum']} to {node['maximum']}"
        case "boolean":
            return "true | false"
        case kind:
            return str(kind or "any JSON")


def _field(node: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    """Returns the shape of a nested field with its description."""
    about = node.get("description")
    return _shape(node, named) + (f" ({about})" if about else "")


@cache
def adapter(layout: str) -> Any:
    """Returns the DSPy adapter of `layout`; raises UnknownName."""
    makers: Mapping[str, Any] = {
        "minimal": MinimalAdapter,
        "json": dspy.JSONAdapter,
        "chat": lambda: dspy.ChatAdapter(use_json_adapter_fallback=False),
        "xml": dspy.XMLAdapter,
    }
    if layout not in makers:
        raise UnknownName("layout", layout, LAYOUTS)
    return makers[layout]()
