"""`ragc new`: make a corpus, questions and a recipe of a folder of documents."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ragc.api import documents
from ragc.cli import commands, console
from ragc.core.display import dollars, quantity
from ragc.core.progress import showing
from ragc.errors import UsageError


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument(
        "folder", metavar="FOLDER", help="the folder of documents, searched with its folders"
    )
    questions = command.add_mutually_exclusive_group()
    questions.add_argument(
        "--questions",
        metavar="FILE",
        help="questions that people asked, with or without answers and thumbs, a CSV or JSONL file",
    )
    questions.add_argument("--no-questions", action="store_true", help="write no questions")
    command.add_argument(
        "--count", type=int, default=60, metavar="N", help="questions to write, at most (default: 60)"
    )
    command.add_argument(
        "--kinds",
        default="single,unanswerable",
        metavar="KIND,...",
        help="kinds to write: single, unanswerable, two_passage, comparison (default: the first two)",
    )
    command.add_argument("--set", **commands.SETS)
    command.add_argument(
        "--dry-run", action="store_true", help="bound what the questions cost, and write nothing"
    )
    command.add_argument("--out", metavar="DIR", help="where to write (default: FOLDER-ragc)")
    command.add_argument(
        "--reader",
        metavar=".SUFFIX=MODULE:FUNCTION",
        action="append",
        default=[],
        help="read files of a suffix with a function of yours, from a path to Markdown",
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Reads the documents; returns the exit code."""
    readers: dict[str, str] = {}
    for text in args.reader:
        suffix, equals, reference = text.partition("=")
        if not equals:
            raise UsageError(f"--reader takes .SUFFIX=MODULE:FUNCTION, found {text!r}.")
        readers[suffix] = reference
    how: dict[str, Any] = {
        "questions": args.questions or not args.no_questions,
        "count": args.count,
        "kinds": tuple(filter(None, map(str.strip, args.kinds.split(",")))),
        "sets": args.sets,
        "out": args.out,
        "readers": readers,
    }
    if args.dry_run:
        planned = documents.new(args.folder, **how, dry_run=True)
        console.print_json(planned) if args.json else console.lines([_plan_line(planned)])
        return 0
    with showing(True) as progress:
        project = documents.new(args.folder, **how, progress=progress)
    for problem in project.problems:
        console.error(f"not read: {problem}.")
    for note in project.notes:
        console.error(f"{note}.")
    if args.json:
        console.print_json(project.to_json())
        return 0
    recipe = project.folder / "recipe.toml"
    read = f"{quantity(project.files, 'file')}, {project.reread} of them in this run"
    console.lines(
        [
            f"Read {read}; {quantity(project.passages, 'passage')} in {project.folder / 'corpus.jsonl'}.",
            *project.question_lines,
            f"Wrote {recipe}." if project.wrote_recipe else f"Left {recipe} as it is.",
            f"Next: ragc compile {recipe}" if project.studied else f'Next: ragc ask {recipe} "a question"',
        ]
    )
    return 0


def _plan_line(planned: Mapping[str, Any]) -> str:
    if not planned["tries"]:
        return "No questions would be written, and nothing sent."
    cost = "at a price that is not known" if planned["usd"] is None else f"at most {dollars(planned['usd'])}"
    return (
        f"{planned['model']} would try up to {quantity(planned['tries'], 'question')} in at most "
        f"{planned['calls']:,} calls, with about {planned['prompt_tokens']:,} prompt and "
        f"{planned['reply_tokens']:,} reply tokens, {cost}."
    )
