"""Frames of replies: markers, tags and labels that say where the values of the outputs stand.

A way of looking gives what stands for each output, by name, and whether it was written as asked for; where
nothing was there it gives None, and where two values stand for one output it raises Unclear. Values are texts
or, of tags in tags, lists and objects. DSPy's layout `chat` asks for markers, `xml` for tags.

This module is part of exported Python files too: it needs nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from ragc.programs.calls.json_text import Tally
from ragc.programs.calls.meaning import (
    fold,
    is_form_of,
    is_text,
    loads,
    numbers_in,
    python_value,
    word_set,
)
from ragc.programs.calls.mending import Mender
from ragc.programs.calls.prose import is_answer, is_name, settled, takes_back

MOST_TAGS = 1000
"""Opening angle brackets of a reply in which tags are looked for: this takes time with their number."""

_HEADER = re.compile(r"\[\[ ## (\w+) ## \]\]")
_LOOSE_HEADER = re.compile(
    r"[*_`]{0,3}(?:\[{1,2}\s*#*|#+)\s*([^\W\d][\w -]{0,60}?)\s*([\]#:*_`][\]#:*_`\s]*|$)"
)
_LABEL = re.compile(
    r"(?:\W{0,3}\d{1,2}[.)]\s+)?[\W_]{0,6}([^\W\d][\w -]{0,60}?(?:\s*\([\w ,%-]{1,30}\))?)[*_`\"']{0,3}"
    r"(?:\s?[:\uff1a]|\s+[\u2013\u2014-](?=\s)|\s=(?=\s))[*_`]{0,3}\s*"
)
_FENCE = re.compile(r"\A\s*```[\w+-]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_ESCAPED = re.compile(r"&(lt|gt|amp|quot|apos);")
_CHARACTERS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


class Frame:
    """What stands for each output by name, and whether it was written as its layout asks."""

    def __init__(self, values: Mapping[str, Any], *, exact: bool = False) -> None:
        self.values, self.exact = values, exact


Way = Callable[[Mapping[str, Any], str], "Frame | None"]


class Unclear(ValueError):
    """A reply that gives two values for one output, and does not say which counts."""


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


def with_inner_names(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """`schema` with the fields of its one output that is an object, or one of several, among the outputs."""
    mender = Mender(schema.get("$defs", {}), Tally())
    inner: dict[str, Any] = {}
    for kind in map(mender.resolve, schema["properties"].values()):
        for one in map(mender.resolve, kind.get("anyOf", [kind])):
            inner.update(one.get("properties", {}) if one.get("type") == "object" else {})
    return {**schema, "properties": {**inner, **schema["properties"]}} if inner else schema


def after_labels(schema: Mapping[str, Any], text: str) -> Frame | None:
    """Outputs after their names and a colon at the beginning of a line; prose before them is the first.

    What is said beside an answer ("Explanation:") and what follows a step ("Observation:") is not read.
    """
    if holds_object(text):
        return None
    name_of = label_reader(with_inner_names(schema))
    begun: list[tuple[str, list[str]]] = [("", [])]
    for line in unfenced(text).splitlines():
        marked = _marked(line, _LABEL) or _bold_head(line, schema)
        name = name_of(marked[0]) if marked else None
        if name is None or marked is None:
            begun[-1][1].append(line)
        elif name == ENDS and (any(one for one, _ in begun) or _is_value(schema, begun[0][1])):
            break
        elif name != ENDS or len(begun) > 1:
            begun.append((name.replace(ENDS, ""), [marked[1]]))
    sections = [(name, "\n".join(lines).strip().strip("*`").strip()) for name, lines in begun]
    values = _settle(schema, [(name, held) for name, held in sections if name])
    first = next(iter(schema["properties"]))
    before = sections[0][1]
    if not values and _is_value(schema, begun[0][1]):
        return Frame({first: before})
    if values and first not in values and before and is_text(schema["properties"][first]):
        values = {first: before, **values}
    return Frame(values) if values else None


def _is_value(schema: Mapping[str, Any], lines: Sequence[str]) -> bool:
    """Whether the `lines` before all labels are a name and no more, where one text is all that is wanted."""
    (kind, *others) = schema["properties"].values()
    alone = [line for line in lines if line.strip()]
    return not others and is_text(kind) and len(alone) == 1 and is_name(alone[0])


def _bold_head(line: str, schema: Mapping[str, Any]) -> tuple[str, str] | None:
    """The name of an output that stands in bold in a line of its own, with nothing under it yet."""
    bold = re.fullmatch(r"\s*(?:\*\*|__)([^*_:]{1,40})(?:\*\*|__)\s*", line)
    return (bold[1], "") if bold and fold(bold[1]) in _spelled(schema) else None


def _settle(schema: Mapping[str, Any], sections: Sequence[tuple[str, str]]) -> dict[str, str]:
    """One value for each name: of steps that go on the first, of values that are taken back the last."""
    values: dict[str, str] = {}
    names = [name for name, _ in sections]
    goes_on = len(set(names)) > 1 and all(names.count(name) > 1 for name in names[: len(set(names))])
    for at, (name, held) in enumerate(sections):
        if not held and name in values:
            continue
        if name not in values or not values[name]:
            values[name] = held
        elif not goes_on and fold(values[name]) != fold(held):
            earlier = " ".join(one for _, one in sections[:at])
            if not (takes_back(earlier) or takes_back(held)):
                raise Unclear(name)
            values[name] = held
    answers = {name: settled(held) for name, held in values.items() if is_answer(name)}
    return {**values, **answers}


ENDS = "\0"
"""Stands for the labels that end an answer: what follows is not of the reply."""

_BESIDE = word_set("""
    explanation reason reasoning rationale justification note notes source sources evidence confidence
    citation citations supportingpassage context remark comment
    """)
_AFTER = word_set("""
    observation observations intermediateanswer question human user assistant result results newquestion
    nextquestion passage passages input instruction example
    """)
_OTHERS = word_set("""
    original old previous initial first intermediate wrong given user current possible candidate
    tentative alternative other example rejected incorrect her his their this that no not an a expected
    gold reference partial
    """)
_ALIASES: Mapping[str, frozenset[str]] = {
    "answer": word_set("""
        a réponse reponse antwort respuesta risposta resposta ответ 答案 回答 答え 答 정답 답 답변
        odpowiedź
        antwoord yanıt cevap उत्तर ans response
        """),
    "query": frozenset(("search", "queries", "keywords", "words", "terms")),
    "score": frozenset(("rating", "grade", "points", "score")),
    "grade": frozenset(("rating", "score", "points", "verdict", "relevance")),
    "utility": frozenset(("rating", "score", "grade", "usefulness")),
    "points": frozenset(("rating", "score", "grade")),
    "order": frozenset(("ranking", "rank", "ranked")),
    "ids": frozenset(("documents", "selected", "passages", "numbers", "id", "selection")),
    "reasoning": frozenset(
        ("reason", "thought", "thoughts", "rationale", "explanation", "thinking", "analysis")
    ),
    "reason": frozenset(("reasoning", "thought", "rationale", "explanation", "analysis")),
    "thought": frozenset(("reasoning", "reason", "thoughts", "thinking", "analysis")),
    "explanation": frozenset(("reasoning", "reason", "rationale", "justification", "analysis")),
    "analysis": frozenset(("reasoning", "reason", "rationale", "explanation", "thought")),
    "input": frozenset(("query", "argument")),
}
"""Other words for the last word of an output's name, as labels."""


_REMARK = re.compile(
    r"\n[ \t]{0,8}[*_]{0,2}(?:explanation|reasoning|rationale|justification|note|notes|source|sources|"
    r"evidence)[*_]{0,2}:",
    re.IGNORECASE,
)


def without_remark(text: str) -> str:
    """`text` without the labelled remark that follows an answer."""
    remark = _REMARK.search(text)
    return text[: remark.start()].rstrip() if remark and text[: remark.start()].strip() else text


def label_reader(schema: Mapping[str, Any]) -> Callable[[str], str | None]:
    """What tells the output that a label names; `ENDS` for one beside the outputs, None for no label."""
    spelled = _spelled(schema)
    lasts: dict[str, str] = {name: name.rpartition("_")[2].casefold() for name in schema["properties"]}

    def name_of(label: str) -> str | None:
        label = re.sub(r"\s*\([^)]*\)\s*\Z|\s*\d+\s*\Z", "", label)
        folded = fold(label)
        if folded in spelled:
            return str(spelled[folded])
        words = re.findall(r"[^\W\d_]+", label.casefold())
        if len(words) > 1 and words[-1] in ("es", "ist", "est", "è", "é", "for", "is"):
            words.pop()
        if not words or len(words) > 4 or (words[0] in _OTHERS and words != ["a"]):
            return ENDS if folded in _AFTER else None
        named = [
            name for name, last in lasts.items() if words[-1] == last and (len(words) > 1 or "_" in name)
        ]
        named = named or [name for name, last in lasts.items() if words[-1] in _ALIASES.get(last, ())]
        named = named or [
            n for n in spelled.values() if len(words) == 1 and len(n) > 5 and is_form_of(words[0], n)
        ]
        if len(named) == 1:
            return named[0]
        return ENDS if folded in _AFTER | _BESIDE else None

    return name_of


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
        values[name] = nested[name] if nested else _ESCAPED.sub(lambda at: _CHARACTERS[at[1]], inner)
    return Frame(values) if values else None


def holds_object(text: str) -> bool:
    """Whether a JSON object, or what should be one, stands in `text`."""
    return "{" in text


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
    if kind.get("type") in ("array", "object") and not numbered:
        written = python_value(unfenced(value)) if re.search(r"[\[({]", value) else None
        if isinstance(written, (list, dict)):
            return written
    broken = kind.get("type") in ("array", "object") and unfenced(value).lstrip()[:1] in ("[", "{")
    return repair(value) if broken and not numbered else value


def _spelled(schema: Mapping[str, Any]) -> dict[str, str]:
    return {fold(name): name for name in schema["properties"]}


def _marked(line: str, pattern: re.Pattern[str]) -> tuple[str, str] | None:
    stripped = line.strip()
    header = pattern.match(stripped)
    if header is None:
        return None
    rest = stripped[header.end() :].strip()
    return header[1], rest[1:].strip() if pattern is _HEADER and rest[:1] == ":" else rest


def _sections(text: str, header: Callable[[str], tuple[str, str] | None]) -> tuple[str, dict[str, str]]:
    """What stands before the first header, and under each by name. Raises Unclear where two differ."""
    before: list[str] = []
    lines = before
    sections: dict[str, list[str]] = {}
    again: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        begun = header(line)
        if begun is None:
            lines.append(line)
            continue
        name, rest = begun
        lines = [rest] if rest else []
        if name not in sections:
            sections[name] = lines
        else:
            again.append((name, lines))
    held = {name: "\n".join(some).strip() for name, some in sections.items()}
    if len(sections) - ("completed" in sections) == 1:
        for name, some in again:
            other = "\n".join(some).strip()
            if name != "completed" and other and held[name] and fold(other) != fold(held[name]):
                if not takes_back(held[name]):
                    raise Unclear(name)
                held[name] = other
    return "\n".join(before).strip(), held


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
        if len(elements) == 1 and not children and schema.get("items", {}).get("type") == "integer":
            return text.strip()
        items = children.get("item") if len(elements) == 1 else None
        if items is None and len(elements) == 1 and len(children) == 1 and not text.strip():
            (items,) = children.values()
        return [_held([one], schema.get("items", {}), named) for one in items or elements]
    if kind == "string" and children:
        return text + "".join(ET.tostring(child, encoding="unicode") for child in first)
    if not children:
        if kind == "object" and not text.strip():
            return {}
        texts = [_typed(schema, (element.text or "").strip()) for element in elements]
        if kind == "string" and len({fold(one) for one in texts}) > 1:
            raise Unclear(first.tag)
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
