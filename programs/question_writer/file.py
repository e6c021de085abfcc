"""The files of a set of questions: `questions.jsonl`, and `set_aside.jsonl` beside it.

A row has what a question has (`id`, `question`, `answers`, `gold_ids`), and for a written one also `kind`,
`document` (its group), `checks` (those that it passed), `overlap`, `passages` (a digest of each gold passage)
and `written` (a digest of the row as it was written, so that edits show). `review` is "kept" or "fixed" after
a person looked at it. `for_trying` marks the questions of a set of which too few are good.

`set_aside.jsonl` has rows that are not asked, each with its `reason`: the check that it failed, "dropped" by
a person, or what became of its passages. Nothing is deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragc.core.files import put_file
from ragc.core.text import json_text
from ragc.corpora.files.rows import rows
from ragc.errors import DataError
from ragc.programs.question_writer.base import MIN_GOOD, MIN_PASSED, MIN_REVIEWED, CheckedQuestion

QUESTIONS, SET_ASIDE, CORPUS = "questions.jsonl", "set_aside.jsonl", "corpus.jsonl"
FOR_TRYING = "for_trying"
"""The field of a row whose set is good enough for trying a study only."""

KEPT, FIXED, DROPPED = "kept", "fixed", "dropped"
FAILED = "failed "
"""What the reason of a question begins with that failed a check."""

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """Returns the rows of a file of questions; none if there is no file. Raises DataError for a damaged
    one.
    """
    if not path.exists():
        return []
    read_rows, problems = list[Row](), list[str]()
    for row in rows(path):
        problems += [f"{row.location}: {problem}" for problem in row.problems]
        if not row.problems:
            wrong = _problem(row.values)
            problems += [f"{row.location}: {wrong}"] if wrong else []
            read_rows.append(dict(row.values))
    if problems:
        raise DataError(str(path), problems)
    return read_rows


def _problem(values: Mapping[str, Any]) -> str:
    question = values.get("question")
    if not isinstance(question, str) or not (question.strip() or _failed(values)):  # some were never written
        return "`question` is missing or no text"
    for name in ("answers", "gold_ids", "checks"):
        items = values.get(name, [])
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            return f"`{name}` is no list of texts"
    return "" if isinstance(values.get("passages", {}), dict) else "`passages` is no object"


def write(path: Path, items: Iterable[Mapping[str, Any]]) -> None:
    """Replaces the file `path` by one with these rows, as a whole."""
    put_file(path, "".join(f"{json_text(item)}\n" for item in items).encode())


def row_of(checked: CheckedQuestion, teacher: str) -> Row:
    """Returns the row of a question that `teacher` wrote; with its reason if it failed a check."""
    draft = checked.draft
    excerpts = draft.candidate.excerpts
    row: Row = {
        "id": draft.candidate.id,
        "question": draft.question,
        "answers": list(checked.answers),
        "gold_ids": [] if draft.candidate.kind == "unanswerable" else [one.passage for one in excerpts],
        "kind": draft.candidate.kind,
        "document": excerpts[0].document,
        "checks": list(checked.passed),
        "overlap": round(checked.overlap, 3),
        "passages": {one.passage: one.digest for one in excerpts},
        "teacher": teacher,
    }
    row["written"] = digest(row)
    return {**row, "reason": f"{FAILED}{checked.failed}"} if checked.failed else row


def digest(row: Mapping[str, Any]) -> str:
    """Returns the digest of what a person may edit in a row, 16 hexadecimal digits."""
    content = [row.get(name) for name in ("question", "answers", "gold_ids")]
    text = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def is_own(row: Mapping[str, Any]) -> bool:
    """Returns whether a person wrote, edited or reviewed the row."""
    return bool(row.get("review")) or row.get("written") != digest(row)


def passages_of(items: Iterable[Mapping[str, Any]]) -> set[str]:
    """Returns the ids of the passages that the rows rest on."""
    return {name for row in items for name in (*row.get("gold_ids", ()), *row.get("passages", {}))}


def split_by_passages(items: Sequence[Row], present: Mapping[str, str]) -> tuple[list[Row], list[Row]]:
    """Returns the rows whose passages are as they were, and those set aside because a passage changed or
    went.

    `present` has the digests of the passages that the corpus holds, by id.
    """
    staying, going = list[Row](), list[Row]()
    for row in items:
        known = row.get("passages", {})
        gone = [name for name in passages_of([row]) if name not in present]
        changed = [name for name, before in known.items() if present.get(name, before) != before]
        if gone or changed:
            what = f"{min(gone)!r} is no longer there" if gone else f"{min(changed)!r} has changed"
            going.append({**row, "reason": f"its passage {what}"})
        else:
            staying.append(row)
    return staying, going


class Share(NamedTuple):
    """The `share` of a set's questions, 0 to 1, that a person kept as they were (`by_review`), or that passed
    all checks, before enough reviews.
    """

    share: float
    by_review: bool

    @property
    def least(self) -> float:
        """The least share in a set that a verdict may rest on."""
        return MIN_GOOD if self.by_review else MIN_PASSED

    @property
    def for_trying(self) -> bool:
        """Whether the set is good enough for trying only."""
        return self.share < self.least


def share_of(questions: Iterable[Mapping[str, Any]], aside: Iterable[Mapping[str, Any]]) -> Share:
    """Returns the share of the questions that says how good they are; 1 where nothing was written."""
    questions, aside = list(questions), list(aside)
    good = sum(row.get("review") == KEPT for row in questions)
    reviewed = sum(row.get("review") in (KEPT, FIXED) for row in questions)
    reviewed += sum(row.get("reason") == DROPPED for row in aside)
    if reviewed >= MIN_REVIEWED:
        return Share(good / reviewed, by_review=True)
    passed = sum("written" in row for row in questions)
    passed += sum("written" in row and not _failed(row) for row in aside)
    failed = sum(map(_failed, aside))
    return Share(passed / (passed + failed) if passed + failed else 1.0, by_review=False)


def _failed(row: Mapping[str, Any]) -> bool:
    return str(row.get("reason", "")).startswith(FAILED)


def marked(questions: Sequence[Row], aside: Sequence[Row]) -> list[Row]:
    """Returns the rows with `for_trying` where it holds: those that no person has looked at, in too poor a
    set.
    """
    plain = [unmarked(row) for row in questions]
    if not share_of(questions, aside).for_trying:
        return plain
    return [row if is_own(row) else {**row, FOR_TRYING: True} for row in plain]


def unmarked(row: Row) -> Row:
    """Returns `row` without `for_trying`."""
    return {name: value for name, value in row.items() if name != FOR_TRYING}


def overlap_line(questions: Sequence[Mapping[str, Any]]) -> str:
    """Returns a sentence on the share of content words that stand in the passages; "" where none is
    recorded.
    """
    shares = [row["overlap"] for row in questions if isinstance(row.get("overlap"), int | float)]
    if not shares:
        return ""
    return (
        f"On average {sum(shares) / len(shares):.0%} of a question's content words stand in its passage, at "
        f"most {max(shares):.0%}; of people's questions about 61% (HotpotQA, Natural Questions). Many shared "
        "words favour BM25."
    )
