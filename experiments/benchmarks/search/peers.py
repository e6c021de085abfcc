"""Searches side by side: ragc's study and DSPy's optimizers, in ragc and plain, on one chat server.

    PYTHONPATH=src python -m experiments.benchmarks.search.peers [NAME...]

10 trials on 30 dev questions of vanilla RAG, with 64 requests in flight, against
`tests.support.loopback` in a process of its own with 50 ms a reply. Printed of each: the
calls that reached the server and how many had come before, the wall time of the search without imports and
indexing, the most and the mean requests in flight, and of a search that is killed with SIGKILL at half of
its calls and run again, how many calls were sent again that had been answered at least 250 ms before the
kill.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from experiments.benchmarks.machine import machine
from experiments.benchmarks.search.peers_systems import IN_FLIGHT, QUESTIONS, SYSTEMS, TRIALS
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Searches side by side.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SYSTEMS)}")
    names = parser.parse_args().names or list(SYSTEMS)
    with run_server() as server, tempfile.TemporaryDirectory() as folder:
        compare(names, server, Path(folder))


if __name__ == "__main__":
    main()
