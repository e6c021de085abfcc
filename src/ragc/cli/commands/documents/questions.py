"""`ragc questions`: review questions that were written, or label answers, in a terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragc.api import documents
from ragc.cli import console, screen
from ragc.core.display import quantity
from ragc.errors import UsageError
from ragc.metrics.labels import beside

_REVIEW = {"k": "keep", "d": "drop", "s": "skip"}
SHOWN = 1200
"""The most characters of a passage that are shown whole; of a longer one so many around its answer."""

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
    if args.action == "review" and args.out is not None:
        raise UsageError("--out is for label; a review changes FILE itself.")
    _check_terminal(args)
    labels = Path(args.out) if args.out is not None else beside(Path(args.file))
    try:
        counts, lines = _run_review(args.file) if args.action == "review" else _run_label(args.file, labels)
    except KeyboardInterrupt:
        what, where = ("decision", args.file) if args.action == "review" else ("label", labels)
        raise KeyboardInterrupt(
            f"Interrupted; every {what} before this one is in {where}. The same command goes on; what was "
            "skipped is shown again."
        ) from None
    console.print_json(counts) if args.json else console.lines(lines)
    return 0


def _run_review(file: str) -> tuple[Mapping[str, Any], list[str]]:
    counts = documents.review_questions(file, _review)
    line = ", ".join(f"{counts[name]} {name}" for name in ("kept", "fixed", "dropped", "open")) + "."
    note = "For trying only: too few are good for a verdict." if counts["for_trying"] else ""
    return counts, [line, *filter(None, [note])]


def _run_label(file: str, labels: Path) -> tuple[Mapping[str, Any], list[str]]:
    counts = documents.label_answers(file, _label, out=labels)
    tally = f"{counts['correct']} correct, {counts['wrong']} wrong, {counts['open']} open"
    return counts, [f"{tally}; labels in {labels}."]


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
    answers = row.get("answers") or ()
    console.lines(
        [
            "",
            f"Q: {_flat(row['question'])}",
            f"A: {' | '.join(map(_flat, answers or ['none']))}",
            f"   {row.get('kind', 'own')}" + (f", from {passages}" if passages else ""),
        ]
    )
    for number, passage in enumerate(row["texts"], 1):
        source = passage["source"] or passage["id"]
        console.lines([f"[{number}] {_flat(passage['title'])} ({source})"])
        screen.show([f"    {line}" for line in _part(passage["text"], answers)], hang=0)


def _part(text: str, answers: Sequence[str]) -> list[str]:
    """Returns the lines of a passage, of a long one those around the first of `answers` that stands in it."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if sum(map(len, lines)) <= SHOWN:
        return lines
    words = text.split()
    plain = [word.casefold() for word in words]
    starts = (_start(plain, answer.casefold().split()) for answer in answers)
    middle = next((start for start in starts if start is not None), 0)
    first = last = middle
    size = 0
    while size < SHOWN and (first > 0 or last < len(words)):
        first, last = max(0, first - 1), min(len(words), last + 1)
        size = len(" ".join(words[first:last]))
    cut = " ".join(words[first:last])
    return [f"{'… ' if first else ''}{cut}{' …' if last < len(words) else ''}"]


def _start(words: Sequence[str], answer: Sequence[str]) -> int | None:
    """Returns where the words of an answer stand in `words`, signs at their ends aside; None if nowhere."""
    bare = [word.strip(".,;:!?()\"'") for word in words]
    wanted = [word.strip(".,;:!?()\"'") for word in answer]
    starts = range(len(bare) - len(wanted) + 1) if wanted else ()
    return next((at for at in starts if bare[at : at + len(wanted)] == wanted), None)


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
    except KeyboardInterrupt:
        console.lines([""])
        raise
