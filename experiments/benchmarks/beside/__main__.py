"""What two versions of ragc cost, side by side in one run.

    PYTHONPATH=src python -m experiments.benchmarks.beside COMMIT [COMMIT2]
        [--only NAME[,NAME]] [--runs 5] [--demo]

COMMIT is what is compared with, COMMIT2 what is compared; without it, the files as they lie here. Both are
unpacked into folders of their own, and every line of `LINES` runs in a process of its own on one of them
(with this interpreter, and `src` of that folder first on the path), in turns: one, the other, the other, one,
so that what changes on the machine meanwhile is shared; the short ones run three times as often. What the
lines do stands here, also for an older commit: they reach ragc through `tests/support/names.py`. Servers and
scripted models come from here too.

Printed are the medians and the ratio of the second version's to the first's, then the same ratio of the least
of each. Everything is a cost, so a ratio above 1 is worse; where other work fills the machine, the least and
the processor's seconds say more. Rows of bare aiohttp and of DSPy run nothing of ragc: how far their ratios
are from 1 is the error of this run. `--demo` adds `make demo`, with the embedded model, which takes minutes
and fetches 93 MB once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from experiments.benchmarks.beside.lines import DEMO, LINES, SHORT, write_shared
from experiments.benchmarks.machine import machine

ROOT = Path(__file__).resolve().parents[3]
LONGEST_S = 1800

Costs = dict[str, list[float]]


def unpack(commit: str, folder: Path) -> str:
    """Copies a commit, or without one the files of this tree, into `folder`, and returns its name."""
    folder.mkdir()
    if commit:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x"], cwd=folder, check=True, input=archive.stdout)
        return git("rev-parse", "--short", commit)
    listed = git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    for name in listed:
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")


def git(*words: str) -> str:
    """What a command of git prints."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def run_line(name: str, tree: Path, scratch: Path, shared: Path) -> dict[str, float]:
    """What one line costs on one tree."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "RAGC_HOME": str(scratch / "home"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "true",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "experiments.benchmarks.beside.lines", name, str(scratch), str(shared)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, check=False, text=True, timeout=LONGEST_S
    )
    if done.returncode:
        raise RuntimeError(f"The line {name} failed on {tree.name}:\n{done.stderr[-3000:]}")
    reported: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if Path(reported["ragc"]) != (tree / "src/ragc").resolve():
        raise RuntimeError(f"The line {name} ran {reported['ragc']} in place of {tree}.")
    costs: dict[str, float] = reported["costs"]
    return costs


def measure(name: str, trees: list[Path], folder: Path, runs: int) -> list[Costs]:
    """The costs of one line on each tree, by what they are, in turns."""
    run_line(name, trees[0], folder / "scratch", folder / "shared")
    run_line(name, trees[1], folder / "scratch", folder / "shared")
    costs: list[Costs] = [{}, {}]
    for run in range(runs):
        for at in (0, 1) if run % 2 == 0 else (1, 0):
            for what, cost in run_line(name, trees[at], folder / "scratch", folder / "shared").items():
                costs[at].setdefault(what, []).append(cost)
    return costs


def print_line(name: str, costs: list[Costs]) -> None:
    """Prints a row for each cost of a line."""
    for what, first in costs[0].items():
        second = costs[1][what]
        ratios = [
            there / here if here else float("nan")
            for here, there in ((median(first), median(second)), (min(first), min(second)))
        ]
        numbers = f"{median(first):12.4g}{median(second):12.4g}{ratios[0]:8.2f}{ratios[1]:8.2f}"
        print(f"{name:10}{what:40}{numbers}{len(first):4}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Two versions of ragc, side by side.")
    parser.add_argument(
        "commits", nargs="+", metavar="COMMIT", help="what is compared with; what is compared"
    )
    parser.add_argument("--only", default="", metavar="NAME[,NAME]", help=f"of {', '.join(LINES)}")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--demo", action="store_true", help="`make demo` too")
    args = parser.parse_args()
    if len(args.commits) > 2:
        parser.error("at most two commits are compared")
    names = args.only.split(",") if args.only else [name for name in LINES if name != DEMO]
    names += [DEMO] if args.demo and DEMO not in names else []
    if unknown := [name for name in names if name not in LINES]:
        parser.error(f"there is no line {unknown[0]!r}; the lines are {', '.join(LINES)}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        trees = [folder / "first", folder / "second"]
        titles = [unpack(commit, tree) for commit, tree in zip([*args.commits, ""], trees, strict=False)]
        write_shared(folder / "shared", names)
        print(
            f"{machine()}\n\n{'line':10}{'cost':40}{titles[0]:>12}{titles[1]:>12}{'ratio':>8}{'least':>8}{'n':>4}"
        )
        for name in names:
            print_line(name, measure(name, trees, folder, args.runs * (3 if name in SHORT else 1)))
        print(f"\n{machine()}")


if __name__ == "__main__":
    main()
