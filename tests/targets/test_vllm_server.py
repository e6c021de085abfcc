"""Servers that ragc starts: shared, stopped by who started them, and clear about why they end.

vLLM is played by a stand-in that knows its flags and addresses.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragc.core import event_loop
from ragc.core.progress import listening
from ragc.errors import TargetError, TargetUnavailable, UsageError
from ragc.targets import build
from ragc.targets.base import ChatRequest, Message
from ragc.targets.options import TargetSpec
from ragc.targets.vllm_server import ServedTarget
from tests.examples import thorough
from tests.paths import SRC

STAND_IN = """
# `--die WORDS` ends with an error while it starts, `--never` never becomes healthy, and a prompt that says
# `die` ends it at once.
import argparse, http.server, json, os, sys, time

parser = argparse.ArgumentParser(prog="api_server.py")
for name in ("host", "model", "dtype", "die"):
    parser.add_argument("--" + name)
parser.add_argument("--port", type=int)
parser.add_argument("--max-model-len", type=int, default=512)
parser.add_argument("--names", nargs="*")
parser.add_argument("--never", action="store_true")
given = parser.parse_args()
print("INFO 11-21 19:14:24 [core.py:133] Loading", given.model, flush=True)
if given.die:
    print("(EngineCore pid=12) ERROR 11-21 19:14:57 [core.py:9] ValueError:", given.die, file=sys.stderr)
    raise RuntimeError("Engine core initialization failed. See root cause above. Failed core proc(s): {}")

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.path == "/health":
            return self.say({}, 503 if given.never else 200)
        self.say({"data": [{"id": given.model, "owned_by": "vllm", "max_model_len": given.max_model_len}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body["messages"][0]["content"] == "die":
            print("torch.OutOfMemoryError: no room for the cache", file=sys.stderr, flush=True)
            os._exit(7)
        text = json.dumps({"pid": os.getpid(), "args": sys.argv[1:]})
        self.say({"choices": [{"message": {"content": text}}]})

    def say(self, body, status=200):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

http.server.ThreadingHTTPServer((given.host, given.port), Handler).serve_forever()
"""

OTHER = """
import sys
from ragc.core import event_loop as loop
from ragc.targets import build
from ragc.targets.options import TargetSpec
target = build(TargetSpec(kind="vllm", model="m", options={"serve": True}))
loop.run(target.open())
print(target.endpoint, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "fake" / "vllm" / "entrypoints" / "openai"
    folder.mkdir(parents=True)
    (folder / "api_server.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path / "fake"), str(SRC))))
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))


@pytest.fixture
def serve() -> Iterator[Any]:
    targets: list[ServedTarget] = []

    def go(model: str = "m", **options: Any) -> ServedTarget:
        target = build(TargetSpec(kind="vllm", model=model, options={"serve": True, **options}))
        assert isinstance(target, ServedTarget)
        targets.append(target)
        return target

    yield go
    for target in targets:
        event_loop.run(target.aclose())


def ask(target: ServedTarget, text: str = "hello") -> dict[str, Any]:
    """The process that answers and the arguments that it was started with."""
    reply: dict[str, Any] = json.loads(
        event_loop.run(target.complete(ChatRequest((Message("user", text),)))).text
    )
    return reply


def gone(pid: int) -> bool:
    """Whether the process ends; the wait is only for one that does not."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_it_is_started_with_what_the_recipe_says_shared_and_stopped_by_the_last_that_used_it(
    serve: Any,
) -> None:
    options = {"dtype": "float32", "context_tokens": 300, "flags": {"names": ["a", "b"], "never": False}}
    first, second = serve(**options), serve(**options)
    lines: list[str] = []

    async def go() -> None:
        with listening(lines.append):
            await first.open()
            await second.open()

    event_loop.run(go())
    reply = ask(first)
    assert reply["args"][4:] == [
        "--model", "m", "--dtype", "float32", "--max-model-len", "300", "--names", "a", "b",
    ]  # fmt: skip
    assert reply["args"][:2] == ["--host", "127.0.0.1"]
    assert (first.context_tokens, "prompt_logprobs" in first.capabilities) == (300, True)
    assert ask(second) == reply
    assert lines[0].startswith("starting vLLM with m; its log is ")
    assert lines[1].startswith("vLLM serves m after ")
    assert len(lines) == 2
    event_loop.run(first.aclose())
    assert ask(second) == reply
    event_loop.run(second.aclose())
    assert gone(reply["pid"])
    assert ask(first)["pid"] != reply["pid"]


def test_other_settings_are_another_server_and_another_identity(serve: Any, tmp_path: Path) -> None:
    assert ask(serve())["pid"] != ask(serve(dtype="half"))["pid"]
    assert serve().identity == serve().identity != serve(dtype="half").identity
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"1" * 10)
    before = serve(str(folder)).identity
    assert before.startswith("weights@")
    assert str(tmp_path) not in before
    (folder / "model.safetensors").write_bytes(b"2" * 11)
    assert serve(str(folder)).identity != before


def test_another_process_finds_it_and_leaves_it_running(serve: Any) -> None:
    target = serve()
    pid = ask(target)["pid"]
    other = subprocess.run(
        [sys.executable, "-c", OTHER], input="", capture_output=True, encoding="utf-8", check=True
    )
    assert other.stdout.strip() == target.endpoint
    assert ask(target)["pid"] == pid


@thorough
def test_one_whose_starter_was_killed_is_found_again_and_not_stopped(serve: Any) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OTHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert owner.stdout is not None
    address = owner.stdout.readline().decode().strip()
    owner.kill()
    owner.communicate()
    target = serve()
    pid = ask(target)["pid"]
    assert target.endpoint == address
    os.kill(pid, signal.SIGTERM)
    assert gone(pid)
    assert ask(target)["pid"] != pid


@pytest.mark.parametrize(
    ("flags", "quoted"),
    [
        ({"no_such_flag": 3}, "error: unrecognized arguments: --no-such-flag 3"),
        ({"die": "the dtype float8 is not supported"}, "ValueError: the dtype float8 is not supported"),
    ],
)
def test_a_flag_that_vllm_refuses_ends_with_its_own_words(serve: Any, flags: Any, quoted: str) -> None:
    with pytest.raises(TargetError) as caught:
        event_loop.run(serve(flags=flags).open())
    text = str(caught.value)
    assert text.startswith("vLLM with m ended (exit code ")
    assert f"{quoted}. Its log is " in text
    assert "\n" not in text
    assert not isinstance(caught.value, TargetUnavailable)


def test_a_python_without_vllm_is_said(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    with pytest.raises(TargetError, match="No module named 'vllm"):
        event_loop.run(serve().open())


def test_a_server_that_is_never_ready_is_given_up_and_stopped(serve: Any) -> None:
    with pytest.raises(TargetUnavailable, match=r"within \d+ s; its log ends in .*Loading m.*start_s"):
        event_loop.run(serve(flags={"never": True}, start_s=0.5).open())


def test_a_server_that_dies_is_quoted(serve: Any) -> None:
    target = serve(tries=1)
    pid = ask(target)["pid"]
    with pytest.raises(
        TargetError, match=r"ended \(exit code 7\): .*torch.OutOfMemoryError: no room for the cache"
    ):
        ask(target, "die")
    assert gone(pid)
    with pytest.raises(TargetError, match="OutOfMemoryError"):
        ask(target)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"dtype": "half"}, "serve = true"),
        ({"serve": True, "python": "/no/such/python"}, "No Python is at"),
        ({"serve": True, "flags": {"max_model_len": 9}}, "max-model-len"),
        ({"serve": True, "start_s": 0}, "above 0"),
        ({"serve": "yes"}, "true or false"),
    ],
)
def test_what_cannot_be_is_said_when_it_is_built(options: dict[str, Any], wrong: str) -> None:
    base_url = "" if options.get("serve") else "http://127.0.0.1:1/v1"
    with pytest.raises(UsageError, match=wrong):
        build(TargetSpec(kind="vllm", model="m", options=options).replace(base_url=base_url))
    with pytest.raises(UsageError, match="not both"):
        build(TargetSpec(kind="vllm", model="m", base_url="http://127.0.0.1:1/v1", options={"serve": True}))
    with pytest.raises(UsageError, match="needs a model"):
        build(TargetSpec(kind="vllm", options={"serve": True}))
