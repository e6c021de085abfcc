"""The teacher: a ragc target wrapped as the language model of DSPy's proposers.

Its calls pass through the store and the ledger, so a repeated search replays them and a budget counts them.
It is a `dspy.LM` on a ragc engine, the interface that DSPy keeps after 3.4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import dspy

from ragc.core import counters
from ragc.programs.runtime import Runtime
from ragc.targets.base import ChatRequest, Message, Reply, Role, Sampling, Target
from ragc.targets.dspy_lm import RagLM, as_lm

MAX_REPLY_TOKENS = 1024
"""The most tokens of a reply; fewer if the target's context is small."""

CUT = "\n[...]\n"
"""The text that replaces the removed middle of a message."""


class TeacherLM(RagLM):
    """A `dspy.LM` without a history, so that a long search does not grow in memory."""

    answers_programs: ClassVar[bool] = False

    def update_history(self, entry: Any) -> None:
        """Does nothing: the call store holds every reply."""


def role_of(runtime: Runtime) -> Role:
    """Returns the role that writes instructions: `teacher` if there is one, else `main`."""
    return "teacher" if "teacher" in runtime.targets else "main"


def teacher_lm(runtime: Runtime, *, seed: int, temperature: float = 1.0) -> dspy.LM:
    """Returns the teacher of `runtime` as a `dspy.LM`, for any number of threads, but not for the event loop.

    Replies are drawn with `seed` and `temperature` (>= 0; a call may override it). Each distinct draw of `n`
    or `rollout_id` is stored separately, so the same calls have the same replies in every run. A prompt that
    does not fit the target's context loses the middle of its longest message, which is counted as trimmed.
    Calls are charged to the counters of this function's caller, from whatever thread. Raises UsageError if
    `runtime` has neither a teacher nor a main target.
    """
    target = runtime.target(role_of(runtime))
    charged = counters.current.get()

    async def complete(request: ChatRequest) -> Reply:
        counters.current.set(charged)  # DSPy's threads start without the caller's context
        return await runtime.gateway.complete(target, trim_to_context(target, request))

    longest = max(1, min(MAX_REPLY_TOKENS, target.context_tokens // 4))
    sampling = Sampling(temperature=temperature, max_tokens=longest, seed=seed % 2**31)
    return as_lm(complete, target, sampling=sampling, kind=TeacherLM)


def trim_to_context(target: Target, request: ChatRequest) -> ChatRequest:
    """Removes the middle of the longest message of `request` until prompt and reply fit the context.

    A trimmed request is counted as trimmed. A prompt that cannot be shortened further is left too long.
    """
    prompt_limit = target.context_tokens - request.sampling.max_tokens
    messages, cut = list(request.messages), False
    while sum(target.count_tokens(m.content) for m in messages) > prompt_limit:
        at = max(range(len(messages)), key=lambda index: len(messages[index].content))
        text = messages[at].content
        keep = (len(text) - len(CUT)) * 7 // 20
        if keep < 1:
            break
        messages[at] = Message(messages[at].role, text[:keep] + CUT + text[-keep:])
        cut = True
    if not cut:
        return request
    counters.count(trimmed=1)
    return replace(request, messages=tuple(messages))
