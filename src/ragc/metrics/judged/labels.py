"""Labels of people: whether an answer is right, one row of JSON a label.

    {"id": "q7", "question": "...", "prediction": "...", "label": "correct", "answer": "<digest>"}

A label holds for one question and one prediction: `answer` is their digest, so that the label of another
prediction is not taken for this one's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ragc.core.files import put_file
from ragc.core.text import json_text
from ragc.corpora.files.rows import rows
from ragc.errors import DataError, UsageError

CORRECT, WRONG = "correct", "wrong"
VERDICTS = (CORRECT, WRONG)

Decide = Callable[[Mapping[str, Any]], str | None]
"""From a row of answers to "correct", "wrong", "skip", or None to stop."""


def beside(answers: Path) -> Path:
    """Returns the file of labels beside the file of answers, `rows.labels.jsonl` for `rows.jsonl`."""
    return answers.with_name(f"{answers.name.removesuffix('.jsonl')}.labels.jsonl")


def digest(row: Mapping[str, Any]) -> str:
    """Returns the digest of a row's question and prediction, 16 hexadecimal digits."""
    content = json.dumps([row.get("question"), row.get("prediction")], ensure_ascii=False)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def label(answers: Path, decide: Decide, out: Path) -> dict[str, int]:
    """Asks `decide` about each answer without a label, and adds its verdicts to `out` one by one.

    Returns the numbers of "correct", "wrong" and "open" ones. Raises DataError for rows without a question or
    prediction, and UsageError for another verdict.
    """
    labels, problems = read(out) if out.exists() else {}, list[str]()
    pending: list[Mapping[str, Any]] = []
    for row in rows(answers):
        problems += [f"{row.location}: {problem}" for problem in row.problems]
        if not row.problems and not isinstance(row.values.get("question"), str):
            problems.append(f"{row.location}: `question` is missing; name rows of ragc eval --out")
        elif not row.problems and "prediction" not in row.values:
            problems.append(f"{row.location}: `prediction` is missing; name rows of ragc eval --out")
        elif not row.problems and row.values["prediction"] and digest(row.values) not in labels:
            pending.append(row.values)
    if problems:
        raise DataError(str(answers), problems)
    skipped = 0
    for at, values in enumerate(pending):
        verdict = decide(values)
        if verdict is None:
            skipped += len(pending) - at
            break
        if verdict == "skip":
            skipped += 1
            continue
        if verdict not in VERDICTS:
            raise UsageError(f"A verdict is correct, wrong, skip or None, found {verdict!r}.")
        key = digest(values)
        labels[key] = {
            "id": values.get("id", ""),
            "question": values["question"],
            "prediction": values["prediction"],
            "label": verdict,
            "answer": key,
        }
        put_file(out, "".join(f"{json_text(one)}\n" for one in labels.values()).encode())
    counted = [one["label"] for one in labels.values()]
    return {CORRECT: counted.count(CORRECT), WRONG: counted.count(WRONG), "open": skipped}


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Returns the labels of a file by the digest of their answers. Raises DataError for a row that is
    none.
    """
    labels, problems = dict[str, dict[str, Any]](), list[str]()
    for row in rows(path):
        problems += [f"{row.location}: {problem}" for problem in row.problems]
        if not row.problems:
            if row.values.get("label") not in VERDICTS or not isinstance(row.values.get("answer"), str):
                problems.append(
                    f"{row.location}: is no label, which has `label` (correct or wrong) and `answer`"
                )
            else:
                labels[row.values["answer"]] = row.values
    if problems:
        raise DataError(str(path), problems)
    return labels
