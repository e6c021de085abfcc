"""Text arrives while the model writes it, in all layouts; a client that leaves cancels its question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragc.programs.knobs import LAYOUTS
from ragc.serving.settings import Settings
from tests.optimizers.integrations.test_streamify import laid_out
from tests.serving.server import PartsTarget, Running, running, until

ANSWER = "The exception that ends an iterator is called StopIteration"
BODY: dict[str, Any] = {
    "model": "colours",
    "messages": [{"role": "user", "content": "What colour is thing number7?"}],
    "stream": True,
}


@contextmanager
def streaming(served: Running, **more: Any) -> Iterator[Iterator[dict[str, Any]]]:
    """The chunks of a streamed answer."""
    with httpx.stream("POST", f"{served.v1}/chat/completions", json={**BODY, **more}, timeout=30) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        lines = (line.removeprefix("data: ") for line in reply.iter_lines() if line)
        yield (json.loads(line) for line in lines if line != "[DONE]")


@contextmanager
def laid_out_in(layout: str, colours: Path, target: PartsTarget, *more: str) -> Iterator[Running]:
    """Serves the recipe of `colours` with its replies in `layout`."""
    sets = [f"knobs.layout={layout}", *more]
    with running([colours.parent / "recipe.toml"], {"main": target}, sets=sets) as served:
        yield served


def text_of(chunk: dict[str, Any]) -> str:
    return "".join(choice["delta"].get("content", "") for choice in chunk["choices"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_text_arrives_before_the_reply_is_whole(colours: Path, layout: str) -> None:
    target = PartsTarget([laid_out(layout, answer=ANSWER)])
    with laid_out_in(layout, colours, target) as served, streaming(served, model="recipe") as chunks:
        shown = ""
        while not shown:  # the rest is held until `go`
            shown += text_of(next(chunks))
        assert not target.go.is_set()
        assert ANSWER.startswith(shown)
        target.go.set()
        rest = list(chunks)
    assert shown + "".join(map(text_of, rest)) == ANSWER
    assert rest[-1]["ragc"]["revised"] is False


@pytest.mark.parametrize("late", [{"setting": "late"}, {"request": "late"}], ids=str)
def test_late_text_comes_once_it_is_final(colours: Path, late: dict[str, str]) -> None:
    target = PartsTarget([laid_out("minimal", answer=ANSWER)])
    target.go.set()
    settings = Settings(port=0, stream="late" if "setting" in late else "real")
    with running([colours], {"main": target}, settings) as served:
        more = {"ragc": {"stream": "late"}} if "request" in late else {}
        with streaming(served, **more) as chunks:
            texts = [text for chunk in chunks if (text := text_of(chunk))]
    assert texts == [ANSWER]


MARKED = "Things [9] are of a colour [1], which they keep."
HELD = "Things are of a colour [1], which they keep."
CITED = ("knobs.answer_format=cited",)
"""Marks of passages that were not shown are dropped of a cited answer, once it is whole."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_text_that_was_changed_is_said_in_the_closing_event(colours: Path, layout: str) -> None:
    target = PartsTarget([laid_out(layout, answer=MARKED)])
    target.go.set()
    with (
        laid_out_in(layout, colours, target, *CITED) as served,
        streaming(served, model="recipe") as chunks,
    ):
        *parts, closing = list(chunks)
    assert "".join(map(text_of, parts)) == MARKED
    assert (closing["ragc"]["revised"], closing["ragc"]["text"]) == (True, HELD)


def test_a_response_that_was_changed_closes_with_the_final_text(colours: Path) -> None:
    target = PartsTarget([laid_out("json", answer=MARKED)])
    target.go.set()
    body = {"model": "recipe", "input": "What colour is thing number7?", "stream": True}
    with (
        laid_out_in("json", colours, target, *CITED) as served,
        httpx.stream("POST", f"{served.v1}/responses", json=body) as reply,
    ):
        lines = [line.removeprefix("data: ") for line in reply.iter_lines() if line.startswith("data: ")]
    events = [json.loads(line) for line in lines]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    final = events[-1]["response"]
    assert (events[-1]["type"], final["ragc"]["revised"]) == ("response.completed", True)
    assert final["output"][0]["content"][0]["text"] == HELD
    assert [event["text"] for event in events if event["type"] == "response.output_text.done"] == [HELD]


def test_a_client_that_leaves_ends_its_question(colours: Path) -> None:
    target = PartsTarget(lambda request: {"answer": ANSWER})
    with running([colours], {"main": target}, Settings(port=0, in_flight=8)) as served:
        for number in range(30):
            body = json.dumps({**BODY, "stream": bool(number % 2)})
            client = HTTPConnection(served.address.removeprefix("http://"), timeout=20)
            client.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            assert until(lambda: served.service.in_flight == 1)
            client.close()
            assert until(lambda: served.service.in_flight == 0)
        target.go.set()
        assert httpx.post(f"{served.v1}/chat/completions", json={**BODY, "stream": False}).status_code == 200
