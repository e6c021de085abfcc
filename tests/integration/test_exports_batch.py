"""openai-batch: vLLM's own run_batch runs the file, and answers as its server answers our target."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ragc.core.digest import canonical
from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import method
from ragc.programs.calls.parsing import parse
from ragc.prompts.model import Case
from ragc.targets.base import ChatRequest, Reply
from ragc.targets.chat import ChatTarget
from ragc.targets.wire import Where, read_reply
from tests.exports.common import build_program
from tests.integration.vllm_server import LIMITS, address, model, python, ran

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3000)]

FACTS = (
    ("the Eiffel Tower", "Paris"), ("the Colosseum", "Rome"), ("the Alhambra", "Granada"),
    ("Big Ben", "London"),
    ("the Prado", "Madrid"), ("the Acropolis", "Athens"), ("the Kremlin", "Moscow"),
    ("the Louvre", "Paris"), ("the Blue Mosque", "Istanbul"), ("the Uffizi", "Florence"),
    ("the Rijksmuseum", "Amsterdam"),
    ("the Atomium", "Brussels"), ("the Hofburg", "Vienna"), ("the Hermitage", "Saint Petersburg"),
    ("the Charles Bridge", "Prague"), ("the Reichstag", "Berlin"), ("the Space Needle", "Seattle"),
    ("the Opera House", "Sydney"), ("the Forbidden City", "Beijing"), ("the Taj Mahal", "Agra"),
)  # fmt: skip
CASES = tuple(
    Case(
        f"q{i}",
        "answer",
        {
            "question": f"In which city is {what}?",
            "passages": [f"{what} stands in {city}.", "It is {{old}}.\r\n"],
        },
        (city,),
    )
    for i, (what, city) in enumerate(FACTS)
)


class RecordingChat(ChatTarget):
    """Sends requests on, and keeps the body of each."""

    def __init__(self) -> None:
        super().__init__(address(), "model")
        self.bodies: list[Any] = []

    def prepare(self, request: ChatRequest, *, stream: bool) -> bytes:
        body = super().prepare(request, stream=stream)
        self.bodies.append(json.loads(body))
        return body


async def complete_cases(call: Any) -> tuple[list[Reply], list[Any]]:
    """What our target gets for every case, and the bodies that it sends, in no order."""
    target = RecordingChat()
    replies = await asyncio.gather(*(target.complete(call.request(**case.inputs)) for case in CASES))
    await target.aclose()
    return list(replies), target.bodies


def test_run_batch_runs_it_and_answers_as_our_target_is_answered(tmp_path: Path) -> None:
    program = build_program(method("vanilla"))
    (call,) = program.predictors()
    (data,) = format_of("openai-batch").files(derive_export(program, cases=CASES)).values()
    batch, results = tmp_path / "answer.batch.jsonl", tmp_path / "results.jsonl"
    batch.write_bytes(data)
    module = ["-m", "vllm.entrypoints.openai.run_batch", "-i", str(batch), "-o", str(results)]
    ran([python(), *module, "--model", model(), "--served-model-name", "model", *LIMITS])
    lines = [json.loads(line) for line in results.read_text("utf-8").split("\n") if line]
    responses = {line["custom_id"]: line["response"]["body"] for line in lines}
    assert responses.keys() == {case.id for case in CASES}
    assert all(line["response"]["status_code"] == 200 and not line["error"] for line in lines)
    replies, sent = asyncio.run(complete_cases(call))
    bodies = [json.loads(line)["body"] for line in data.decode().splitlines()]
    assert sorted(map(canonical, bodies)) == sorted(map(canonical, sent))
    same = 0
    for case, reply in zip(CASES, replies, strict=True):
        batch_reply = read_reply(responses[case.id], call.request(**case.inputs), len, Where("e", "m"))
        same += _answer(call, batch_reply) == _answer(call, reply)
    print(f"agreement at temperature 0: {same} of {len(CASES)}")
    assert same >= 0.95 * len(CASES)


def _answer(call: Any, reply: Reply) -> str:
    answer: str = parse(call.signature, reply.text, layout="json", finish=reply.finish).outputs["answer"]
    return answer
