"""The embedded target with SmolLM2-135M-Instruct: whatever it says fits the schema."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import jsonschema  # type: ignore[import-untyped]
import pytest
from pydantic import BaseModel, Field

from ragc.errors import TargetError
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, parts_taker
from ragc.targets.embedded.target import EmbeddedTarget
from tests.integration.fetched import default_weights

pytest.importorskip("xllamacpp")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]
T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    ODD = 'gr"e\nen é'


class Claim(BaseModel):
    text: str = Field(max_length=40)
    support: int = Field(ge=0, le=5)


class Answer(BaseModel):
    answer: str


class Nested(BaseModel):
    claims: list[Claim] = Field(min_length=1, max_length=3)
    best: Claim


class Choice(BaseModel):
    colour: Colour
    label: Literal["yes", "no", "unknown"]


class Lists(BaseModel):
    pairs: list[tuple[str, int]] = Field(max_length=2)


class Patterned(BaseModel):
    code: str = Field(pattern=r"^[A-Z]{2}-\d{2}$")
    day: str = Field(json_schema_extra={"format": "date"})


class Tree(BaseModel):
    value: str = Field(max_length=8)
    child: Tree | None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool


class Tagged(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


ZOO: tuple[type[BaseModel], ...] = (
    Answer, Nested, Choice, Lists, Patterned, Tree, Tagged,
)  # fmt: skip
PROMPTS = (
    "What is the capital of France?",
    'Repeat after me: "quotes", {braces}, back\\slash, tab\t, newline\n and 😀.',
    "List every number from 1 to 1000 and say nothing else!",
)


@pytest.fixture(scope="module")
def call() -> Iterator[Callable[[Awaitable[T]], T]]:
    with asyncio.Runner() as runner:

        async def wait(work: Awaitable[T]) -> T:
            return await work

        yield lambda work: runner.run(wait(work))


@pytest.fixture(scope="module")
def weights() -> Path:
    return default_weights()


@pytest.fixture(scope="module")
def target(weights: Path, call: Any) -> Iterator[EmbeddedTarget]:
    embedded_target = EmbeddedTarget(weights, context=1024, parallel=4)
    call(embedded_target.open())
    yield embedded_target
    call(embedded_target.aclose())


def build_request(
    text: str, schema: dict[str, Any] | None = None, *, sample: int = 0, **sampling: Any
) -> ChatRequest:
    system = Message("system", "You answer questions. Reply with JSON when you are asked to.")
    return ChatRequest((system, Message("user", text)), schema, Sampling(**sampling), sample=sample)


async def together(target: EmbeddedTarget, requests: list[ChatRequest]) -> list[Reply]:
    return await asyncio.gather(*map(target.complete, requests))


@pytest.mark.parametrize("temperature", [pytest.param(0.0, marks=pytest.mark.nightly), 1.0])
@pytest.mark.parametrize("model", ZOO, ids=lambda model: model.__name__)
def test_every_complete_reply_validates(
    target: EmbeddedTarget, call: Any, model: type[BaseModel], temperature: float
) -> None:
    schema = model.model_json_schema()
    requests = [
        build_request(prompt, schema, sample=i, temperature=temperature, max_tokens=96)
        for i in range(1 if temperature == 0 else 3)
        for prompt in PROMPTS
    ]
    replies = call(together(target, requests))
    complete = [reply for reply in replies if reply.finish == "stop"]
    for reply in complete:
        model.model_validate_json(reply.text)
        assert reply.text == reply.text.strip()
    assert complete or model is Tree


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 2, "maxItems": 3, "uniqueItems": True},
        {"type": "string", "format": "uri", "maxLength": 30},
        {"oneOf": [{"type": "boolean"}, {"enum": [3]}], "$comment": "either"},
    ],
)
def test_keywords_beyond_the_grammar_are_left_out_and_the_rest_is_enforced(
    target: EmbeddedTarget, call: Any, schema: dict[str, Any]
) -> None:
    reply = call(target.complete(build_request(PROMPTS[0], schema, max_tokens=60)))
    enforced = {name: value for name, value in schema.items() if name != "uniqueItems"}
    jsonschema.validate(json.loads(reply.text), enforced)


def test_a_reply_cut_by_the_token_limit_says_so(target: EmbeddedTarget, call: Any) -> None:
    reply = call(target.complete(build_request(PROMPTS[0], Nested.model_json_schema(), max_tokens=5)))
    assert (reply.finish, reply.usage.completion) == ("length", 5)


def test_the_parts_of_a_reply_come_one_by_one_and_make_it_up(target: EmbeddedTarget, call: Any) -> None:
    parts: list[str] = []

    async def ask() -> Reply:
        token = parts_taker.set(parts.append)
        try:
            return await target.complete(build_request(PROMPTS[0], Answer.model_json_schema()))
        finally:
            parts_taker.reset(token)

    reply = call(ask())
    assert "".join(parts) == reply.text
    assert len([part for part in parts if part]) > 3


def test_logprobs_are_natural_and_spell_the_reply(target: EmbeddedTarget, call: Any) -> None:
    request = build_request(PROMPTS[0], max_tokens=12)
    reply = call(target.complete(ChatRequest(request.messages, None, request.sampling, logprobs=True)))
    assert "".join(token for token, _ in reply.logprobs) == reply.text
    assert all(logprob <= 0 for _, logprob in reply.logprobs)


def test_a_sample_repeats_itself_and_differs_from_the_next(target: EmbeddedTarget, call: Any) -> None:
    def draw(sample: int) -> str:
        return str(
            call(
                target.complete(build_request("Tell a story.", sample=sample, temperature=1.0, max_tokens=16))
            ).text
        )

    assert draw(0) == draw(0) != draw(1)


def test_a_long_beginning_is_computed_once_for_all_slots(target: EmbeddedTarget, call: Any) -> None:
    first = Message("system", "The mill stands by the river, and the old town is on the hill. " * 24)
    other = Message("system", "Wheat is sold on Mondays, and on Fridays there is fish at the gate. " * 24)
    for beginning in (first, other, first):
        questions = [Message("user", f"{number}: what is sold?") for number in range(8)]
        requests = [ChatRequest((beginning, q), None, Sampling(max_tokens=4)) for q in questions]
        replies = call(together(target, requests))
        cached = sorted(reply.usage.cached / reply.usage.prompt for reply in replies)
        assert cached[1] > 0.9  # all but the first
    assert cached[0] > 0.9  # that beginning had been seen


def test_a_kept_beginning_is_loaded_by_a_later_process(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path))
    beginning = Message("system", "The mill stands by the river, and the old town is on the hill. " * 30)
    questions = ["Where is the mill?", "What is old?", "Tell me about the hill and the river."]

    def ask() -> list[tuple[str, int]]:
        """Text and number of computed prompt tokens of each reply of a freshly loaded model."""

        async def run() -> list[tuple[str, int]]:
            model = EmbeddedTarget(weights, context=1024, parallel=2)
            replies = [
                await model.complete(
                    ChatRequest((beginning, Message("user", question)), None, Sampling(max_tokens=24))
                )
                for question in questions
            ]
            await model.aclose()
            return [(reply.text, reply.usage.prompt - reply.usage.cached) for reply in replies]

        return asyncio.run(run())

    def texts(replies: list[tuple[str, int]]) -> list[str]:
        return [text for text, _ in replies]

    first = ask()
    (state,) = (tmp_path / "prefixes").iterdir()
    later = ask()
    state.write_bytes(state.read_bytes()[: state.stat().st_size // 2])
    after_damage = ask()
    assert texts(first) == texts(later) == texts(after_damage)
    assert first[0][1] > 400
    assert all(tokens < 40 for _, tokens in later)


def test_a_prompt_beyond_the_context_is_refused(target: EmbeddedTarget, call: Any) -> None:
    for words in (900, 5000):  # with the reply, and alone
        with pytest.raises(TargetError, match=r"The prompt (has|does not fit) .*1024"):
            call(target.complete(build_request("word " * words, max_tokens=256)))


def test_a_cancelled_request_frees_its_slot(target: EmbeddedTarget, call: Any) -> None:
    async def run() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await together(
                    target, [build_request(f"Story {i}", max_tokens=900, stop=("\x00",)) for i in range(4)]
                )
        begun = time.monotonic()
        await target.complete(build_request("Hi", max_tokens=2))
        return time.monotonic() - begun

    assert call(run()) < 10


def test_a_file_that_is_no_whole_model_is_one_sentence(tmp_path: Path, weights: Path, call: Any) -> None:
    cut = tmp_path / "cut.gguf"
    for content in (weights.read_bytes()[:5_000_000], b"PK\x03\x04" + bytes(9000), b""):
        cut.write_bytes(content)
        with pytest.raises(TargetError, match=r"could not load .*cut\.gguf.*use another model"):
            call(EmbeddedTarget(cut).open())


def test_a_program_that_ends_with_requests_in_flight_ends_at_once(weights: Path) -> None:
    program = """
import asyncio, sys, threading, time
from ragc.targets.base import ChatRequest, Message, Sampling
from ragc.targets.embedded.target import EmbeddedTarget
from tests.integration.fetched import default_weights
target = EmbeddedTarget(sys.argv[1], context=2048)
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
asyncio.run_coroutine_threadsafe(target.open(), loop).result()
for i in range(6):
    sampling = Sampling(max_tokens=1900, temperature=1.0)
    request = ChatRequest((Message("user", f"Tell story {i}"),), None, sampling)
    asyncio.run_coroutine_threadsafe(target.complete(request), loop)
time.sleep(1)
print("end", flush=True)
"""
    command = [sys.executable, "-c", program, str(weights)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        line = run.stdout.readline()
        begun = time.monotonic()
        _, stderr = run.communicate(timeout=60)
    assert (line, run.returncode, stderr) == ("end\n", 0, "")
    assert time.monotonic() - begun < 20
