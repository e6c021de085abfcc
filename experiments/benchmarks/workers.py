"""The time of a study with two Ray workers beside the time with one.

    PYTHONPATH=src python -m experiments.benchmarks.workers [RUNS]

A model on this machine answers after 250 ms, and a worker asks one question at a time. A study of 10 trials
on 32 questions asks in blocks of 4 to 7. (Where a worker asks four at a time, a block mostly fits one worker,
and a second one helps less.) Studies with one worker and with two take turns, each on a new cluster and an
empty store. Their times are those of the whole command. The ratio of the medians may be .6 at most.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from experiments.benchmarks.machine import machine
from tests.support.loopback_world import reply, write_data
from tests.support.server import MODEL, Answer, Asked, build_answer, serving

DELAY_S = 0.25
RECIPE = """
program = "vanilla"
concurrency = 1
[search]
knobs = ["top_k", "query_pos", "cot"]
demos = 0
trials = 10
looks = 1
[study]
workers = "127.0.0.1:6380"
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
[sources.local]
kind = "bm25"
[targets.main]
kind = "vllm"
model = "%s"
base_url = "%s"
"""


async def answer(request: Asked) -> Answer:
    """The reply of the loopback world, after a while."""
    await asyncio.sleep(DELAY_S)
    return build_answer(reply(request.body))


def seconds(workers: int) -> float:
    """How long the command takes on a cluster of so many workers."""
    ray = str(Path(sys.executable).parent / "ray")
    start = [ray, "start", "--head", "--port=6380", f"--num-cpus={workers}", "--include-dashboard=false"]
    with TemporaryDirectory() as folder, serving(answer) as server:
        environment = {**os.environ, "RAGC_HOME": f"{folder}/home", "RAY_USAGE_STATS_ENABLED": "0"}
        write_data(Path(folder), 4, 32)
        Path(folder, "recipe.toml").write_text(RECIPE % (MODEL, server.url), "utf-8")
        subprocess.run(start, env=environment, check=True, capture_output=True)
        began = time.perf_counter()
        command = [sys.executable, "-m", "ragc", "compile", "recipe.toml", "--out", "out"]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        took = time.perf_counter() - began
        subprocess.run([ray, "stop", "--force"], check=True, capture_output=True)
    return took


def main(runs: int = 3) -> None:
    """Prints both medians and their ratio."""
    print(machine())
    pairs = [(seconds(1), seconds(2)) for _ in range(runs)]
    one, two = (median(times) for times in zip(*pairs, strict=True))
    print(f"one worker {one:.1f} s, two {two:.1f} s: {two / one:.2f} of {runs} pairs")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
