"""`ragc train`: fine-tune a model, or write a base as a directory."""

from __future__ import annotations

import argparse
import json
import sys

from ragc.cli import console
from ragc.core.progress import bars as console_watch
from ragc.errors import UsageError


def train(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    from ragc import api

    if bool(args.config) == bool(args.base):
        raise UsageError(
            "Name a CONFIG to train, or --base to write a base as a directory; "
            f"{'both are there' if args.config else 'neither is there'}."
        )
    with console_watch.watching() as progress:
        if args.base:
            path = api.write_base(args.base, out=args.out, progress=progress)
            result, lines = {"base": args.base, "out": str(path)}, [f"The base is in {path}"]
        else:
            trained = api.train(args.config, out=args.out, sets=args.sets, progress=progress)
            result, lines = trained.to_json(), trained.lines()
    if args.json:
        sys.stdout.write(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    else:
        console.lines(lines)
    return 0
