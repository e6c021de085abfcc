"""What a request to a scripted target asks for."""

from __future__ import annotations

from ragc.targets.base import ChatRequest


def last_output(request: ChatRequest) -> str:
    """Returns the name of the last output that `request` asks for."""
    assert request.schema is not None
    return str(list(request.schema["properties"])[-1])


def inputs_of(request: ChatRequest) -> str:
    """Returns the last message of `request`, which holds the inputs."""
    return request.messages[-1].content
