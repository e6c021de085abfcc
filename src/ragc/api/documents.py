"""Your own documents as a corpus with questions and a recipe, and what people say of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

if TYPE_CHECKING:
    from ragc.core.progress import Progress
    from ragc.targets.base import Target
    from ragc.task.starter import NewProject

_COUNT = 60
_KINDS = ("single", "unanswerable")


@overload
def new(
    path: str | Path | None = ...,
    *,
    documents: Iterable[Any] | None = ...,
    questions: str | Path | bool = ...,
    count: int = ...,
    kinds: Sequence[str] = ...,
    teacher: Target | None = ...,
    sets: Sequence[str] = ...,
    out: str | Path | None = ...,
    readers: Mapping[str, str] | None = ...,
    dry_run: Literal[True],
    progress: Progress | None = ...,
) -> dict[str, Any]: ...
@overload
def new(
    path: str | Path | None = ...,
    *,
    documents: Iterable[Any] | None = ...,
    questions: str | Path | bool = ...,
    count: int = ...,
    kinds: Sequence[str] = ...,
    teacher: Target | None = ...,
    sets: Sequence[str] = ...,
    out: str | Path | None = ...,
    readers: Mapping[str, str] | None = ...,
    dry_run: Literal[False] = ...,
    progress: Progress | None = ...,
) -> NewProject: ...
def new(
    path: str | Path | None = None,
    *,
    documents: Iterable[Any] | None = None,
    questions: str | Path | bool = True,
    count: int = _COUNT,
    kinds: Sequence[str] = _KINDS,
    teacher: Target | None = None,
    sets: Sequence[str] = (),
    out: str | Path | None = None,
    readers: Mapping[str, str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> NewProject | dict[str, Any]:
    """Reads documents into a corpus, and writes questions about them and a recipe.

    Of the folder `path` PDF, Word, PowerPoint, spreadsheets, CSV, HTML, Markdown and text are read, offline
    and without a model. `documents` are Documents of LlamaIndex or LangChain in its place. `out`, by default
    the folder's name with `-ragc`, receives `corpus.jsonl` (a passage a page, slide, sheet or file, with
    title, section and source), `questions.jsonl` and `recipe.toml`, unless a person wrote or changed the one
    that is there. `readers` names functions of your own by suffix, such as `{".xyz": "my_readers:read"}`,
    from a path to Markdown. Called again, only files that changed are read again, and questions and targets
    stay those of the recipe where none are named.

    With `questions` True the role teacher writes up to `count` questions of the `kinds` single, unanswerable,
    two_passage and comparison; the teacher is `teacher`, else the recipe's target of that name, else its
    main one. A file in its place, CSV or JSONL, has questions that people asked: those without a gold answer
    are answered from the passages. False writes none. `sets` are overrides of the recipe's targets, such as
    "targets.teacher.kind=vllm". What people edited or reviewed stays.

    Returns a NewProject with the numbers of files, passages and questions, `problems`, a sentence on each
    file that was not read, and `question_lines`. With `dry_run` nothing is read, sent or written, and a JSON
    object is returned: `model`, and upper bounds `tries`, `calls`, `prompt_tokens`, `reply_tokens` and `usd`
    (None where unknown).

        project = ragc.new("docs")
        print(ragc.ask(project.folder / "recipe.toml", "How do I install it?").prediction)

    Raises UsageError where `path` is no folder, a document has no text, or nothing can be read; UnknownName
    for another kind; DataError for a damaged file of questions. A teacher that fails ends the questions, not
    the project.
    """
    from ragc.task import starter

    file = None if isinstance(questions, bool) else Path(questions)
    write = questions is True
    choice = starter.QuestionChoice(file, write, count, tuple(kinds), teacher, tuple(sets))
    if dry_run:
        return starter.plan_only(path, documents, choice, out=out)
    return starter.new(path, documents, choice, out=out, readers=readers, progress=progress)


def review_questions(
    path: str | Path, decide: Callable[[Mapping[str, Any]], str | Mapping[str, Any] | None]
) -> dict[str, Any]:
    """Lets `decide` keep, fix or drop each question of a file that no person has reviewed.

    `decide` takes a row, with `question`, `answers`, perhaps `gold_ids`, and as `texts` the passages that it
    is about, each with `id`, `title`, `source` and `text`. It returns "keep", "drop", "skip", a mapping with
    a new `question` or `answers`, or None to stop. The file is written after each decision; dropped questions
    go to `set_aside.jsonl` beside it. Returns the numbers of `kept`, `fixed`, `dropped` and `open` questions,
    `good`, a share from 0 to 1, and `for_trying`, whether it is too low for a verdict. Raises UsageError for
    a file that is not there or another decision, DataError for a damaged file.
    """
    from ragc.programs.question_writer.file import review

    return review(Path(path), decide)


def label_answers(
    path: str | Path, decide: Callable[[Mapping[str, Any]], str | None], *, out: str | Path | None = None
) -> dict[str, int]:
    """Lets `decide` say of each answer in the rows of `ragc eval --out` whether it is right.

    `decide` takes a row, with `question`, `answers` and `prediction`, and returns "correct", "wrong", "skip",
    or None to stop. Labels are written after each decision to `out`, JSON lines, by default the rows' file
    with `.labels.jsonl`; answers that have one there are not shown again. Returns the numbers of `correct`,
    `wrong` and `open` answers. Raises UsageError for a file that is not there or another verdict, DataError
    for a damaged file.
    """
    from ragc.core.files import missing_file
    from ragc.errors import UsageError
    from ragc.metrics.labels import beside, label

    rows = Path(path)
    if not rows.is_file():
        raise UsageError(missing_file(f"the rows {path}", str(path), Path()))
    return label(rows, decide, Path(out) if out is not None else beside(rows))
