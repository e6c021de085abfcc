"""What can go wrong with a call ends as one sentence, after the tries that may help."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest

from ragc.corpora.sources.crag_api.client import (
    LONGEST_WAIT_S,
    MAX_REPLY_BYTES,
    ApiClient,
    Limits,
)
from ragc.errors import SourceError, UsageError

URL = "http://api.test:8000/base/"


class Api:
    """Plays its replies in order; running out is a test failure. Waits are kept, not slept."""

    def __init__(self, *replies: httpx.Response | Exception) -> None:
        self.replies, self.waits = list(replies), list[float]()
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def ask(self, url: str = URL, limits: Limits | None = None) -> object:
        client = ApiClient(url, limits or Limits(), transport=httpx.MockTransport(self), sleep=self.sleep)
        return asyncio.run(client.ask("/finance/get_eps", query="AAPL"))


def ok(result: object) -> httpx.Response:
    return httpx.Response(200, json={"result": result})


def test_the_body_is_posted_and_the_result_read() -> None:
    api = Api(ok([1, {"a": None}]))
    assert api.ask() == [1, {"a": None}]
    (request,) = api.requests
    assert str(request.url) == "http://api.test:8000/base/finance/get_eps"
    assert (request.method, json.loads(request.content)) == ("POST", {"query": "AAPL"})


@pytest.mark.parametrize(
    "failure",
    [
        httpx.Response(500),
        httpx.Response(503),
        httpx.Response(429),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
    ],
    ids=str,
)
def test_what_may_pass_is_tried_again(failure: httpx.Response | Exception) -> None:
    api = Api(failure, failure, ok(6.1))
    assert api.ask() == 6.1
    assert [0.125 <= api.waits[0] <= 0.25, 0.25 <= api.waits[1] <= 0.5] == [True, True]


def test_a_wait_the_server_asks_for_is_kept_up_to_a_limit() -> None:
    api = Api(
        httpx.Response(429, headers={"retry-after": "3"}),
        httpx.Response(429, headers={"retry-after": "9999"}),
        httpx.Response(429, headers={"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        ok(1),
    )
    assert api.ask() == 1
    for wait, least in zip(api.waits, (3, LONGEST_WAIT_S, 0), strict=True):  # a date is read too: it is over
        assert least <= wait <= least + 0.5


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (lambda: httpx.Response(500), "answers with status 500 (tried 2 times); see"),
        (lambda: httpx.ConnectError("no"), "does not answer (ConnectError) (tried 2 times); see"),
        (lambda: httpx.ReadTimeout("no"), "does not answer within 10 s (tried 2 times); see"),
    ],
)
def test_tries_run_out_in_one_sentence(reply: Callable[[], httpx.Response | Exception], message: str) -> None:
    api = Api(reply(), reply())
    with pytest.raises(SourceError) as caught:
        api.ask(limits=Limits(tries=2))
    assert message in str(caught.value)
    assert str(caught.value).startswith("http://api.test:8000/base/finance/get_eps")


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (httpx.Response(404), "status 404"),
        (httpx.Response(422, json={"detail": []}), "status 422"),
        (httpx.Response(302, headers={"location": "http://elsewhere.test/"}), "status 302"),
        (httpx.Response(200, text="<html>"), "not JSON"),
        (httpx.Response(200, content=b"\xff\xfe"), "not JSON"),
        (httpx.Response(200, text="[" * 100_000), "not JSON"),
        (httpx.Response(200, text=""), "not JSON"),
        (httpx.Response(200, text='{"result": 1} {"result": 2}'), "not JSON"),
        (httpx.Response(200, text='{"result": ' + "1" * 5000 + "}"), "not JSON"),
        (httpx.Response(200, text="null"), "without `result`"),
        (httpx.Response(200, json=[1]), "without `result`"),
        (httpx.Response(200, json={"error": "x"}), "without `result`"),
        (httpx.Response(200, content=b" " * (MAX_REPLY_BYTES + 1)), "sent over"),
        (
            httpx.Response(
                200, stream=httpx.ByteStream(b"this is not packed"), headers={"content-encoding": "gzip"}
            ),
            "unpacked",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "reply",
)
def test_garbage_fails_at_once(reply: httpx.Response, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        Api(reply).ask()


def test_nan_is_read_as_null() -> None:
    assert Api(httpx.Response(200, text='{"result": [NaN, Infinity, 1]}')).ask() == [None, None, 1]


def test_credentials_are_sent_and_never_shown() -> None:
    api = Api(httpx.Response(404))
    with pytest.raises(SourceError) as caught:
        api.ask("http://me:hunter2@api.test/?key=hunter3")
    assert "hunter" not in str(caught.value)
    (request,) = api.requests
    assert request.headers["authorization"].startswith("Basic ")
    assert request.url.params["key"] == "hunter3"


@pytest.mark.parametrize(
    "url", ["", "api.test", "ftp://api.test", "http://", "http://\x00", "file:///etc/passwd"]
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="base_url"):
        ApiClient(url, Limits())


@pytest.mark.parametrize("name", ["timeout_s", "connect_timeout_s", "tries", "concurrency"])
def test_limits_are_above_0(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        Limits(**{name: 0})


def test_a_client_may_serve_one_loop_after_another_and_be_closed() -> None:
    api = Api(ok(1), ok(2), ok(3))
    client = ApiClient(URL, Limits(), transport=httpx.MockTransport(api))

    async def twice() -> list[object]:
        first = await client.ask("/a")
        await client.aclose()
        return [first, await client.ask("/a")]

    assert asyncio.run(twice()) == [1, 2]
    assert asyncio.run(client.ask("/a")) == 3
