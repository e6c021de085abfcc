"""`ragc new`: a folder of documents becomes a corpus and a recipe that runs.

    <out>/corpus.jsonl     a passage a page, slide, sheet, or file
    <out>/recipe.toml      a recipe that a person wrote or changed is not replaced
    CACHE/documents/<digest of out>/   the text read from each file, so that the next run reads only changed
                                       files, and the digest of the recipe as it was written

The corpus is replaced as a whole, once everything is read.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w

from ragc.core.digest import file_digest
from ragc.core.display import quantity
from ragc.core.files import cache_home, missing_file, put_file, replacing_file, sha256
from ragc.core.progress import Progress, Silent
from ragc.corpora.documents.base import Document
from ragc.corpora.documents.folder import DocumentFile, documents_of, files_in, read_files
from ragc.corpora.files.records import read_questions
from ragc.corpora.files.splits import MAX_QUESTIONS, MIN_QUESTIONS
from ragc.errors import UsageError
from ragc.programs.question_writer.checks import DEFAULT_KINDS
from ragc.programs.question_writer.file import CORPUS, QUESTIONS
from ragc.recipe import Recipe
from ragc.recipe.load import load, parse, read_tables, set_keys
from ragc.targets.base import Target
from ragc.task import question_set
from ragc.task.question_set import COUNT

RECIPE, DIGEST = "recipe.toml", "recipe.digest"


@dataclass(frozen=True, slots=True)
class NewProject:
    """The result of `ragc new`: `files` were read, `reread` of them in this run; `passages` were written.

    `problems` are a sentence each on files that were not read, `notes` on parts of others that were left out.
    `wrote_recipe` is False if a recipe existed. `questions` is their number, 0 without a file of them.
    `studied` says whether the recipe names enough questions for a study.
    """

    folder: Path
    files: int
    reread: int
    passages: int
    questions: int
    wrote_recipe: bool
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    question_lines: tuple[str, ...] = ()
    studied: bool = False

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
            "question_lines": list(self.question_lines),
        }


@dataclass(frozen=True, slots=True)
class QuestionChoice:
    """Where the questions of a project come from: a file, the teacher (`write`), or nowhere.

    `teacher` stands in for the recipe's target. `sets` are overrides of the recipe's targets.
    """

    file: Path | None = None
    write: bool = True
    count: int = COUNT
    kinds: tuple[str, ...] = DEFAULT_KINDS
    teacher: Target | None = None
    sets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for keys in set_keys(self.sets):
            if keys[0] != "targets" or len(keys) < 3:
                raise UsageError(
                    f"--set of ragc new sets a target, such as targets.teacher.kind=vllm, found "
                    f"{'.'.join(map(str, keys))}; change other values in the recipe that it writes."
                )


FOR_TRYING = (
    "The default model, SmolLM2 with 135M parameters, is for trying ragc out: it writes few questions and "
    "answers few. Name a larger one by --set targets.main.model=OWNER/REPOSITORY:FILE.gguf, or a server, as "
    "the guide on targets says."
)


def new(
    path: str | Path | None,
    documents: Iterable[Any] | None,
    choice: QuestionChoice,
    *,
    out: str | Path | None = None,
    readers: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> NewProject:
    """Writes a corpus of the files below `path` or of `documents`, questions and a recipe; see `ragc.new`."""
    if (path is None) == (documents is None):
        raise UsageError("Name a folder of documents, or pass `documents`, not both.")
    target = _target_of(path, out)
    _check_found(target, out)
    choice, lines = _as_before(choice, target)
    chosen = _questions_of(choice, target)
    progress, problems, files = progress or Silent(), list[str](), list[DocumentFile]()
    if path is None:
        what = "the documents"
        parts: Iterable[Document] = documents_of(documents or ())
    else:
        folder, what = Path(path), repr(str(path))
        skip = [target] if choice.file is None else [target, choice.file]
        files, problems = files_in(folder, _readers(readers or {}), skip)
        if not files:
            raise UsageError(f"The folder {what} holds no files; put documents there, or name another.")
        parts = read_files(files, _work_of(target), progress)
    target.mkdir(parents=True, exist_ok=True)
    read = _write_corpus(parts, target, what)
    targets = _targets(choice.sets, target)
    if chosen.plan is not None:
        writer = targets.get("teacher") or targets["main"]
        if choice.teacher is None and writer.get("kind") == "embedded" and not writer.get("model"):
            progress.note(FOR_TRYING)
        written = question_set.make(
            target,
            target / CORPUS,
            _recipe_of(target, targets, choice),
            chosen.plan,
            progress,
            choice.teacher,
        )
        chosen = chosen.with_set(written)
        lines += _question_lines(written)
    wrote = _put_recipe(target, _recipe_text(chosen, targets))
    return NewProject(
        target,
        read.files,
        read.fresh,
        read.passages,
        chosen.count,
        wrote,
        (*problems, *read.problems),
        tuple(read.notes),
        tuple(lines),
        chosen.count >= MIN_QUESTIONS if wrote else _names_questions(target, chosen.count),
    )


def _names_questions(target: Path, written: int) -> bool:
    """Returns whether a person's own recipe in `target` names questions; of ours, `written`, there must be
    enough.
    """
    data = _tables_in(target).get("data")
    named = [data.get(key) for key in ("questions", "dataset", "dev")] if isinstance(data, dict) else []
    files = [name for name in named if isinstance(name, str) and name]
    return any(name != QUESTIONS or written >= MIN_QUESTIONS for name in files)


def _target_of(path: str | Path | None, out: str | Path | None) -> Path:
    """Returns the folder that a project is written to."""
    if out is not None:
        return Path(out)
    name = "" if path is None else Path(path).resolve().name
    return Path(f"{name or 'documents'}-ragc")


def _work_of(target: Path) -> Path:
    """Returns the folder of the cache for the project in `target`."""
    return cache_home() / "documents" / sha256(os.fsencode(target.resolve()))[:32]


def _check_found(target: Path, out: str | Path | None) -> None:
    """Raises UsageError for a folder that nobody named and that is a link, or has a recipe which this home
    did not write.
    """
    foreign = (target / RECIPE).exists() and not (_work_of(target) / DIGEST).exists()
    if out is None and (foreign or target.is_symlink()):
        what = f"{target / RECIPE} was found, and" if foreign else f"{target} is a link, and"
        raise UsageError(
            f"{what} `ragc new` did not write it on this machine; it may be a stranger's. If it is yours, "
            f"name its folder with --out {target}, else another folder."
        )


def _as_before(choice: QuestionChoice, target: Path) -> tuple[QuestionChoice, list[str]]:
    """Returns `choice`, or that of the recipe in `target` which names a file of its own where nothing else is
    asked for, and sentences on it.
    """
    data = _tables_in(target).get("data")
    named = data.get("questions") if isinstance(data, dict) else None
    if choice.file is not None or not choice.write or named in (None, QUESTIONS):
        return choice, []
    line = f"The questions are those of {named}, as before; --questions FILE names others."
    if not _is_ours(target):
        return replace(choice, write=False), [line]
    return replace(choice, file=target / named), [line]


def _tables_in(target: Path) -> dict[str, Any]:
    """Returns the tables of the recipe in `target`, none where there is no recipe or it cannot be read."""
    try:
        return tomllib.loads((target / RECIPE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def _question_lines(written: question_set.QuestionSet) -> list[str]:
    """Returns sentences on the questions that were written, and on what they are enough for."""
    lines = [*written.lines]
    if written.problem:
        lines.append(f"The questions end early: {written.problem}")
    if 0 < written.count < MIN_QUESTIONS:
        few = f"{quantity(written.count, 'question')} {'is' if written.count == 1 else 'are'}"
        lines.append(
            f"{few} too few to compile, which needs {MIN_QUESTIONS}; the recipe names none. Scores without "
            'gold answers (metrics.report = ["faithfulness"]) need questions only.'
        )
    return lines


def plan_only(
    path: str | Path | None,
    documents: Iterable[Any] | None,
    choice: QuestionChoice,
    *,
    out: str | Path | None = None,
) -> dict[str, Any]:
    """Returns a bound on what the questions of `new` take, with nothing read, sent or written."""
    if (path is None) == (documents is None):
        raise UsageError("Name a folder of documents, or pass `documents`, not both.")
    if path is not None and not Path(path).is_dir():
        raise UsageError(f"{str(path)!r} is no folder; name a folder of documents, such as docs/.")
    target = _target_of(path, out)
    _check_found(target, out)
    choice, _ = _as_before(choice, target)
    plan = _questions_of(choice, target).plan
    if plan is None:
        return {"model": "", "tries": 0, "calls": 0, "prompt_tokens": 0, "reply_tokens": 0, "usd": 0.0}
    recipe = _recipe_of(target, _targets(choice.sets, target), choice)
    runtime = question_set.teacher_runtime(recipe, choice.teacher)
    model = next(iter(runtime.targets.values()))
    return question_set.estimate(model, plan, question_set.TRIES * plan.count)


@dataclass(frozen=True, slots=True)
class _Questions:
    """The questions that a recipe names: the file as the recipe spells it, its map of fields, their number.

    `plan` says what is to be written first, None for a file that is used as it is.
    """

    name: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    count: int = 0
    plan: question_set.Plan | None = None

    def with_set(self, written: question_set.QuestionSet) -> _Questions:
        """Returns the same with the questions that were written; those of a set that is too small are not
        named.
        """
        columns = {"group": "document"} if written.grouped else {}
        return _Questions(QUESTIONS if written.count >= MIN_QUESTIONS else "", columns, written.count)


def _questions_of(choice: QuestionChoice, target: Path) -> _Questions:
    if choice.file is not None:
        return _questions_in(choice.file, target)
    if not choice.write:
        return _Questions()
    return _Questions(plan=question_set.Plan(choice.count, choice.kinds))


def _targets(sets: Sequence[str], target: Path) -> dict[str, dict[str, Any]]:
    """Returns the targets of a recipe that is written: the embedded model, with the overrides `sets`; without
    any, those of an earlier recipe of ours.
    """
    if not sets and (target / RECIPE).is_file() and _is_ours(target):
        return dict(_tables_in(target)["targets"])
    targets: Any = read_tables('[targets.main]\nkind = "embedded"\n', sets, "--set").values["targets"]
    return {str(role): dict(table) for role, table in targets.items()}


def _recipe_of(target: Path, targets: Mapping[str, Mapping[str, Any]], choice: QuestionChoice) -> Recipe:
    """Returns the recipe whose targets write questions: a person's own where there is one, else as it is
    written.
    """
    if (target / RECIPE).is_file() and not _is_ours(target):
        return load(target / RECIPE, choice.sets, files=False)
    return parse(_recipe_text(_Questions(), targets), base=target, files=False)


def _is_ours(target: Path) -> bool:
    """Returns whether the recipe in `target` is as `ragc new` wrote it."""
    record = _work_of(target) / DIGEST
    return record.is_file() and sha256((target / RECIPE).read_bytes()) == record.read_text("utf-8")


def _put_recipe(target: Path, text: str) -> bool:
    """Writes the recipe unless a person wrote or changed the existing one; returns whether it did."""
    recipe, content = target / RECIPE, text.encode()
    if recipe.exists() and not _is_ours(target):
        return False
    put_file(recipe, content)
    put_file(_work_of(target) / DIGEST, sha256(content).encode(), private=True)
    return True


@dataclass(slots=True)
class _Tally:
    files: int = 0
    fresh: int = 0
    passages: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _write_corpus(parts: Iterable[Document], target: Path, what: str) -> _Tally:
    """Writes `corpus.jsonl` of all `parts`; it is replaced as a whole, once all are read.

    Raises UsageError, with an earlier corpus unchanged, if nothing in `what` can be read.
    """
    tally, path = _Tally(), target / CORPUS
    before = (file_digest(path), path.stat()) if path.is_file() else None
    with replacing_file(path) as corpus:
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
    if before is not None and before[0] == file_digest(path):  # its index, found by time and size, stays
        os.utime(path, ns=(before[1].st_atime_ns, before[1].st_mtime_ns))
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


def _questions_in(path: Path, target: Path) -> _Questions:
    """Returns the questions in the file `path`: as they are if all have gold answers, else a plan to answer
    them. A file below `target` is named from there, so that the folder can be moved and packed.

    Raises UsageError where the file or its questions are not there, or too few have answers.
    """
    if not path.is_file():
        if path.is_dir():
            raise UsageError(f"--questions {path} is a folder; name a file, CSV or JSONL.")
        raise UsageError(missing_file(f"--questions {path}", str(path), Path()))
    read = read_questions(path, answered=False)
    if not all(question.answers for question in read.questions):
        return _Questions(plan=question_set.Plan(log=read))
    _sizes(len(read.questions))
    file, folder = path.resolve(), target.resolve()
    name = file.relative_to(folder).as_posix() if file.is_relative_to(folder) else str(file)
    return _Questions(name, {}, len(read.questions))


def _recipe_text(questions: _Questions, targets: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the text of a recipe over the corpus, with the questions if there are any."""
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
        *_target_lines(targets),
        "",
        "[knobs]",
        'wording = "brief"                # for models under 1B; "full" for larger ones',
    ]
    if not questions.name:
        lines += [
            'answer_format = "cited"          # answers name the passages they rest on as [1], [2]',
            "",
            "# A study needs questions with answers, a CSV with the columns question and answer:",
            "#   ragc new FOLDER --questions FILE",
            "",
        ]
        return "\n".join(lines)
    lines += ["", "[data]", tomli_w.dumps({"questions": questions.name}).rstrip()]
    sizes = _sizes(questions.count)
    lines += [f"{split} = {size}" for split, size in sizes.items()]
    if not sizes:
        lines.append(
            "# no sizes: all choose the program, and folds of them, each left out once, test the choice"
        )
    if questions.columns:
        lines += ["", "[data.fields]", tomli_w.dumps(questions.columns).rstrip()]
    return "\n".join([*lines, *_STUDY])


def _target_lines(targets: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = []
    for role, table in targets.items():
        lines += ["", *tomli_w.dumps({"targets": {role: dict(table)}}).splitlines()]
    small = 'kind = "embedded"'
    if small in lines:
        lines[lines.index(small)] += "                # a small model in this process; others: vllm, hosted"
    return lines


_STUDY = (
    "",
    "[search]",
    'knobs = ["top_k", "chunk_size", "sections", "tables", "answer_format"]',
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
)


def _sizes(count: int) -> dict[str, int]:
    """Returns how many questions train, dev and test get; nothing for so few that they are cross-validated.

    Raises UsageError for too few to compile.
    """
    if count < MIN_QUESTIONS:
        raise UsageError(
            f"--questions holds {quantity(count, 'question')}, and a compile needs {MIN_QUESTIONS}; add "
            "some, or leave --questions out."
        )
    if count <= MAX_QUESTIONS:
        return {}
    train, dev = count // 5, count * 3 // 10
    return {"train": train, "dev": dev, "test": count - train - dev}
