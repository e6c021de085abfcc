"""The command line: each command parses, calls one public function, and prints.

Errors of use exit 2, errors of the run exit 1, an interrupt exits 130; each says one thing clearly.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ragc import console, console_watch
from ragc.errors import RagcError, UsageError
from ragc.terminal import json_text, shown
from ragc.version import __version__

KINDS = ("programs", "knobs", "metrics", "datasets", "sources", "targets", "exports")


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="ragc", description="Compile retrieval-augmented programs for your questions, corpus and model."
    )
    top.add_argument("--version", action="version", version=f"ragc {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    compiling = _command(
        commands, "compile", "search for the best program of a recipe and prove it on test", _compile
    )
    compiling.add_argument("recipe", metavar="RECIPE")
    _sets(compiling)
    compiling.add_argument(
        "--out", metavar="DIR", help="the compiled program (default: compiled/<recipe name>)"
    )
    compiling.add_argument("--resume", action="store_true", help="go on with a study that was cut off")
    compiling.add_argument("--dry-run", action="store_true", help="check everything and estimate the cost")

    asking = _command(commands, "ask", "answer one question", _ask)
    asking.add_argument("program", metavar="COMPILED|RECIPE")
    asking.add_argument("question", metavar="QUESTION")
    _sets(asking)
    asking.add_argument("--trace", action="store_true", help="show every search and call")

    scoring = _command(commands, "eval", "score a program on a split", _eval)
    scoring.add_argument("program", metavar="COMPILED|RECIPE|ROWS.jsonl")
    scoring.add_argument("other", nargs="?", metavar="OTHER", help="compare it, question by question")
    _sets(scoring)
    scoring.add_argument("--by", default="", metavar="METRIC", help="with OTHER: what counts as changed")
    scoring.add_argument("--split", choices=("train", "dev", "test"), default="test")
    scoring.add_argument("--out", metavar="FILE.jsonl", help="one row a question")

    exporting = _command(commands, "export", "write a compiled program's prompts for other systems", _export)
    exporting.add_argument("program", metavar="COMPILED")
    does = exporting.add_mutually_exclusive_group(required=True)
    does.add_argument("--to", metavar="FORMAT|all", help="the format; see: ragc list exports")
    does.add_argument("--check", metavar="PATH", help="compare an export with the compiled program")
    exporting.add_argument("--out", metavar="PATH", help="with --to: the file or folder to write")
    exporting.add_argument("--force", action="store_true", help="replace an export that is there")
    exporting.add_argument(
        "--questions",
        type=int,
        default=0,
        metavar="N",
        help="dev questions to go along as cases, answered first",
    )

    indexing = _command(commands, "index", "build the indexes that a recipe's program searches", _index)
    indexing.add_argument("recipe", metavar="RECIPE")
    _sets(indexing)

    studying = _command(commands, "study", "see how a study stands, or lend it this machine", _study)
    studying.add_argument("does", choices=("status", "worker"))
    studying.add_argument(
        "study", metavar="STUDY", help="the --out of its compile, or HOST:PORT of its workers"
    )
    studying.add_argument("--trials", type=int, metavar="N", help="with worker: trials at a time")

    listing = _command(commands, "list", "names that recipes can use", _list)
    listing.add_argument("kind", choices=KINDS)
    listing.add_argument("program", nargs="?", help="with knobs: whose knobs")

    examining = _command(
        commands, "doctor", "check this machine, and the targets of a recipe: what they can do", _doctor
    )
    examining.add_argument("recipe", nargs="?", metavar="RECIPE", help="probe its targets, once each")
    _sets(examining)
    examining.add_argument("--again", action="store_true", help="probe targets that were probed before")
    return top


def _command(
    commands: Any, name: str, about: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    made.add_argument(
        "--json", action="store_true", help="one JSON document on stdout and nothing else there"
    )
    made.set_defaults(run=run)
    return made


def _sets(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", metavar="KEY=VALUE", dest="sets", action="append", default=[], help="override a recipe's key"
    )


@shown
def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    args = parser().parse_args(argv)
    try:
        status: int = args.run(args)
        return status
    except RagcError as error:
        console.error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        again = (
            " Run the same command with --resume to go on; `ragc study status` names the best program so far."
            if args.command == "compile"
            else ""
        )
        console.error(f"Interrupted; every finished request is kept.{again}")
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def _emit(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _compile(args: argparse.Namespace) -> int:
    from ragc import api

    if args.dry_run:
        found = api.plan(args.recipe, sets=args.sets)
        _emit(found) if args.json else console.plan(found)
        return 0
    with console_watch.watching() as progress:
        compiled = api.compile(
            args.recipe, sets=args.sets, out=args.out, resume=args.resume, progress=progress
        )
    _emit(compiled.to_json()) if args.json else console.compiled(compiled)
    return 0


def _ask(args: argparse.Namespace) -> int:
    from ragc import api

    row = api.ask(args.program, args.question, sets=args.sets)
    _emit(row.to_json()) if args.json else console.answered(row, trace=args.trace)
    return 0


def _eval(args: argparse.Namespace) -> int:
    from ragc import api

    if args.other:
        return _compare(args)
    if args.by:
        raise UsageError("--by is for comparing two runs; name the other one, or leave it out.")
    if args.program.endswith(".jsonl"):
        raise UsageError("Rows are scored already; name a second run to compare them with.")
    with console_watch.watching() as progress:
        found = api.evaluate(args.program, split=args.split, sets=args.sets, progress=progress)
    if args.out:
        lines = [json_text(row.to_json()) for row in found.rows]
        Path(args.out).write_text("\n".join(lines) + "\n", "utf-8")
    _emit(found.to_json()) if args.json else console.evaluated(found)
    return 0


def _compare(args: argparse.Namespace) -> int:
    from ragc import api

    if args.out:
        raise UsageError("--out writes the rows of one run; leave it out when two are compared.")
    with console_watch.watching() as progress:
        found = api.compare(
            args.program, args.other, split=args.split, sets=args.sets, by=args.by, progress=progress
        )
    _emit(found.to_json()) if args.json else console.compared(found)
    return 0


def _export(args: argparse.Namespace) -> int:
    from ragc import api

    if args.questions < 0:
        raise UsageError(f"--questions must be 0 or more, found {args.questions}.")
    if args.check:
        formats = api.check_export(args.program, args.check, questions=args.questions)
        _emit({"checked": args.check, "formats": formats.split(", ")}) if args.json else console.checked(
            args.check, formats
        )
        return 0
    if not args.out:
        raise UsageError("ragc export --to needs --out PATH, the file or folder to write.")
    with console_watch.watching() as progress:
        found = api.export(
            args.program, args.to, args.out, force=args.force, questions=args.questions, progress=progress
        )
    _emit(found.to_json()) if args.json else console.exported(found)
    return 0


def _index(args: argparse.Namespace) -> int:
    from ragc import api

    with console_watch.watching() as progress:
        rows = api.index(args.recipe, sets=args.sets, progress=progress)
    _emit(rows) if args.json else console.table(rows)
    return 0


def _study(args: argparse.Namespace) -> int:
    from ragc import api

    if args.does == "worker":
        api.join_study(args.study, trials=args.trials)
    found = api.study_status(args.study)
    _emit(found.to_json()) if args.json else console.lines(found.lines())
    return 0


def _list(args: argparse.Namespace) -> int:
    from ragc import listing

    rows = listing.rows(args.kind, args.program)
    _emit(rows) if args.json else console.table(rows)
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from ragc import api, doctor

    checks = doctor.examine()
    if args.recipe:
        checks += api.examine_targets(args.recipe, sets=args.sets, again=args.again)
    _emit([check.to_json() for check in checks]) if args.json else console.checks(checks)
    return 0 if all(check.ok or not check.needed for check in checks) else 1
