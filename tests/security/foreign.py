"""Compiled directories from elsewhere, and a server that writes down what it is sent."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ragc.compiled.base import CompiledProgram
from ragc.compiled.opened import open_program
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests import processes
from tests.support.recipes import value as value_text
from tests.support.recipes import write_files

SECRET = "a-secret-that-must-stay-here"
VARIABLE = "AWS_SECRET_ACCESS_KEY"
QUESTION = "What colour is the mug?"

RECIPE = """
program = "vanilla"
[data]
questions = "questions.jsonl"
dev = 2
[sources.local]
kind = "bm25"
corpus = "corpus.jsonl"
[metrics]
report = ["em"]
"""


def write_data(folder: Path) -> None:
    """A corpus and its questions in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = [{"id": f"d{i}", "title": f"Mug {i}", "text": "The mug is red."} for i in range(3)]
    questions = [{"id": f"q{i}", "question": f"{QUESTION} {i}", "answers": ["red"]} for i in range(4)]
    write_files(folder, questions=questions, corpus=corpus)


def target_table(**options: Any) -> str:
    """`[targets.main]` as TOML; what is no key of a target stands among its options."""
    top = {name: options.pop(name) for name in ("kind", "model", "base_url") if name in options}
    lines = ["[targets.main]", *(f"{name} = {json.dumps(value)}" for name, value in top.items())]
    if options:
        lines += ["[targets.main.options]"]
        lines += [f"{name} = {value_text(value)}" for name, value in options.items()]
    return "\n".join(lines) + "\n"


def compiled_directory(folder: Path, out: Path, target: str = '[targets.main]\nkind = "embedded"\n') -> Path:
    """A compiled program of this machine at `out`, whose data are in `folder`."""
    write_data(folder)
    (folder / "recipe.toml").write_text(RECIPE + target, "utf-8")
    opened = open_program(
        folder / "recipe.toml", store=CallStore(None), targets={"main": ScriptedTarget([])}, questions=False
    )
    text, run = opened.task.recipe.to_toml(), {"base": str(folder.resolve())}
    CompiledProgram.of(opened.program, provenance=opened.task.facts, recipe=text, run=run).save(
        out, opened.program
    )
    return out


def foreign_directory(
    tmp: Path, recipe: str = "", target: str = '[targets.main]\nkind = "embedded"\n'
) -> Path:
    """A compiled directory with its data inside, whose recipe nobody here compiled."""
    out = compiled_directory(tmp / "origin", tmp / "foreign")
    (out / "recipe.toml").write_text((recipe or RECIPE) + target, "utf-8")
    write_data(out)
    return out


@dataclass
class Recorded:
    """What a server was sent: `paths` and all `headers` and bodies as text, in `seen`."""

    url: str = ""
    paths: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


@contextmanager
def recording() -> Iterator[Recorded]:
    """A server that speaks OpenAI's chat API on the loopback address and answers "red"."""
    recorded = Recorded()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._note("")
            self._send({"object": "list", "data": [{"id": "echo", "object": "model", "max_model_len": 8192}]})

        def do_POST(self) -> None:
            self._note(self.rfile.read(int(self.headers.get("content-length", 0))).decode())
            message = {"role": "assistant", "content": '{"answer": "red"}'}
            self._send({
                "id": "1", "object": "chat.completion", "created": 0, "model": "echo",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
            })  # fmt: skip

        def _note(self, body: str) -> None:
            recorded.paths.append(self.path)
            recorded.seen.append(f"{self.headers}{body}")

        def _send(self, value: Any) -> None:
            text = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorded.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield recorded
    finally:
        server.shutdown()
        server.server_close()


def command(
    *words: str | Path, home: Path, cwd: Path, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`ragc WORDS` in a process of its own, for a user with that `home` and a secret in the environment."""
    return _process(["-m", "ragc", *map(str, words)], home, cwd, more or {})


def python(script: str, *, home: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The Python `script` in a process of its own, as `command`."""
    return _process(["-c", script], home, cwd, {})


def _process(
    words: list[str], home: Path, cwd: Path, more: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAGC_", "XDG_"))}
    home.mkdir(parents=True, exist_ok=True)
    environment = {**inherited, "HOME": str(home), VARIABLE: SECRET, **more}
    return processes.run(words, cwd=cwd, environment=environment)
