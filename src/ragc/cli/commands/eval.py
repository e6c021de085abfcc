"""`ragc eval`: score a program, compare two, or sum up the rows of an earlier run."""

from __future__ import annotations

import argparse

from ragc.api import use
from ragc.cli import commands, console
from ragc.core.progress import showing
from ragc.errors import UsageError


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument(
        "program", metavar="COMPILED|RECIPE|ROWS.jsonl", help="what is scored, or the rows of an earlier run"
    )
    command.add_argument("other", nargs="?", metavar="OTHER", help="compare it, question by question")
    command.add_argument("--set", **commands.SETS)
    command.add_argument("--base", **commands.BASE)
    command.add_argument("--trust-targets", **commands.TRUST_TARGETS)
    command.add_argument("--trust-code", **commands.TRUST_CODE)
    command.add_argument(
        "--by",
        default="",
        metavar="METRIC",
        help="with OTHER: what counts as changed; of rows: what decides that a question is right",
    )
    command.add_argument(
        "--labels",
        metavar="FILE.jsonl",
        help="a person's labels of answers: agreement stands beside judged scores (of rows the labels beside "
        "them by default); with OTHER labels of both correct the metric of --by",
    )
    command.add_argument(
        "--split", choices=("train", "dev", "test"), default="test", help="the questions (default: test)"
    )
    command.add_argument(
        "--replicates",
        type=int,
        default=1,
        metavar="N",
        help="answer N times at the program's temperature: how much of the variance is the model's own",
    )
    command.add_argument(
        "--judge-again",
        type=int,
        default=0,
        metavar="N",
        help="ask the judge a second time about N answers: how often it contradicts itself",
    )
    command.add_argument("--out", metavar="FILE.jsonl", help="one row a question")
    command.add_argument("--include-seen", **commands.INCLUDE_SEEN)
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Scores, compares or sums up, by what is named; returns the exit code."""
    if (args.replicates != 1 or args.judge_again) and (args.other or args.program.endswith(".jsonl")):
        raise UsageError(
            "--replicates and --judge-again are for one program; name no rows and no other one, or leave "
            "them out."
        )
    if args.other:
        return _compare(args)
    if args.program.endswith(".jsonl"):
        return _summarize(args)
    if args.by:
        raise UsageError("--by is for rows and for comparing two runs; name the other one, or leave it out.")
    return _evaluate(args)


def _evaluate(args: argparse.Namespace) -> int:
    from ragc.cli.rows_file import RowsFile

    out = RowsFile(args.out) if args.out is not None else None
    with showing(True) as progress:
        evaluation = use.evaluate(
            args.program,
            split=args.split,
            replicates=args.replicates,
            judge_again=args.judge_again,
            labels=args.labels,
            progress=progress,
            include_seen=args.include_seen,
            **args.opening,
        )
    if out:
        out.write(evaluation.row_values(prompts=True))
    console.print_json(evaluation.to_json()) if args.json else console.print_evaluation(evaluation)
    return 0


def _summarize(args: argparse.Namespace) -> int:
    from ragc.cli import rows_summary

    if args.out or args.sets or args.include_seen:
        raise UsageError(
            "Rows are scored already, and --out, --set and --include-seen are for scoring; leave them out."
        )
    summary = use.summarize(args.program, by=args.by, labels=args.labels)
    console.print_json(summary.to_json()) if args.json else rows_summary.show(summary)
    return 0


def _compare(args: argparse.Namespace) -> int:
    if args.out:
        raise UsageError("--out writes the rows of one run; leave it out when two are compared.")
    with showing(True) as progress:
        comparison = use.compare(
            args.program,
            args.other,
            split=args.split,
            by=args.by,
            labels=args.labels,
            progress=progress,
            include_seen=args.include_seen,
            **args.opening,
        )
    console.print_json(comparison.to_json()) if args.json else console.print_comparison(comparison)
    return 0
