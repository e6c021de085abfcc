"""A person's review of a file of questions: each is kept, fixed or dropped, and written at once.

A question is shown with its passages, from `corpus.jsonl` beside the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ragc.core.files import missing_file
from ragc.corpora.files.rows import rows
from ragc.errors import UsageError
from ragc.programs.question_writer import file
from ragc.programs.question_writer.file import CORPUS, DROPPED, FIXED, KEPT, SET_ASIDE

Fix = Mapping[str, Any]
"""What a person changes in a row: `question`, a text, and `answers`, a list of texts; or one of them."""

Decide = Callable[[Mapping[str, Any]], str | Fix | None]
"""From a row, with its passages as `texts`, to "keep", "drop", "skip", a `Fix`, or None to stop."""


def review(path: Path, decide: Decide) -> dict[str, Any]:
    """Asks `decide` about each question of the file that no person has reviewed.

    A row has its passages beside it as `texts`, each with `id`, `title`, `source` and `text`. Dropped
    questions go to `set_aside.jsonl` beside the file. Returns the numbers of "kept", "fixed", "dropped" and
    "open" questions, and as "good" the share that a verdict looks at (`file.Share`). Raises UsageError where
    the file is not there and for another decision, DataError for a damaged file.
    """
    if not path.is_file():
        raise UsageError(missing_file(f"the questions {path}", str(path), Path()))
    beside = path.parent / SET_ASIDE
    items, aside = file.read(path), file.read(beside)
    # A run that was killed between its two writes had set a question aside and not yet taken it out.
    dropped = [file.unmarked(row) for row in aside if row.get("reason") == DROPPED]
    items = [row for row in items if row.get("review") or file.unmarked(_dropped(row)) not in dropped]
    open_rows = [row for row in items if not row.get("review")]
    passages = _passages(path.parent / CORPUS, file.passages_of(open_rows))
    for row in open_rows:
        named = row.get("gold_ids") or row.get("passages") or ()
        decision = decide({**row, "texts": [passages[name] for name in named if name in passages]})
        if decision is None:
            break
        if decision == "skip":
            continue
        at = next(n for n, other in enumerate(items) if other is row)
        if decision == "drop":
            del items[at]
            aside.append(_dropped(row))
            file.write(beside, aside)
        else:
            items[at] = {**row, "review": KEPT} if decision == "keep" else _fixed(row, decision)
        file.write(path, file.marked(items, aside))
    share = file.share_of(items, aside)
    items = file.marked(items, aside)
    file.write(path, items)
    return {
        "kept": sum(row.get("review") == KEPT for row in items),
        "fixed": sum(row.get("review") == FIXED for row in items),
        "dropped": sum(row.get("reason") == DROPPED for row in aside),
        "open": sum(not row.get("review") for row in items),
        "good": share.share,
        "for_trying": share.for_trying,
    }


def _passages(corpus: Path, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Returns the passages of `corpus` with these ids; none where there is no corpus that can be read."""
    ids = set(names)
    if not ids or not corpus.is_file():
        return {}
    return {
        str(row.values["id"]): {
            name: str(row.values.get(name) or "") for name in ("id", "title", "source", "text")
        }
        for row in rows(corpus)
        if not row.problems and row.values.get("id") in ids
    }


def _dropped(row: file.Row) -> file.Row:
    """Returns `row` as it is set aside."""
    return {**row, "review": DROPPED, "reason": DROPPED}


def _fixed(row: file.Row, fix: object) -> file.Row:
    """Returns `row` as a person changed it. Raises UsageError for what is no change."""
    if not isinstance(fix, Mapping) or not fix or fix.keys() - {"question", "answers"}:
        raise UsageError(
            f"A decision is keep, drop, skip, None, or a mapping with question or answers, found {fix!r:.80}."
        )
    question, answers = fix.get("question", row["question"]), fix.get("answers", row.get("answers"))
    texts = isinstance(answers, list) and answers and all(isinstance(a, str) and a.strip() for a in answers)
    if not isinstance(question, str) or not question.strip() or not texts:
        raise UsageError("A fixed question is a text, and its answers a list of texts; neither is blank.")
    return {**row, "question": question.strip(), "answers": answers, "review": FIXED}
