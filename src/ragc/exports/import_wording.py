"""What of hand-written messages is instructions: their wording without the labels of the inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragc.exports.prompt import Part

_SLOT = re.compile("\ue000(\\w+)\ue001")
_LABEL = re.compile(r"(.{0,60}[:=>\-])?\s*[\"'`]*\ue000\w+\ue001[\"'`]*(</.{1,60}>)?")
_FRAME = re.compile(r"\W*|</?[\w\- ]{1,60}>|#+ .{1,60}|.{1,60}:")
_MINIMAL = "\nReply with a JSON object:\n"
_OBJECTIVE = "In adhering to this structure, your objective is: "


def wording(parts: Sequence[Part]) -> str:
    """The lines of a message that say something beside naming an input; in those an input is `` `name` ``.

    Left out are lines of an input with its label, tags, headings, lines of signs, and labels alone.
    """
    text = "".join(p if isinstance(p, str) else f"\ue000{p.name}\ue001" for p in parts)
    lines = (line.strip() for line in text.split("\n"))
    kept = (line for line in lines if not (_LABEL.fullmatch(line) or _FRAME.fullmatch(line)))
    return "\n".join(named(line) for line in kept)


def named(text: str) -> str:
    """`text` with the name of an input where its slot stands."""
    return _SLOT.sub(r"`\1`", text)


def plain(parts: Sequence[Part]) -> str:
    """A message as it stands, with the names of inputs for its slots."""
    return "".join(p if isinstance(p, str) else f"`{p.name}`" for p in parts)


def without_layout(text: str, layout: str) -> str:
    """The instructions in the system message of an export, without what its `layout` says around them."""
    if layout == "minimal":
        return text.rpartition(_MINIMAL)[0] or text
    before, found, after = text.partition(_OBJECTIVE)
    if not found:
        return before
    return "\n".join(line.removeprefix(" " * 8) for line in after.removeprefix("\n").split("\n"))
