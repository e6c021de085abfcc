"""Milliseconds from the model's first part of an answer to the client's first text, in each layout.

    python -m experiments.benchmarks.serving.first_token [--questions 50] [--gap-ms 10]

The model is scripted and gives its reply in parts of four characters, one every `--gap-ms`. A layout puts
marks around an answer, so the time counts from the part in which the answer begins, and beside it from the
first part of the reply. Questions come one after another over HTTP, from another thread.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from experiments.benchmarks.serving.added_latency import write
from ragc.programs.knobs import LAYOUTS
from ragc.serving.app import build_app
from ragc.serving.programs import open_programs
from ragc.serving.run import Server
from ragc.serving.settings import Settings
from ragc.targets.base import ChatRequest, Reply, parts_taker
from ragc.testing import ScriptedTarget

ANSWER = "The exception that ends an iterator is called StopIteration, and a loop catches it."
SIZE = 4
REPLIES = {
    "chat": f"[[ ## answer ## ]]\n{ANSWER}\n\n[[ ## completed ## ]]",
    "xml": f"<answer>\n{ANSWER}\n</answer>",
}
"""The reply in the layouts that are not JSON."""


class Writing(ScriptedTarget):
    """Gives its replies in parts, and notes when the first one and the answer's first one came."""

    def __init__(self, gap_s: float, layout: str) -> None:
        super().__init__(lambda request: REPLIES.get(layout, {"answer": ANSWER}))
        self.gap_s, self.first, self.of_answer = gap_s, 0.0, 0.0

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply after its parts."""
        reply, take = await super().complete(request), parts_taker.get()
        begins = reply.text.index(ANSWER)
        for at in range(0, len(reply.text), SIZE):
            if at == 0:
                self.first = time.monotonic()
            if at <= begins < at + SIZE:
                self.of_answer = time.monotonic()
            if take is not None:
                take(reply.text[at : at + SIZE])
            await asyncio.sleep(self.gap_s)
        return reply


@contextmanager
def serving(recipe: Path, target: Writing, layout: str) -> Iterator[str]:
    """The address of a server in a thread."""
    settings, addresses, listening = Settings(port=0), list[str](), threading.Event()
    programs = open_programs([recipe], settings, sets=[f"knobs.layout={layout}"], targets={"main": target})

    def note(address: str) -> None:
        addresses.append(address)
        listening.set()

    server = Server(build_app(programs, settings), settings, note)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    listening.wait(30)
    try:
        yield addresses[0]
    finally:
        server.should_exit = True
        thread.join()
        programs["recipe"].close()


def first_text(client: httpx.Client, address: str, question: str) -> float:
    """When the first text of the answer came."""
    body: dict[str, Any] = {"model": "recipe", "messages": [{"role": "user", "content": question}]}
    came = 0.0
    with client.stream("POST", f"{address}/v1/chat/completions", json={**body, "stream": True}) as reply:
        for line in reply.iter_lines():
            if not came and '"content": "' in line and '"content": ""' not in line:
                came = time.monotonic()
    return came


def main() -> None:
    """Prints a line a layout."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--gap-ms", type=float, default=10.0)
    args = parser.parse_args()
    for layout in LAYOUTS:
        with tempfile.TemporaryDirectory() as folder, httpx.Client(timeout=60) as client:
            target, after_answer, after_first = (
                Writing(args.gap_ms / 1000, layout),
                list[float](),
                list[float](),
            )
            with serving(write(Path(folder)), target, layout) as address:
                for number in range(args.questions + 2):
                    came = first_text(client, address, f"What is thing {number}?")
                    if number >= 2:  # the first ones open connections
                        after_answer.append(1000 * (came - target.of_answer))
                        after_first.append(1000 * (came - target.first))
        after_answer.sort()
        p99 = after_answer[int(0.99 * (len(after_answer) - 1))]
        print(
            f"{layout:<10} after the answer begins: median {statistics.median(after_answer):.1f} ms, "
            f"p99 {p99:.1f}; after the reply begins: median {statistics.median(after_first):.1f}; "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
