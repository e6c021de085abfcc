"""Searches side by side: ragc's study and DSPy's optimizers, in ragc and plain, on one chat server.

    PYTHONPATH=src python -m experiments.benchmarks.search.peers [NAME...]

10 trials on 30 dev questions of vanilla RAG, with 64 requests in flight, against
`tests.support.loopback` in a process of its own with 50 ms a reply. Printed of each: the
calls that reached the server and how many had come before, the wall time of the search without imports and
indexing, the most and the mean requests in flight, and of a search that is killed with SIGKILL at half of
its calls and run again, how many calls were sent again that had been answered at least 250 ms before the
kill.

Then 600 questions, answered and scored by ragc on an empty store, beside a bare aiohttp loop that sends the
same bodies with as many in flight, in turns; three times each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import aiohttp

from experiments.benchmarks.search.peers_systems import ASKED, IN_FLIGHT, QUESTIONS, SYSTEMS, TRIALS
from experiments.benchmarks.search.study import machine
from tests.support.loopback import ROOT, ServerProcess, run_server
from tests.support.loopback_log import Log
from tests.support.loopback_world import write_data

KEPT_S = 0.25
"""How long a reply may take from the server into a store or cache."""

LONGEST_S = 900


def start_search(name: str, server: ServerProcess, folder: Path) -> subprocess.Popen[str]:
    """The process of one system."""
    command = [
        sys.executable,
        "-m",
        "experiments.benchmarks.search.peers_systems",
        name,
        server.url,
        str(folder),
    ]
    with (folder / "stderr.log").open("a") as errors:
        return subprocess.Popen(
            command, cwd=ROOT, env={**os.environ}, stdout=subprocess.PIPE, stderr=errors, text=True
        )


def finish_search(name: str, server: ServerProcess, folder: Path) -> float:
    """Seconds of the search of one system, run to its end."""
    process = start_search(name, server, folder)
    output, _ = process.communicate(timeout=LONGEST_S)
    if process.returncode:
        raise RuntimeError(f"{name} failed:\n{(folder / 'stderr.log').read_text()[-2000:]}")
    return float(json.loads(output.splitlines()[-1])["seconds"])


def folder_of(parent: Path, name: str, train: int, dev: int) -> Path:
    """A new folder with the data."""
    folder = parent / name.replace(" ", "_").replace(":", "")
    folder.mkdir(parents=True)
    write_data(folder, train, dev)
    return folder


def run_whole(name: str, server: ServerProcess, parent: Path) -> tuple[float, Log]:
    """Seconds and calls of a search that is left alone."""
    server.reset()
    seconds = finish_search(name, server, folder_of(parent / "whole", name, QUESTIONS, QUESTIONS))
    return seconds, server.log()


def run_killed(name: str, server: ServerProcess, parent: Path, calls: int) -> tuple[int, int]:
    """Calls that were sent again after a kill at half of `calls`, and all calls of both runs."""
    folder = folder_of(parent / "cut", name, QUESTIONS, QUESTIONS)
    server.reset()
    process = start_search(name, server, folder)
    while process.poll() is None and server.log().requests < calls // 2:
        time.sleep(0.01)
    killed = time.time()
    process.kill()
    process.communicate()
    time.sleep(0.5)
    before = server.log()
    stored_keys = {call.key for call in before.calls if call.went is not None and call.went < killed - KEPT_S}
    finish_search(name, server, folder)
    after = server.log().calls[before.requests :]
    return sum(call.key in stored_keys for call in after), before.requests + len(after)


async def time_bare_loop(server: ServerProcess, bodies: list[str]) -> float:
    """Seconds in which a plain loop of aiohttp sends `bodies`, so many in flight."""
    limit = asyncio.Semaphore(IN_FLIGHT)
    headers = {"content-type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:

        async def one(body: str) -> None:
            address = f"{server.url}/chat/completions"
            async with limit, session.post(address, data=body, headers=headers) as response:
                await response.json()

        began = time.monotonic()
        await asyncio.gather(*map(one, bodies))
        return time.monotonic() - began


def compare(names: list[str], server: ServerProcess, folder: Path) -> None:
    print(f"\n{TRIALS} trials on {QUESTIONS} questions, {IN_FLIGHT} in flight; {machine()}")
    head = f"{'search':16}{'calls':>7}{'repeats':>9}{'seconds':>9}{'calls/s':>9}{'peak':>6}{'mean':>7}"
    print(f"{head}{'again after kill':>18}{'of':>6}{'x ragc':>8}")
    base = 0.0
    for name in names:
        seconds, log = run_whole(name, server, folder)
        again, both = run_killed(name, server, folder, log.requests)
        base = base or seconds
        rate, mean = log.requests / seconds, log.mean_in_flight()
        counts = f"{log.requests:7}{log.repeats:9}{seconds:9.2f}{rate:9.0f}{log.peak:6}{mean:7.1f}"
        print(f"{name:16}{counts}{again:18}{both:6}{seconds / base:8.2f}", flush=True)


def evaluate(server: ServerProcess, parent: Path) -> None:
    ours: list[float] = []
    loops: list[float] = []
    peaks: list[int] = []
    for turn in range(3):
        server.reset()
        ours.append(finish_search("evaluation", server, folder_of(parent, f"evaluation {turn}", 0, ASKED)))
        log, bodies = server.log(), server.bodies()
        assert log.requests == log.distinct == ASKED
        peaks.append(log.peak)
        server.reset()
        loops.append(asyncio.run(time_bare_loop(server, bodies)))
    print(f"\n{ASKED} questions, {IN_FLIGHT} in flight; {machine()}")
    rates = [[ASKED / seconds for seconds in series] for series in (ours, loops)]
    for name, series in zip(("ragc", "bare aiohttp loop"), rates, strict=True):
        print(f"{name:18}{median(series):7.0f} a second ({', '.join(f'{rate:.0f}' for rate in series)})")
    print(f"ragc's rate is {median(rates[0]) / median(rates[1]):.2f} of the bare loop's; peak {max(peaks)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Searches side by side.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SYSTEMS)} and evaluation")
    selection = parser.parse_args().names or [*SYSTEMS, "evaluation"]
    with run_server() as server, tempfile.TemporaryDirectory() as folder:
        if names := [name for name in selection if name != "evaluation"]:
            compare(names, server, Path(folder))
        if "evaluation" in selection:
            evaluate(server, Path(folder))


if __name__ == "__main__":
    main()
