"""Every name of ragc that the laws, the other nets and the benchmarks of two versions reach it by.

What a user types or reads is written here once: public names, options, keys of recipes, and files. A renaming
changes this file and no net.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ragc
from ragc.errors import RagcError
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

__all__ = [
    "ListSource",
    "RagcError",
    "SchemaReplies",
    "ScriptedTarget",
    "evaluate",
    "export",
    "ragc",
]

COMMAND = ("-m", "ragc")
"""What follows the interpreter in the command line."""
HOME = "RAGC_HOME"
"""The variable of the environment that names the folder where ragc keeps things."""

RESUME = "--resume"
NO_CACHE = "--again"
INCLUDE_USED = "--include-seen"
TRUST = ("--trust-targets", "--trust-code")
DRY_RUN = "--dry-run"
JSON = "--json"

BLOCKS = "search.looks"
TUNE_THRESHOLDS = "search.calibrate"
ROUNDS = "search.instruction_rounds"
REASONING_TOKENS = "thinking_tokens"
"""A key of the options of a target."""

TEST_USE = "look"
"""The key of `--json` under which stands the `number` of a use of the test questions."""
USED = "contamination"
"""The key of `--json` under which stand the `used` questions that an earlier search used."""
ADJUSTED_P = "p_looks"
ADJUSTED_INTERVAL = "ci_looks"

PROGRAM = "program.json"
PROVENANCE = "provenance.json"
RECIPE = "recipe.toml"
PROMPTS = "prompts"
RUN = "run.json"
"""The one file of a compiled program that differs from run to run."""
FRONT = "front"
STUDIES = "studies"
"""The folder of studies in the home."""
BEST = "best"
"""The folder in a study's folder with a compiled program of the leader."""
STORE = "store"


def argv(*words: str) -> list[str]:
    """The command line `ragc WORDS` in an interpreter of its own."""
    return [sys.executable, *COMMAND, *words]


def environment(home: Path, more: Mapping[str, str] = {}) -> dict[str, str]:
    """This process's environment, with `home` for what ragc keeps."""
    return {**os.environ, HOME: str(home), **more}


def main(words: Sequence[str]) -> int:
    """Runs `ragc WORDS` in this process and returns the exit code."""
    from ragc.cli.main import main as run

    return run(list(words))


def price(**dollars: float) -> Any:
    """The price of a model, in dollars per million tokens: `input`, `output`."""
    from ragc.targets.prices import Price

    return Price.of(dollars)


def evaluate(path: Path, *, split: str = "test", include_used: bool = False) -> ragc.Evaluation:
    """Scores a compiled program or a recipe on a split."""
    return ragc.evaluate(path, split=split, include_seen=include_used)


def export(path: Path, to: str, out: Path) -> ragc.Exported:
    """Exports a compiled program in the format `to`."""
    return ragc.export(path, to, out)


def list_programs() -> list[dict[str, Any]]:
    """The built-in programs: their `id`, and the roles and sources that each needs or may have."""
    return [
        {
            "id": row["id"],
            "roles": [*row["roles"], *row["may_ask"]],
            "sources": [*row["sources"], *row["may_use"]],
        }
        for row in ragc.list_names("programs")
    ]


def call_store(folder: Path | None) -> Any:
    """The store of replies in `folder`, in memory without one; also that of an earlier version."""
    name = next(name for name in ("ragc.store.calls", "ragc.store.call_store") if find_spec(name))
    return import_module(name).CallStore(folder)


def typed_call(target: Any, demos: list[dict[str, Any]], store: Path | None) -> Any:
    """A predictor of a short answer from passages on `target`; its `acall` is awaited on ragc's loop.

    `store` is the folder where replies are kept; without one they are not kept on disk.
    """
    from ragc.programs.calls.predict import RagPredict
    from ragc.programs.runtime import Runtime
    from ragc.signatures.answer import ShortAnswer

    call = RagPredict(ShortAnswer, Runtime({"main": target}, store=call_store(store)))
    call.demos = demos
    return call


def run_on_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """Returns what `work` returns, on the loop on which ragc sends."""
    from ragc.core import event_loop

    return event_loop.run(work)


def compile_on(target: ScriptedTarget, recipe: Path, out: Path, store: Path) -> ragc.Compiled:
    """Compiles a recipe file with `target` as its main model and the folder `store` for replies."""
    from ragc import recipe as recipes
    from ragc.optimizers import compile as compiling

    return compiling.compile(recipes.load(recipe), out, store=call_store(store), targets={"main": target})


def answer_with(
    recipe: Path, demos: Sequence[Mapping[str, Any]], metrics: Sequence[str], target: Any = None
) -> list[dict[str, Any]]:
    """What the program of a recipe makes of its dev and test questions, `demos` shown in the call `answer`.

    Rows hold id, answer, scores and counters. `target` is in the place of the recipe's.
    """
    from ragc import recipe as recipes
    from ragc.metrics import get
    from ragc.metrics.base import Scorer
    from ragc.task.answering import answer
    from ragc.task.base import prepare

    targets = {"main": target} if target else None
    task = prepare(recipes.load(recipe), store=call_store(None), targets=targets)
    program: Any = task.method.build(task.runtime, task.baseline_knobs)
    program.answer.demos = list(demos)
    scorer = Scorer.of(*map(get, metrics))
    rows = []
    for question in (*task.dev, *task.test):
        row = run_on_loop(answer(program, question, scorer))
        scores, counters = dict(row.scores), dict(row.counters)
        rows.append({"id": question.id, "answer": row.prediction, "scores": scores, "counters": counters})
    return rows


def reply_of(text: str, finish: str, prompt: int, completion: int) -> Any:
    """A reply of a model with the tokens that it read and wrote."""
    from ragc.targets.base import Reply, Usage

    return Reply(text, finish=finish, usage=Usage(prompt=prompt, completion=completion))  # type: ignore[arg-type]


def target_of(recipe: Path) -> Any:
    """The target `main` of a recipe."""
    from ragc import recipe as recipes
    from ragc.task.base import prepare

    return prepare(recipes.load(recipe), questions=False).runtime.targets["main"]
