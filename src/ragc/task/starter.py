"""`ragc new`: a folder of documents becomes a corpus and a recipe that runs.

    <out>/corpus.jsonl     a passage a page, slide, sheet, or file
    <out>/recipe.toml      one that a person wrote or changed stays as it is
    <out>/.ragc/           what was read of each file, so that the next run reads what changed

The corpus is replaced as a whole, once everything is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ragc.core import outputs
from ragc.core.display import quantity
from ragc.core.paths import missing_file
from ragc.core.progress import Progress, Silent
from ragc.corpora.documents.folder import DocumentFile, Part, files_in, forget_others, read_files
from ragc.corpora.documents.library_documents import parts_of
from ragc.corpora.files.rows import rows
from ragc.errors import UsageError
from ragc.recipe import write

CORPUS, RECIPE, WORK = "corpus.jsonl", "recipe.toml", ".ragc"

MIN_QUESTIONS = 20
"""The fewest questions that are divided into train, dev and test."""

_QUESTION_COLUMNS = ("question", "query", "input", "prompt", "frage")
_ANSWER_COLUMNS = ("answers", "answer", "gold", "expected", "output", "reference", "response", "antwort")


@dataclass(frozen=True, slots=True)
class NewProject:
    """What `ragc new` wrote. `files` were read, `reread` of them in this run; `passages` were written.

    `problems` are a sentence each on files that were not read, `notes` on what was left out of others.
    `wrote_recipe` is False where a recipe was there. `questions` is their number, 0 without a file of them.
    """

    folder: Path
    files: int
    reread: int
    passages: int
    questions: int
    wrote_recipe: bool
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "folder": str(self.folder),
            **{
                name: getattr(self, name)
                for name in ("files", "reread", "passages", "questions", "wrote_recipe")
            },
            "problems": list(self.problems),
            "notes": list(self.notes),
        }


def new(
    path: str | Path | None = None,
    *,
    documents: Iterable[Any] | None = None,
    questions: str | Path | None = None,
    out: str | Path | None = None,
    readers: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> NewProject:
    """Writes a corpus of the files below `path`, or of `documents`, and a recipe; see `ragc.new`."""
    if (path is None) == (documents is None):
        raise UsageError("Name a folder of documents, or pass `documents`, not both.")
    questions_file = Path(questions) if questions is not None else None
    columns, count = _question_columns(questions_file) if questions_file is not None else ({}, 0)
    progress, problems, files = progress or Silent(), list[str](), list[DocumentFile]()
    if path is None:
        target, what = Path(out or "documents-ragc"), "the documents"
        parts: Iterable[Part] = parts_of(documents or ())
    else:
        folder, what = Path(path), repr(str(path))
        target = Path(out) if out is not None else Path(f"{folder.resolve().name or 'documents'}-ragc")
        skip = [target] if questions_file is None else [target, questions_file]
        files, problems = files_in(folder, _readers(readers or {}), skip)
        if not files:
            raise UsageError(f"The folder {what} holds no files; put documents there, or name another.")
        parts = read_files(files, target / WORK, progress)
    target.mkdir(parents=True, exist_ok=True)
    read = _write_corpus(parts, target, what)
    if path is not None:
        forget_others(files, target / WORK)
    wrote = _put_recipe(target, _recipe_text(questions_file, columns, count))
    return NewProject(
        target,
        read.files,
        read.fresh,
        read.passages,
        count,
        wrote,
        (*problems, *read.problems),
        tuple(read.notes),
    )


def _put_recipe(target: Path, text: str) -> bool:
    """Writes the recipe unless a person wrote or changed the one that is there; returns whether it did."""
    recipe, record = target / RECIPE, target / WORK / "recipe.digest"
    content = text.encode()
    if recipe.exists():
        known = record.read_text("utf-8").strip() if record.is_file() else ""
        if outputs.sha256(recipe.read_bytes()) != known:
            return False
    outputs.put_file(recipe, content)
    outputs.put_file(record, outputs.sha256(content).encode())
    return True


@dataclass(slots=True)
class _Tally:
    files: int = 0
    fresh: int = 0
    passages: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _write_corpus(parts: Iterable[Part], target: Path, what: str) -> _Tally:
    """Writes `corpus.jsonl` of all `parts`; it is replaced as a whole, once all are read.

    Raises UsageError, with an earlier corpus unchanged, where `what` holds nothing that can be read.
    """
    tally = _Tally()
    with outputs.replacing_file(target / CORPUS) as corpus:
        for part in parts:
            if part.reason:
                tally.problems.append(f"{part.name} {part.reason}")
                continue
            tally.files += 1
            tally.fresh += part.fresh
            tally.notes += [f"{part.name}: {note}" for note in part.notes]
            for row in part.rows():
                corpus.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
                tally.passages += 1
        if not tally.passages:
            reasons = "; ".join(tally.problems[:3]) or "they hold no text"
            more = " ..." if len(tally.problems) > 3 else ""
            raise UsageError(f"Nothing in {what} could be read: {reasons}{more}.")
    return tally


def _readers(readers: Mapping[str, str]) -> dict[str, str]:
    for suffix, reference in readers.items():
        module, colon, name = reference.partition(":")
        if not (suffix.startswith(".") and colon and module and name.isidentifier()):
            raise UsageError(
                "A reader is .SUFFIX=MODULE:FUNCTION, such as .xyz=my_readers:read; found "
                f"{suffix}={reference}."
            )
    return {suffix.lower(): reference for suffix, reference in readers.items()}


def _question_columns(path: Path) -> tuple[dict[str, str], int]:
    """Returns the columns of the questions in `path` that need a map, and the number of rows.

    Raises UsageError where the file, its questions or its answers are not there.
    """
    if not path.is_file():
        raise UsageError(f"{missing_file(f'--questions {path}', str(path), Path())}.")
    first = next(islice(rows(path), 1), None)
    if first is None or first.problems:
        reason = first.problems[0] if first is not None and first.problems else "it holds no row"
        raise UsageError(f"The questions in {path} cannot be read: {reason}.")
    names = {str(name).strip().casefold(): str(name) for name in first.values}
    columns_of = {
        "question": next((names[name] for name in _QUESTION_COLUMNS if name in names), ""),
        "answers": next((names[name] for name in _ANSWER_COLUMNS if name in names), ""),
    }
    for what, column in columns_of.items():
        if not column:
            raise UsageError(
                f"The questions in {path} have no column {what!r}, only {', '.join(map(str, first.values))}. "
                "Rename the column, or write the recipe's table [data.fields] by hand."
            )
    columns = {what: column for what, column in columns_of.items() if column != what}
    if "id" not in names:
        columns = {"id": "#", **columns}
    return columns, sum(1 for row in rows(path) if not row.problems)


def _recipe_text(questions: Path | None, columns: Mapping[str, str], count: int) -> str:
    """Returns the text of a recipe over the corpus, with the questions where there are any."""
    lines = [
        "# Written by `ragc new`. Once you change it, another `ragc new` leaves it as it is.",
        '#   ragc ask recipe.toml "a question"     asks it as it stands',
        "#   ragc compile recipe.toml              searches for better settings; it needs questions",
        'program = "vanilla"',
        "",
        "[sources.local]",
        'kind = "bm25"',
        f'corpus = "{CORPUS}"',
        'options.chunk_by = "sections"    # chunks end at headings, and their titles name the section',
        "",
        "[targets.main]",
        'kind = "embedded"                # a small model in this process; others: vllm, hosted',
        "",
        "[knobs]",
        'wording = "brief"                # for models under 1B; "full" for larger ones',
    ]
    if questions is None:
        lines += [
            'answer_format = "cited"          # answers name the passages they rest on as [1], [2]',
            "",
            "# A study needs questions with answers, a CSV with the columns question and answer:",
            "#   ragc new FOLDER --questions FILE",
            "",
        ]
        return "\n".join(lines)
    named = write.value(str(questions.resolve()))
    lines += ["", "[data]", f"questions = {named}"]
    lines += [f"{split} = {size}" for split, size in _sizes(count).items()]
    if columns:
        lines += [
            "",
            "[data.fields]",
            *(f"{write.key(key)} = {write.value(path)}" for key, path in columns.items()),
        ]
    lines += [
        "",
        "[search]",
        'knobs = ["top_k", "chunk_size", "answer_format"]',
        "ranges.top_k = [1, 5]",
        "ranges.chunk_size = [100, 300]",
        'ranges.answer_format = ["short", "cited"]    # ["cited"] alone keeps the marks [1]',
        'objectives = ["f1"]',
        "demos = 4",
        "trials = 12",
        "",
        "[metrics]",
        'report = ["f1", "em"]',
        "",
    ]
    return "\n".join(lines)


def _sizes(count: int) -> dict[str, int]:
    """Returns how many questions train, dev and test get. Raises UsageError for too few."""
    if count < MIN_QUESTIONS:
        raise UsageError(
            f"--questions holds {quantity(count, 'question')}, and train, dev and test need {MIN_QUESTIONS} "
            "together; add some, or leave --questions out."
        )
    train, dev = count // 5, count * 3 // 10
    return {"train": train, "dev": dev, "test": count - train - dev}
