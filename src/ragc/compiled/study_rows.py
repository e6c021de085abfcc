"""The questions, answers and verdict in a study's directory, for reports.

    STUDY/dev.jsonl             the dev questions, in the order in which trials answer them
    STUDY/seen.json             the test questions that were used before, when the study began
    STUDY/test-baseline.jsonl   the baseline on test, a row a question, with prompts and replies
    STUDY/test-winner.jsonl     the compiled program on test
    STUDY/provenance.json       that of the compiled program, with the verdict
    STUDY/trials.json           all trials, once the study has ended

The rows are those of `ragc eval --out`. A resumed study does not use them; it answers again by replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragc.core.digest import pretty
from ragc.core.files import put_file
from ragc.core.text import json_text
from ragc.records import Question
from ragc.task.answering import Row

DEV = "dev.jsonl"
"""The name of the file of dev questions in the study's directory."""

PROVENANCE = "provenance.json"
"""The name of the copy of the compiled program's provenance in the study's directory."""

SEEN_FILE = "seen.json"
"""The name of the record of which test questions were used before, when the study began."""

TRIALS = "trials.json"
"""The name of the file of all trials in the directory of a study that has ended."""


def answers_file(program: str) -> str:
    """Returns the name of the file of the test rows of `program`, "baseline" or "winner"."""
    return f"test-{program}.jsonl"


def write_questions(directory: Path, questions: Sequence[Question]) -> None:
    """Writes the dev `questions`, in the order in which trials answer them. Raises OSError."""
    _write(
        directory / DEV,
        (
            {
                "id": q.id,
                "question": q.question,
                "answers": list(q.answers),
                "gold_ids": list(q.gold_ids),
                **({"group": q.group} if q.group else {}),
            }
            for q in questions
        ),
    )


def write_results(directory: Path, provenance: Mapping[str, Any], rows: Mapping[str, Sequence[Row]]) -> None:
    """Writes the `provenance` of the compiled program, and the test `rows` by program.

    Without rows of a program, those of an earlier run are removed. Raises OSError.
    """
    put_file(directory / PROVENANCE, pretty(provenance).encode("utf-8", "surrogatepass"))
    for program, answered in rows.items():
        path = directory / answers_file(program)
        if answered:
            _write(path, (row.to_json(prompts=True) for row in answered))
        else:
            path.unlink(missing_ok=True)


def write_trials(directory: Path, trials: Sequence[Mapping[str, Any]]) -> None:
    """Writes all `trials` of a study that has ended, which marks it as finished. Raises OSError."""
    put_file(directory / TRIALS, pretty(list(trials)).encode("utf-8", "surrogatepass"))


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    text = "".join(f"{json_text(row)}\n" for row in rows)
    put_file(path, text.encode("utf-8", "backslashreplace"))
