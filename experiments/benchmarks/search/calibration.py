"""What fitting thresholds is worth: the same studies with and without it, side by side, on several seeds.

    PYTHONPATH=src python -m experiments.benchmarks.search.calibration
        [--trials 12] [--seeds 3] [--dev 60] [NAME...]

Each study searches one threshold against a server on this machine
(`tests.support.loopback`), on a store of its own; a seed also draws the questions. The
model says how sure it is on a scale of its own, as models do: never less than 60% that it knows, and at most
24% that it needs a search. Printed of each study: the requests that were sent, how many of them had come
before, the winner's score on dev and on test, the first trial with the winner's dev score, and the winner's
threshold. Below, with calibration relative to without: requests, scores, and the trials until the best. The
studies: {names}.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.benchmarks.search.study import ALIGNING, JUDGING, RECIPE, machine
from ragc import recipe as recipes
from ragc.optimizers import compile as compiling
from ragc.optimizers.search.storage import study_directory
from ragc.store.call_store import CallStore
from tests.support.loopback import MODEL, Loopback
from tests.support.loopback_world import luck, reply, write_data

STUDIES = {
    "theta": ("slimplm", "judge_threshold", JUDGING),
    "theta, one gate": ("slimplm", "judge_threshold", f"{JUDGING}\nuse_qf = false"),
    "need": ("selfrag", "selfrag_threshold", "top_k = 2"),
    "tau": ("ggatrieval", "tau", ALIGNING),
}
"""By name: the program, its threshold, and what is fixed."""

ROWS = 300
"""Questions of each split that a seed draws from."""


@dataclass(frozen=True)
class StudyResult:
    """What one study did."""

    sent: int
    repeats: int
    dev: float
    test: float
    first: int
    threshold: float


def miscalibrated_reply(body: Mapping[str, Any]) -> str:
    """What the model of the loopback world says, but for how sure it is of itself."""
    text = reply(body)
    if not re.search(r'"(confidence|need)"', text):
        return text
    outputs = json.loads(text)
    if "confidence" in outputs:
        outputs["confidence"] = 60 + 10 * round(outputs["confidence"] / 25)
    if "need" in outputs:
        thing = re.findall(r"number\d+", str(body["messages"][-1]["content"]))[-1]
        knows = luck("knows", thing) < 0.3  # as the world has it
        outputs["need"] = {"percent": round(12 * (not knows) + 12 * luck("need", thing))}
    return json.dumps(outputs)


def run(
    name: str, server: Loopback, folder: Path, args: argparse.Namespace, seed: int, fitted: bool
) -> StudyResult:
    """One study, on a store of its own."""
    program, knob, fixed = STUDIES[name]
    folder.mkdir(parents=True)
    write_data(folder, 0, ROWS, ROWS)
    text = RECIPE.format(
        program=f'program = "{program}"',
        knobs=f'"{knob}"',
        trials=args.trials,
        programs=f"calibrate = {str(fitted).lower()}",
        fixed=fixed,
        model=MODEL,
        url=server.url,
    )
    (folder / "recipe.toml").write_text(text, "utf-8")
    sets = (f"seed={seed}", "search.batch=4", f"data.dev={args.dev}", f"data.test={args.dev}")
    server.reset()
    store = CallStore(folder / "store")
    compiled = compiling.compile(recipes.load(folder / "recipe.toml", sets), folder / "out", store=store)
    log = server.log
    tried = json.loads((study_directory(folder / "out") / "trials.json").read_text("utf-8"))
    dev = compiled.program.provenance["dev"]["winner"]["em"]["mean"]
    first = next(t["number"] for t in tried if t["complete"] and t["values"][0] >= dev - 1e-9)
    threshold = float(compiled.program.state.knobs[knob])
    return StudyResult(log.requests, log.repeats, dev, compiled.test["em"].mean, first, threshold)


def format_row(name: str, seed: int, fitted: bool, result: StudyResult) -> str:
    """One line of the table."""
    scores = f"{result.dev:8.3f}{result.test:8.3f}{result.first:7}{result.threshold:11.4g}"
    return f"{name:18}{seed:5}{'yes' if fitted else 'no':>12}{result.sent:7}{result.repeats:9}{scores}"


def comparison_line(name: str, without: list[StudyResult], fitted: list[StudyResult]) -> str:
    """With calibration relative to without, over all seeds."""
    sent = sum(f.sent for f in fitted) / sum(f.sent for f in without)
    dev = fmean(f.dev for f in fitted) - fmean(f.dev for f in without)
    test = fmean(f.test for f in fitted) - fmean(f.test for f in without)
    trials = fmean(f.first for f in fitted), fmean(f.first for f in without)
    return (
        f"{name:18} requests x {sent:.2f}, dev {dev:+.3f}, test {test:+.3f}, "
        f"best after {trials[0]:.1f} trials, not {trials[1]:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Studies with and without calibration.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(STUDIES)}; all without")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dev", type=int, default=60)
    parser.add_argument("--latency-ms", type=float, default=5)
    args = parser.parse_args()
    print(machine())
    print(f"{args.trials} trials, {args.dev} dev and as many test questions, {args.latency_ms:g} ms a reply")
    head = f"{'sent':>7}{'repeats':>9}{'dev em':>8}{'test em':>8}{'first':>7}{'threshold':>11}"
    print(f"\n{'study':18}{'seed':>5}{'calibrated':>12}{head}")
    lines = []
    latency_s = args.latency_ms / 1000
    with (
        Loopback(latency_s=latency_s, answer=miscalibrated_reply) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        os.environ["RAGC_HOME"] = folder
        for number, name in enumerate(args.names or STUDIES):
            results: dict[bool, list[StudyResult]] = {False: [], True: []}
            for seed in range(args.seeds):
                for fitted in (False, True):
                    where = Path(folder) / f"{number}-{seed}-{fitted}"
                    results[fitted].append(run(name, server, where, args, seed, fitted))
                    print(format_row(name, seed, fitted, results[fitted][-1]), flush=True)
            lines.append(comparison_line(name, results[False], results[True]))
    print("\n" + "\n".join(lines))


__doc__ = (__doc__ or "").format(names=", ".join(STUDIES))

if __name__ == "__main__":
    main()
