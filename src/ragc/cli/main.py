"""The command line: each command parses its arguments, calls one public function, and prints.

Exit codes: 2 for errors of use, 1 for errors of the run, 130 for an interrupt.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ragc.cli import console, failures
from ragc.cli.arguments import Parser
from ragc.cli.screen import escape_output
from ragc.core.progress import bars as console_watch
from ragc.errors import RagcError, Untrusted, UsageError
from ragc.training import FORMATS as TRAINERS
from ragc.training import KINDS as TRAINING_KINDS
from ragc.version import __version__

KINDS = ("programs", "knobs", "metrics", "datasets", "sources", "targets", "exports")


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = Parser(
        prog="ragc", description="Compile retrieval-augmented programs for your questions, corpus and model."
    )
    top.add_argument("--version", action="version", version=f"ragc {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    compiling = _command(
        commands, "compile", "search for the best program of a recipe and prove it on test", _compile
    )
    compiling.add_argument("recipe", metavar="RECIPE", help="the recipe, a TOML file")
    _sets(compiling)
    _allows_loss(compiling)
    compiling.add_argument(
        "--out", metavar="DIR", help="the compiled program (default: compiled/<recipe name>)"
    )
    compiling.add_argument("--resume", action="store_true", help="go on with a study that was cut off")
    compiling.add_argument(
        "--again", action="store_true", help="ask the models anew; replies of before are kept, and not used"
    )
    compiling.add_argument("--dry-run", action="store_true", help="check everything and estimate the cost")
    _includes_seen(compiling)

    probing = _command(
        commands, "headroom", "measure on a few dev questions what a study of a recipe can show", _headroom
    )
    probing.add_argument("recipe", metavar="RECIPE", help="the recipe, a TOML file")
    _sets(probing)
    _allows_loss(probing)
    probing.add_argument(
        "--calls", type=int, default=300, metavar="N", help="LM calls to spend at most (default: 300)"
    )
    probing.add_argument(
        "--gain", type=float, default=0.05, metavar="X", help="the gain that is to be shown (default: 0.05)"
    )
    probing.add_argument("--dry-run", action="store_true", help="say what would be tried, and send nothing")

    asking = _command(commands, "ask", "answer one question", _ask)
    asking.add_argument(
        "program", metavar="COMPILED|RECIPE", help="a compiled directory, or a recipe as it is"
    )
    asking.add_argument("question", metavar="QUESTION", help="the question, in quotes")
    _sets(asking)
    _trusts(asking)
    _allows_loss(asking)
    asking.add_argument("--trace", action="store_true", help="show every search and call")
    asking.add_argument("--again", action="store_true", help="ask the models anew, not the kept replies")

    scoring = _command(commands, "eval", "score a program on a split", _eval)
    scoring.add_argument(
        "program", metavar="COMPILED|RECIPE|ROWS.jsonl", help="what is scored, or the rows of an earlier run"
    )
    scoring.add_argument("other", nargs="?", metavar="OTHER", help="compare it, question by question")
    _sets(scoring)
    _trusts(scoring)
    _allows_loss(scoring)
    scoring.add_argument(
        "--by",
        default="",
        metavar="METRIC",
        help="with OTHER: what counts as changed; of rows: what decides that a question is right",
    )
    scoring.add_argument(
        "--split", choices=("train", "dev", "test"), default="test", help="the questions (default: test)"
    )
    scoring.add_argument("--out", metavar="FILE.jsonl", help="one row a question")
    _includes_seen(scoring)

    exporting = _command(commands, "export", "write a compiled program's prompts for other systems", _export)
    exporting.add_argument("program", metavar="COMPILED", help="the compiled directory")
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
    _sets(exporting)
    _trusts(exporting)

    trusting = _command(
        commands, "trust", "see what a compiled program would do, and trust it on this machine", _trust
    )
    trusting.add_argument("program", metavar="COMPILED", help="the compiled directory")
    trusting.add_argument("--base", metavar="DIR", help="where its relative paths lead (default: itself)")
    trusting.add_argument("--yes", action="store_true", help="record it without a question")

    indexing = _command(commands, "index", "build the indexes that a recipe's program searches", _index)
    indexing.add_argument("recipe", metavar="RECIPE", help="the recipe, a TOML file")
    _sets(indexing)

    gridding = _command(
        commands, "grid", "evaluate the listed settings of a recipe on its dev questions, as a table", _grid
    )
    gridding.add_argument("recipe", nargs="?", metavar="RECIPE", help="the recipe, with a table [grid]")
    _sets(gridding)
    _allows_loss(gridding)
    gridding.add_argument("--out", metavar="DIR", help="the grid (default: grids/<recipe name>)")
    gridding.add_argument(
        "--merge", metavar="DIR", action="append", default=[], help="without RECIPE: merge grids into --out"
    )
    gridding.add_argument("--dry-run", action="store_true", help="check everything and bound the cost")

    training = _command(
        commands, "data", "make training data for small models from a recipe's train questions", _data
    )
    kinds = "; ".join(f"{name}: {about}" for name, about in TRAINING_KINDS.items())
    training.add_argument("kind", choices=tuple(TRAINING_KINDS), help=kinds)
    training.add_argument(
        "recipe", metavar="RECIPE|COMPILED", help="the recipe; for demonstrations a compiled directory"
    )
    training.add_argument(
        "--out", metavar="FILE.jsonl", required=True, help="the rows; their card is FILE.md"
    )
    _sets(training)
    _allows_loss(training)
    training.add_argument(
        "--format", choices=TRAINERS, default=TRAINERS[0], help="for whom pairs are written (default: trl)"
    )
    training.add_argument("--dry-run", action="store_true", help="check everything and bound the cost")
    training.add_argument("--base", metavar="DIR", help="of demonstrations: where relative paths lead")
    training.add_argument(
        "--trust-code",
        action="store_true",
        help="of demonstrations from elsewhere: allow the program of their author",
    )
    reproducing = _command(
        commands, "reproduce", "run a table of a paper on your models, or list the tables", _reproduce
    )
    reproducing.add_argument("table", nargs="?", metavar="TABLE", help="the table; without it all are listed")
    reproducing.add_argument(
        "--row", metavar="ID", dest="rows", action="append", default=[], help="only this row; repeatable"
    )
    reproducing.add_argument(
        "--data-set",
        metavar="ID",
        dest="data_sets",
        action="append",
        default=[],
        help="only this data set; repeatable",
    )
    reproducing.add_argument(
        "--data", metavar="DIR", default="data", help="where one folder a data set is (default: data)"
    )
    reproducing.add_argument("--limit", type=int, metavar="N", help="questions of each data set at most")
    reproducing.add_argument(
        "--beside", default="", metavar="MODEL", help="the paper's model whose figures are compared"
    )
    reproducing.add_argument("--out", metavar="DIR", help="rows and result (default: reproduced/TABLE)")
    reproducing.add_argument("--dry-run", action="store_true", help="check everything and bound the LM calls")
    _sets(reproducing)

    tuning = _command(
        commands, "train", "fine-tune a model on rows of training data, or prepare a base for it", _train
    )
    tuning.add_argument("config", nargs="?", metavar="CONFIG", help="what is trained and how, a TOML file")
    _sets(tuning)
    tuning.add_argument("--out", metavar="DIR", required=True, help="the tuned model; a killed run goes on")
    tuning.add_argument(
        "--base",
        metavar="embedded|FILE.gguf",
        help="without CONFIG: write this model as a directory, no more",
    )

    studying = _command(commands, "study", "see the progress of a study, or lend it this machine", _study)
    studying.add_argument(
        "action", choices=("status", "worker"), help="show how it is doing, or run trials for it here"
    )
    studying.add_argument(
        "study", metavar="STUDY", help="the --out of its compile, or HOST:PORT of its workers"
    )
    studying.add_argument("--trust-targets", action="store_true", help="allow the addresses of its recipe")
    studying.add_argument("--trials", type=int, metavar="N", help="with worker: trials at a time")

    reporting = _command(
        commands, "report", "write what was measured as one HTML file to open offline", _report
    )
    reporting.add_argument(
        "paths",
        nargs="+",
        metavar="STUDY|COMPILED|ROWS.jsonl",
        help="a study or a compiled directory, rows of `ragc eval --out`, or both",
    )
    reporting.add_argument(
        "--out", default="report.html", metavar="FILE.html", help="the page (default: report.html)"
    )
    reporting.add_argument("--trust-targets", action="store_true", help="allow the addresses of its recipe")

    listing = _command(commands, "list", "names that recipes can use", _list)
    listing.add_argument("kind", choices=KINDS, help="what is listed")
    listing.add_argument("program", nargs="?", help="with knobs: whose knobs")

    describing = _command(
        commands,
        "schema",
        "print the JSON Schema of recipes, for editors that complete and check them",
        _schema,
    )
    describing.epilog = (
        "Write it to a file and name that in the first line of a recipe: #:schema ragc.schema.json. Taplo "
        "and its editor extensions (Even Better TOML) then complete keys and mark what is wrong."
    )

    examining = _command(
        commands,
        "doctor",
        "check this machine, what it keeps, and what the targets of a recipe can do",
        _doctor,
    )
    examining.add_argument("recipe", nargs="?", metavar="RECIPE", help="probe its targets, once each")
    _sets(examining)
    examining.add_argument("--again", action="store_true", help="probe targets that were probed before")
    examining.add_argument("--quick", action="store_true", help="do not check stored data for damage")
    return top


def _command(
    commands: Any, name: str, about: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    command.add_argument(
        "--json", action="store_true", help="one JSON document on stdout and nothing else there"
    )
    command.set_defaults(run=run, parser=command)
    return command


def _sets(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", metavar="KEY=VALUE", dest="sets", action="append", default=[], help="override a recipe's key"
    )


def _includes_seen(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--include-seen",
        action="store_true",
        help="score test questions that were used as train or dev before too, and say so",
    )


def _allows_loss(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--allow-loss",
        action="store_true",
        help="go on where texts of an imported prompt would not be sent, and say which",
    )


def _trusts(command: argparse.ArgumentParser) -> None:
    command.add_argument("--base", metavar="DIR", help="where relative paths of its recipe lead")
    command.add_argument(
        "--trust-targets",
        action="store_true",
        help="of a program from elsewhere: allow its addresses and variables",
    )
    command.add_argument(
        "--trust-code",
        action="store_true",
        help="of a program from elsewhere: allow the programs and servers it starts",
    )


def _opening_options(args: argparse.Namespace) -> dict[str, Any]:
    """The command-line options for opening a compiled program, as arguments of the public functions."""
    names = ("sets", "base", "trust_targets", "trust_code", "allow_loss")
    return {name: getattr(args, name) for name in names if name in args}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    with failures.streams(), failures.interrupts(), failures.endings():
        if sys.stdout is None:
            console.error(
                "stdout is closed, and results are written there; open it, or lead it to /dev/null."
            )
            return 1
        return _main(argv)


@escape_output
def _main(argv: Sequence[str] | None) -> int:
    try:
        args, rest = parser().parse_known_args(argv)
        if rest:
            args.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    except SystemExit:
        if _output_failed():
            return 1
        raise
    try:
        status = _run(args)
    finally:
        if loop := sys.modules.get("ragc.core.event_loop"):  # not imported by a command without requests
            with failures.ignore_interrupts():
                loop.release()
    return 1 if _output_failed() else status


def _run(args: argparse.Namespace) -> int:
    """The exit code of a command, whatever it raises."""
    try:
        with _saying_losses(args):
            status: int = args.run(args)
        return status
    except RagcError as error:
        console.error(error.command if isinstance(error, Untrusted) else str(error))
        return error.exit_code
    except KeyboardInterrupt as stop:
        with failures.ignore_interrupts():
            console.error(
                str(stop) or f"Interrupted; every finished request is kept.{_GO_ON.get(args.command, '')}"
            )
        return failures.interrupted_status()
    except BrokenPipeError:
        return 0
    except Exception as error:
        if not failures.refusal(sys.stdout):
            resumable = args.command == "compile" and not args.dry_run
            console.error(failures.sentence(error, f"ragc {args.command}", resumable=resumable))
        return 1


def _saying_losses(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Prints on stderr what prompts lose, for a command that allows it."""
    if not getattr(args, "allow_loss", False):
        return nullcontext()
    from ragc.core.progress import listening

    return listening(console.error)


_GO_ON = {
    "compile": " Run the same command with --resume to go on; `ragc study status` names the best program so "
    "far.",
    "grid": " Run the same command to go on; recorded settings stay.",
    "headroom": " Run the same command to go on.",
}
"""How a command that was interrupted goes on."""


def _output_failed() -> bool:
    """Whether writing to stdout failed, which is reported; a closed pipe is not a failure."""
    refusal = failures.refusal(sys.stdout)
    if refusal is None or isinstance(refusal, BrokenPipeError):
        return False
    console.error(failures.sentence(refusal, "Writing the result to stdout"))
    return True


def _emit(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _compile(args: argparse.Namespace) -> int:
    from ragc import api

    if args.dry_run:
        estimate = api.plan(
            args.recipe,
            sets=args.sets,
            out=args.out,
            include_seen=args.include_seen,
            allow_loss=args.allow_loss,
        )
        _emit(estimate) if args.json else console.plan(estimate)
        return 0
    with console_watch.watching() as progress:
        compiled = api.compile(
            args.recipe,
            sets=args.sets,
            out=args.out,
            resume=args.resume,
            again=args.again,
            include_seen=args.include_seen,
            allow_loss=args.allow_loss,
            progress=progress,
        )
    _emit(compiled.to_json()) if args.json else console.print_compiled(compiled)
    return 0


def _headroom(args: argparse.Namespace) -> int:
    from ragc import api

    if args.dry_run:
        planned = api.headroom_plan(
            args.recipe, sets=args.sets, calls=args.calls, gain=args.gain, allow_loss=args.allow_loss
        )
        _emit(planned) if args.json else console.headroom_plan(planned)
        return 0
    with console_watch.watching() as progress:
        result = api.headroom(
            args.recipe,
            sets=args.sets,
            calls=args.calls,
            gain=args.gain,
            allow_loss=args.allow_loss,
            progress=progress,
        )
    _emit(result.to_json()) if args.json else console.status(list(result.lines()))
    return 0


def _ask(args: argparse.Namespace) -> int:
    from ragc import api

    row = api.ask(args.program, args.question, again=args.again, **_opening_options(args))
    _emit(row.to_json()) if args.json else console.print_answer(row, trace=args.trace)
    if row.failure:
        from ragc.optimizers.answering import was_replayed

        advice = " This is a reply of an earlier run; --again asks the model anew."
        console.error(f"The question has no answer: {row.failure}{advice if was_replayed(row) else ''}")
    return 1 if row.failure else 0


def _eval(args: argparse.Namespace) -> int:
    from ragc import api
    from ragc.cli import rows_file

    if args.other:
        return _compare(args)
    if args.program.endswith(".jsonl"):
        return _summarize(args)
    if args.by:
        raise UsageError("--by is for rows and for comparing two runs; name the other one, or leave it out.")
    out = rows_file.RowsFile(args.out) if args.out is not None else None
    with console_watch.watching() as progress:
        evaluation = api.evaluate(
            args.program,
            split=args.split,
            progress=progress,
            include_seen=args.include_seen,
            **_opening_options(args),
        )
    if out:
        out.write(evaluation.row_values(prompts=True))
    _emit(evaluation.to_json()) if args.json else console.print_evaluation(evaluation)
    return 0


def _summarize(args: argparse.Namespace) -> int:
    from ragc import api
    from ragc.cli import rows_summary

    if args.out or args.sets or args.include_seen:
        raise UsageError(
            "Rows are scored already, and --out, --set and --include-seen are for scoring; leave them out."
        )
    summary = api.summarize(args.program, by=args.by)
    _emit(summary.to_json()) if args.json else rows_summary.show(summary)
    return 0


def _compare(args: argparse.Namespace) -> int:
    from ragc import api

    if args.out:
        raise UsageError("--out writes the rows of one run; leave it out when two are compared.")
    with console_watch.watching() as progress:
        comparison = api.compare(
            args.program,
            args.other,
            split=args.split,
            by=args.by,
            progress=progress,
            include_seen=args.include_seen,
            **_opening_options(args),
        )
    _emit(comparison.to_json()) if args.json else console.print_comparison(comparison)
    return 0


def _export(args: argparse.Namespace) -> int:
    from ragc import api

    if args.questions < 0:
        raise UsageError(f"--questions must be 0 or more, found {args.questions}.")
    if args.check:
        formats = api.check_export(
            args.program, args.check, questions=args.questions, **_opening_options(args)
        )
        _emit(
            {"checked": args.check, "formats": formats.split(", ")}
        ) if args.json else console.print_export_check(args.check, formats)
        return 0
    if args.sets and not args.questions:
        raise UsageError("--set is for the recipe that answers --questions N; name N, or leave --set out.")
    if not args.out:
        raise UsageError("ragc export --to needs --out PATH, the file or folder to write.")
    with console_watch.watching() as progress:
        result = api.export(
            args.program,
            args.to,
            args.out,
            force=args.force,
            questions=args.questions,
            progress=progress,
            **_opening_options(args),
        )
    _emit(result.to_json()) if args.json else console.print_export(result)
    return 0


def _trust(args: argparse.Namespace) -> int:
    from ragc import api

    shown = api.trust_listing(args.program, base=args.base)
    if not args.json:
        console.lines(shown.lines())
    if shown.problems:
        if args.json:
            _emit(shown.to_json())
        shown.record()  # raises them
    confirmed = args.yes or shown.trusted
    if not confirmed and not args.json and sys.stdin.isatty():
        console.lines(["Trust it on this machine? [y/N]"])
        confirmed = sys.stdin.readline().strip().lower() in ("y", "yes")
        if not confirmed:
            console.lines(["Nothing was recorded."])
            return 1
    if confirmed and (args.base or not shown.trusted):
        shown = shown.record()
    if args.json:
        _emit(shown.to_json())
    elif confirmed:
        console.lines([f"{shown.path} is trusted on this machine."])
    if not confirmed:
        raise UsageError(
            f"{shown.path} was not recorded, because nobody can be asked; run the command in a terminal, or "
            "with --yes once you have read what it would do."
        )
    return 0


def _index(args: argparse.Namespace) -> int:
    from ragc import api

    with console_watch.watching() as progress:
        rows = api.index(args.recipe, sets=args.sets, progress=progress)
    _emit(rows) if args.json else console.print_indexes(rows)
    return 0


def _grid(args: argparse.Namespace) -> int:
    from ragc import api

    own = args.sets or args.dry_run or args.allow_loss
    if bool(args.merge) == (args.recipe is not None) or (args.merge and own):
        raise UsageError(
            "Name a recipe, or grids to merge: ragc grid RECIPE, or ragc grid --merge DIR --out DIR."
        )
    if args.dry_run:
        estimate = api.plan_grid(args.recipe, sets=args.sets, out=args.out, allow_loss=args.allow_loss)
        _emit(estimate) if args.json else console.grid_plan(estimate)
        return 0
    if args.merge:
        recorded = api.merge_grids(args.merge, out=args.out)
    else:
        with console_watch.watching() as progress:
            recorded = api.grid(
                args.recipe, sets=args.sets, out=args.out, allow_loss=args.allow_loss, progress=progress
            )
    _emit(recorded.to_json()) if args.json else console.print_grid(recorded)
    return 0


def _data(args: argparse.Namespace) -> int:
    from ragc.cli import training_data

    return training_data.run(args)


def _reproduce(args: argparse.Namespace) -> int:
    from ragc.cli import reproduce

    return reproduce.run(args)


def _train(args: argparse.Namespace) -> int:
    from ragc.cli import training

    return training.train(args)


def _study(args: argparse.Namespace) -> int:
    from ragc import api

    if args.action == "worker":
        api.join_study(args.study, trials=args.trials)
    status = api.study_status(args.study, trust_targets=args.trust_targets)
    _emit(status.to_json()) if args.json else console.status(status.lines())
    return 0


def _report(args: argparse.Namespace) -> int:
    from ragc import api

    written = api.report(args.paths, out=args.out, trust_targets=args.trust_targets)
    _emit(written.to_json()) if args.json else console.lines(written.text())
    return 0


def _list(args: argparse.Namespace) -> int:
    from ragc.cli import listing

    rows = listing.rows(args.kind, args.program)
    _emit(rows) if args.json else console.table(rows)
    return 0


def _schema(args: argparse.Namespace) -> int:
    from ragc import api

    _emit(api.recipe_schema())
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from ragc import api
    from ragc.doctor import machine

    if args.recipe is None and (args.sets or args.again):
        raise UsageError(
            "--set and --again are for the targets of a recipe; name the recipe, or leave them out."
        )
    wants = [] if args.recipe is None else [api.examine_recipe(args.recipe, sets=args.sets)]
    with console_watch.watching() as progress:
        checks = [*machine.examine(quick=args.quick, progress=progress), *wants]
    if args.recipe is not None:
        checks += api.examine_targets(args.recipe, sets=args.sets, again=args.again)
    _emit([check.to_json() for check in checks]) if args.json else console.checks(checks)
    return 0 if all(check.ok or not check.needed for check in checks) else 1
