"""What can be said against a request before it is sent to a server, and against a reply that came."""

from __future__ import annotations

from collections.abc import Iterable

from ragc.errors import TargetError
from ragc.targets.base import ChatRequest, Reply


def check_room(request: ChatRequest, context: int, endpoint: str) -> None:
    """Raise TargetError when no prompt could leave room for the longest reply to `request`.

    `context` counts tokens; 0 is unknown. A prompt that is too long itself is found by the server, which
    has the tokenizer.
    """
    most = request.sampling.max_tokens
    if 0 < context <= most:
        raise TargetError(
            f"A reply of up to {most} tokens does not fit the context window of {endpoint}, which holds "
            f"{context} tokens, prompt included; lower max_tokens or serve the model with a longer context."
        )


def check_logprobs(request: ChatRequest, replies: Iterable[Reply], endpoint: str) -> None:
    """Raise TargetError when `request` asked for log-probabilities and one of `replies` is without."""
    for reply in replies:
        if request.logprobs and reply.text and not reply.logprobs:
            raise TargetError(f'{endpoint} sent no logprobs; add lacks = ["logprobs"] to this target.')
        if request.prompt_logprobs and not reply.prompt_logprobs:
            raise TargetError(
                f"{endpoint} sent no prompt_logprobs; vLLM has them, and this server or target may not."
            )
