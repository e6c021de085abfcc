"""A LiteLLM proxy in front of the embedded model stands for hosted APIs, in OpenAI's and Anthropic's words.

RAGC_PROXY_PYTHON names the interpreter of an environment of its own with `litellm[proxy]`.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.downloads import default_weights
from ragc.errors import TargetError, UsageError
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest, Reply
from ragc.targets.embedded.target import EmbeddedTarget
from ragc.task.answering import Row
from tests.integration.embedded_api import MODEL, Api, embedded_api
from tests.integration.fetched import fetch_default_weights
from tests.optimizers.colours import Run, begun, written

PYTHON = os.environ.get("RAGC_PROXY_PYTHON", "")
NAMES = ("gpt-4o-mini", "claude-sonnet-4-5")
READY_S = 240
QUESTIONS = 12


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return begun(written(tmp_path))


pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not PYTHON, reason="RAGC_PROXY_PYTHON names no interpreter with litellm[proxy] installed"
    ),
]


@dataclass
class Proxy:
    """Where the proxy listens, the key that it wants, and what reached the model behind it."""

    port: int
    key: str
    api: Api

    @property
    def openai(self) -> str:
        """The base URL in OpenAI's words."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic(self) -> str:
        """The base URL in Anthropic's words."""
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """The default weights are fetched in a process of their own: this one may not leave the machine."""
    fetch_default_weights()
    folder, key = tmp_path_factory.mktemp("proxy"), f"sk-{secrets.token_hex(24)}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with embedded_api(default_weights()) as api:
        behind = {
            "model": f"hosted_vllm/{MODEL}",
            "api_base": f"http://127.0.0.1:{api.port}/v1",
            "api_key": "none",
        }
        config = {
            "model_list": [{"model_name": name, "litellm_params": behind} for name in NAMES],
            "litellm_settings": {"telemetry": False},
        }
        (folder / "config.yaml").write_text(json.dumps(config), "utf-8")
        command = [PYTHON, "-m", "litellm.proxy.proxy_cli", "--config", str(folder / "config.yaml")]
        base_env = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
        env = base_env | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": key, "PYTHONPATH": ""}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(port)], env=env, stdout=log, stderr=log
            )
            try:
                _wait(process, port, folder / "log")
                yield Proxy(port, key, api)
            finally:
                process.terminate()
                process.wait(60)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
        else:
            return
    pytest.fail(f"the proxy did not come up: {log.read_text(errors='replace')[-2000:]}")


class Watched(EmbeddedTarget):
    """The embedded target, which keeps the prompts that it is asked with."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[list[tuple[str, str]]] = []

    async def complete(self, request: ChatRequest) -> Reply:
        self.prompts.append([(m.role, m.content) for m in request.messages])
        return await super().complete(request)


def hosted(model: str, url: str) -> tuple[str, ...]:
    settings = {"kind": "hosted", "model": model, "base_url": url}
    return tuple(f"targets.main.{name}={json.dumps(value)}" for name, value in settings.items())


def test_one_compiled_program_on_the_embedded_model_and_on_two_hosted_apis(
    run: Run, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", proxy.key)
    monkeypatch.setenv("ANTHROPIC_API_KEY", proxy.key)
    compiled = run(sets=("search.trials=2", f"data.test={QUESTIONS}")).path
    here = Watched()

    def score_rows(sets: tuple[str, ...] = (), targets: Any = None) -> tuple[Row, ...]:
        opened = open_program(compiled, sets, store=CallStore(None), targets=targets)
        return score(opened, "test").rows

    rows = {"embedded": score_rows(targets={"main": here})}
    prompts = {"embedded": here.prompts}
    ways = {"openai": (NAMES[0], proxy.openai), "anthropic": (NAMES[1], proxy.anthropic)}
    for way, (name, url) in ways.items():
        before = len(proxy.api.bodies)
        rows[way] = score_rows(hosted(f"{way}/{name}", url))
        prompts[way] = proxy.api.prompts[before:]
        assert all("json_schema" in body["response_format"] for body in proxy.api.bodies[before:])
    for way, target_rows in rows.items():
        assert len(target_rows) == QUESTIONS
        assert not [row.failure for row in target_rows if row.failure], way
        assert all(isinstance(row.prediction, str) for row in target_rows)
        assert sorted(prompts[way]) == sorted(prompts["embedded"]), way
    for way in ways:
        pairs = zip(rows["embedded"], rows[way], strict=True)
        equal = sum(one.prediction == other.prediction for one, other in pairs)
        print(f"{way}: {equal} of {QUESTIONS} answers at temperature 0 are those of the embedded target")


def test_a_key_that_is_refused_and_a_model_that_is_absent_are_found_before_a_completion(
    run: Run, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = run(sets=("search.trials=1",)).path
    before = len(proxy.api.bodies)
    for key, model, error, text in (
        # A proxy with a database refuses a strange key with 401; one without says that it has none.
        ("sk-wrong-0123456789", NAMES[0], TargetError, "refused the key|No connected db"),
        (proxy.key, "gpt-4o-mni", UsageError, r"no model named 'gpt-4o-mni'. Did you mean 'gpt-4o-mini'"),
    ):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        opened = open_program(compiled, hosted(f"openai/{model}", proxy.openai), store=CallStore(None))
        with pytest.raises(error, match=text) as caught:
            score(opened, "test")
        assert key not in str(caught.value)
    assert len(proxy.api.bodies) == before
