"""How many requests a study sends: 100 trials over thresholds, top-p, top-k and noise on 100 dev questions.

    PYTHONPATH=src python -m experiments.benchmarks.search.study
        [--trials 100] [--dev 100] [--latency-ms 50] [NAME...]

Each study searches generated data through `tests.support.loopback`. Printed of each: the LM
calls that trial x question x call would send, with the calls a question that each trial had; the requests
that reached the server, how many of them had come before, and their share of those calls; trials that racing
stopped, the share of questions that trials answered, and of the answered calls those that were replayed; the
wall time. `all` compares three programs in one study. The studies: {names}.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ragc import recipe as recipes
from ragc.optimizers import compile as compiling
from ragc.optimizers.search.storage import study_directory
from ragc.store.call_store import CallStore
from tests.support.loopback import MODEL, TABLES, ServerProcess, run_server
from tests.support.loopback_log import Log
from tests.support.loopback_world import write_data

STUDIES = {
    "theta": ('program = "slimplm"', '"judge_threshold"'),
    "theta, top-p, top-k": ('program = "slimplm"', '"judge_threshold", "top_p", "refs_max"'),
    "tau": ('program = "ggatrieval"', '"tau"'),
    "tau, top-p, top-k": ('program = "ggatrieval"', '"tau", "top_p", "k_support"'),
    "top-p, top-k, noise": ('program = "vanilla"', '"top_p", "top_k", "noise_n"'),
    "all": (
        'program = "vanilla"',
        '"judge_threshold", "tau", "top_p", "top_k", "noise_n", "k_support", "refs_max"',
    ),
}
"""By name: the program and the knobs that are searched."""

RECIPE = """
{program}
seed = 7
concurrency = 64
[search]
knobs = [{knobs}]
trials = {trials}
batch = 8
objectives = ["em"]
{programs}
[knobs]
temperature = 0.7
{fixed}
[metrics]
report = ["em"]
[targets.proxy]
kind = "vllm"
model = "{model}"
base_url = "{url}"
""" + TABLES.replace("%s", "{url}")

JUDGING = 'judge_by = "confidence"'
ALIGNING = 'answer_format = "short"\ncandidates = 5\nrounds = 2'


@dataclass(frozen=True)
class StudyResult:
    """What one study did. `full` are the calls of every trial on every dev question."""

    log: Log
    full: float
    lm_calls: float
    stopped: int
    seen: float
    best: str
    seconds: float


def run(name: str, server: ServerProcess, folder: Path, trials: int, dev: int) -> StudyResult:
    """One study, on a store of its own."""
    program, knobs = STUDIES[name]
    folder.mkdir()
    write_data(folder, 0, dev)
    judged, aligned = "slimplm" in program or name == "all", "ggatrieval" in program or name == "all"
    text = RECIPE.format(
        program=program,
        knobs=knobs,
        trials=trials,
        programs='programs = ["slimplm", "ggatrieval"]' if name == "all" else "",
        fixed="\n".join([*[JUDGING] * judged, *[ALIGNING] * aligned]),
        model=MODEL,
        url=server.url,
    )
    (folder / "recipe.toml").write_text(text, "utf-8")
    server.reset()
    began = time.monotonic()
    store = CallStore(folder / "store")
    compiled = compiling.compile(recipes.load(folder / "recipe.toml"), folder / "out", store=store)
    seconds = time.monotonic() - began
    tried = json.loads((study_directory(folder / "out") / "trials.json").read_text("utf-8"))
    full = sum(trial["counters"]["lm_calls"] / len(trial["scores"]) * dev for trial in tried)
    lm_calls = sum(trial["counters"]["lm_calls"] for trial in tried)
    search = compiled.program.provenance["search"]
    seen = sum(len(trial["scores"]) for trial in tried) / (dev * len(tried))
    searched = {knob.strip(' "') for knob in knobs.split(",")}
    chosen = {n: v for n, v in search["candidate"]["knobs"].items() if n in searched}
    best = " ".join([search["candidate"].get("program", ""), *(f"{n}={v}" for n, v in chosen.items())])
    return StudyResult(server.log(), full, lm_calls, search["stopped"], seen, best.strip(), seconds)


def machine() -> str:
    info = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(": ")[1] for line in info if line.startswith("model name")), platform.machine())
    load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, load {load}, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Requests that a study sends.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(STUDIES)}; all without")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--dev", type=int, default=100)
    parser.add_argument("--latency-ms", type=float, default=50)
    args = parser.parse_args()
    print(machine())
    print(f"{args.trials} trials and the baseline, {args.dev} dev questions, {args.latency_ms:g} ms a reply")
    head = f"{'trial x q x call':>17}{'sent':>7}{'repeats':>9}{'share':>8}{'stopped':>9}{'seen':>7}"
    print(f"\n{'study':22}{head}{'replayed':>10}{'seconds':>9}  winner")
    with run_server(args.latency_ms) as server, tempfile.TemporaryDirectory() as folder:
        os.environ["RAGC_HOME"] = folder
        for number, name in enumerate(args.names or STUDIES):
            result = run(name, server, Path(folder) / str(number), args.trials, args.dev)
            log = result.log
            counts = f"{result.full:17.0f}{log.requests:7}{log.repeats:9}{log.requests / result.full:8.1%}"
            raced = f"{result.stopped:9}{result.seen:7.1%}{1 - log.requests / result.lm_calls:10.1%}"
            print(f"{name:22}{counts}{raced}{result.seconds:9.1f}  {result.best}", flush=True)


__doc__ = (__doc__ or "").format(names=", ".join(STUDIES))

if __name__ == "__main__":
    main()
