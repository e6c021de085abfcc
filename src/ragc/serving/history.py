"""The answer to a conversation; with `history = rewrite` its last turn is first made a whole question.

earlier turns, question ─► a typed call, counted and traced ─► the question that the program answers
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragc.compiled.opened import OpenProgram, answer_question
from ragc.core.counters import Counters, counting
from ragc.core.text import escape_markers
from ragc.programs import trace
from ragc.programs.calls.predict import RagPredict
from ragc.serving.conversation import Conversation, Turn
from ragc.signatures.conversation import StandaloneQuestion
from ragc.signatures.wording import worded
from ragc.targets.base import Sampling
from ragc.task.answering import Row

REPLY_TOKENS = 256
"""Tokens of a question that stands alone, at most."""

TURNS = 20
"""The latest turns, which alone are read; fewer where these do not fit the model's context."""


def rewriter(opened: OpenProgram) -> RagPredict:
    """Returns the call that rewrites questions for `opened`, with the wording and layout of its program."""
    knobs: Any = getattr(opened.program, "knobs", None)
    call = RagPredict(
        worded(StandaloneQuestion, getattr(knobs, "wording", "full")),
        opened.task.runtime,
        layout=getattr(knobs, "layout", "minimal"),
        sampling=Sampling(temperature=0.0, max_tokens=REPLY_TOKENS),
    )
    call.name = "standalone"
    return call


async def answer_conversation(opened: OpenProgram, call: RagPredict, conversation: Conversation) -> Row:
    """Returns the answer to the last turn, on the process's loop.

    Where `conversation` has earlier turns, the row has the rewritten question, and its trace and counters
    include the call that rewrote it. Raises ParseFailure where the reply to it cannot be read.
    """
    if not conversation.earlier:
        return await answer_question(opened, conversation.question)
    await opened.task.runtime.open()
    with trace.recording() as run, counting(Counters()) as cost:
        question = await _standalone(call, conversation.earlier[-TURNS:], conversation.question)
    row = await answer_question(opened, question)
    spent = {**cost.to_json(), "tokens": cost.tokens}
    both = {name: spent.get(name, 0) + row.counters.get(name, 0) for name in {**spent, **row.counters}}
    return replace(row, counters=both, trace=(*run.events, *row.trace))


async def _standalone(call: RagPredict, earlier: Sequence[Turn], question: str) -> str:
    """Returns the question that stands alone; the question as it is where the reply is empty."""
    turns = [f"{role}: {escape_markers(text)}" for role, text in earlier]
    shown_question = escape_markers(question)
    while len(turns) > 1 and not call.fits(turns=turns, question=shown_question):
        del turns[0]
    reply = await call.acall(turns=turns, question=shown_question)
    return str(reply.standalone).strip() or question
