"""`ragc new`: make a corpus and a recipe of a folder of documents."""

from __future__ import annotations

import argparse

from ragc.api import documents
from ragc.cli import console
from ragc.core.display import quantity
from ragc.core.progress.bars import watching
from ragc.errors import UsageError


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument(
        "folder", metavar="FOLDER", help="the folder of documents, searched with its folders"
    )
    command.add_argument("--questions", metavar="FILE", help="questions with answers, a CSV or JSONL file")
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
    with watching() as progress:
        project = documents.new(
            args.folder, questions=args.questions, out=args.out, readers=readers, progress=progress
        )
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
            f"Wrote {recipe}." if project.wrote_recipe else f"Left {recipe} as it is.",
            f"Next: ragc {'compile' if project.questions else 'ask'} {recipe}"
            + ("" if project.questions else ' "a question"'),
        ]
    )
    return 0
