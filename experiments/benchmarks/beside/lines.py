"""The lines of `beside`, each run in a process of its own on the version whose `src` is on the path.

    PYTHONPATH=TREE/src python -m experiments.benchmarks.beside.lines NAME SCRATCH SHARED

A line returns costs by what they are. It reaches ragc through `tests/support/names.py` alone and may write
into the folder SCRATCH; SHARED holds what `write_shared` wrote once for all. What is loaded when it is first
needed is loaded before the clock starts. Printed is a JSON object.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.support.loopback_world import colour, reply, write_data

DEMO = "demo"
CALLS, CACHED, ASKED, PROGRAM_QUESTIONS = 1500, 300, 200, 40
TRIALS, DEV = 60, 30
SEARCH_TRIALS, DEMOS, IN_FLIGHT = 10, 3, 64
PASSAGES, QUERIES, VOCABULARY = 100_000, 300, 50_000

RECIPE = """
program = "vanilla"
seed = 7
concurrency = {in_flight}
[search]
knobs = [{knobs}]
demos = {demos}
trials = {trials}
objectives = ["em"]
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
[sources.local]
kind = "bm25"
[targets.main]
{target}
[metrics]
report = ["em"]
"""

SHORT = ("cached", "question", "help", "programs")
"""Lines that take seconds."""

Costs = dict[str, float]


class Clock:
    """Wall and processor seconds since it was made; processor seconds are those of all threads."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Both, until now."""
        return time.perf_counter() - self.wall, time.process_time() - self.cpu


def answer(request: Any) -> str:
    """What the model of the loopback world says to a request of ragc's."""
    messages = [{"role": message.role, "content": message.content} for message in request.messages]
    schema = (
        {"type": "json_schema", "json_schema": {"schema": dict(request.schema)}} if request.schema else None
    )
    return reply({"messages": messages, "response_format": schema})


def scripted(script: Callable[[Any], Any]) -> Any:
    """A target in this process that answers at once and keeps no request; `sent` counts them."""
    from tests.support import names

    class Counting(names.ScriptedTarget):
        sent = 0

        async def complete(self, request: Any) -> Any:
            self.sent += 1
            self.requests.clear()
            return await super().complete(request)

    return Counting(script)


def typed(scratch: Path, shared: Path) -> Costs:
    """A typed call, 64 in flight, of a server that answers after 50 ms, beside bare aiohttp."""
    from experiments.benchmarks.serving.throughput import DEMOS as SHOWN
    from experiments.benchmarks.serving.throughput import bare, inputs, measure_calls, run_server
    from experiments.benchmarks.serving.throughput_server import MODEL
    from tests.support import names

    costs: Costs = {}
    with run_server(50) as url:
        target = names.ragc.target("vllm", model=MODEL, base_url=url, concurrency=256)
        call = names.typed_call(target, SHOWN, None)

        async def ours(number: int) -> None:
            assert (await call.acall(**inputs(number))).answer == "Paris"

        for system, send in (("ragc", ours), ("bare aiohttp", bare(url))):
            spent = names.run_on_loop(measure_calls(send, CALLS, IN_FLIGHT))
            costs[f"{system}: wall ms a call"] = 1000 * spent["wall"] / CALLS
            costs[f"{system}: processor ms a call"] = 1000 * spent["cpu"] / CALLS
    return costs


def cached(scratch: Path, shared: Path) -> Costs:
    """A typed call that was made before, from memory, beside a hit of DSPy's cache."""
    import dspy

    from experiments.benchmarks.serving.throughput import DEMOS as SHOWN
    from experiments.benchmarks.serving.throughput import inputs
    from experiments.benchmarks.serving.throughput_server import TEXT
    from tests.support import names

    call = names.typed_call(scripted(lambda request: TEXT), SHOWN, scratch / "store")
    ready = [inputs(number) for number in range(CACHED)]
    spent: list[float] = []

    async def ask() -> None:
        for fields in ready:
            clock = Clock()
            assert (await call.acall(**fields)).answer == "Paris"
            spent.append(clock.read()[1])

    names.run_on_loop(ask())
    spent.clear()
    names.run_on_loop(ask())
    names.run_on_loop(ask())
    costs = {"ragc: processor us a call": 1e6 * median(spent)}
    dspy.configure_cache(disk_cache_dir=str(scratch / "dspy"), enable_disk_cache=True)
    predict = dspy.Predict("question, passages: list[str] -> answer")
    predict.lm = dspy.LM("fake/instant", engine=Engine())
    predict.demos = [dspy.Example(**demo) for demo in SHOWN]
    for _ in range(2):
        spent.clear()
        for fields in ready:
            clock = Clock()
            predict(**fields)
            spent.append(clock.read()[1])
    return {**costs, "DSPy: processor us a call": 1e6 * median(spent)}


def question(scratch: Path, shared: Path) -> Costs:
    """A whole question: search, prompt, reply and answer, the model at no latency, then from the cache."""
    from tests.support import names

    write_data(scratch, 0, ASKED)
    source = names.ragc.source("bm25", corpus=scratch / "corpus.jsonl")
    program = names.ragc.program("vanilla", main=scripted(answer), local=source)
    program(question="What colour is thing number1x?")
    costs: Costs = {}
    for what in ("asked: processor us", "from the cache: processor us"):
        spent = []
        for number in range(ASKED):
            clock = Clock()
            program(question=f"What colour is thing number{number}?")
            spent.append(clock.read()[1])
        costs[what] = 1e6 * median(spent)
    return costs


def compile_world(folder: Path, knobs: Sequence[str], trials: int, dev: int) -> int:
    """Compiles a program of the loopback world in a new `folder`, and returns how many requests were sent."""
    from tests.support import names

    folder.mkdir()
    write_data(folder, dev, dev)
    text = RECIPE.format(
        knobs=", ".join(map(json.dumps, knobs)),
        demos=DEMOS,
        trials=trials,
        in_flight=IN_FLIGHT,
        target='kind = "embedded"',
    )
    (folder / "recipe.toml").write_text(text, "utf-8")
    target = scripted(answer)
    names.compile_on(target, folder / "recipe.toml", folder / "out", folder / "store")
    return int(target.sent)


def study(scratch: Path, shared: Path) -> Costs:
    """A study of 60 trials on 30 questions; the model answers at once."""
    knobs = ("top_k", "query_pos", "chunk_size", "cot", "noise_n")
    compile_world(scratch / "warm", knobs, 4, 6)
    clock = Clock()
    sent = compile_world(scratch / "study", knobs, TRIALS, DEV)
    wall, cpu = clock.read()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"wall s": wall, "processor s": cpu, "requests": sent, "peak MiB": peak / 1024}


def search(scratch: Path, shared: Path) -> Costs:
    """A search of 10 trials on 30 questions, and DSPy's MIPROv2 on the same data and model."""
    costs: Costs = {}
    for system, run in (
        ("ragc", partial(compile_world, knobs=("top_k", "query_pos"))),
        ("DSPy's MIPROv2", mipro),
    ):
        run(scratch / f"warm {system}", trials=2, dev=6)
        clock = Clock()
        costs[f"{system}: requests"] = run(scratch / system, trials=SEARCH_TRIALS, dev=DEV)
        costs[f"{system}: wall s"], costs[f"{system}: processor s"] = clock.read()
    return costs


class Engine:
    """An engine of DSPy that answers as the model of the loopback world, at once."""

    supports_function_calling = supports_reasoning = supports_response_schema = False
    supported_params = frozenset({"temperature", "max_tokens"})

    def __init__(self) -> None:
        self.sent = 0

    def complete(self, request: Any) -> Any:
        """The reply to a request of DSPy's."""
        from dspy import lm15

        self.sent += 1
        parts = [("system", request.system or ())] + [(m.role, m.parts) for m in request.messages]
        messages = [
            {
                "role": role,
                "content": said
                if isinstance(said, str)
                else "".join(getattr(part, "text", "") for part in said),
            }
            for role, said in parts
        ]
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant(reply({"messages": messages})),
            finish_reason="stop",
            usage=lm15.Usage(input_tokens=900, output_tokens=9),
        )


def mipro(folder: Path, trials: int, dev: int) -> int:
    """MIPROv2 of DSPy's, every trial on all dev questions; returns how many requests were sent.

    The passages of each question are at hand, so that searching costs it nothing.
    """
    import dspy

    folder.mkdir()
    write_data(folder, dev, dev)
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]

    class PlainRag(dspy.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.answer = dspy.Predict("question, passages: list[str] -> answer")

        def forward(self, question: str, passages: list[str]) -> Any:
            return self.answer(question=question, passages=passages)

    examples = [
        dspy.Example(
            question=f"What colour is thing number{number}?",
            passages=[row["text"] for row in rows if f"number{number} " in row["text"]][:3],
            answer=colour(f"number{number}"),
        ).with_inputs("question", "passages")
        for number in range(2 * dev)
    ]
    engine = Engine()
    dspy.configure_cache(disk_cache_dir=str(folder / "cache"), enable_disk_cache=True)
    lm = dspy.LM("fake/instant", engine=engine, temperature=0.0, max_tokens=256)
    dspy.configure(lm=lm)
    optimizer = dspy.MIPROv2(
        metric=lambda gold, pred, trace=None: float(str(pred.answer).strip().lower() == gold.answer),
        prompt_model=lm,
        task_model=lm,
        auto=None,
        num_candidates=6,
        max_bootstrapped_demos=DEMOS,
        max_labeled_demos=DEMOS,
        num_threads=IN_FLIGHT,
        seed=7,
    )
    optimizer.compile(
        PlainRag(), trainset=examples[:dev], valset=examples[dev:], num_trials=trials, minibatch=False
    )
    return engine.sent


def tree() -> Path:
    """The folder of the version that is measured."""
    from tests.support import names

    return Path(names.ragc.__file__).resolve().parents[2]


def run_command(words: Sequence[str], folder: Path) -> tuple[float, float]:
    """Wall and processor seconds of `ragc WORDS`."""
    from tests.support import names

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(names.argv(*words), cwd=folder, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cold_and_warm(words: Sequence[str], folder: Path) -> Costs:
    """A command on a home and a version that no command has used, its modules not compiled; then again."""
    for compiled in list(tree().rglob("__pycache__")):
        shutil.rmtree(compiled)
    wall, cpu = run_command(words, folder)
    costs = {"cold: wall s": wall, "cold: processor s": cpu}
    spent = [run_command(words, folder) for _ in range(3)]
    for what, seconds in zip(("wall", "processor"), zip(*spent, strict=True), strict=True):
        costs[f"warm: {what} s"] = median(seconds)
    return costs


def help_(scratch: Path, shared: Path) -> Costs:
    """`ragc --help`."""
    return cold_and_warm(["--help"], scratch)


def ask(scratch: Path, shared: Path) -> Costs:
    """`ragc ask` on a recipe; the warm one finds its reply in the store."""
    from tests.support.loopback import MODEL, Loopback

    write_data(scratch, 0, ASKED)
    with Loopback(latency_s=0) as server:
        target = f'kind = "vllm"\nmodel = "{MODEL}"\nbase_url = "{server.url}"'
        text = RECIPE.format(knobs='"top_k"', demos=0, trials=2, in_flight=IN_FLIGHT, target=target)
        (scratch / "recipe.toml").write_text(text, "utf-8")
        return cold_and_warm(["ask", "recipe.toml", "What colour is thing number7?"], scratch)


def bm25(scratch: Path, shared: Path) -> Costs:
    """Keyword search over 100,000 passages: from the file to the first hits, then queries one by one."""
    from tests.support import names

    queries = json.loads((shared / "queries.json").read_text("utf-8"))
    small = names.ragc.source("bm25", corpus=[{"id": "a", "text": "one passage"}])
    names.run_on_loop(small.search("passage", 1))
    clock = Clock()
    source = names.ragc.source("bm25", corpus=shared / "corpus.jsonl")
    names.run_on_loop(source.search(queries[0], 10))
    wall, cpu = clock.read()

    async def run() -> None:
        for query in queries:
            assert await source.search(query, 10)

    names.run_on_loop(run())
    clock = Clock()
    names.run_on_loop(run())
    costs = {"build: wall s": wall, "build: processor s": cpu}
    return {**costs, "query: processor ms": 1000 * clock.read()[1] / len(queries)}


def programs(scratch: Path, shared: Path) -> Costs:
    """One question of every built-in program; the model answers at once with what fits the schema."""
    from tests.support import names

    passages = [
        names.ragc.Passage(f"p{i}", f"Title {i}", f"The colour of thing {i} is red. It was made in 19{i:02}.")
        for i in range(30)
    ]
    built = {}
    for entry in names.list_programs():
        target, source = scripted(names.SchemaReplies()), names.ListSource(passages)
        parts = {**dict.fromkeys(entry["roles"], target), **dict.fromkeys(entry["sources"], source)}
        built[entry["id"]] = names.ragc.program(entry["id"], store=False, **parts)
    spent: dict[str, list[float]] = {name: [] for name in built}
    for number in range(-2, PROGRAM_QUESTIONS):
        for name, program in built.items():
            clock = Clock()
            program(question=f"What is the colour of thing {number}?")
            spent[name].append(clock.read()[1])
    return {f"{name}: processor ms": 1000 * median(each[2:]) for name, each in spent.items()}


def demo(scratch: Path, shared: Path) -> Costs:
    """`make demo`, with the weights of its model at hand after the first run."""
    weights = shared / "weights"
    weights.mkdir(exist_ok=True)
    (scratch / "home").mkdir()
    (scratch / "home/weights").symlink_to(weights)
    recipe = tree() / "experiments/demo.toml"
    wall, cpu = run_command(["compile", str(recipe), "--out", str(scratch / "out")], scratch)
    return {"wall s": wall, "processor s": cpu}


LINES: Mapping[str, Callable[[Path, Path], Costs]] = {
    "typed": typed,
    "cached": cached,
    "question": question,
    "study": study,
    "search": search,
    "help": help_,
    "ask": ask,
    "bm25": bm25,
    "programs": programs,
    DEMO: demo,
}


def write_shared(folder: Path, lines: Sequence[str]) -> None:
    """Writes what all runs of `lines` read: passages in which the word of rank r is as frequent as 1 / r."""
    folder.mkdir()
    if "bm25" not in lines:
        return
    rng = np.random.default_rng(7)
    words = np.array([np.base_repr(10_000_019 + 7919 * rank, 36).lower() for rank in range(VOCABULARY)])
    shares = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    queries = []
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for number in range(PASSAGES):
            ranks = np.searchsorted(shares, rng.random(int(rng.integers(40, 120))) * shares[-1])
            text = words[ranks].tolist()
            file.write(json.dumps({"id": f"g{number}", "title": text[0], "text": " ".join(text)}) + "\n")
            rare = words[ranks[ranks >= 100]]
            if number % (PASSAGES // QUERIES) == 0 and len(rare) > 5:
                queries.append(" ".join(rare[:5]))
    (folder / "queries.json").write_text(json.dumps(queries), "utf-8")


def main() -> None:
    name, scratch, shared = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    costs = LINES[name](scratch, shared)
    print(json.dumps({"ragc": str(tree() / "src/ragc"), "costs": costs}), flush=True)


if __name__ == "__main__":
    main()
