"""openai-batch: vLLM's own run_batch runs the file, and answers as its server answers our target.

Needs a Python that has vllm, gguf and accelerate: this one, or that which RAGC_VLLM_PYTHON names. The model
is the one that RAGC_VLLM_MODEL names (a folder), else the default weights, converted.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragc.exports.base import format_of
from ragc.exports.derive import exported
from ragc.exports.prompt import Case
from ragc.programs import method
from ragc.programs.typed import read_json
from ragc.targets.base import Reply
from ragc.targets.vllm import VllmTarget
from ragc.targets.weights import default_weights
from ragc.targets.wire import read_reply
from tests.exports.common import made

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3000)]

CONVERT = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, file, out = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
vars(model.config).pop("quantization_config", None)
plain = AutoModelForCausalLM.from_config(model.config, dtype=torch.float32)
plain.load_state_dict(model.state_dict())
plain.save_pretrained(out)
tokenizer.save_pretrained(out)
"""
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
LIMITS = ("--max-model-len", "1024", "--served-model-name", "model", "--enforce-eager")


def python() -> str:
    """A Python that has vllm; the test is skipped where there is none."""
    named = os.environ.get("RAGC_VLLM_PYTHON") or sys.executable
    found = (
        "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('vllm', 'gguf', 'accelerate'))))"
    )
    if subprocess.run([named, "-c", found], check=False).returncode:
        pytest.skip("needs vllm, gguf and accelerate here or in the Python that RAGC_VLLM_PYTHON names")
    return named


def ran(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=surroundings(), check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def surroundings() -> dict[str, str]:
    return {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", **os.environ}


def model(named: str, tmp_path: Path) -> str:
    """The folder of a model that vLLM loads."""
    if folder := os.environ.get("RAGC_VLLM_MODEL"):
        return folder
    weights = default_weights()
    ran([named, "-c", CONVERT, str(weights.parent), weights.name, str(tmp_path / "model")])
    return str(tmp_path / "model")


@contextmanager
def server(named: str, folder: str) -> Iterator[str]:
    """The address of a vLLM server of the model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    module = ["-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port)]
    command = [named, *module, "--model", folder, *LIMITS]
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=surroundings()
    )
    try:
        until = time.monotonic() + 1500
        while not _healthy(port):
            assert running.poll() is None, "vLLM's server ended"
            assert time.monotonic() < until, "vLLM's server did not start"
            time.sleep(2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        running.terminate()
        running.wait(60)


def _healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


async def asked(url: str, call: Any) -> list[Reply]:
    """What our target gets for every case."""
    target = VllmTarget(url, "model")
    await target.open()
    replies = await asyncio.gather(*(target.complete(call.request(**case.inputs)) for case in CASES))
    await target.aclose()
    return list(replies)


def test_run_batch_runs_it_and_answers_as_our_target_is_answered(tmp_path: Path) -> None:
    named = python()
    program = made(method("vanilla"))
    (call,) = program.predictors()
    (data,) = format_of("openai-batch").files(exported(program, cases=CASES)).values()
    batch, results = tmp_path / "answer.batch.jsonl", tmp_path / "results.jsonl"
    batch.write_bytes(data)
    folder = model(named, tmp_path)
    module = ["-m", "vllm.entrypoints.openai.run_batch"]
    ran([named, *module, "-i", str(batch), "-o", str(results), "--model", folder, *LIMITS])
    lines = [json.loads(line) for line in results.read_text("utf-8").split("\n") if line]
    found = {line["custom_id"]: line["response"]["body"] for line in lines}
    assert found.keys() == {case.id for case in CASES}
    assert all(line["response"]["status_code"] == 200 and not line["error"] for line in lines)
    with server(named, folder) as url:
        wanted = asyncio.run(asked(url, call))
    same = 0
    for case, reply in zip(CASES, wanted, strict=True):
        said = read_reply(found[case.id], call.request(**case.inputs), len)
        same += _answer(call, said) == _answer(call, reply)
    print(f"agreement at temperature 0: {same} of {len(CASES)}")
    assert same >= 0.95 * len(CASES)


def _answer(call: Any, reply: Reply) -> str:
    answer: str = read_json(call.signature, reply.text, truncated=reply.finish == "length")["answer"]
    return answer
