"""Conversations: the last turn made a question that stands alone, by a typed call before the program.

earlier turns, question ─► StandaloneQuestion, counted and traced ─► the question that the program answers
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.records import Turn
from ragc.signatures.query import StandaloneQuestion
from ragc.signatures.wording import worded
from ragc.targets.base import Sampling

REPLY_TOKENS = 256
"""Tokens of a question that stands alone, at most."""

TURNS = 20
"""The latest turns, which alone are read; fewer where these do not fit the model's context."""


def rewriter(runtime: Runtime, knobs: Any) -> RagPredict:
    """Returns the call that rewrites questions, with the wording and layout that `knobs` have."""
    call = RagPredict(
        worded(StandaloneQuestion, getattr(knobs, "wording", "full")),
        runtime,
        layout=getattr(knobs, "layout", "minimal"),
        sampling=Sampling(temperature=0.0, max_tokens=REPLY_TOKENS),
    )
    call.name = "standalone"
    return call


async def standalone(call: RagPredict, earlier: Sequence[Turn], question: str) -> str:
    """Returns `question`, after the `earlier` turns, as one that stands alone; as it is where the reply is
    empty.

    Raises ParseFailure where the reply cannot be read.
    """
    turns = [f"{role}: {text}" for role, text in earlier[-TURNS:]]
    while len(turns) > 1 and not call.fits(turns=turns, question=question):
        del turns[0]
    reply = await call.acall(turns=turns, question=question)
    return str(reply.standalone).strip() or question
