"""vLLM's own engine in a process: it answers as its server answers our target.

It runs in the Python that has vLLM, with the libraries of this one behind its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.targets.base import ChatRequest, Message, Reply, Sampling
from ragc.targets.vllm.target import VllmTarget
from tests.integration.vllm_server import CONTEXT, address, model, python, surroundings

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3000)]

ASK = """
import sys
sys.path.append(sys.argv[2])
try:
    import dspy, ragc.core.event_loop
except ImportError as error:
    print(error)
    sys.exit(77)
import asyncio, json
from ragc.core import event_loop as loop
from ragc.errors import TargetError
from ragc.targets import TargetSpec, build
from ragc.targets.base import ChatRequest, Message, Sampling

def main():
    flags = {"enforce-eager": True}
    options = {"offline": True, "dtype": "float32", "context_tokens": int(sys.argv[3]), "flags": flags}
    target = build(TargetSpec(kind="vllm", model=sys.argv[1], options=options))
    loop.run(target.open())
    asked = [
        ChatRequest(tuple(Message(*m) for m in one["messages"]), one["schema"], Sampling(**one["sampling"]),
                    one["logprobs"], one["sample"], one["prompt_logprobs"])
        for one in json.loads(sys.stdin.read())
    ]
    async def go():
        return await asyncio.gather(*(target.complete(request) for request in asked))
    found = [reply.to_json() for reply in loop.run(go())]
    try:
        loop.run(target.complete(ChatRequest((Message("user", "word " * int(sys.argv[3])),))))
    except TargetError as error:
        found.append(str(error))
    loop.run(target.aclose())
    print("FOUND " + json.dumps(found))

if __name__ == "__main__":
    main()
"""
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}


def requests() -> list[dict[str, Any]]:
    """Greedy ones, one that is scored, one under a schema, and three draws of one prompt."""
    bodies = []
    for number, text in enumerate(("Name a river.", "Where is the Louvre?", *["Name a colour."] * 3)):
        draw = number - 2
        bodies.append(
            {
                "messages": [["system", "You are brief."], ["user", text]],
                "schema": SCHEMA if number == 1 else None,
                "sampling": {"temperature": 1.0 if draw >= 0 else 0.0, "max_tokens": 24, "seed": 5},
                "logprobs": number == 0,
                "sample": max(draw, 0),
                "prompt_logprobs": number == 0,
            }
        )
    return bodies


def of(one: dict[str, Any]) -> ChatRequest:
    messages = tuple(Message(*m) for m in one["messages"])
    sampling = Sampling(**one["sampling"])
    return ChatRequest(
        messages, one["schema"], sampling, one["logprobs"], one["sample"], one["prompt_logprobs"]
    )


def test_it_answers_as_its_server_does(tmp_path: Path) -> None:
    script, libraries = tmp_path / "ask.py", sysconfig.get_paths()["purelib"]
    script.write_text(ASK)
    process = subprocess.run(
        [python(), str(script), model(), libraries, str(CONTEXT)],
        input=json.dumps(requests()), capture_output=True, encoding="utf-8", env=surroundings(), check=False,
    )  # fmt: skip
    if process.returncode == 77:
        pytest.skip(f"the Python that has vLLM cannot import ragc's libraries: {process.stdout}")
    assert process.returncode == 0, process.stdout[-1000:] + process.stderr[-2000:]
    *reply_rows, refused = json.loads(process.stdout.rpartition("FOUND ")[2])
    assert "context window" in refused

    async def go() -> list[Reply]:
        target = VllmTarget(address(), "model")
        await target.open()
        replies = await asyncio.gather(*(target.complete(of(one)) for one in requests()))
        await target.aclose()
        return replies

    server_replies = event_loop.run(go())
    replies = [Reply.from_json(one) for one in reply_rows]
    assert [r.usage.prompt for r in replies] == [r.usage.prompt for r in server_replies]
    assert [t.token for t in replies[0].prompt_logprobs] == [
        t.token for t in server_replies[0].prompt_logprobs
    ]
    assert "".join(t.token for t in replies[0].logprobs) == replies[0].text
    assert json.loads(replies[1].text)["city"] in SCHEMA["properties"]["city"]["enum"]  # type: ignore[index]
    same = sum(ours.text == theirs.text for ours, theirs in zip(replies, server_replies, strict=True))
    print(f"agreement with the server: {same} of {len(server_replies)}")
    assert same >= len(server_replies) - 1
