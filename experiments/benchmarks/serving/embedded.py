"""How many slots the embedded target should have: 24 prompts that begin alike, by 1, 2 and 4 slots.

    python experiments/benchmarks/serving/embedded.py [--slots 1 2 4] [--threads N]
        [--prompts 24] [--rounds 2]

Prints, for each number of slots, the best round's seconds, the tokens per second, how much of the
prompts was cached and the memory of the process. Each number of slots runs in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import subprocess
import sys
import time
from pathlib import Path

from ragc.targets.base import ChatRequest, Message, Sampling
from ragc.targets.embedded.server import cores
from ragc.targets.embedded.target import EmbeddedTarget

SYSTEM = "You answer questions from the passages that are given, in a few words. " * 5
WORDS = [
    "river",
    "city",
    "battle",
    "king",
    "music",
    "album",
    "film",
    "team",
    "season",
    "county",
    "species",
    "world",
]


def prompt(number: int) -> ChatRequest:
    drawn = random.Random(number)
    passages = " ".join(drawn.choice(WORDS) for _ in range(150))
    question = f"Passage {number}: {passages}\nQuestion: what is passage {number} about? Write a long answer."
    return ChatRequest((Message("system", SYSTEM), Message("user", question)), None, Sampling(max_tokens=20))


async def measure(slots: int, threads: int, prompts: int, rounds: int) -> str:
    target = EmbeddedTarget(parallel=slots, threads=threads)
    begun = time.perf_counter()
    await target.open()
    loaded = time.perf_counter() - begun
    await target.complete(prompt(-1))
    free, best, line = asyncio.Semaphore(slots), float("inf"), ""

    async def one(number: int) -> tuple[int, int, int]:
        async with free:
            usage = (await target.complete(prompt(number))).usage
            return usage.prompt, usage.cached, usage.completion

    for turn in range(rounds):
        begun = time.perf_counter()
        counted = await asyncio.gather(*(one(turn * prompts + i) for i in range(prompts)))
        seconds = time.perf_counter() - begun
        inputs, cached, outputs = (sum(column) for column in zip(*counted, strict=True))
        if seconds < best:
            best = seconds
            line = (
                f"{slots:>5} {loaded:>7.2f} {seconds:>8.2f} {(inputs - cached + outputs) / seconds:>9.0f} "
                f"{outputs / seconds:>6.1f} {inputs / prompts:>7.0f} {cached / inputs:>7.0%} {memory():>6}"
            )
    await target.aclose()
    return line


def memory() -> int:
    """MiB of this process, or 0 where the system does not say."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20 if file.exists() else 0


def machine() -> str:
    about = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.partition(":")[2].strip() for line in about.splitlines() if line.startswith("model name")]
    kind = names[0] if names else platform.processor()
    return f"{kind}, {cores()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    if len(args.slots) == 1:
        print(asyncio.run(measure(args.slots[0], args.threads, args.prompts, args.rounds)), flush=True)
        return
    print("slots  load s  seconds  tokens/s  out/s  prompt  cached    MiB")
    rest = ["--threads", str(args.threads), "--prompts", str(args.prompts), "--rounds", str(args.rounds)]
    for slots in args.slots:
        subprocess.run([sys.executable, __file__, "--slots", str(slots), *rest], check=True)
    print(f"machine: {machine()}")


if __name__ == "__main__":
    main()
