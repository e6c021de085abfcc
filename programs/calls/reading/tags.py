"""Outputs between tags, as DSPy's layout `xml` asks for them, also in XML that is broken.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

from ragc.programs.calls.reading.meaning import fold, is_text, loads
from ragc.programs.calls.reading.other_names import VERDICTS
from ragc.programs.calls.reading.parsed import ParsedReply, ParseProblem
from ragc.programs.calls.reading.step_calls import TEXT_NAMES

MOST_TAGS = 1000
"""Opening angle brackets of a reply in which tags are looked for: this takes time with their number."""
_ATTRIBUTE = re.compile(r"\s\w{1,20}\s?=\s?(\"[^\"<>]{1,500}\"|'[^'<>]{1,500}')\s?/>")
_TAG_PAIR = re.compile(r"<(\w{1,40})>([^<>]{1,2000})</\1>")
_ESCAPED = re.compile(r"&(lt|gt|amp|quot|apos);")
_CHARACTERS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def parse_tags(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """All outputs, each between tags of its name in well-formed XML; exact where each has both tags."""
    values = _held_by_tags(schema, text)
    if not values or len(values) < len(schema["properties"]):
        return None
    closed = {name for name, value in values.items() if value == "" and f"<{name}>" not in text}
    attributes = {name: _ATTRIBUTE.search(text, text.find(f"<{name}")) for name in closed}
    values.update({name: at[1][1:-1] for name, at in attributes.items() if at})
    return ParsedReply(values, exact=not closed)


def parse_loose_tags(schema: Mapping[str, Any], text: str) -> ParsedReply | None:
    """Outputs between tags in other spelling, whose end may be missing, in XML that may be broken."""
    if text.count("<") > MOST_TAGS:
        return None
    names = schema["properties"]
    opening = {name: rf"<\s*{re.escape(name).replace('_', '[_ -]?')}\s*>" for name in names}
    starts = {name: re.search(tag, text, re.IGNORECASE) for name, tag in opening.items()}
    values: dict[str, Any] = {}
    for name, first in starts.items():
        if first is None:
            continue
        close = re.compile(opening[name].replace(r"<\s*", r"<\s*[/\\]\s*"), re.IGNORECASE).search(
            text, first.end()
        )
        start = first
        if close:  # prose may name a tag before it is used
            start = list(re.compile(opening[name], re.IGNORECASE).finditer(text, 0, close.start()))[-1]
        later = [one.start() for one in starts.values() if one is not None and one.start() > start.start()]
        inner = text[start.end() : close.start() if close else min(later, default=len(text))].strip()
        alone = {**schema, "properties": {name: names[name]}}
        nested = _held_by_tags(alone, f"<{name}>{_ampersands(inner)}</{name}>")
        if not close and not inner:
            continue  # cut before the value
        values[name] = nested[name] if nested else _ESCAPED.sub(lambda at: _CHARACTERS[at[1]], inner)
    return ParsedReply(_with_other_tag(schema, text, values)) if values else None


def _with_other_tag(schema: Mapping[str, Any], text: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with the only text that is missing, where a tag of another name that means it holds it."""
    missing = [
        name
        for name, kind in schema["properties"].items()
        if name not in values and is_text(kind) and name in schema.get("required", schema["properties"])
    ]
    others = {tag: held for tag, held in _TAG_PAIR.findall(text) if tag not in schema["properties"]}
    named = {tag: held for tag, held in others.items() if fold(tag) in TEXT_NAMES}
    if (
        len(missing) != 1
        or len(named) != 1
        or missing[0].rpartition("_")[2] not in ("input", "query", "text")
    ):
        return dict(values)
    return {**values, missing[0]: next(iter(named.values())).strip()}


def _held_by_tags(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    if text.count("<") > MOST_TAGS:
        return {}
    try:
        # Inside a root element nothing can declare entities.
        root = ET.fromstring(f"<dspy_root>{text}</dspy_root>")  # noqa: S314
    except (ET.ParseError, ValueError):
        return {}
    named, elements = schema.get("$defs", {}), _children(root)
    if len(root) == 1 and not elements.keys() & schema["properties"].keys():
        elements = {**_attributes(root[0]), **_children(root[0])}  # all of them in one tag of another name
        verdicts = [held for tag, held in elements.items() if tag in VERDICTS]
        names = list(schema["properties"])
        if (
            len(names) == 1
            and len(verdicts) == 1
            and names[0] not in elements
            and not is_text(schema["properties"][names[0]])
        ):
            elements = {names[0]: verdicts[0]}
    return {
        name: _held(elements[name], kind, named)
        for name, kind in schema["properties"].items()
        if name in elements
    }


def _held(elements: list[ET.Element], schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """What tags of one name hold: a text, a list of what `<item>` holds, or values by the names of tags."""
    schema = named.get(schema.get("$ref", "").rpartition("/")[2], schema)
    kind, first = schema.get("type"), elements[0]
    text, children = first.text or "", _children(first)
    if kind == "array":
        if len(elements) == 1 and not children and (not text.strip() or text.strip().startswith("[")):
            return text.strip() or []
        if len(elements) == 1 and not children and schema.get("items", {}).get("type") == "integer":
            return text.strip()
        items = children.get("item") if len(elements) == 1 else None
        if items is None and len(elements) == 1 and len(children) == 1 and not text.strip():
            (items,) = children.values()
        if schema.get("items", {}).get("type") == "integer" and all(_number_of(one) for one in items or ()):
            return [_number_of(one) for one in items or ()] or [
                _held([one], schema["items"], named) for one in elements
            ]
        return [_held([one], schema.get("items", {}), named) for one in items or elements]
    if kind == "string" and children:
        return text + "".join(ET.tostring(child, encoding="unicode") for child in first)
    if not children:
        fields = schema.get("properties", {})
        if first.attrib and len(elements) == 1 and fields.keys() >= first.attrib.keys():
            texts = [name for name in fields if name not in first.attrib]
            return {**first.attrib, **({texts[0]: text.strip()} if len(texts) == 1 else {})}
        if kind == "object" and not text.strip():
            return {}
        texts = [_typed(schema, (element.text or "").strip()) for element in elements]
        if kind == "string" and len({fold(one) for one in texts}) > 1:
            raise ParseProblem(first.tag)
        return texts[0] if len(texts) == 1 else texts
    kinds = schema.get("properties", {})
    if len(kinds) == 1 and (grouped := _by_option(next(iter(kinds.values())), children, named)):
        return grouped
    if len(kinds) == 1 and len(children) == 1 and not kinds.keys() & children.keys():
        (name, inner), (held,) = next(iter(kinds.items())), children.values()
        if inner.get("type") == "array":
            return {name: [_held([one], inner.get("items", {}), named) for one in held]}
    return {name: _held(held, kinds.get(name, {}), named) for name, held in children.items()}


def _by_option(
    schema: Mapping[str, Any], children: Mapping[str, list[ET.Element]], named: Mapping[str, Any]
) -> dict[str, list[str]]:
    """The texts in tags that are options of the items of a list, by option."""
    item = schema.get("items", {})
    item = named.get(item.get("$ref", "").rpartition("/")[2], item)
    options = [
        named.get(one.get("$ref", "").rpartition("/")[2], one).get("enum", ())
        for one in item.get("properties", {}).values()
    ]
    words = {fold(option) for some in options for option in some}
    if not words or not all(fold(tag) in words for tag in children):
        return {}
    return {tag: [(one.text or "").strip() for one in some] for tag, some in children.items()}


def _number_of(element: ET.Element) -> str:
    """The number that is the only attribute of an empty tag: `<document id="1"/>`."""
    held = list(element.attrib.values())
    return held[0] if len(held) == 1 and held[0].isdigit() and not (element.text or "").strip() else ""


def _typed(schema: Mapping[str, Any], text: str) -> Any:
    """What a tag says that holds a number or a truth value, which XML can only spell."""
    if schema.get("type") not in ("integer", "number", "boolean"):
        return text
    held = loads(text.lower())
    return held if isinstance(held, (int, float)) else text


def _children(element: ET.Element) -> dict[str, list[ET.Element]]:
    """The tags in `element` by name, in order; the name of an `<entry>` is its key."""
    children: dict[str, list[ET.Element]] = {}
    for child in element:
        name = child.attrib.get("key", child.tag) if child.tag == "entry" else child.tag.lower()
        children.setdefault(name, []).append(child)
    return children


def _attributes(element: ET.Element) -> dict[str, list[ET.Element]]:
    """The attributes of `element` as if they were tags in it."""
    attributes = {}
    for name, value in element.attrib.items():
        attributes[name] = [ET.Element(name)]
        attributes[name][0].text = value
    return attributes


def _ampersands(text: str) -> str:
    """`text` with bare ampersands written as XML wants them."""
    return re.sub(r"&(?!(?:lt|gt|amp|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)", "&amp;", text)
