"""`/metrics` counts answers and refusals, streams included, and holds nothing that clients wrote."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

import ragc
from ragc.serving.settings import Settings, key_digests
from ragc.testing import ScriptedTarget
from tests.serving.server import KEY, running, until

QUESTION = "What colour is thing number7?"
BODY: dict[str, Any] = {"model": "colours", "messages": [{"role": "user", "content": QUESTION}]}


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Each sample by its name and its labels' values: model, interface, kind, status."""
    order = ("model", "interface", "kind", "status")
    return {
        (one.name, *(one.labels[name] for name in order if name in one.labels)): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if "le" not in one.labels
    }


def test_questions_tokens_and_searches_are_counted(colours: Path) -> None:
    with running([colours], {"main": ScriptedTarget(lambda request: {"answer": "red"})}) as served:
        url = f"{served.v1}/chat/completions"
        first = httpx.post(url, json=BODY).json()
        httpx.post(url, json={**BODY, "stream": True})
        httpx.post(f"{served.v1}/responses", json={"model": "colours", "input": QUESTION})
        httpx.post(url, json={**BODY, "n": 2})
        httpx.post(url, json={**BODY, "model": "a name of the client's"})

        def counted() -> dict[tuple[str, ...], float]:
            return samples(httpx.get(f"{served.address}/metrics").text)

        assert until(lambda: ("ragc_in_flight",) in counted() and counted()["ragc_in_flight",] == 0)
        text, values = httpx.get(f"{served.address}/metrics").text, counted()
    assert values["ragc_requests_total", "colours", "chat", "200"] == 2
    assert values["ragc_requests_total", "colours", "responses", "200"] == 1
    assert values["ragc_requests_total", "", "chat", "400"] == 1
    assert values["ragc_requests_total", "", "chat", "404"] == 1
    assert values["ragc_tokens_total", "colours", "prompt"] == 3 * first["usage"]["prompt_tokens"]
    assert values["ragc_searches_total", "colours"] == 3
    assert values["ragc_replays_total", "colours"] == 2
    assert values["ragc_seconds_count", "colours"] == 3
    assert "client's" not in text
    assert QUESTION not in text


def test_metrics_need_a_key_where_there_are_keys(colours: Path) -> None:
    settings = Settings(port=0, key_digests=key_digests([KEY]))
    with running([colours], {"main": ScriptedTarget([])}, settings) as served:
        assert httpx.get(f"{served.address}/metrics").status_code == 401
        with_key = {"Authorization": f"Bearer {KEY}"}
        assert httpx.get(f"{served.address}/metrics", headers=with_key).status_code == 200


class Shut(ScriptedTarget):
    """A target that cannot be opened at first."""

    opened = 0

    async def open(self, progress: Any = None) -> None:
        self.opened += 1
        if self.opened == 1:
            raise ragc.TargetUnavailable("no server answers")
        await super().open(progress)


def test_a_server_is_ready_once_every_program_is_open_by_a_streamed_question_too(
    colours: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(colours, tmp_path / "other")
    access = ragc.Access(base=colours.parent)
    with running([colours, other], {"main": Shut(lambda _: {"answer": "red"})}, access=access) as served:

        def status() -> int:
            return httpx.get(f"{served.address}/readyz").status_code

        for name in ("other", "colours"):
            if name == "colours":
                assert status() == 503  # it is not open, though the other program answers
            reply = httpx.post(f"{served.v1}/chat/completions", json={**BODY, "model": name, "stream": True})
            assert reply.text.endswith("data: [DONE]\n\n")
        assert until(lambda: status() == 200)
