"""The embedded model behind OpenAI's chat API on loopback: what stands for a provider's machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ragc.targets.embedded.target import grammar, load
from ragc.targets.options import EmbeddedOptions

MODEL = "smollm2"
_TAKEN = ("temperature", "top_p", "max_tokens", "seed", "stop")


class Api:
    """A model that answers over HTTP and enforces schemas; `bodies` are the requests, in order."""

    def __init__(self, weights: Path) -> None:
        options = EmbeddedOptions.of({"threads": 2})
        self.model = load(weights.resolve(), options, "")
        self.bodies: list[dict[str, Any]] = []
        self.port = 0

    @property
    def prompts(self) -> list[list[tuple[str, str]]]:
        """Role and text of the messages of each request."""
        return [[(m["role"], _plain(m["content"])) for m in body["messages"]] for body in self.bodies]

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """The completion that `body` asks for."""
        self.bodies.append(body)
        request: dict[str, Any] = {name: body[name] for name in _TAKEN if body.get(name) is not None}
        request |= {"top_k": 0, "min_p": 0.0, "cache_prompt": True}
        request["messages"] = [{"role": m["role"], "content": _plain(m["content"])} for m in body["messages"]]
        if form := body.get("response_format"):
            request["grammar"] = grammar(form["json_schema"]["schema"], body["max_tokens"])
        completion = self.model.ask(request, lambda: False, None)
        choice = completion["choices"][0]
        return {
            "id": f"chatcmpl-{len(self.bodies)}",
            "object": "chat.completion",
            "created": 1,
            "model": MODEL,
            "choices": [{"index": 0, **{name: choice[name] for name in ("finish_reason", "message")}}],
            "usage": {
                name: int(completion["usage"].get(name, 0))
                for name in ("prompt_tokens", "completion_tokens", "total_tokens")
            },
        }


def _plain(content: Any) -> str:
    """The text of a message, which may come in parts."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@contextmanager
def embedded_api(weights: Path) -> Iterator[Api]:
    """The model in the file `weights` at `http://127.0.0.1:{port}/v1`, until the block ends."""
    api = Api(weights)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            text = json.dumps(api.answer(body)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        api.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield api
        server.shutdown()
        thread.join(30)
