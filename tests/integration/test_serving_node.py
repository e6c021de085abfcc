"""OpenAI's client for Node talks to a server: chat and responses, whole and streamed, and its errors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import begun, colour_of, written
from tests.serving.server import running

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
pytestmark = pytest.mark.integration

NODE = r"""
const OpenAI = require('openai');
const client = new OpenAI({ baseURL: process.argv[1], apiKey: 'unused', maxRetries: 0 });
const messages = [{ role: 'user', content: 'What colour is thing number7?' }];
const model = 'colours';
(async () => {
  const found = {};
  found.models = (await client.models.list()).data.map((one) => one.id);
  found.chat = await client.chat.completions.create({ model, messages });
  found.chunks = [];
  const streamed = { stream: true, stream_options: { include_usage: true } };
  const chunks = await client.chat.completions.create({ model, messages, ...streamed });
  for await (const chunk of chunks) found.chunks.push(chunk);
  const runner = client.chat.completions.stream({ model, messages });
  found.final = await runner.finalContent();
  found.response = await client.responses.create({ model, input: messages[0].content });
  found.events = [];
  const events = client.responses.stream({ model, input: messages[0].content });
  for await (const event of events) found.events.push(event);
  found.whole = await events.finalResponse();
  const refused = client.chat.completions.create({ model: 'colour', messages });
  found.refused = await refused.catch((error) => ({ name: error.constructor.name, message: error.message }));
  const tools = [{ type: 'function', function: { name: 'run', parameters: {} } }];
  const asked = client.chat.completions.create({ model, messages, tools });
  found.tools = await asked.catch((error) => ({ status: error.status, param: error.param }));
  console.log(JSON.stringify(found));
})();
"""
ANSWER = "It is blue [1]."


def cites(request: ChatRequest) -> dict[str, str]:
    return {"answer": f"It is {colour_of(request)} [1]."}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client got, by the name of the call."""
    node, modules = shutil.which("node"), os.environ.get("RAGC_NODE_MODULES")
    if node is None or modules is None:
        pytest.skip("needs node, and RAGC_NODE_MODULES: the node_modules where `npm install openai` was run")
    if not (Path(modules) / "openai").is_dir():
        pytest.skip(f"RAGC_NODE_MODULES is {modules}, where openai is not installed")
    folder = tmp_path_factory.mktemp("node")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(folder / "home"))
        patch.delenv("RAGC_SERVE_KEYS", raising=False)
        begun(written(folder))("colours")
        with running([folder / "colours"], {"main": ScriptedTarget(cites)}) as served:
            done = subprocess.run(
                [node, "-e", NODE, served.v1],
                env={**os.environ, "NODE_PATH": modules},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_chat(results: dict[str, Any]) -> None:
    assert results["models"] == ["colours"]
    message = results["chat"]["choices"][0]["message"]
    assert message["content"] == ANSWER
    assert message["annotations"][0]["url_citation"]["url"] == "urn:ragc:passage:d7"
    assert results["chat"]["usage"]["total_tokens"] > 0


def test_streamed_chat(results: dict[str, Any]) -> None:
    *_, last = chunks = results["chunks"]
    texts = [choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]]
    assert "".join(texts) == results["final"] == ANSWER
    assert last["usage"]["total_tokens"] > 0


def test_responses(results: dict[str, Any]) -> None:
    assert results["response"]["output_text"] == ANSWER
    assert results["response"]["status"] == "completed"


def test_streamed_responses(results: dict[str, Any]) -> None:
    events = results["events"]
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == results["whole"]["output_text"] == ANSWER
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_what_is_refused_is_an_error_of_the_client(results: dict[str, Any]) -> None:
    assert results["refused"]["name"] == "NotFoundError"
    assert "No model is named 'colour'. Did you mean 'colours'" in results["refused"]["message"]
    assert results["tools"] == {"status": 400, "param": "tools"}
