"""A key that a server sends back, in a reply or in an error, is on no screen and in no file."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ragc.core import redact
from ragc.core.redact import MASK, mask_keys, remember, remember_environment
from tests.examples import cases
from tests.security.command_line import ragc
from tests.security.foreign import target_table, write_data

KEY = "plain/words+not&like=a-key"
VARIABLE = "MY_SERVERS_SECRET_WORDS"
"""A variable whose name says nothing, so that only the recipe tells that it holds a key."""
FORMS = (KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode())
STUDY = """
program = "vanilla"
[data]
questions = "questions.jsonl"
dev = 2
test = 2
[sources.local]
kind = "bm25"
corpus = "corpus.jsonl"
[search]
knobs = ["top_k"]
trials = 1
demos = 0
objectives = ["em"]
[metrics]
report = ["em"]
"""


@pytest.fixture
def echoing() -> Iterator[tuple[str, dict[str, int]]]:
    """A server of OpenAI's API that says the key it was sent, in each form, and the status that it gives."""
    state = {"status": 200}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send({"data": [{"id": "echo", "max_model_len": 8192}, {"id": self._key()}]}, 200)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            echoed = " ".join((self._key(), quote(self._key(), safe=""), *FORMS[2:]))
            message = {"role": "assistant", "content": json.dumps({"answer": f"it is {echoed}"})}
            body: dict[str, Any] = {
                "id": "1", "object": "chat.completion", "created": 0, "model": "echo",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
            }  # fmt: skip
            if state["status"] != 200:
                body = {"error": {"message": f"the key {echoed} is unknown"}}
            self._send(body, state["status"])

        def _key(self) -> str:
            return self.headers.get("authorization", "").removeprefix("Bearer ")

        def _send(self, value: Any, status: int) -> None:
            text = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("x-request-id", self._key())
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", state
        server.shutdown()
        thread.join()


def assert_kept_nowhere(folder: Path, *shown: str) -> None:
    """No form of the key stands in `shown` or in a file under `folder`, packed or not."""
    held = [path for path in folder.rglob("*") if path.is_file()]
    assert held
    for form in FORMS:
        assert not [text for text in shown if form in text]
        assert not [path for path in held if form.encode() in unpacked(path)]


def unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".gz":
        import gzip

        return gzip.decompress(content)
    return content


@pytest.mark.parametrize("kind", cases(["vllm", "hosted"], 1))
def test_a_key_in_a_reply_is_in_no_row_study_store_or_line(
    kind: str, echoing: tuple[str, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
    url, state = echoing
    model = "echo" if kind == "vllm" else "openai/echo"
    write_data(tmp_path)
    table = target_table(kind=kind, model=model, base_url=url, api_key_env=VARIABLE, tries=1)
    (tmp_path / "recipe.toml").write_text(STUDY + table, "utf-8")
    shown = []
    for words in (
        ("compile", "recipe.toml", "--out", "out"),
        ("ask", "out", "What colour is the mug?", "--trace"),
        ("eval", "out", "--split", "test", "--out", "rows.jsonl"),
        ("report", "out", "--out", "page.html"),
    ):
        ended = ragc(tmp_path, *words)
        assert ended.status == 0, ended.err
        shown += [ended.out, ended.err]
    assert MASK in shown[2]
    assert MASK in (tmp_path / "rows.jsonl").read_text()
    for status in (401, 500):
        state["status"] = status
        ended = ragc(tmp_path, "ask", "out", f"What colour is mug {status}?")
        assert ended.status == 1
        shown += [ended.out, ended.err]
    state["status"] = 200
    unlisted = ragc(tmp_path, "ask", "out", "Which?", "--set", f"targets.main.model={model}-not-listed")
    assert_kept_nowhere(tmp_path, *shown, unlisted.out, unlisted.err)


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_remembered", {})


@pytest.mark.usefixtures("forgetful")
def test_only_whole_keys_of_eight_characters_are_masked_in_replies() -> None:
    remember("longenough")
    remember("short12")
    text = "longenough, long enough, short12, sk-0123456789abcdefghij, password=hunter22"
    assert mask_keys(text) == text.replace("longenough", MASK)
    assert mask_keys("nothing of it") == "nothing of it"


@pytest.mark.usefixtures("forgetful")
def test_keys_that_a_library_may_send_are_known_by_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "OPENAI_API_KEY": "value-of-openai",
        "ACME_KEY": "value-of-acme",
        "SIGNING_KEY": "value-of-signing",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    remember_environment("acme_")
    text = " ".join(values.values())
    assert mask_keys(text) == f"{MASK} {MASK} value-of-signing"


def test_a_key_that_begins_with_another_leaves_no_rest() -> None:
    remember("abcd1234")
    remember("abcd1234XYZSECRET")
    assert mask_keys("key abcd1234XYZSECRET, and abcd1234") == f"key {MASK}, and {MASK}"
