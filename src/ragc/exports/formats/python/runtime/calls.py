"""Code of the `python` export: what its users call. It stands in the generated file as it is.

Nothing but the standard library may be used here. `PROMPTS` is filled in the generated file.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ragc.exports.formats.python.runtime.json_replies import ReplyError, _read_json
from ragc.prompts.model import AGAIN


class Prompt(NamedTuple):
    """A call of the program: its messages for given inputs, and what goes with them in a request.

    `model` is the id of the model that it was compiled for, `schema` the JSON schema of a reply, which is
    sent where `enforced`. `read` reads a first reply.
    """

    messages: Callable[..., list[dict[str, str]]]
    model: str
    sampling: Mapping[str, Any]
    schema: Mapping[str, Any]
    enforced: bool
    read: Callable[..., dict[str, Any]]


PROMPTS: Mapping[str, Prompt] = {}


class Cut(str):
    """A reply that the limit of tokens cut short, which is when its `finish_reason` is `length`."""

    __slots__ = ()


Complete = Callable[[dict[str, Any]], str]
"""Sends the body of a chat request and gives the text of the reply, as a `Cut` where it was cut short."""


def messages(name: str, /, **inputs: Any) -> list[dict[str, str]]:
    """The chat messages of the prompt called `name`; raises TypeError for wrong inputs."""
    return _prompt(name).messages(**inputs)


def request(name: str, /, model: str = "", **inputs: Any) -> dict[str, Any]:
    """The body of a chat request to OpenAI's API; `model` is its id, else that of the program."""
    prompt = _prompt(name)
    body = {
        "model": model or prompt.model,
        "messages": prompt.messages(**inputs),
        **copy.deepcopy(dict(prompt.sampling)),
    }
    return {**body, **_format(prompt)} if prompt.enforced else body


def parse(name: str, text: str, again: bool = False) -> dict[str, Any]:
    """The outputs in a reply, by name; `again` says that it is the reply to `repair`.

    Raises ReplyError for a reply that cannot be read.
    """
    prompt = _prompt(name)
    read = _read_json if again else prompt.read
    return read(prompt.schema, text, truncated=isinstance(text, Cut))


def repair(name: str, body: Mapping[str, Any], text: str, error: ReplyError) -> dict[str, Any]:
    """The body of the request that asks again after the reply `text` to `body` could not be read."""
    prompt = _prompt(name)
    fields = ", ".join(f'"{field}"' for field in prompt.schema["properties"])
    exchange = [
        {"role": "assistant", "content": str(text)},
        {"role": "user", "content": AGAIN.format(error=error, fields=fields)},
    ]
    return {**body, "messages": [*body["messages"], *exchange], **_format(prompt)}


def ask(name: str, complete: Complete, /, model: str = "", **inputs: Any) -> dict[str, Any]:
    """The outputs of a call: asked, and asked once more where the reply cannot be read.

    Raises ReplyError when the second reply cannot be read either.
    """
    body = request(name, model=model, **inputs)
    text = complete(body)
    try:
        return parse(name, text)
    except ReplyError as error:
        again = repair(name, body, text, error)
    return parse(name, complete(again), again=True)


def _prompt(name: str) -> Prompt:
    if name not in PROMPTS:
        raise KeyError(f"There is no prompt named {name!r}; there are {', '.join(PROMPTS)}.")
    return PROMPTS[name]


def _format(prompt: Prompt) -> dict[str, Any]:
    schema = copy.deepcopy(dict(prompt.schema))
    strict = {"name": "reply", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": strict}}
