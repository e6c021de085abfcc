"""The answer to a conversation, whose last turn may first be made a whole question.

earlier turns, question ─► a typed call, counted and traced ─► the question that the program answers
"""

from __future__ import annotations

from dataclasses import replace

from ragc.compiled.opened import OpenProgram, answer_question
from ragc.core.counters import Counters, counting
from ragc.programs import trace
from ragc.programs.calls.predict import RagPredict
from ragc.programs.calls.standalone import standalone
from ragc.serving.conversation import Conversation
from ragc.task.answering import Row


async def answer_conversation(
    opened: OpenProgram, rewriter: RagPredict | None, conversation: Conversation
) -> Row:
    """Returns the answer to the last turn, on the process's loop.

    Where `conversation` has earlier turns and there is a `rewriter`, the row has the rewritten question, and
    its trace and counters include the call that rewrote it. Raises ParseFailure where the reply to it cannot
    be read.
    """
    if not conversation.earlier or rewriter is None:
        return await answer_question(opened, conversation.question)
    await opened.task.runtime.open()
    with trace.recording() as run, counting(Counters()) as cost:
        question = await standalone(rewriter, conversation.earlier, conversation.question)
    row = await answer_question(opened, question)
    spent = {**cost.to_json(), "tokens": cost.tokens}
    both = {name: spent.get(name, 0) + row.counters.get(name, 0) for name in {**spent, **row.counters}}
    return replace(row, counters=both, trace=(*run.events, *row.trace))
