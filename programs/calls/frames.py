"""Frames of replies: where the values of the outputs stand in a text that is not one JSON object.

A way of looking gives what stands for each output, by name, and whether it was written as asked for; where
nothing was there it gives None. Values are texts or, of tags in tags, lists and objects. `MARKERS` are what
DSPy's layout `chat` asks for, `TAGS` what `xml` does.

This module is part of exported Python files too: it needs nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from ragc.programs.calls.meaning import fold, is_text, loads, numbers_in
from ragc.programs.calls.mending import Mender

MOST_TAGS = 1000
"""Opening angle brackets of a reply in which tags are looked for: this takes time with their number."""

_HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")
_LOOSE_HEADER = re.compile(
    r"[*_`]{0,3}(?:\[{1,2}\s*#*|#+)\s*([^\W\d][\w -]{0,60}?)\s*([\]#:*_`][\]#:*_`\s]*|$)"
)
_LABEL = re.compile(r"[\W_]{0,6}([^\W\d][\w -]{0,60}?)[*_`\"']{0,3}\s?:[*_`]{0,3}\s*")
_FENCE = re.compile(r"\A\s*```[\w+-]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_ESCAPED = re.compile(r"&(lt|gt|amp|quot|apos);")
_CHARACTERS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


class Frame:
    """What stands for each output by name, and whether it was written as its layout asks."""

    def __init__(self, values: Mapping[str, Any], *, exact: bool = False) -> None:
        self.values, self.exact = values, exact


Way = Callable[[Mapping[str, Any], str], "Frame | None"]


def ways_of(layout: str) -> Sequence[Way]:
    """How the outputs are looked for in a reply of a layout that is not JSON, or not one object, in order."""
    if layout == "xml":
        return (in_tags, in_loose_tags, between_markers, after_loose_markers, after_labels, bare_output)
    return (between_markers, after_loose_markers, in_tags, in_loose_tags, after_labels, bare_output)


def between_markers(schema: Mapping[str, Any], text: str) -> Frame | None:
    """All outputs, where each stands under a line that begins with `[[ ## name ## ]]`."""
    sections = _sections(text, lambda line: _marked(line, _HEADER))[1]
    values = {name: sections[name] for name in schema["properties"] if name in sections}
    whole = len(values) == len(schema["properties"]) and not any(map(_HEADER.match, values.values()))
    return Frame(values, exact=True) if whole else None


def after_loose_markers(schema: Mapping[str, Any], text: str) -> Frame | None:
    """Outputs under markers or headings in other spelling; what stands before them is the first output."""
    spelled = _spelled(schema)

    def header(line: str) -> tuple[str, str] | None:
        exact = _marked(line, _HEADER)
        if exact is not None:
            return spelled.get(fold(exact[0]), exact[0]), exact[1]
        loose = _marked(line, _LOOSE_HEADER)
        if loose is not None and fold(loose[0]) in spelled:
            return spelled[fold(loose[0])], loose[1]
        return None

    before, sections = _sections(text, header)
    first = next(iter(schema["properties"]))
    if sections and first not in sections and before:
        sections = {first: before, **sections}
    values = {name: sections[name] for name in schema["properties"] if name in sections}
    return Frame(values) if any(values.values()) and not any(map(_HEADER.match, values.values())) else None


def after_labels(schema: Mapping[str, Any], text: str) -> Frame | None:
    """Outputs after their names and a colon at the beginning of a line; the last of a name counts."""
    spelled = _spelled(schema)
    if "{" in text:
        return None

    def label(line: str) -> tuple[str, str] | None:
        marked = _marked(line, _LABEL)
        return (spelled[fold(marked[0])], marked[1]) if marked and fold(marked[0]) in spelled else None

    sections = _sections(unfenced(text), label, last=True)[1]
    return Frame({name: held.strip("*`") for name, held in sections.items()}) if sections else None


def bare_output(schema: Mapping[str, Any], text: str) -> Frame | None:
    """The whole text, where one output is wanted and nothing says that it is more than that."""
    text = unfenced(text).replace("[[ ## completed ## ]]", "").strip()
    if len(schema["properties"]) != 1 or not text or "{" in text or "[[ ##" in text:
        return None
    name = next(iter(schema["properties"]))
    headers = filter(None, (_marked(line, _LOOSE_HEADER) for line in text.splitlines()))
    if any(fold(header[0]) == fold(name) for header in headers):
        return None
    held = loads(text)
    if isinstance(held, list):
        return Frame({name: held})
    if isinstance(held, str):
        text = held
    elif len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" and text[0] not in text[1:-1]:
        text = text[1:-1]
    return Frame({name: text}) if re.search(r"\w", text) and "<" + name + ">" not in text else None


def in_tags(schema: Mapping[str, Any], text: str) -> Frame | None:
    """All outputs, each between tags of its name in well-formed XML."""
    values = _held_by_tags(schema, text)
    return Frame(values, exact=True) if values and len(values) == len(schema["properties"]) else None


def in_loose_tags(schema: Mapping[str, Any], text: str) -> Frame | None:
    """Outputs between tags in other spelling, whose end may be missing, in XML that may be broken."""
    if text.count("<") > MOST_TAGS:
        return None
    names = schema["properties"]
    opening = {name: rf"<\s*{re.escape(name).replace('_', '[_ -]?')}\s*>" for name in names}
    starts = {name: re.search(tag, text, re.IGNORECASE) for name, tag in opening.items()}
    values: dict[str, Any] = {}
    for name, start in starts.items():
        if start is None:
            continue
        close = re.compile(opening[name].replace(r"<\s*", r"<\s*/\s*"), re.IGNORECASE).search(
            text, start.end()
        )
        later = [one.start() for one in starts.values() if one is not None and one.start() > start.start()]
        inner = text[start.end() : close.start() if close else min(later, default=len(text))].strip()
        alone = {**schema, "properties": {name: names[name]}}
        nested = _held_by_tags(alone, f"<{name}>{_ampersands(inner)}</{name}>")
        values[name] = nested[name] if nested else _ESCAPED.sub(lambda at: _CHARACTERS[at[1]], inner)
    return Frame(values) if values else None


def unfenced(text: str) -> str:
    """`text` without the code fence that is all around it."""
    fenced = _FENCE.match(text)
    return fenced[1] if fenced else text


def from_text(schema: Mapping[str, Any], value: Any, mender: Mender, repair: Callable[[str], Any]) -> Any:
    """The value of an output that a text or tags hold. `repair` makes a value of broken lists and objects."""
    kind = mender.resolve(schema)
    if not isinstance(value, str) or is_text(kind):
        return value
    if kind.get("type") == "boolean" and value in ("True", "False"):
        return value == "True"
    if "enum" in kind and value in kind["enum"]:
        return value
    held = loads(unfenced(value))
    if held is not None:
        return held
    if value.strip() in ("null", "None"):
        return None
    numbered = mender.resolve(kind.get("items") or {}).get("type") == "integer" and numbers_in(value)
    broken = kind.get("type") in ("array", "object") and unfenced(value).lstrip()[:1] in ("[", "{")
    return repair(value) if broken and not numbered else value


def _spelled(schema: Mapping[str, Any]) -> dict[str, str]:
    return {fold(name): name for name in schema["properties"]}


def _marked(line: str, pattern: re.Pattern[str]) -> tuple[str, str] | None:
    stripped = line.strip()
    header = pattern.match(stripped)
    return (header[1], stripped[header.end() :].strip()) if header else None


def _sections(
    text: str, header: Callable[[str], tuple[str, str] | None], *, last: bool = False
) -> tuple[str, dict[str, str]]:
    """What stands before the first header, and under each by name: the first of a name, or the `last`."""
    before: list[str] = []
    lines = before
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        begun = header(line)
        if begun is None:
            lines.append(line)
            continue
        name, rest = begun
        lines = [rest] if rest else []
        if last or name not in sections:
            sections[name] = lines
    return "\n".join(before).strip(), {name: "\n".join(held).strip() for name, held in sections.items()}


def _held_by_tags(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    if text.count("<") > MOST_TAGS:
        return {}
    try:
        # Inside a root element nothing can declare entities.
        root = ET.fromstring(f"<dspy_root>{text}</dspy_root>")  # noqa: S314
    except (ET.ParseError, ValueError):
        return {}
    named, elements = schema.get("$defs", {}), _children(root)
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
        items = children.get("item") if len(elements) == 1 else None
        return [_held([one], schema.get("items", {}), named) for one in items or elements]
    if kind == "string" and children:
        return text + "".join(ET.tostring(child, encoding="unicode") for child in first)
    if not children:
        if kind == "object" and not text.strip():
            return {}
        texts = [_typed(schema, (element.text or "").strip()) for element in elements]
        return texts[0] if len(texts) == 1 else texts
    kinds = schema.get("properties", {})
    return {name: _held(held, kinds.get(name, {}), named) for name, held in children.items()}


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
        name = child.attrib.get("key", child.tag) if child.tag == "entry" else child.tag
        children.setdefault(name, []).append(child)
    return children


def _ampersands(text: str) -> str:
    """`text` with bare ampersands written as XML wants them."""
    return re.sub(r"&(?!(?:lt|gt|amp|quot|apos|#\d{1,7}|#x[0-9a-fA-F]{1,6});)", "&amp;", text)
