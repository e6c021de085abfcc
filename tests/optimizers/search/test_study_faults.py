"""A study over a server that breaks down is an error, never a score, and goes on where it was cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import TargetUnavailable
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest, Message
from tests.optimizers.colours import Run, identical, needs_demos
from tests.support.server import Answer, Asked, build_answer, failing, serving
from tests.support.targets import Waits, target_of

SETS = ("search.demos=0", 'search.knobs=["top_k"]', "search.trials=2")


def right(request: Asked) -> Answer:
    messages = tuple(Message(m["role"], m["content"]) for m in request.body["messages"])
    return build_answer(json.dumps(needs_demos(ChatRequest(messages))))


def test_a_study_over_a_broken_server_is_an_error_and_resumes_to_the_same_bytes(
    run: Run, folder: Path
) -> None:
    def compiled(out: str, server: Any, **more: Any) -> Path:
        target: Any = target_of("vllm", server.url, Waits(), tries=2, identity="one", concurrency=8)
        store = CallStore(folder / f"store-{out}")
        path: Path = run(out, sets=SETS, target=target, store=store, **more).path
        return path

    with serving(right) as server:
        whole = compiled("whole", server)
        asked_for_whole = len(server.prompts)
    broken_from = asked_for_whole // 2
    with serving(lambda request: failing(500) if request.number >= broken_from else right(request)) as server:
        with pytest.raises(TargetUnavailable, match="answered 500"):
            compiled("cut", server)
        assert not (folder / "cut" / "program.json").exists()
        assert max(server.times.values()) <= 2
    with serving(right) as server:
        again = compiled("cut", server, resume=True)
        assert len(server.prompts) <= asked_for_whole - broken_from + 8
    assert identical(whole, again)
