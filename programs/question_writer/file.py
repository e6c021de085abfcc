"""The files of a set of questions, `questions.jsonl` and `set_aside.jsonl`, their review, and logs.

A row has what a question has (`id`, `question`, `answers`, `gold_ids`), and for a written one also `kind`,
`document` (its group), `checks` (those that it passed), `overlap`, `passages` (a digest of each gold passage)
and `written` (a digest of the row as it was written, so that edits show). `review` is "kept" or "fixed" after
a person looked at it. `for_trying` marks the questions of a set of which too few are good.

`set_aside.jsonl` has rows that are not asked, each with its `reason`: the check that it failed, "dropped" by
a person, or what became of its passages. Nothing is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragc.core.digest import digest
from ragc.core.files import missing_file, put_file
from ragc.core.text import json_text
from ragc.corpora.files.records import Questions
from ragc.corpora.files.rows import rows
from ragc.corpora.files.splits import normalise
from ragc.errors import DataError, UsageError
from ragc.programs.question_writer.checks import WrittenQuestion

QUESTIONS, SET_ASIDE, CORPUS = "questions.jsonl", "set_aside.jsonl", "corpus.jsonl"
# The field of a row whose set is good enough for trying a study only.
FOR_TRYING = "for_trying"

KEPT, FIXED, DROPPED = "kept", "fixed", "dropped"
# What the reason of a question begins with that failed a check.
FAILED = "failed "

# The least share of good questions in a set that a verdict may rest on; before so many are reviewed, the
# least share that passes the checks. Of what a 1.5B model wrote about HotpotQA's articles .31 passed those of
# then, and readers who did not know them called .89 [.82, .94] of these good (experiments/LOG.md).
MIN_GOOD, MIN_PASSED, MIN_REVIEWED = 0.65, 0.25, 20

Row = dict[str, Any]

# From a row, with its passages as `texts`, to "keep", "drop", "skip", a mapping with what a person changes,
# `question`, a text, and `answers`, a list of texts, or None to stop.
Decide = Callable[[Mapping[str, Any]], str | Mapping[str, Any] | None]


def read(path: Path) -> list[Row]:
    """Returns the rows of a file of questions; none if there is no file. Raises DataError for a damaged
    one.
    """
    found = list(rows(path)) if path.exists() else []
    problems = [f"{row.location}: {text}" for row in found for text in row.problems or _problems(row.values)]
    if problems:
        raise DataError(str(path), problems)
    return [dict(row.values) for row in found]


def _problems(values: Mapping[str, Any]) -> Iterator[str]:
    question = values.get("question")
    if not isinstance(question, str) or not (question.strip() or _failed(values)):  # some were never written
        yield "`question` is missing or no text"
    lists = ("answers", "gold_ids", "checks")
    yield from (f"`{name}` is no list of texts" for name in lists if not _are_texts(values.get(name, [])))


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def write(path: Path, items: Iterable[Mapping[str, Any]]) -> None:
    """Replaces the file `path` by one with these rows, as a whole."""
    put_file(path, "".join(f"{json_text(item)}\n" for item in items).encode())


def row_of(written: WrittenQuestion, teacher: str) -> Row:
    """Returns the row of a question that `teacher` wrote; with its reason if it failed a check."""
    passages = [excerpt.passage for excerpt in written.sources]
    row: Row = {
        "id": written.id,
        "question": written.question,
        "answers": list(written.answers),
        "gold_ids": [] if written.kind == "unanswerable" else [passage.id for passage in passages],
        "kind": written.kind,
        "document": written.excerpts[0].document,
        "checks": list(written.passed),
        "overlap": round(written.overlap, 3),
        "passages": {passage.id: digest_of(passage.title, passage.text) for passage in passages},
        "teacher": teacher,
    }
    row["written"] = own_digest(row)
    return {**row, "reason": f"{FAILED}{written.failed}"} if written.failed else row


def digest_of(title: str, text: str) -> str:
    """Returns the digest of a passage, 16 hexadecimal digits."""
    return digest([title, text])[:16]


def own_digest(row: Mapping[str, Any]) -> str:
    """Returns the digest of what a person may edit in a row, 16 hexadecimal digits."""
    return digest([row.get(name) for name in ("question", "answers", "gold_ids")])[:16]


def is_own(row: Mapping[str, Any]) -> bool:
    """Returns whether a person wrote, edited or reviewed the row."""
    return bool(row.get("review")) or row.get("written") != own_digest(row)


def passages_of(items: Iterable[Mapping[str, Any]]) -> set[str]:
    """Returns the ids of the passages that the rows rest on."""
    return {name for row in items for name in (*row.get("gold_ids", ()), *row.get("passages", ()))}


def gone(row: Mapping[str, Any], present: Mapping[str, str]) -> str:
    """Returns what became of the row's passages, of which `present` has the digests; "" if they are as they
    were.
    """
    lost = [f"{name!r} is no longer there" for name in passages_of([row]) if name not in present]
    before = row.get("passages", {}).items()
    changed = [f"{name!r} has changed" for name, was in before if present.get(name, was) != was]
    return f"its passage {min(lost or changed)}" if lost or changed else ""


class Share(NamedTuple):
    """The `share` of a set's questions, 0 to 1, that a person kept as they were, or that passed all checks
    before enough reviews, and the `least` that a verdict may rest on.
    """

    share: float
    least: float

    @property
    def for_trying(self) -> bool:
        """Whether the set is good enough for trying only."""
        return self.share < self.least


def share_of(questions: Iterable[Mapping[str, Any]], aside: Iterable[Mapping[str, Any]]) -> Share:
    """Returns the share of the questions that says how good they are; 1 where nothing was written."""
    items = [*questions, *aside]
    reviews = [row["review"] for row in items if row.get("review") in (KEPT, FIXED, DROPPED)]
    if len(reviews) >= MIN_REVIEWED:
        return Share(reviews.count(KEPT) / len(reviews), MIN_GOOD)
    passed = [not _failed(row) for row in items if "written" in row]
    return Share(sum(passed) / len(passed) if passed else 1.0, MIN_PASSED)


def _failed(row: Mapping[str, Any]) -> bool:
    return str(row.get("reason", "")).startswith(FAILED)


def marked(questions: Sequence[Row], aside: Sequence[Row]) -> list[Row]:
    """Returns the rows with `for_trying` where it holds: those that no person has looked at, in too poor a
    set.
    """
    poor = share_of(questions, aside).for_trying
    plain = ({name: value for name, value in row.items() if name != FOR_TRYING} for row in questions)
    return [{**row, FOR_TRYING: True} if poor and not is_own(row) else row for row in plain]


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


def review(path: Path, decide: Decide) -> dict[str, Any]:
    """Asks `decide` about each question of the file that no person has reviewed, and writes what it decides.

    A row has its passages as `texts`, each with `id`, `title`, `source` and `text`, from `corpus.jsonl` in
    the same folder. Dropped questions go to `set_aside.jsonl` there. Returns the numbers of "kept", "fixed",
    "dropped" and "open" questions, and as "good" the share that a verdict looks at (`Share`). Raises
    UsageError where the file is not there and for another decision, DataError for a damaged file.
    """
    if not path.is_file():
        raise UsageError(missing_file(f"the questions {path}", str(path), Path()))
    aside_path = path.parent / SET_ASIDE
    aside = read(aside_path)
    # A run that was killed between its two writes had set a question aside and not yet taken it out.
    dropped = {(row.get("id"), row["question"]) for row in aside if row.get("reason") == DROPPED}
    items = [
        row for row in read(path) if row.get("review") or (row.get("id"), row["question"]) not in dropped
    ]
    open_rows = [row for row in items if not row.get("review")]
    passages = _passages(path.parent / CORPUS, passages_of(open_rows))
    for row in open_rows:
        named = row.get("gold_ids") or row.get("passages") or ()
        decision = decide({**row, "texts": [passages[name] for name in named if name in passages]})
        if decision is None:
            break
        if decision == "drop":
            items.remove(row)
            aside.append({**row, "review": DROPPED, "reason": DROPPED})
            write(aside_path, aside)
        elif decision != "skip":
            items[items.index(row)] = {**row, "review": KEPT} if decision == "keep" else _fixed(row, decision)
        write(path, marked(items, aside))
    reviews = [row.get("review", "open") for row in items] + [row.get("review") for row in aside]
    counts = {name: reviews.count(name) for name in (KEPT, FIXED, DROPPED, "open")}
    share = share_of(items, aside)
    return {**counts, "good": share.share, "for_trying": share.for_trying}


def _passages(corpus: Path, names: set[str]) -> dict[str, dict[str, str]]:
    """Returns the passages of `corpus` with these ids; none where there is no corpus that can be read."""
    found = rows(corpus) if names and corpus.is_file() else ()
    values = [row.values for row in found if not row.problems and row.values.get("id") in names]
    return {
        str(row["id"]): {name: str(row.get(name) or "") for name in ("id", "title", "source", "text")}
        for row in values
    }


def _fixed(row: Row, decision: object) -> Row:
    """Returns `row` as a person changed it. Raises UsageError for what is no decision."""
    if not isinstance(decision, Mapping) or not decision or decision.keys() - {"question", "answers"}:
        raise UsageError(
            "A decision is keep, drop, skip, None, or a mapping with question or answers, found "
            f"{decision!r:.80}."
        )
    fixed = {"question": row["question"], "answers": row.get("answers"), **decision}
    are_texts = _are_texts(fixed["answers"]) and _are_texts([fixed["question"]])
    if (
        not are_texts
        or not fixed["answers"]
        or not all(map(str.strip, [fixed["question"], *fixed["answers"]]))
    ):
        raise UsageError("A fixed question is a text, and its answers a list of texts; neither is blank.")
    return {**row, **fixed, "question": fixed["question"].strip(), "review": FIXED}


def read_log(read: Questions) -> list[Row]:
    """Returns one row a question of a log: `id`, `question`, `answers` (perhaps none), `asked` (how often),
    perhaps `reply`, an answer that nobody has vouched for, with its `thumb`.

    Questions that differ in case and punctuation only are one.
    """
    questions: dict[str, Row] = {}
    for question in read.questions:
        key = normalise(question.question)
        name = question.id if "id" in read.places else f"a-{digest(key)[:12]}"
        new = {"id": name, "question": question.question.strip(), "answers": [], "gold_ids": []}
        row = questions.setdefault(key, {**new, "kind": "asked", "asked": 0})
        row["asked"] += 1
        row["answers"] = list(dict.fromkeys([*row["answers"], *question.answers]))
        if not question.answers:
            row |= {name: question.extra[name] for name in ("reply", "thumb") if name in question.extra}
    return list(questions.values())
