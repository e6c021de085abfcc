"""`ragc questions`: review questions that were written, or label answers, in a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragc.api import documents
from ragc.cli import console
from ragc.core.display import quantity
from ragc.errors import UsageError
from ragc.metrics.judged.labels import beside

_REVIEW = {"k": "keep", "d": "drop", "s": "skip"}
_LABEL = {"c": "correct", "w": "wrong", "s": "skip"}


def register(command: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    command.add_argument(
        "action", choices=("review", "label"), help="keep, fix or drop questions, or judge answers"
    )
    command.add_argument(
        "file", metavar="FILE", help="questions.jsonl of ragc new, or for label the rows of ragc eval --out"
    )
    command.add_argument(
        "--out", metavar="LABELS.jsonl", help="with label: where verdicts go (default: beside the rows)"
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Asks about each row that is open; returns the exit code."""
    if args.action == "review":
        if args.out is not None:
            raise UsageError("--out is for label; a review changes FILE itself.")
        _check_terminal(args)
        counts = documents.review_questions(args.file, _review)
        line = ", ".join(f"{counts[name]} {name}" for name in ("kept", "fixed", "dropped", "open")) + "."
        note = "For trying only: too few are good for a verdict." if counts["for_trying"] else ""
    else:
        _check_terminal(args)
        out = Path(args.out) if args.out is not None else beside(Path(args.file))
        counts = documents.label_answers(args.file, _label, out=out)
        line = (
            f"{counts['correct']} correct, {counts['wrong']} wrong, {counts['open']} open; labels in {out}."
        )
        note = ""
    console.print_json(counts) if args.json else console.lines([line, *filter(None, [note])])
    return 0


def _check_terminal(args: argparse.Namespace) -> None:
    """Raises UsageError where nobody can answer."""
    if not Path(args.file).is_file() or (sys.stdin is not None and sys.stdin.isatty()):
        return
    verdicts = "its field `review` by hand" if args.action == "review" else "a file of labels by hand"
    raise UsageError(
        f"ragc questions {args.action} asks in a terminal, and stdin is none; run it in one, or write "
        f"{verdicts}."
    )


def _review(row: Mapping[str, Any]) -> str | Mapping[str, Any] | None:
    _show(row)
    reply = _choice("[k]eep, [f]ix, [d]rop, [s]kip, [q]uit? ", {**_REVIEW, "f": "fix", "q": ""})
    if reply != "fix":
        return reply or None
    answers = row.get("answers") or []
    question = _line(f"question [{row['question']}]: ") or row["question"]
    answer = _line(f"answer [{' | '.join(answers)}], several with | between: ")
    fixed = [text.strip() for text in answer.split("|") if text.strip()] or answers
    return {"question": question, "answers": fixed} if fixed else "skip"


def _label(row: Mapping[str, Any]) -> str | None:
    console.lines(["", f"Q: {_flat(row['question'])}", f"A: {_flat(row['prediction'])}"])
    if row.get("answers"):
        console.lines([f"   gold: {' | '.join(map(_flat, row['answers']))}"])
    return _choice("[c]orrect, [w]rong, [s]kip, [q]uit? ", {**_LABEL, "q": ""}) or None


def _show(row: Mapping[str, Any]) -> None:
    passages = ", ".join(row.get("gold_ids") or row.get("passages") or ())
    console.lines(
        [
            "",
            f"Q: {_flat(row['question'])}",
            f"A: {' | '.join(map(_flat, row.get('answers') or ['none']))}",
            f"   {row.get('kind', 'own')}" + (f", from {passages}" if passages else ""),
        ]
    )


def _flat(text: object) -> str:
    return " ".join(str(text).split())


def _choice(prompt: str, options: Mapping[str, str]) -> str:
    """What the letter that a person types means; asked for again until it is one. At the end of input ""."""
    while True:
        typed = _line(prompt, end="q").casefold()[:1]
        if typed in options:
            return options[typed]
        console.lines([f"Type one of {quantity(len(options), 'letter')}: {', '.join(options)}."])


def _line(prompt: str, end: str = "") -> str:
    try:
        return input(prompt).strip()
    except EOFError:
        return end
