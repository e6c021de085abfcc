"""Parses message templates into fixed text and slots. Jinja2 is never run.

Only what a prompt of ragc can express is accepted: names, lists written item by item, and flags.

`wording` extracts the instructions from hand-written messages by removing input labels and slots.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.sandbox import SandboxedEnvironment

from ragc.prompts.model import Part, Slot, Style

_SLOT = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_LISTS: Mapping[str, Style] = {"join": "lines", "tojson": "json"}


class Untranslatable(ValueError):
    """A template uses a feature that no prompt of ragc has; the text is the end of a sentence about it."""


@dataclass
class Template:
    """The parts of one message, and what was not imported from its template, one sentence each."""

    parts: tuple[Part, ...] = ()
    left: list[str] = field(default_factory=list)


def split_at_marks(content: str, slots: Mapping[str, Any]) -> Template:
    """Returns `content` of openai-json, split at the marks of `slots`, or at every `{{name}}` without
    `slots`.
    """
    if not slots:
        pieces = _SLOT.split(content)
        return _join_parts(Slot(p) if i % 2 else p for i, p in enumerate(pieces))
    by_mark = {mark: _slot(slot) for mark, slot in slots.items()}
    pieces = re.split(f"({'|'.join(map(re.escape, sorted(by_mark, key=len, reverse=True)))})", content)
    return _join_parts(by_mark[p] if i % 2 else p for i, p in enumerate(pieces))


def _slot(slot: Any) -> Slot:
    if not (isinstance(slot, dict) and isinstance(slot.get("input"), str)):
        raise Untranslatable("a slot does not name its input")
    style = slot.get("style", "plain")
    if style not in ("plain", "lines", "json"):
        raise Untranslatable(f"the slot of {slot['input']!r} has the unknown style {style!r}")
    words = slot.get("words") or ("true", "false")
    if not (isinstance(words, list | tuple) and len(words) == 2):
        raise Untranslatable(f"the words of the slot of {slot['input']!r} are not two, for true and false")
    return Slot(slot["input"], style, (str(words[0]), str(words[1])))


def jinja(content: str) -> Template:
    """Parses `content` as Jinja2. Raises Untranslatable."""
    try:
        tree = SandboxedEnvironment(keep_trailing_newline=True).parse(content)
    except jinja2.TemplateSyntaxError as error:
        raise Untranslatable(f"line {error.lineno} is no Jinja2: {error.message}") from None
    except ValueError as error:
        raise Untranslatable(f"it is no Jinja2: {error}") from None
    except RecursionError:
        raise Untranslatable("its tags are nested too deep") from None
    template = Template()
    try:
        template.parts = _without_brackets(_join_parts(_parts(tree.body, template.left)).parts)
    except RecursionError:
        raise Untranslatable("its tags are nested too deep") from None
    return template


def _join_parts(pieces: Iterator[Part] | Any) -> Template:
    parts: list[Part] = []
    for part in pieces:
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part != "":
            parts.append(part)
    return Template(tuple(parts))


def _without_brackets(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Returns `parts` without the brackets that a template writes around a list in JSON, which the slot
    includes.
    """
    bare = list(parts)
    for at in range(1, len(bare) - 1):
        slot, before, after = bare[at], bare[at - 1], bare[at + 1]
        if not (isinstance(slot, Slot) and isinstance(before, str) and isinstance(after, str)):
            continue
        if slot.style == "json" and before.endswith("[") and after.startswith("]"):
            bare[at - 1], bare[at + 1] = before[:-1], after[1:]
    return tuple(part for part in bare if part != "")


def _parts(body: list[nodes.Node], left: list[str]) -> Iterator[Part]:
    for node in body:
        if isinstance(node, nodes.Output):
            for shown in node.nodes:
                yield from _expression_parts(shown, left)
        elif isinstance(node, nodes.For):
            yield _list_slot(node, left)
        elif isinstance(node, nodes.If) and _guards(node):
            continue
        elif isinstance(node, nodes.If) and isinstance(node.test, nodes.Name) and not node.elif_:
            left.append(f"the condition on {node.test.name!r}: its text is now always there")
            yield from _parts(node.body, left)
        else:
            raise _untranslatable(node)


def _expression_parts(node: nodes.Node, left: list[str]) -> Iterator[Part]:
    if isinstance(node, nodes.TemplateData):
        yield node.data
    elif isinstance(node, nodes.Const):
        yield str(node.value)
    elif isinstance(node, nodes.Name):
        yield Slot(node.name)
    elif isinstance(node, nodes.CondExpr) and isinstance(node.test, nodes.Name):
        yes, no = node.expr1, node.expr2
        if not (isinstance(yes, nodes.Const) and isinstance(no, nodes.Const)):
            raise _untranslatable(node)
        yield Slot(node.test.name, "plain", (str(yes.value), str(no.value)))
    elif isinstance(node, nodes.Filter) and isinstance(node.node, nodes.Name):
        if node.name not in _LISTS:
            left.append(f"the filter {node.name!r} of {node.node.name!r}")
        yield Slot(node.node.name, _LISTS.get(node.name, "plain"))
    else:
        raise _untranslatable(node)


_AROUND_ITEM = re.compile(r"\W*")


def _list_slot(node: nodes.For, left: list[str]) -> Slot:
    """Returns the slot of a list that is written item by item, with any way of numbering."""
    if not (isinstance(node.iter, nodes.Name) and isinstance(node.target, nodes.Name)) or node.test:
        raise _untranslatable(node)
    allowed = {node.target.name, "loop", node.iter.name}
    _each(node, nodes.Name, lambda name: name.name in allowed)
    _each(node, nodes.Getattr, lambda of: isinstance(of.node, nodes.Name) and of.node.name == "loop")
    for kind in (nodes.Call, nodes.Getitem, nodes.Assign, nodes.Macro, nodes.Include, nodes.Import):
        _each(node, kind, lambda _: False)
    texts = [data.data.strip() for data in node.find_all(nodes.TemplateData)]
    left.extend(
        f"{text!r}, written with each item of {node.iter.name!r}: an item is `[1] item`"
        for text in texts
        if not _AROUND_ITEM.fullmatch(text) and text != "none"
    )
    quoted = '["' if _first_text(node) == '"' else ""
    return Slot(node.iter.name, "json" if quoted else "lines")


def _guards(node: nodes.If) -> bool:
    """Returns whether the block is an export's check that refuses a text in the place of a list."""
    test = node.test
    of_text = isinstance(test, nodes.Test) and test.name == "string" and isinstance(test.node, nodes.Name)
    return of_text and not node.elif_ and not node.else_ and next(node.find_all(nodes.Call), None) is not None


def _first_text(node: nodes.For) -> str:
    first = node.body[0] if node.body else None
    shown = first.nodes[0] if isinstance(first, nodes.Output) and first.nodes else None
    return shown.data if isinstance(shown, nodes.TemplateData) else ""


def _each(node: nodes.Node, kind: type[Any], good: Callable[[Any], bool]) -> None:
    for inner in node.find_all(kind):
        if not good(inner):
            raise _untranslatable(inner)


def _untranslatable(node: nodes.Node) -> Untranslatable:
    name = type(node).__name__.lower()
    return Untranslatable(
        f"line {node.lineno} has a Jinja2 {name!r} that is neither an input, a list of one, nor a flag"
    )


_MARKED_SLOT = re.compile("\ue000(\\w+)\ue001")
_LABEL = re.compile(r"(.{0,60}[:=>\-])?\s*[\"'`]*\ue000(\w+)\ue001[\"'`]*(</.{1,60}>)?")
_FRAME = re.compile(r"\W*|</?[\w\- ]{1,60}>|#+ .{1,60}|.{1,60}:")
_TAGS = re.compile(r"<(/?)([\w\- ]{1,60})>")


@dataclass(frozen=True, slots=True)
class Wording:
    """The text of a message beside its inputs: its lines, and the label of each input by name.

    `ends` are the lines of labels, headings and tags below all of that, such as `Answer:`.
    """

    text: str
    labels: Mapping[str, str]
    ends: tuple[str, ...]


def wording(parts: Sequence[Part]) -> Wording:
    """Returns the text of a message beside its inputs, which the text names as `` `name` ``.

    A line of an input and its label is no text; nor are tags, headings, lines of punctuation and lone labels.
    """
    ends = {"lines": "\n"}  # a list that a loop writes ends its line
    text = "".join(p if isinstance(p, str) else f"\ue000{p.name}\ue001{ends.get(p.style, '')}" for p in parts)
    prose: list[str] = []
    labels: dict[str, str] = {}
    waiting: list[str] = []
    for line in (line.strip() for line in text.split("\n")):
        slot, tag = _LABEL.fullmatch(line), _TAGS.fullmatch(line)
        label, again = _bare_label(slot[1] or "") if slot else "", ""
        if slot and not label and waiting:
            above = _bare_label(waiting.pop())
            again = "" if labels.setdefault(slot[2], above) == above else f"{above}: {name_slots(line)}"
        elif slot and label:
            again = "" if labels.setdefault(slot[2], label) == label else name_slots(line)
        if not slot and _FRAME.fullmatch(line):
            if _bare_label(line) and not (tag and tag[1] and tag[2].strip() in labels.values()):
                waiting.append(line)
            continue
        prose += waiting
        waiting.clear()
        if not slot or again:  # a second label of the same input is text
            prose.append(again or name_slots(line))
    return Wording("\n".join(prose), labels, tuple(waiting))


def _bare_label(text: str) -> str:
    """Returns `text` without the marks of a label, a heading or a tag."""
    return _TAGS.sub(r"\2", text.strip()).strip().strip("#*_:=->\"'` ").strip()


def name_slots(text: str) -> str:
    """Returns `text` with each slot replaced by the name of its input."""
    return _MARKED_SLOT.sub(r"`\1`", text)


def plain(parts: Sequence[Part]) -> str:
    """Returns a message with each slot replaced by the name of its input."""
    return "".join(p if isinstance(p, str) else f"`{p.name}`" for p in parts)
