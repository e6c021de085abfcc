"""What sharing a long beginning between slots saves: three prompts' beginnings, 12 questions each, two turns.

    PYTHONPATH=src python -m experiments.benchmarks.serving.beginnings [--words 700] [--questions 12]

Prints the seconds and the tokens computed with sharing and without, in one run, and their ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time

from experiments.benchmarks.machine import machine
from ragc.targets.base import ChatRequest, Message, Sampling
from ragc.targets.embedded import slots
from ragc.targets.embedded.target import EmbeddedTarget

WORDS = ("river", "city", "battle", "king", "music", "album", "film", "team", "island", "war")


def text(seed: str, words: int) -> str:
    drawn = random.Random(seed)
    return " ".join(drawn.choice(WORDS) for _ in range(words))


def prompt(turn: int, beginning: int, number: int, words: int) -> ChatRequest:
    question = Message("user", text(f"{turn} {beginning} {number}", 100))
    return ChatRequest(
        (Message("system", text(f"b{beginning}", words)), question), None, Sampling(max_tokens=15)
    )


async def measure(words: int, questions: int) -> tuple[float, int]:
    target = EmbeddedTarget()
    await target.open()
    free = asyncio.Semaphore(target.concurrency)

    async def one(request: ChatRequest) -> int:
        async with free:
            usage = (await target.complete(request)).usage
            return usage.prompt - usage.cached + usage.completion

    begun, computed = time.perf_counter(), 0
    for turn in range(2):
        for beginning in range(3):
            work = (one(prompt(turn, beginning, n, words)) for n in range(questions))
            computed += sum(await asyncio.gather(*work))
    seconds = time.perf_counter() - begun
    await target.aclose()
    return seconds, computed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--words", type=int, default=700)
    parser.add_argument("--questions", type=int, default=12)
    args = parser.parse_args()
    seconds = {}
    for name, least in (("shared", slots.LONG), ("each slot", sys.maxsize)):
        slots.LONG = least
        seconds[name], computed = asyncio.run(measure(args.words, args.questions))
        print(f"{name:>10}: {seconds[name]:6.1f} s, {computed} tokens computed", flush=True)
    print(f"{seconds['each slot'] / seconds['shared']:.2f} times as fast")
    print(f"machine: {machine()}")


if __name__ == "__main__":
    main()
