"""What LangChain makes of a Prompty 1 file, and what the limits that the format states leave of messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs.base import RagProgram
from ragc.prompts.model import NotExpressible
from ragc.targets.base import Message
from tests.exports.common import capture_messages, inputs_for
from tests.exports.drawn import consumer
from tests.exports.formats.handmade import with_texts

ROLE = re.compile(r"(?im)^\s*#?\s*(system|user|human|assistant|ai|function)\s*:\s*\n")
IMAGE = re.compile(r"!\[.*\]\(")


def render_file(folder: Path, file: bytes, inputs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The messages that LangChain makes of a file."""
    path = folder / "one.v1.prompty"
    path.write_bytes(file)
    messages: Any = (
        consumer("langchain_prompty").create_chat_prompt(str(path)).invoke(dict(inputs)).to_messages()
    )
    roles: dict[Any, str] = {"human": "user", "ai": "assistant"}
    return [(str(roles.get(m.type, m.type)), m.content) for m in messages]


def changes(text: str) -> bool:
    """Whether the format changes more than the ends of a fixed `text`."""
    return not text.strip() or unsafe(text) or "\r" in text


def unsafe(text: str) -> bool:
    """Whether `text` has a line that reads as a role, or an image."""
    return bool(ROLE.search(f"{text}\n") or re.search(r"\n\s*#\s*\Z", f"\n{text}") or IMAGE.search(text))


def check(folder: Path, file: bytes, inputs: Mapping[str, Any], messages: Sequence[Message]) -> None:
    """Fail unless the file gives `messages` for `inputs`, up to its limits."""
    expected = [(m.role, m.content.strip()) for m in messages]
    if not unsafe(messages[-1].content):
        assert render_file(folder, file, inputs) == expected
        return
    try:
        rendering = render_file(folder, file, inputs)
    except ValueError:  # the pieces do not go together
        return
    assert rendering != expected


def check_all(program: RagProgram, folder: Path, data: st.DataObject) -> int:
    """Check every prompt of `program`, or that one of them is refused for a reason; the number checked."""
    out = derive_export(program)
    try:
        files = format_of("prompty-v1").files(out)
    except NotExpressible:
        assert any(changes(m.fixed_text or "") for prompt in out for m in prompt.messages[:-1])
        return 0
    for prompt in out:
        inputs = data.draw(inputs_for(prompt))
        file = files[f"{prompt.name}.v1.prompty"]
        check(
            folder,
            file,
            with_texts(prompt, inputs, "lines", "json"),
            capture_messages(program, prompt.name, inputs),
        )
    return len(out.prompts)
