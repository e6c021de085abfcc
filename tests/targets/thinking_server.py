"""Answers of a server whose model thinks, in each of the ways in which servers say so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tests.targets.fault_server import MODEL, Answer, Asked

Way = Literal["reasoning_content", "reasoning", "tagged", "untagged", "parts"]
WAYS: tuple[Way, ...] = ("reasoning_content", "reasoning", "tagged", "untagged", "parts")

SECRET = "zebra"
"""A word that stands in every thought, and in nothing else."""

THINKING_LOGPROB, ANSWER_LOGPROB = -5.0, -0.01


def thoughts_of(tokens: int) -> str:
    """Thoughts of `tokens` words, drafts of a reply among them."""
    line = f'The {SECRET} asks for {{"answer": "{SECRET}"}} and passage [1] says "{SECRET}".'.split()
    listed = [line[at % len(line)] for at in range(tokens)]
    return " ".join([SECRET, *listed[1:]])


@dataclass(frozen=True)
class Thinker:
    """Completes what is asked as a model that thinks for `tokens` words in `way`; 0 for none.

    `answer` says the text that follows the thoughts. With `limit` the reply is cut at the limit of the
    request, thoughts counted. Thoughts have the log-probability `THINKING_LOGPROB` a token.
    """

    answer: Callable[[Asked], str]
    way: Way = "reasoning_content"
    tokens: int = 20
    limit: bool = False

    def __call__(self, request: Asked) -> Answer:
        """The completion."""
        thoughts, answer = (
            _words(thoughts_of(self.tokens) if self.tokens else ""),
            _words(self.answer(request)),
        )
        most = request.body.get("max_tokens") or request.body.get("max_completion_tokens") or 10**9
        cut = self.limit and len(thoughts) + len(answer) > most
        if cut:
            thoughts, answer = thoughts[:most], answer[: max(0, most - len(thoughts))]
        drawn = [(word, THINKING_LOGPROB) for word in thoughts] + [(word, ANSWER_LOGPROB) for word in answer]
        message, tokens = self._message("".join(thoughts), "".join(answer)), drawn
        if self.way in ("tagged", "untagged") and thoughts:
            end = [("</think>", THINKING_LOGPROB), ("\n\n", THINKING_LOGPROB)] if answer else []
            start = [("<think>", THINKING_LOGPROB)] if self.way == "tagged" else []
            tokens = [*start, *drawn[: len(thoughts)], *end, *drawn[len(thoughts) :]]
        scored = [{"token": token, "logprob": logprob, "top_logprobs": []} for token, logprob in tokens]
        choice: dict[str, Any] = {
            "index": 0,
            "message": message,
            "finish_reason": "length" if cut else "stop",
        }
        if request.body.get("logprobs"):
            choice["logprobs"] = {"content": scored}
        usage = {"prompt_tokens": 20, "completion_tokens": len(drawn), "total_tokens": 20 + len(drawn)}
        head = {"id": "cmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}
        return Answer(json.dumps({**head, "choices": [choice], "usage": usage}).encode())

    def _message(self, thoughts: str, answer: str) -> dict[str, Any]:
        content: Any = answer or None
        apart: dict[str, str] = {}
        if thoughts and self.way in ("reasoning_content", "reasoning"):
            apart = {self.way: thoughts}
        elif thoughts and self.way == "parts":
            content = [
                {"type": "thinking", "thinking": thoughts},
                {"type": "text", "text": answer[:5]},
                {"type": "text", "text": answer[5:]},
            ]
        elif thoughts:
            end = f"</think>\n\n{answer}" if answer else ""
            content = f"{'<think>' * (self.way == 'tagged')}{thoughts}{end}"
        return {"role": "assistant", "content": content, **apart}


def _words(text: str) -> list[str]:
    """`text` in tokens: words with the blanks before them."""
    return re.findall(r"\s*\S+|\s+\Z", text)
