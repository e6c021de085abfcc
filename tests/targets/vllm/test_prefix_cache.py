"""The hit rate of vLLM's prefix cache, from its metrics to the report."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragc.cli import console
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.core import event_loop
from ragc.store.call_store import CallStore
from ragc.targets.vllm.prefix_cache import increase, prefix_tokens, read
from ragc.testing import SchemaReplies, ScriptedTarget

PAGE = """
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{{engine="0",model_name="model"}} {0}
vllm:prefix_cache_queries_total{{engine="1",model_name="model"}} 6.0
vllm:prefix_cache_queries_created{{engine="0",model_name="model"}} 1.7952885001319764e+09
vllm:prefix_cache_hits_total{{engine="0",model_name="model"}} {1}
vllm:prefix_cache_hits_created{{engine="0",model_name="model"}} 1.79e+09
vllm:external_prefix_cache_hits_total{{engine="0",model_name="model"}} 77.0
"""


@pytest.fixture
def pages() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that gives one page after another, and the pages."""
    left: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            page = left.pop(0).encode() if left else b""
            self.send_response(200 if page else 404)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/metrics", left
        server.shutdown()


def test_tokens_are_added_over_engines_and_over_nothing_else() -> None:
    assert read(PAGE.format("3.14e2", "64.0")) == {"prefix_tokens": 320, "prefix_cached_tokens": 64}
    assert read("llamacpp:prompt_tokens_total 5") == read("") == {}
    assert read("vllm:prefix_cache_queries_total 5") == {}


def test_what_is_gained_is_the_difference_or_all_after_a_restart() -> None:
    before, after = {"prefix_tokens": 10.0}, {"prefix_tokens": 25.0}
    assert increase(before, after) == {"prefix_tokens": 15}
    assert increase(after, before) == before
    assert increase({}, after) == after
    assert increase(before, {}) == {}


def report(folder: Path, target: ScriptedTarget) -> Any:
    (folder / "questions.jsonl").write_text('{"id": "1", "question": "q", "answers": ["a"]}\n')
    (folder / "recipe.toml").write_text(
        """
        program = "no_retrieval"
        search = { knobs = [], trials = 1 }
        data = { questions = "questions.jsonl", train = 0, dev = 1, test = 0 }
        [targets.main]
        kind = "embedded"
        """
    )
    opened = open_program(folder / "recipe.toml", store=CallStore(None), targets={"main": target})
    return score(opened, "dev")


def test_a_report_tells_the_share_where_a_server_counts(
    pages: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, left = pages
    target: Any = ScriptedTarget(SchemaReplies())
    target.metrics_url = url
    left[:] = [PAGE.format("100.0", "10.0"), PAGE.format("300.0", "160.0")]
    evaluation = report(tmp_path, target)
    assert evaluation.to_json()["counters"]["prefix_tokens"] == 200
    assert evaluation.to_json()["counters"]["prefix_cached_tokens"] == 150
    console.print_evaluation(evaluation)
    assert "75.0% of 200 prompt tokens came from the server's prefix cache\n" in capsys.readouterr().out
    evaluation = report(tmp_path, target)  # the server gives no page any more
    assert "prefix_tokens" not in evaluation.counters
    console.print_evaluation(evaluation)
    assert "prefix cache" not in capsys.readouterr().out


def test_a_server_that_cannot_be_reached_counts_nothing() -> None:
    target: Any = ScriptedTarget([])
    target.metrics_url = "http://127.0.0.1:1/metrics"
    assert event_loop.run(prefix_tokens([target, target, ScriptedTarget([])])) == {}
