"""Whether budgets hold, counted by the provider: random recipes, prices, limits, faults, kills and resumes.

Each run draws a recipe (program, knobs, demonstrations, instructions, trials, 1 or 64 questions in flight),
limits on calls, tokens and dollars, a price, a share of faults, and moments at which the process is killed
(SIGKILL) and the study resumed. `tests.support.priced_provider` counts what it is owed. Two
things must hold:

1. What the provider is owed never exceeds a limit: in calls, tokens or dollars.
2. Where a limit stopped the study, the request that it refused would not have fitted even if all that was in
   flight had cost nothing; what the search holds back for the test questions counts as spent.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
import time
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any
from unittest import mock

from ragc.targets.prices import Price
from tests.support.loopback import MODEL
from tests.support.loopback_world import write_data
from tests.support.priced_provider import Account, PricedProvider

PROGRAMS = ("vanilla", "vanilla", "no_retrieval", "self_ask", "cot")
ENDED = "ended"
MOST_STARTS = 9
"""Processes of one study at most: kills, and failures of the provider that ended one."""

_REFUSALS = "refusals.jsonl"


def draw(seed: int) -> dict[str, Any]:
    """The settings of one run."""
    rng = random.Random(f"budgets {seed}")
    train, dev, test = rng.randint(3, 6), rng.choice((6, 10, 18)), rng.randint(0, 6)
    price = {"input": 10 ** rng.uniform(-1.5, 1.5), "output": 10 ** rng.uniform(-1, 2)}
    if rng.random() < 0.5:
        price["cached_input"] = price["input"] * rng.random()
    # A call takes about 700 tokens here, and a whole study some 80 to 200 calls.
    size = 10 ** rng.uniform(0.7, 2.1)
    kinds = [kind for kind in ("usd", "usd", "tokens", "lm_calls") if rng.random() < 0.5] or ["usd"]
    limits: dict[str, float] = {}
    for kind in kinds:
        calls = size * rng.uniform(0.7, 1.4)
        usd = calls * (600 * price["input"] + 60 * price["output"]) / 1e6
        limits[kind] = {"usd": usd, "tokens": int(calls * 700) + 1, "lm_calls": int(calls) + 1}[kind]
    return {
        "seed": seed,
        "program": rng.choice(PROGRAMS),
        "sizes": (train, dev, test),
        "price": price,
        "limits": limits,
        "concurrency": rng.choice((1, 64)),
        "demos": rng.choice((0, 0, 2)),
        "instructions": rng.choice((0, 0, 0, 2)),
        "trials": rng.randint(2, 5),
        "objectives": rng.choice((["em"], ["em", "-usd"], ["f1", "-tokens"])),
        "faults": rng.choice((0.0, 0.05, 0.15)),
        "kills": [rng.randint(0, 60) for _ in range(rng.choice((0, 0, 1, 2, 3)))],
    }


def recipe_of(drawn: dict[str, Any], url: str) -> str:
    """The recipe of a run."""
    price = ", ".join(f"{name} = {amount!r}" for name, amount in drawn["price"].items())
    limits = "\n".join(f"{name} = {amount!r}" for name, amount in drawn["limits"].items())
    instructions = f"instructions = {drawn['instructions']}" if drawn["instructions"] else ""
    sources = "" if drawn["program"] in ("no_retrieval", "cot") else '[sources.local]\nkind = "bm25"\n'
    knobs = '["top_k", "query_pos"]' if drawn["program"] == "vanilla" else "[]"
    return f"""
program = "{drawn["program"]}"
seed = {drawn["seed"]}
concurrency = {drawn["concurrency"]}
[search]
knobs = {knobs}
demos = {drawn["demos"]}
{instructions}
trials = {drawn["trials"]}
batch = 3
objectives = {json.dumps(drawn["objectives"])}
[metrics]
report = ["em", "usd"]
[budget]
{limits}
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
{sources}
[targets.main]
kind = "vllm"
model = "{MODEL}"
base_url = "{url}"
options = {{tries = 3, price = {{{price}}}}}
"""


def note(path: Path, row: dict[str, Any]) -> None:
    """Appends one row to the file at `path`."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def compile_in(folder: str) -> None:
    """What a process does: compiles the recipe of `folder`, or goes on with that, and notes refusals."""
    os.environ["RAGC_HOME"] = f"{folder}/home"
    sys.stderr = sys.stdout = Path(folder, "output.txt").open("a")  # noqa: SIM115 - until the process ends
    from ragc import recipe as recipes
    from ragc.errors import BudgetExhausted, RagcError
    from ragc.optimizers import compile as compiling
    from ragc.task import budget

    class Watched(budget.BudgetFile):
        """Notes what it refuses, with what it knew then."""

        async def reserve(self, key: str, tokens: int, usd: float) -> int:
            try:
                return await super().reserve(key, tokens, usd)
            except BudgetExhausted as error:
                row = {
                    "lm_calls": self.spent.calls + self.held.calls + 1,
                    "tokens": self.spent.tokens + self.held.tokens + tokens,
                    "usd": self.spent.usd + self.held.usd + usd,
                    "message": str(error),
                }
                note(Path(folder, _REFUSALS), row)
                raise

    from ragc.optimizers.compile import passes

    try:
        with mock.patch.object(passes, "BudgetFile", Watched):
            compiling.compile(recipes.load(Path(folder) / "recipe.toml"), Path(folder) / "out", resume=True)
    except RagcError as error:
        if type(error).__name__ == "TargetUnavailable":
            raise SystemExit(3) from None
        Path(folder, "error.txt").write_text(f"{type(error).__name__}: {error}")
    Path(folder, ENDED).touch()


def run(seed: int, provider: PricedProvider, context: ForkServerContext, folder: Path) -> dict[str, Any]:
    """One run: what it spent by the provider's count, and what was violated."""
    drawn, name = draw(seed), f"run{seed}"
    account = provider.accounts[name] = Account(Price.of(drawn["price"]), drawn["faults"])
    write_data(folder, *drawn["sizes"])
    (folder / "recipe.toml").write_text(recipe_of(drawn, provider.url(name)), "utf-8")
    kills, starts = list(drawn["kills"]), 0
    while not (folder / ENDED).exists() and starts < MOST_STARTS:
        process = context.Process(target=compile_in, args=(str(folder),))
        process.start()
        starts += 1
        if kills:
            at, limit = account.arrived + kills.pop(), time.monotonic() + 20
            while process.is_alive() and account.arrived < at and time.monotonic() < limit:
                time.sleep(0.002)
            process.kill()
        process.join(300)
        if process.is_alive():
            process.kill()
            return {"seed": seed, "violations": ["it hangs"], **drawn}
    time.sleep(0.05)  # a killed process may have sent what the provider has yet to read
    return {**drawn, **report(drawn, account, folder), "starts": starts}


def report(drawn: dict[str, Any], account: Account, folder: Path) -> dict[str, Any]:
    """What the provider counted, what stopped the study, and what does not hold."""
    spent = {"lm_calls": account.calls, "tokens": account.tokens, "usd": account.usd}
    limits, violations = drawn["limits"], list[str]()
    for what, limit in limits.items():
        if spent[what] > limit * (1 + 1e-9):
            violations.append(f"{what}: spent {spent[what]} of {limit}")
    path = folder / _REFUSALS
    refusals = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for row in refusals:
        if not any(row[what] > limit for what, limit in limits.items()):
            violations.append(f"refused what would have fitted: {row}")
    output = (folder / "output.txt").read_text() if (folder / "output.txt").exists() else ""
    if "never awaited" in output or "Traceback" in output:
        violations.append(f"output: {output[-1500:]}")
    error = folder / "error.txt"
    return {
        "spent": spent,
        "shares": {what: round(spent[what] / limit, 4) for what, limit in limits.items()},
        "refusals": len(refusals),
        "stopped_by": sorted({row["message"] for row in refusals}),
        "answers": dict(account.answers),
        "ended": (folder / ENDED).exists(),
        "error": error.read_text()[:200] if error.exists() else "",
        "violations": violations,
    }


def context_of() -> ForkServerContext:
    """Processes that are forked from one that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ragc.optimizers.compile", __name__])
    return context
