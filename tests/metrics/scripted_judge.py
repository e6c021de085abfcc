"""A judge that replies by a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ScriptedAsk:
    """Replies True, False or an error in order, as the output asked for; running out is a test failure."""

    name = "scripted/judge"

    def __init__(self, *replies: bool | Exception) -> None:
        self.replies, self.calls = list(replies), list[tuple[Any, Mapping[str, Any]]]()

    async def __call__(self, signature: Any, /, **inputs: Any) -> Mapping[str, Any]:
        self.calls.append((signature, inputs))
        assert self.replies, f"call {len(self.calls)} of the judge has no scripted reply: {inputs}"
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        (output,) = signature.output_fields
        return {output: reply}
