"""The embedded target on the real SmolLM2: every complete reply fits its schema."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import dspy
import pydantic
import pytest

from ragc import loop
from ragc.errors import TargetError, TargetUnavailable
from ragc.programs.typed import read_json, reply_schema
from ragc.targets.base import ChatRequest, Message, Reply, Sampling
from ragc.targets.embedded import EmbeddedTarget

SRC = Path(__file__).parents[2] / "src"

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
    fetch = "from ragc.targets.weights import default_weights; default_weights()"
    subprocess.run([sys.executable, "-c", fetch], env={**os.environ, "PYTHONPATH": str(SRC)}, check=True)
    made = EmbeddedTarget()
    loop.run(made.open())
    return made


def ask(target: EmbeddedTarget, text: str, **more: Any) -> Reply:
    messages = (Message("system", "Reply with a JSON object."), Message("user", text))
    return loop.run(target.complete(ChatRequest(messages, **more)))


def signature(annotation: Any) -> Any:
    return dspy.Signature(
        {"text": (str, dspy.InputField()), "out": (annotation, dspy.OutputField())}, "Reply."
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_complete_reply_fits_its_schema(target: EmbeddedTarget, shape: str, temperature: float) -> None:
    wanted = signature(SHAPES[shape])
    for prompt in PROMPTS:
        sampling = Sampling(temperature=temperature, max_tokens=120, seed=1)
        reply = ask(target, prompt, schema=reply_schema(wanted), sampling=sampling)
        if reply.finish == "stop":
            json.loads(reply.text)
            read_json(wanted, reply.text)


def test_a_reply_cut_by_the_token_limit_says_so(target: EmbeddedTarget) -> None:
    reply = ask(target, "Tell a long story.", sampling=Sampling(max_tokens=5))
    assert (reply.finish, reply.usage.completion) == ("length", 5)


def test_seeds_and_samples_are_repeatable_and_differ(target: EmbeddedTarget) -> None:
    drawn = [
        ask(
            target, "Invent a name.", sampling=Sampling(temperature=1.0, max_tokens=12, seed=5), sample=sample
        ).text
        for sample in (0, 0, 1, 2, 3)
    ]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


def test_log_probabilities_come_one_a_token(target: EmbeddedTarget) -> None:
    reply = ask(target, "Name a colour.", sampling=Sampling(max_tokens=6), logprobs=True)
    assert len(reply.logprobs) == reply.usage.completion
    assert all(p.logprob <= 0 for p in reply.logprobs)


def test_a_shared_prefix_is_not_computed_again(target: EmbeddedTarget) -> None:
    long = "The river runs by the old town. " * 20
    ask(target, long + "What runs?", sampling=Sampling(max_tokens=4))
    again = ask(target, long + "Where does it run?", sampling=Sampling(max_tokens=4))
    assert again.usage.cached > again.usage.prompt // 2


def test_several_requests_in_flight_all_answer(target: EmbeddedTarget) -> None:
    async def many() -> list[Reply]:
        asked = [
            ChatRequest((Message("user", f"Count to {i}."),), sampling=Sampling(max_tokens=8))
            for i in range(6)
        ]
        return list(await asyncio.gather(*(target.complete(request) for request in asked)))

    assert all(reply.usage.completion > 0 for reply in loop.run(many()))


def test_a_prompt_longer_than_the_context_is_refused_not_cut(target: EmbeddedTarget) -> None:
    with pytest.raises(TargetError, match=r"takes 4096 tokens.*raise the target's context"):
        ask(target, "word " * 6000)


def test_files_that_are_no_model_are_one_clear_sentence(tmp_path: Any) -> None:
    with pytest.raises(TargetUnavailable, match="No weights are at"):
        EmbeddedTarget(str(tmp_path / "absent.gguf"))
    (tmp_path / "text.gguf").write_text("hello" * 2000)
    with pytest.raises(TargetUnavailable, match="not a GGUF file"):
        EmbeddedTarget(str(tmp_path / "text.gguf"))
