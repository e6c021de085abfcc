"""A hub of models on this machine, which `HF_ENDPOINT` names; what is of `gated` is refused."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub(ThreadingHTTPServer):
    """Holds `files` by `owner/repository/name`; `asked` are the methods and paths of its requests."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.files, self.asked = files, list[str]()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"

    def repository(self, name: str) -> dict[str, bytes]:
        """The files of a repository by their names in it."""
        return {
            at.removeprefix(f"{name}/"): body for at, body in self.files.items() if at.startswith(f"{name}/")
        }


class _Answers(BaseHTTPRequestHandler):
    server: Hub  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        path = self.path.partition("?")[0].strip("/").split("/")
        owner = path[2:4] if path[0] == "api" else path[:2]
        files = self.server.repository("/".join(owner))
        if owner[:1] == ["gated"]:
            self._send(403, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."})
        elif not files:
            self._send(401, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif path[0] == "api":
            listed: list[dict[str, Any]] = [
                {"type": "file", "path": name, "size": len(body), "oid": "1"} for name, body in files.items()
            ]
            self._send(200, json.dumps(listed).encode(), {"Content-Type": "application/json"})
        elif (body := files.get("/".join(path[4:]))) is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        else:
            self._send(200, body, {"ETag": f'"{hashlib.sha256(body).hexdigest()}"'})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "X-Repo-Commit": "a" * 40, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@contextmanager
def hub_of(files: Mapping[str, bytes]) -> Iterator[Hub]:
    """A hub of `files`, until the block ends."""
    with Hub(files) as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield hub
        hub.shutdown()
        thread.join(10)
