"""What Prompty 2 makes of a file, and what the limits that the format states leave of messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragc.targets.base import Message
from tests.exports.drawn import consumer

ROLE = re.compile(r"(?i)\s*#?\s*(system|user|assistant|developer)(\[.*\])?\s*:\s*")


def rendered(folder: Path, file: bytes, inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The messages that Prompty makes of a file."""
    reader = consumer("prompty")
    path = folder / "one.prompty"
    path.write_bytes(file)
    return [(m.role, m.text) for m in reader.prepare(reader.load(path), dict(inputs))]


def limited(messages: Sequence[Message]) -> list[tuple[str, str]] | None:
    """What the stated limits leave of `messages`; None where the last one has a line that reads as a role."""
    *fixed, last = messages
    lines = last.content.splitlines()
    if any(map(ROLE.fullmatch, lines)):
        return None
    return [*((m.role, m.content) for m in fixed), (last.role, "\n".join(lines).strip("\n"))]


def check(folder: Path, file: bytes, inputs: Mapping[str, Any], messages: Sequence[Message]) -> None:
    """Fail unless the file gives `messages` for `inputs`, up to its limits."""
    wanted = limited(messages)
    if wanted is not None:
        assert rendered(folder, file, inputs) == wanted
        return
    with pytest.raises(ValueError, match="Nonce mismatch"):
        rendered(folder, file, inputs)
