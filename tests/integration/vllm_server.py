"""A real vLLM for tests: the Python that has one, a model that it loads, and a server of it.

RAGC_VLLM_PYTHON names the Python (this one where it is not set), RAGC_VLLM_MODEL a folder of a model, else
the default weights are converted, and RAGC_VLLM_URL a server that runs and calls its model `model`, else
one is started. A test is skipped where the Python lacks vllm, gguf or accelerate.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import httpx
import pytest

from tests.paths import SRC

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
CONTEXT = 2048
LIMITS = ("--max-model-len", str(CONTEXT), "--enforce-eager", "--dtype", "float32")


@cache
def python() -> str:
    """A Python that has vllm; the test is skipped where there is none."""
    named = os.environ.get("RAGC_VLLM_PYTHON") or sys.executable
    check_code = (
        "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('vllm', 'gguf', 'accelerate'))))"
    )
    if subprocess.run([named, "-c", check_code], check=False).returncode:
        pytest.skip("needs vllm, gguf and accelerate here or in the Python that RAGC_VLLM_PYTHON names")
    return named


def ran(command: list[str]) -> str:
    """What `command` wrote, without white space around it; the test fails when the command does."""
    process = subprocess.run(command, capture_output=True, encoding="utf-8", env=surroundings(), check=False)
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
    return process.stdout.strip()


def surroundings() -> dict[str, str]:
    """The environment of vLLM, which fetches and tells nothing; downloaded weights are the user's own."""
    own = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "PYTHONPATH": str(SRC),
    }
    return {**own, **{name: value for name, value in os.environ.items() if name != "RAGC_HOME"}}


@cache
def model() -> str:
    """The folder of a model that vLLM loads."""
    if folder := os.environ.get("RAGC_VLLM_MODEL"):
        return folder
    fetch = "from ragc.downloads import default_weights; print(default_weights())"
    weights = Path(ran([sys.executable, "-c", fetch]))  # in a process that may leave the machine
    out = Path(_scratch().name) / "model"
    ran([python(), "-c", CONVERT, str(weights.parent), weights.name, str(out)])
    return str(out)


@cache
def address() -> str:
    """The address of a vLLM server of the model, which it calls `model`; it runs until the tests end."""
    if running := os.environ.get("RAGC_VLLM_URL"):
        return running
    return serve(model())


def serve(folder: str) -> str:
    """The address of a new vLLM server of the model in `folder`, called `model`; it runs until tests end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    module = ["-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port)]
    named = ["--served-model-name", "model", "--enable-prompt-tokens-details"]
    command = [python(), *module, "--model", folder, *named, *LIMITS]
    log = Path(_scratch().name) / f"server-{port}.log"
    with log.open("wb") as out:
        started = subprocess.Popen(command, stdout=out, stderr=out, env=surroundings())
    atexit.register(_stop, started)
    until = time.monotonic() + 1500
    while not _healthy(port):
        assert started.poll() is None, f"vLLM's server ended: {log.read_text('utf-8', 'replace')[-2000:]}"
        assert time.monotonic() < until, "vLLM's server did not start"
        time.sleep(1)
    return f"http://127.0.0.1:{port}/v1"


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="ragc-vllm-")


def _healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _stop(running: subprocess.Popen[bytes]) -> None:
    running.terminate()
    try:
        running.wait(60)
    except subprocess.TimeoutExpired:
        running.kill()
