"""What BAML's language asks of names, values and types: from ours to its spelling.

A JSON schema becomes classes and unions. Bounds are asserted; what BAML has no word for (patterns,
formats) is left to the schema that is sent with every request.
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
"""Names, in lower case, that BAML or Jinja keep for themselves where a field or an input is named."""

OTHERS = ("jinja2", "openai-json", "python")
"""The formats that can say what BAML cannot."""

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


class Untyped(Exception):
    """A schema that BAML's types cannot say; the reply is left as text then."""


def names(wanted: Iterable[str]) -> dict[str, str]:
    """A name that BAML takes for each of `wanted`: itself, or one that ends in `_` or a number."""
    made: dict[str, str] = {}
    for name in wanted:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = plain if re.match("[A-Za-z]", plain) else f"x{plain}"
        made[name] = distinct(f"{plain}_" if plain.lower() in RESERVED else plain, made.values())
    return made


def line(given: str) -> str:
    """`given` as one line that can stand in a comment."""
    return " ".join("".join(c if c.isprintable() else " " for c in given).split())


def pascal(name: str) -> str:
    """`claim_judge` as `ClaimJudge`: a name for a function or class."""
    words = re.findall("[A-Za-z0-9]+", name)
    made = "".join(word[0].upper() + word[1:] for word in words)
    return f"X{made}" if not made[:1].isalpha() or made.lower() in {*RESERVED, "json"} else made


def distinct(name: str, taken: Iterable[str]) -> str:
    """`name`, with a number where it is taken, whatever the case."""
    known = {other.lower() for other in taken}
    made, number = name, 2
    while made.lower() in known:
        made, number = f"{name}_{number}", number + 1
    return made


def value(given: Any, indent: str = "") -> str:
    """JSON values as BAML writes the options of a client, over several lines, from `indent` on.

    Raises NotExpressible for a text or key that BAML has no spelling for.
    """
    if isinstance(given, Mapping):
        deeper = f"{indent}  "
        lines = (f"{deeper}{_key(key)} {value(item, deeper)}\n" for key, item in given.items())
        return "{\n" + "".join(lines) + indent + "}" if given else "{}"
    if isinstance(given, list | tuple):
        return "[" + ", ".join(value(item, indent) for item in given) + "]"
    if isinstance(given, str):
        return text(given)
    if isinstance(given, float):
        return format(Decimal(repr(given)), "f")
    return json.dumps(given)


def text(given: str) -> str:
    """A quoted string. BAML reads a backslash before the last quote as its escape: such a one is raw."""
    if given.endswith("\\"):
        if given != given.strip() or "\n" in given or '"#' in given:
            raise NotExpressible(f"The text {given!r}", "BAML cannot quote it", OTHERS)
        return f'#"{given}"#'
    for raw, said in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        given = given.replace(raw, said)
    return f'"{given}"'


def _key(name: str) -> str:
    if re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name):
        return name
    if re.search(r'["\\\n\r]', name):
        raise NotExpressible(f"The name {name!r} in a schema", "BAML cannot quote it", OTHERS)
    return f'"{name}"'


class Types:
    """The classes of a prompt's outputs, named after its function `name`; `taken` are names in use.

    `written` holds their source in BAML, and `fields` the names of the reply's fields by output, once
    `reply` was called.
    """

    def __init__(self, name: str, schema: Mapping[str, Any], taken: set[str]) -> None:
        self.written: list[str] = []
        self.fields: dict[str, str] = {}
        self._schema, self._taken = schema, taken
        defs: Mapping[str, Any] = schema.get("$defs") or {}
        self._reply = self._named(f"{name}Reply")
        self._defs = {f"#/$defs/{key}": (self._named(name + pascal(key)), node) for key, node in defs.items()}

    def reply(self) -> str:
        """The name of the class of a reply; raises Untyped when a part of it has no type in BAML."""
        for made, node in self._defs.values():
            self._class(made, node)
        self.fields = self._class(self._reply, self._schema)
        return self._reply

    def _named(self, wanted: str) -> str:
        made = distinct(wanted, self._taken)
        self._taken.add(made)
        return made

    def _class(self, name: str, node: Mapping[str, Any]) -> dict[str, str]:
        fields: Mapping[str, Any] = node.get("properties") or {}
        if node.get("type") != "object" or not fields:
            raise Untyped
        said = names(fields)
        lines = [
            f"  {said[key]} {self._type(f'{name}{pascal(key)}', part)}{_alias(key, said[key])}\n"
            for key, part in fields.items()
        ]
        self.written.append(f"class {name} {{\n{''.join(lines)}}}\n")
        return said

    def _type(self, inner: str, node: Mapping[str, Any]) -> str:
        """The type of `node`, its bounds after it; a nested object is a class called `inner`."""
        return self._plain(inner, node) + _bounds(node)

    def _plain(self, inner: str, node: Mapping[str, Any]) -> str:
        if "$ref" in node:
            if node["$ref"] not in self._defs:
                raise Untyped
            return self._defs[node["$ref"]][0]
        if "const" in node or "enum" in node:
            return " | ".join(dict.fromkeys(map(_literal, node.get("enum") or [node["const"]])))
        if parts := node.get("anyOf") or node.get("oneOf"):
            return " | ".join(dict.fromkeys(self._grouped(inner, part) for part in parts))
        kind = node.get("type")
        if kind == "array" and isinstance(node.get("items"), Mapping) and "prefixItems" not in node:
            return f"{self._grouped(inner, node['items'])}[]"
        if kind == "object" and "properties" in node:
            made = self._named(inner)
            self._class(made, node)
            return made
        if kind == "object" and isinstance(node.get("additionalProperties"), Mapping):
            return f"map<string, {self._plain(inner, node['additionalProperties'])}>"
        if kind not in _PLAIN:
            raise Untyped
        return _PLAIN[kind]

    def _grouped(self, inner: str, node: Mapping[str, Any]) -> str:
        made = self._type(inner, node)
        return f"({made})" if "@" in made or "|" in made else made


def _alias(name: str, said: str) -> str:
    return f" @alias({text(name)})" if name != said else ""


def _literal(option: Any) -> str:
    if isinstance(option, float) or (isinstance(option, str) and re.search(r'["\\\x00-\x1f]', option)):
        return "float" if isinstance(option, float) else "string"
    return json.dumps(option, ensure_ascii=False)


def _bounds(node: Mapping[str, Any]) -> str:
    found = [said.format(value(node[key])) for key, said in _BOUNDS.items() if key in node]
    return f" @assert(bounds, {{{{ {' and '.join(found)} }}}})" if found else ""
