"""How much of the prompts vLLM's prefix cache serves: vanilla RAG with 3 demonstrations, and what that saves.

    python experiments/benchmarks/serving/prefix_cache.py URL MODEL DATA
        [--questions 100] [--compare 40] [--in-flight 8]

URL is that of a running vLLM (it ends in /v1), DATA a folder with `questions_train.jsonl`,
`questions_dev.jsonl` and `corpus.jsonl.gz` in ragc's own format. First `--questions` are asked in ragc's
layout (instructions, demonstrations, passages, question); then `--compare` more both in it and in one that
defeats the cache (passages and question before all else), in turns. Prints for each the share of prompt
tokens that came from the cache, by the server's own counters, the seconds, and their ratio. The server should
be fresh, and nobody else may use it meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dspy

from ragc.compiled.opened import OpenProgram, open_program
from ragc.core import event_loop
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.runtime import Runtime
from ragc.records import Question
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest, Message, Reply
from ragc.targets.vllm.options import VllmOptions
from ragc.targets.vllm.prefix_cache import CACHED, LOOKED_UP, increase, prefix_tokens
from ragc.targets.vllm.target import VllmTarget

PART = 10
PATIENT = VllmOptions(timeout_s=900.0)
RECIPE = """
program = "vanilla"
knobs = {{ query_pos = "after", top_k = 3 }}
[search]
knobs = []
trials = 1
[data]
questions = {dev}
corpus = {corpus}
train = {train}
dev = {questions}
test = 0
[sources.local]
kind = "bm25"
[targets.main]
kind = "vllm"
base_url = {url}
model = {model}
options = {{ timeout_s = 900.0 }}
"""


class QuestionFirstTarget(VllmTarget):
    """Gets every prompt with its last message, passages and question, before all else."""

    async def complete(self, request: ChatRequest) -> Reply:
        """The reply to the turned prompt."""
        first, *demos, last = request.messages
        begun = Message(first.role, f"{last.content}\n\n{first.content}")
        turned = (begun, *demos, Message("user", "Answer the question that is asked at the top."))
        return await super().complete(replace(request, messages=turned))


async def demonstrations(runtime: Runtime, questions: Any) -> list[dspy.Example]:
    demos = []
    for question in questions:
        hits = await runtime.source("local").search(question.question, 3)
        passages = [format_passage(hit.passage) for hit in hits]
        demos.append(dspy.Example(question=question.question, passages=passages, answer=question.answers[0]))
    return demos


@dataclass(slots=True)
class CacheUse:
    """What a layout's questions took: prompt tokens looked up in the cache, those found, and seconds."""

    looked_up: float = 0
    cached: float = 0
    seconds: float = 0

    def __str__(self) -> str:
        share = self.cached / self.looked_up
        return f"{share:6.1%} of {self.looked_up:,.0f} prompt tokens from the cache, {self.seconds:.1f} s"


async def measure(program: RagProgram, questions: Sequence[Question], in_flight: int, into: CacheUse) -> None:
    target, free = program.runtime.target("main"), asyncio.Semaphore(in_flight)
    before, begun = await prefix_tokens([target]), time.perf_counter()

    async def one(question: Question) -> None:
        async with free:
            await program.acall(question=question.question)

    await asyncio.gather(*map(one, questions))
    into.seconds += time.perf_counter() - begun
    gains = increase(before, await prefix_tokens([target]))
    into.looked_up += gains[LOOKED_UP]
    into.cached += gains[CACHED]


async def programs(args: argparse.Namespace, opened: OpenProgram) -> list[RagProgram]:
    """The program in ragc's layout and in the turned one, with the same three demonstrations."""
    task = opened.task
    target, turned = task.runtime.target("main"), QuestionFirstTarget(args.url, args.model, PATIENT)
    await turned.open()
    demos = await demonstrations(task.runtime, task.splits["train"][:3])
    variants = []
    for played in (target, turned):
        runtime = Runtime({"main": played}, task.runtime.sources, store=CallStore(None))
        program = task.method.build(runtime, opened.program.knobs)
        (call,) = program.predictors()
        call.demos = demos
        variants.append(program)
    return variants


async def run(args: argparse.Namespace) -> None:
    folder: Path = args.data.resolve()
    names = {
        "dev": folder / "questions_dev.jsonl",
        "train": folder / "questions_train.jsonl",
        "corpus": folder / "corpus.jsonl.gz",
    }
    texts = {name: repr(str(path)) for name, path in names.items()}
    total = args.questions + args.compare
    text = RECIPE.format(**texts, url=repr(args.url), model=repr(args.model), questions=total)
    with tempfile.TemporaryDirectory() as scratch:
        written = Path(scratch) / "recipe.toml"
        written.write_text(text, "utf-8")
        opened = await asyncio.to_thread(open_program, written, (), store=CallStore(None))
    await opened.task.runtime.open()
    ours, turned = await programs(args, opened)
    questions = opened.task.splits["dev"]
    alone, side, other = CacheUse(), CacheUse(), CacheUse()
    await measure(ours, questions[: args.questions], args.in_flight, alone)
    print(f"ragc's layout, {args.questions} questions: {alone}", flush=True)
    for at in range(args.questions, total, PART):  # in turns, so that both meet the same load
        part = questions[at : min(at + PART, total)]
        await measure(ours, part, args.in_flight, side)
        await measure(turned, part, args.in_flight, other)
        print(f"{at + len(part) - args.questions} more questions in turns, ragc's layout: {side}", flush=True)
        print(f"{' ' * 20}passages and question first: {other}", flush=True)
    if args.compare:
        print(f"{other.seconds / side.seconds:.2f} times as fast as with passages and question first")
    print(f"{args.in_flight} in flight; {platform.machine()}, {os.cpu_count()} CPUs beside the server's")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--compare", type=int, default=40)
    parser.add_argument("--in-flight", type=int, default=8)
    event_loop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
