"""Tries a fault at every call site of the commands, or at some, and prints what went wrong.

    PYTHONPATH=src:. python -m tests.faults.every [--command NAME] [--share 0.1] [--seed 1]

At each call site the first, the middle and the last call are killed, and fail.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from experiments.benchmarks.serving.loopback import Loopback
from tests.faults.checks import check_fault, faults_at
from tests.faults.commands import COMMANDS, prepare
from tests.faults.injector import missing, places


def main() -> None:
    parser = argparse.ArgumentParser(description="Faults at every call site.")
    parser.add_argument("--command", choices=COMMANDS, action="append")
    parser.add_argument("--share", type=float, default=1.0, help="of the places, drawn with the seed")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if missing():
        sys.exit(missing())
    wrong = runs = 0
    for name in args.command or COMMANDS:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="ragc-faults-") as folder, Loopback(latency_s=0.001) as server:
            os.environ["RAGC_HOME"] = str(Path(folder) / "work/home")
            prepared = prepare(COMMANDS[name], Path(folder), server)
            found = places(prepared.whole.calls)
            chosen = random.Random(args.seed).sample(found, round(len(found) * args.share))
            sites, failed = len({site for site, _ in found}), 0
            for number, (site, at) in enumerate(chosen):
                for fault in faults_at(site, at, number):
                    runs += 1
                    if problem := check_fault(prepared, fault):
                        failed += 1
                        print(f"  {name}: {fault}: {problem}", flush=True)
        wrong += failed
        seconds = time.monotonic() - started
        print(f"{name}: {sites} call sites, {len(chosen)} places, {failed} wrong, {seconds:.0f} s", flush=True)
    print(f"{runs} faults, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
