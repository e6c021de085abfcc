"""Converts names, values and types to BAML's syntax.

A JSON schema becomes classes and unions. Bounds become assertions. What BAML cannot express (patterns,
formats) is only in the schema that is sent with every request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ragc.prompts.model import NotExpressible

RESERVED = frozenset(
    """
    and any assert async audio await bool break class continue ctx def del do dynamic elif else enum env
    except extends false finally float for from function get global if image import in instanceof int is
    lambda let loop macro map mut namespace new none nonlocal not null or pass pdf raise register return
    self set string super this throw true try type video while with yield
    """.split()  # noqa: SIM905
)
"""Names, in lower case, that BAML or Jinja reserves where a field or an input is named."""

OTHERS = ("jinja2", "openai-json", "python")
"""Formats that can express what BAML cannot."""

_BOUNDS = {
    "minimum": "this >= {}",
    "maximum": "this <= {}",
    "exclusiveMinimum": "this > {}",
    "exclusiveMaximum": "this < {}",
    "minLength": "this|length >= {}",
    "maxLength": "this|length <= {}",
    "minItems": "this|length >= {}",
    "maxItems": "this|length <= {}",
}
_PLAIN = {"string": "string", "integer": "int", "number": "float", "boolean": "bool", "null": "null"}


class NoBamlType(Exception):
    """A schema that BAML's types cannot express; the reply then remains text."""


def names(originals: Iterable[str]) -> dict[str, str]:
    """Returns a valid BAML name for each of `originals`: itself, or with `_` or a number appended."""
    baml_names: dict[str, str] = {}
    for name in originals:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = plain if re.match("[A-Za-z]", plain) else f"x{plain}"
        baml_names[name] = distinct(f"{plain}_" if plain.lower() in RESERVED else plain, baml_names.values())
    return baml_names


def line(comment: str) -> str:
    """Returns `comment` as one line that is valid in a comment."""
    return " ".join("".join(c if c.isprintable() else " " for c in comment).split())


def pascal(name: str) -> str:
    """Returns `claim_judge` as `ClaimJudge`: a name for a function or class."""
    words = re.findall("[A-Za-z0-9]+", name)
    joined = "".join(word[0].upper() + word[1:] for word in words)
    return f"X{joined}" if not joined[:1].isalpha() or joined.lower() in {*RESERVED, "json"} else joined


def distinct(name: str, taken: Iterable[str]) -> str:
    """Returns `name`, with a number appended if it is taken; case is ignored."""
    known = {other.lower() for other in taken}
    candidate, number = name, 2
    while candidate.lower() in known:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def value(option: Any, indent: str = "") -> str:
    """Returns a JSON value in BAML's syntax for client options, over several lines, indented by `indent`.

    Raises NotExpressible for a text or key that BAML cannot represent.
    """
    if isinstance(option, Mapping):
        deeper = f"{indent}  "
        lines = (f"{deeper}{_key(key)} {value(item, deeper)}\n" for key, item in option.items())
        return "{\n" + "".join(lines) + indent + "}" if option else "{}"
    if isinstance(option, list | tuple):
        return "[" + ", ".join(value(item, indent) for item in option) + "]"
    if isinstance(option, str):
        return text(option)
    if isinstance(option, float):
        return format(Decimal(repr(option)), "f")
    return json.dumps(option)


def text(content: str) -> str:
    """Returns a quoted string. A final backslash would escape the closing quote in BAML, so such a text is
    raw.
    """
    if content.endswith("\\"):
        if content != content.strip() or "\n" in content or '"#' in content:
            raise NotExpressible(f"The text {content!r}", "BAML cannot quote it", OTHERS)
        return f'#"{content}"#'
    for raw, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        content = content.replace(raw, escaped)
    return f'"{content}"'


def _key(name: str) -> str:
    if re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name):
        return name
    if re.search(r'["\\\n\r]', name):
        raise NotExpressible(f"The name {name!r} in a schema", "BAML cannot quote it", OTHERS)
    return f'"{name}"'


class Types:
    """The classes of a prompt's outputs, named after its function `name`; `taken` are names in use.

    After `reply` was called, `written` holds their BAML source and `fields` the reply's field names by
    output.
    """

    def __init__(self, name: str, schema: Mapping[str, Any], taken: set[str]) -> None:
        self.written: list[str] = []
        self.fields: dict[str, str] = {}
        self._schema, self._taken = schema, taken
        defs: Mapping[str, Any] = schema.get("$defs") or {}
        self._reply = self._unique_name(f"{name}Reply")
        self._defs = {
            f"#/$defs/{key}": (self._unique_name(name + pascal(key)), node) for key, node in defs.items()
        }

    def reply(self) -> str:
        """Returns the class name of a reply; raises NoBamlType when a part of it has no type in BAML."""
        for name, node in self._defs.values():
            self._class(name, node)
        self.fields = self._class(self._reply, self._schema)
        return self._reply

    def _unique_name(self, name: str) -> str:
        name = distinct(name, self._taken)
        self._taken.add(name)
        return name

    def _class(self, name: str, node: Mapping[str, Any]) -> dict[str, str]:
        fields: Mapping[str, Any] = node.get("properties") or {}
        if node.get("type") != "object" or not fields:
            raise NoBamlType
        aliases = names(fields)
        lines = [
            f"  {aliases[key]} {self._type(f'{name}{pascal(key)}', part)}{_alias(key, aliases[key])}\n"
            for key, part in fields.items()
        ]
        self.written.append(f"class {name} {{\n{''.join(lines)}}}\n")
        return aliases

    def _type(self, inner: str, node: Mapping[str, Any]) -> str:
        """Returns the type of `node` with its bounds; a nested object becomes a class called `inner`."""
        return self._plain(inner, node) + _bounds(node)

    def _plain(self, inner: str, node: Mapping[str, Any]) -> str:
        if "$ref" in node:
            if node["$ref"] not in self._defs:
                raise NoBamlType
            return self._defs[node["$ref"]][0]
        if "const" in node or "enum" in node:
            return " | ".join(dict.fromkeys(map(_literal, node.get("enum") or [node["const"]])))
        if parts := node.get("anyOf") or node.get("oneOf"):
            return " | ".join(dict.fromkeys(self._operand_type(inner, part) for part in parts))
        kind = node.get("type")
        if kind == "array" and isinstance(node.get("items"), Mapping) and "prefixItems" not in node:
            return f"{self._operand_type(inner, node['items'])}[]"
        if kind == "object" and "properties" in node:
            name = self._unique_name(inner)
            self._class(name, node)
            return name
        if kind == "object" and isinstance(node.get("additionalProperties"), Mapping):
            return f"map<string, {self._plain(inner, node['additionalProperties'])}>"
        if kind not in _PLAIN:
            raise NoBamlType
        return _PLAIN[kind]

    def _operand_type(self, inner: str, node: Mapping[str, Any]) -> str:
        type_text = self._type(inner, node)
        return f"({type_text})" if "@" in type_text or "|" in type_text else type_text


def _alias(name: str, alias: str) -> str:
    return f" @alias({text(name)})" if name != alias else ""


def _literal(option: Any) -> str:
    if isinstance(option, float) or (isinstance(option, str) and re.search(r'["\\\x00-\x1f]', option)):
        return "float" if isinstance(option, float) else "string"
    return json.dumps(option, ensure_ascii=False)


def _bounds(node: Mapping[str, Any]) -> str:
    bounds = [template.format(value(node[key])) for key, template in _BOUNDS.items() if key in node]
    return f" @assert(bounds, {{{{ {' and '.join(bounds)} }}}})" if bounds else ""
