"""Code of the `python` export: reading replies with tags. It stands in the generated file as it is.

Nothing but the standard library of Python 3.9 may be used here. What DSPy's XML adapter reads is read alike,
or asked for again where that mends a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

from ragc.exports.formats.python.runtime.json_replies import ReplyError
from ragc.exports.formats.python.runtime.markers import _read_outputs


def _read_tags(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The outputs of a reply in which each value stands between tags of its name."""
    try:
        # Inside a root element nothing can declare entities.
        root = ET.fromstring(f"<dspy_root>{text}</dspy_root>")  # noqa: S314
    except (ET.ParseError, ValueError):
        raise ReplyError(f"the xml layout found no {', '.join(schema['properties'])}.") from None
    named = schema.get("$defs", {})
    elements = _children(root)
    values = {
        name: _tag_value(elements[name], kind, named)
        for name, kind in schema["properties"].items()
        if name in elements
    }
    return _read_outputs(schema, values, "xml")


def _tag_value(elements: list[ET.Element], schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """What tags of one name hold: a text, a list of what `<item>` holds, or values by the names of tags."""
    schema = named.get(schema.get("$ref", "").rpartition("/")[2], schema)
    kind, first = schema.get("type"), elements[0]
    text, children = first.text or "", _children(first)
    if kind == "array":
        if len(elements) == 1 and not children and (not text.strip() or text.strip().startswith("[")):
            return text.strip() or []
        items = children.get("item") if len(elements) == 1 else None
        return [_tag_value([one], schema.get("items", {}), named) for one in items or elements]
    if kind == "string" and children:
        return text + "".join(ET.tostring(child, encoding="unicode") for child in first)
    if not children:
        if kind == "object" and not text.strip():
            return {}
        texts = [(element.text or "").strip() for element in elements]
        return texts[0] if len(texts) == 1 else texts
    kinds = schema.get("properties", {})
    return {name: _tag_value(held, kinds.get(name, {}), named) for name, held in children.items()}


def _children(element: ET.Element) -> dict[str, list[ET.Element]]:
    """The tags in `element` by name, in order; the name of an `<entry>` is its key."""
    by_tag: dict[str, list[ET.Element]] = {}
    for child in element:
        name = child.attrib.get("key", child.tag) if child.tag == "entry" else child.tag
        by_tag.setdefault(name, []).append(child)
    return by_tag
