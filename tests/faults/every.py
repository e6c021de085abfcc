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

from tests.faults.checks import check_fault, check_loss, faults_at
from tests.faults.commands import COMMANDS, prepare
from tests.faults.injector import Fault, missing, places
from tests.faults.power_loss import Loss, losses
from tests.support.loopback import Loopback


def main() -> None:
    parser = argparse.ArgumentParser(description="Faults at every call site.")
    parser.add_argument("--command", choices=COMMANDS, action="append")
    parser.add_argument("--share", type=float, default=1.0, help="of the places, drawn with the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--power", action="store_true", help="losses of power in place of faults at calls")
    args = parser.parse_args()
    if missing():
        sys.exit(missing())
    wrong = runs = 0
    for name in args.command or COMMANDS:
        started = time.monotonic()
        with (
            tempfile.TemporaryDirectory(prefix="ragc-faults-") as folder,
            Loopback(latency_s=0.001) as server,
        ):
            os.environ["RAGC_HOME"] = str(Path(folder) / "work/home")
            prepared = prepare(COMMANDS[name], Path(folder), server)
            faults: list[Fault | Loss] = []
            if args.power:
                faults += losses(prepared.whole.calls)
            else:
                at = enumerate(places(prepared.whole.calls))
                faults += [fault for number, where in at for fault in faults_at(*where, number)]
            chosen = random.Random(args.seed).sample(faults, round(len(faults) * args.share))
            failed = 0
            for fault in chosen:
                check = (
                    check_loss(prepared, fault) if isinstance(fault, Loss) else check_fault(prepared, fault)
                )
                if check:
                    failed += 1
                    print(f"  {name}: {fault}: {check}", flush=True)
        runs, wrong = runs + len(chosen), wrong + failed
        seconds = time.monotonic() - started
        print(f"{name}: {len(chosen)} of {len(faults)}, {failed} wrong, {seconds:.0f} s", flush=True)
    print(f"{runs} faults, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
