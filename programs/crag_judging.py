"""What the judging methods share: a typed call that may fail, and passages that fit a judge's context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragc import counters
from ragc.errors import ParseFailure
from ragc.programs.base import RagProgram, shown
from ragc.programs.predict import RagPredict
from ragc.programs.trace import Note, record
from ragc.records import Passage


async def attempt(call: RagPredict, **inputs: Any) -> Any:
    """The prediction of `call`; None, counted as dropped, when its reply cannot be read."""
    try:
        return await call.acall(**inputs)
    except ParseFailure as error:
        counters.count(dropped=1)
        record(Note(call.name, f"unreadable: {error}"))
        return None


def readable(
    program: RagProgram, call: RagPredict, passages: Sequence[Passage], question: str
) -> tuple[Passage, ...]:
    """Those of `passages` that fit the context of `call` one at a time; others are counted as trimmed."""
    room = program.runtime.target(call.role).context_tokens
    kept = tuple(p for p in passages if call.size(question=question, passage=shown(p)) <= room)
    if len(kept) < len(passages):
        counters.count(trimmed=len(passages) - len(kept))
    return kept
