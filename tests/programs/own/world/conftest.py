"""A model without a network: a server on this machine that answers OpenAI's chat requests from a function."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dspy
import pytest

import ragc

Fields = dict[str, Any]


@dataclass
class Prompt:
    """A request as a model reads it."""

    body: dict[str, Any]

    @property
    def messages(self) -> list[tuple[str, str]]:
        """Role and text of each message; pictures are left out."""
        texts = []
        for message in self.body["messages"]:
            content = message.get("content") or ""
            parts = [{"text": content}] if isinstance(content, str) else content
            texts.append((message["role"], "".join(part.get("text", "") for part in parts)))
        return texts

    @property
    def last(self) -> str:
        return self.messages[-1][1]

    @property
    def demos(self) -> int:
        """How many worked examples (or earlier turns) stand before the question."""
        return sum(role == "assistant" for role, _ in self.messages)

    @property
    def fields(self) -> list[str]:
        """The outputs that are asked for, in order."""
        return re.findall(r"`[\[#< ]*(\w+)[\]#> ]*`", self.last[self.last.rfind("Respond with ") :])

    def reads(self, name: str) -> str:
        """The value of an input in the last message."""
        value = re.search(
            rf"(?s)(?:\[\[ ## {name} ## \]\]|<{name}>)\n(.*?)\n*(?:\n\[\[ ##|\nRespond|</|\Z)", self.last
        )
        return value[1] if value else ""

    def written(self, reply: Fields) -> str:
        """`reply` in the form that the adapter asks for; what it lacks is "So."."""
        values = {name: reply.get(name, "So.") for name in self.fields if name != "completed"}
        if "JSON object" in self.last:
            return json.dumps(values)
        form = "<{0}>\n{1}\n</{0}>" if "XML tags" in self.last else "[[ ## {0} ## ]]\n{1}\n"
        texts = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()
        }
        return "\n".join(form.format(name, text) for name, text in texts.items())


Think = Callable[[Prompt], Fields | str]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Model

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["content-length"]))
        self.server.sent.append(sent)
        prompt = Prompt(json.loads(sent))
        reply = self.server.think(prompt)
        if isinstance(reply, dict) and "tool_calls" in reply:
            message = {"role": "assistant", "content": None, "tool_calls": reply["tool_calls"]}
        else:
            text = reply if isinstance(reply, str) else prompt.written(reply)
            message = {"role": "assistant", "content": text}
        head = {"id": "1", "created": 1, "model": "gpt-4o-mini"}
        if prompt.body.get("stream"):
            deltas = [{"content": part} for part in re.findall(r"\s*\S+\s*", str(message["content"]))]
            choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
            choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
            events = [
                json.dumps(head | {"object": "chat.completion.chunk", "choices": [one]}) for one in choices
            ]
            data = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])
            kind = "text/event-stream"
        else:
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            data = json.dumps(head | {"object": "chat.completion", "choices": [choice], "usage": usage})
            kind = "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data.encode())))
        self.end_headers()
        self.wfile.write(data.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


class Model(ThreadingHTTPServer):
    """`think` says what is answered; `sent` holds each request's bytes."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, think: Think) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.think = think
        self.sent: list[bytes] = []

    @property
    def prompts(self) -> list[Prompt]:
        return [Prompt(json.loads(body)) for body in self.sent]

    def lm(self, **settings: Any) -> Any:
        address = f"http://127.0.0.1:{self.server_port}/v1"
        return dspy.LM("openai/gpt-4o-mini", api_base=address, api_key="none", cache=False, **settings)

    @contextmanager
    def recording(self) -> Iterator[list[bytes]]:
        """What is sent meanwhile."""
        recorded: list[bytes] = []
        start = len(self.sent)
        yield recorded
        recorded += self.sent[start:]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of this test; unlike elsewhere, what `dspy.configure` says holds."""
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))


@pytest.fixture
def serve() -> Iterator[Callable[[Think], Model]]:
    """Starts a model that answers as the given function says."""
    with ExitStack() as stack:

        def start(think: Think) -> Model:
            model = stack.enter_context(Model(think))
            threading.Thread(target=model.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(model.shutdown)
            return model

        yield start


def ask(program: Any, example: Any) -> Any:
    """The prediction of plain DSPy."""
    if hasattr(type(program), "forward"):
        return program(**example.inputs())
    return asyncio.run(program.acall(**example.inputs()))


@dataclass
class Trial:
    """Compiles what `make` returns, and checks what every user may expect of the result."""

    model: Model
    make: Callable[[], Any]
    metric: Any
    trainset: list[Any]
    valset: list[Any]
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)

    def score(self, program: Any) -> float:
        return sum(float(self.metric(example, ask(program, example))) for example in self.valset)

    def compiled(self) -> Any:
        """The result: of the user's class, better than before, and the same in plain DSPy once saved."""
        student = self.make()
        before = self.score(student)
        settings = {"trials": 3, "demos": 2, "budget": {"lm_calls": 600}} | self.options
        with self.model.recording() as measured:
            compiled = ragc.Compile(metric=self.metric, **settings).compile(
                student, trainset=self.trainset, valset=self.valset
            )
        assert type(compiled) is type(student)
        assert self.score(compiled) > before
        compiled.save(self.folder / "program.json")
        plain = self.make()
        plain.load(self.folder / "program.json")
        with self.model.recording() as sent:
            self.score(plain)
        assert set(sent) <= set(measured)
        return compiled


@pytest.fixture
def compile_better(tmp_path: Path) -> Callable[..., Any]:
    """`compile_better(model, make, metric, trainset, valset, **options)` returns the checked result."""

    def run(model: Model, make: Any, metric: Any, trainset: Any, valset: Any, **options: Any) -> Any:
        return Trial(model, make, metric, trainset, valset, tmp_path, options).compiled()

    return run
