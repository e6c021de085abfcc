"""The systems that `experiments.benchmarks.search.peers` compares, each run in a process of its own.

    PYTHONPATH=src python -m experiments.benchmarks.search.peers_systems NAME URL FOLDER

`ragc` is ragc's own study; `ragc: mipro` and its like are DSPy's optimizers behind `search.optimizer`; the
plain ones are DSPy as it comes, on `dspy.LM` with its caches in FOLDER, over the same passages. Run again in
the same FOLDER, each goes on as well as it can. What it took is printed as JSON, imports and indexing not
counted.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dspy

from ragc import recipe as recipes
from ragc.core import event_loop
from ragc.metrics import score
from ragc.optimizers import compile as compiling
from ragc.store.calls import CallStore
from ragc.task.base import prepare
from tests.support.loopback import MODEL, TABLES, Loopback
from tests.support.loopback_world import write_data

TRIALS, QUESTIONS, DEMOS, IN_FLIGHT, SEED = 10, 30, 3, 64, 7

RECIPE = (
    f"""
program = "vanilla"
seed = {SEED}
concurrency = {IN_FLIGHT}
[search]
knobs = ["top_k", "query_pos"]
demos = {DEMOS}
trials = {TRIALS}
batch = %d
looks = %d
objectives = ["em"]
optimizer = "%s"
[metrics]
report = ["em"]
"""
    + TABLES
)


def ours(optimizer: str, url: str, folder: Path, batch: int = 4, looks: int = 2) -> float:
    """Seconds of a search by `optimizer` in ragc."""
    (folder / "recipe.toml").write_text(RECIPE % (batch, looks, optimizer, url), "utf-8")
    store = CallStore(folder / "store")
    compiled = compiling.compile(
        recipes.load(folder / "recipe.toml"), folder / "out", store=store, resume=True
    )
    return float(compiled.counters["seconds"])


class PlainRag(dspy.Module):  # type: ignore[misc]
    """Vanilla RAG in DSPy alone; `passages` by question stand in for a search, which costs it nothing."""

    def __init__(self, passages: dict[str, list[str]]) -> None:
        super().__init__()
        self.passages = passages
        self.answer = dspy.Predict("question, passages: list[str] -> answer")

    def forward(self, question: str) -> Any:
        """The answer from the passages of `question`."""
        return self.answer(question=question, passages=self.passages[question])


def em(gold: Any, pred: Any, trace: Any = None) -> float:
    """Exact match, as ragc scores it."""
    return float(score("em", str(pred.answer), list(gold.answers)))


def plain(optimizer: str, url: str, folder: Path) -> float:
    """Seconds of a search by `optimizer` in DSPy as it comes."""
    (folder / "recipe.toml").write_text(RECIPE % (4, 2, "ragc", url), "utf-8")
    task = prepare(recipes.load(folder / "recipe.toml"), store=CallStore(None))
    search = task.runtime.source("local").search
    questions = (*task.train, *task.dev)
    hits = {q.question: event_loop.run(search(q.question, 3)) for q in questions}
    passages = {
        q: [f"{hit.passage.title}\n{hit.passage.text}" for hit in top_hits] for q, top_hits in hits.items()
    }
    examples = [
        dspy.Example(question=q.question, answer=q.answers[0], answers=q.answers).with_inputs("question")
        for q in questions
    ]
    train, dev = examples[: len(task.train)], examples[len(task.train) :]
    dspy.configure_cache(disk_cache_dir=str(folder / "cache"), enable_disk_cache=True)
    lm = dspy.LM(f"openai/{MODEL}", api_base=url, api_key="none", temperature=0.0, max_tokens=256)
    dspy.configure(lm=lm)
    began = time.monotonic()
    PLAIN[optimizer](lm)(PlainRag(passages), trainset=train, valset=dev)
    return time.monotonic() - began


def mipro(lm: Any) -> Callable[..., Any]:
    """MIPROv2 with as many trials; every trial sees all dev questions."""
    optimizer = dspy.MIPROv2(
        metric=em,
        prompt_model=lm,
        task_model=lm,
        auto=None,
        num_candidates=6,
        max_bootstrapped_demos=DEMOS,
        max_labeled_demos=DEMOS,
        num_threads=IN_FLIGHT,
        seed=SEED,
    )
    return lambda student, **data: optimizer.compile(student, **data, num_trials=TRIALS, minibatch=False)


def random_search(lm: Any) -> Callable[..., Any]:
    """BootstrapFewShotWithRandomSearch: no demonstrations, labelled ones, earned ones, then random draws."""
    optimizer = dspy.BootstrapFewShotWithRandomSearch(
        metric=em,
        max_bootstrapped_demos=DEMOS,
        max_labeled_demos=DEMOS,
        num_candidate_programs=TRIALS - 2,
        num_threads=IN_FLIGHT,
    )
    compile_it: Callable[..., Any] = optimizer.compile
    return compile_it


def gepa(lm: Any) -> Callable[..., Any]:
    """GEPA with as many answered questions as those trials and the baseline have."""

    def metric(
        gold: Any, pred: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        value = em(gold, pred)
        feedback = "Right." if value else f"Wrong: the answer is {gold.answers[0]}."
        return dspy.Prediction(score=value, feedback=feedback) if pred_name else value

    optimizer = dspy.GEPA(
        metric=metric,
        max_metric_calls=(TRIALS + 1) * QUESTIONS,
        reflection_lm=lm,
        num_threads=IN_FLIGHT,
        seed=SEED,
    )
    compile_it: Callable[..., Any] = optimizer.compile
    return compile_it


PLAIN = {"mipro": mipro, "random": random_search, "gepa": gepa}

SYSTEMS: dict[str, Callable[[str, Path], float]] = {
    "ragc": lambda url, folder: ours("ragc", url, folder),
    "ragc, 4 looks": lambda url, folder: ours("ragc", url, folder, looks=4),
    "ragc, batch 10": lambda url, folder: ours("ragc", url, folder, TRIALS, TRIALS),
    "ragc: mipro": lambda url, folder: ours("mipro", url, folder),
    "ragc: random": lambda url, folder: ours("random", url, folder),
    "ragc: gepa": lambda url, folder: ours("gepa", url, folder),
    "MIPROv2": lambda url, folder: plain("mipro", url, folder),
    "RandomSearch": lambda url, folder: plain("random", url, folder),
    "GEPA": lambda url, folder: plain("gepa", url, folder),
}
"""What is compared, by name: each gives the seconds that its search took."""


def warm(run: Callable[[str, Path], float]) -> None:
    """Run a system on four questions and a server of its own, which loads what is loaded when needed."""
    with Loopback(latency_s=0) as server, TemporaryDirectory() as folder:
        write_data(Path(folder), 4, 4)
        run(server.url, Path(folder))


def main() -> None:
    name, url, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    os.environ |= {"RAGC_HOME": str(folder / "home"), "LITELLM_LOCAL_MODEL_COST_MAP": "true"}
    run = SYSTEMS[name]
    warm(run)
    print(json.dumps({"seconds": run(url, folder)}), flush=True)


if __name__ == "__main__":
    main()
