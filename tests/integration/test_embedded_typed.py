"""Typed calls on the real SmolLM2: every complete reply reads as its signature's types."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Literal

import dspy
import pydantic
import pytest

import ragc
from ragc.core import event_loop
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.calls.parsing import parse
from ragc.targets.base import ChatRequest, Message, Reply, Sampling
from ragc.targets.embedded.target import EmbeddedTarget
from tests.integration.fetched import fetch_default_weights

pytestmark = pytest.mark.integration


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Part(pydantic.BaseModel):
    name: str
    score: int = pydantic.Field(ge=0, le=5)


class Tree(pydantic.BaseModel):
    root: Part
    leaves: list[Part] = pydantic.Field(min_length=1, max_length=2)


SHAPES: dict[str, Any] = {
    "text": str,
    "bounded": Part,
    "nested": Tree,
    "literal": Literal["yes", "no", "unsure"],
    "enum": Colour,
    "switch": bool,
    "list": list[str],
    "optional": str | None,
    "pairs": list[Part],
}
PROMPTS = (
    "Describe Paris.",
    'Say "}{" \\ and a\nnew line, then emoji 🙂.',
    "List three rivers with a score each.",
)


@pytest.fixture(scope="module")
def target() -> EmbeddedTarget:
    """The default weights are fetched in a process of their own: this one may not leave the machine."""
    fetch_default_weights()
    embedded_target = EmbeddedTarget()
    event_loop.run(embedded_target.open())
    return embedded_target


def ask(target: EmbeddedTarget, text: str, **more: Any) -> Reply:
    messages = (Message("system", "Reply with a JSON object."), Message("user", text))
    return event_loop.run(target.complete(ChatRequest(messages, **more)))


def signature(annotation: Any) -> Any:
    return dspy.Signature(
        {"text": (str, dspy.InputField()), "out": (annotation, dspy.OutputField())}, "Reply."
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("temperature", [0.0, pytest.param(1.0, marks=pytest.mark.nightly)])
def test_every_complete_reply_fits_its_schema(target: EmbeddedTarget, shape: str, temperature: float) -> None:
    reply_type = signature(SHAPES[shape])
    for prompt in PROMPTS:
        sampling = Sampling(temperature=temperature, max_tokens=120, seed=1)
        reply = ask(target, prompt, schema=reply_schema(reply_type), sampling=sampling)
        if reply.finish == "stop":
            json.loads(reply.text)
            parse(reply_type, reply.text, layout="json", enforced=True)


def test_a_question_of_many_pages_is_cut_until_the_chat_template_fits_too() -> None:
    fetch_default_weights()
    target = ragc.target("embedded", context=256)
    program = ragc.program("vanilla", main=target, local=lambda query, k: ["Cranes lift."], wording="brief")
    counters = program(question="Where does the crane stand? " * 60).counters
    assert counters["trimmed"]
    assert counters["lm_calls"] == 1
