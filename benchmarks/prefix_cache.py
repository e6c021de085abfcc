"""How much of the prompts vLLM's prefix cache serves: vanilla RAG with 3 demonstrations, and what that saves.

    python benchmarks/prefix_cache.py URL MODEL DATA [--questions 100] [--in-flight 8]

URL is that of a running vLLM (it ends in /v1), DATA a folder with `questions_train.jsonl`,
`questions_dev.jsonl` and `corpus.jsonl.gz` in ragc's own format. The same questions are asked in ragc's
layout (instructions, demonstrations, passages, question) and in one that defeats the cache (passages and
question before all else), in one run. Prints for each the share of prompt tokens that came from the cache,
by the server's own counters, the seconds, and their ratio. Nobody else may use the server meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy

from ragc import loop
from ragc.optimizers.opened import open_program
from ragc.programs.base import RagProgram, shown
from ragc.programs.runtime import Runtime
from ragc.records import Question
from ragc.store import CallStore
from ragc.targets.base import ChatRequest, Message, Reply
from ragc.targets.vllm_metrics import CACHED, LOOKED_UP, gained, prefix_tokens

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


class Turned:
    """A target that gets every prompt with its last message, passages and question, before all else."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def __deepcopy__(self, memo: object) -> Turned:
        return self

    async def complete(self, request: ChatRequest) -> Reply:
        """The reply to the turned prompt."""
        first, *demos, last = request.messages
        begun = Message(first.role, f"{last.content}\n\n{first.content}")
        turned = (begun, *demos, Message("user", "Answer the question that is asked at the top."))
        return await self.target.complete(replace(request, messages=turned))


async def demonstrations(program: RagProgram, runtime: Runtime, questions: Any) -> list[dspy.Example]:
    made = []
    for question in questions:
        hits = await runtime.source("local").search(question.question, 3)
        passages = [shown(hit.passage) for hit in hits]
        made.append(dspy.Example(question=question.question, passages=passages, answer=question.answers[0]))
    return made


async def measure(program: RagProgram, questions: list[Question], in_flight: int) -> dict[str, float]:
    target, free = program.runtime.target("main"), asyncio.Semaphore(in_flight)
    before, begun = await prefix_tokens([target]), time.perf_counter()

    async def one(question: Question) -> None:
        async with free:
            await program.acall(question=question.question)

    await asyncio.gather(*map(one, questions))
    seconds = time.perf_counter() - begun
    found = gained(before, await prefix_tokens([target]))
    return {"share": found[CACHED] / found[LOOKED_UP], "tokens": found[LOOKED_UP], "seconds": seconds}


async def run(given: argparse.Namespace) -> None:
    folder: Path = given.data.resolve()
    names = {
        "dev": folder / "questions_dev.jsonl",
        "train": folder / "questions_train.jsonl",
        "corpus": folder / "corpus.jsonl.gz",
    }
    texts = {name: repr(str(path)) for name, path in names.items()}
    text = RECIPE.format(**texts, url=repr(given.url), model=repr(given.model), questions=given.questions)
    given.recipe.write_text(text, "utf-8")
    opened = await asyncio.to_thread(open_program, given.recipe, (), store=CallStore(None))
    task = opened.task
    await task.runtime.open()
    target = task.runtime.target("main")
    (call,) = opened.program.predictors()
    demos = await demonstrations(opened.program, task.runtime, task.splits["train"][:3])
    found = {}
    for name, played in (("ragc's layout", target), ("question first", Turned(target))):
        runtime = Runtime({"main": played}, task.runtime.sources, store=CallStore(None))
        program = task.method.build(runtime, dict(opened.program.knobs.__dict__))
        (call,) = program.predictors()
        call.demos = demos
        found[name] = await measure(program, list(task.splits["dev"]), given.in_flight)
        print(
            f"{name:<16} {found[name]['share']:6.1%} of {found[name]['tokens']:,.0f} prompt tokens from the "
            f"cache, {found[name]['seconds']:.1f} s",
            flush=True,
        )
    ours, other = found.values()
    print(f"{other['seconds'] / ours['seconds']:.2f} times as fast as with the question first")
    print(f"{len(task.splits['dev'])} questions, {given.in_flight} in flight; {platform.machine()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--in-flight", type=int, default=8)
    parser.add_argument("--recipe", type=Path, default=Path("prefix_cache.toml"), help="written anew")
    loop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
