"""Your own documents as a corpus with a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragc.core.progress import Progress
    from ragc.task.starter import NewProject


def new(
    path: str | Path | None = None,
    *,
    documents: Iterable[Any] | None = None,
    questions: str | Path | None = None,
    out: str | Path | None = None,
    readers: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> NewProject:
    """Reads documents into a corpus, and writes a recipe over it.

    Of the folder `path` PDF, Word, PowerPoint, spreadsheets, CSV, HTML, Markdown and text are read, offline
    and without a model. `documents` are Documents of LlamaIndex or LangChain in its place. `out`, by default
    the folder's name with `-ragc`, receives `corpus.jsonl` (a passage a page, slide, sheet or file, with
    title, section and source) and `recipe.toml`, unless a person wrote or changed the one that is there.
    `questions` is a CSV or JSONL file of questions with answers, which a study needs. `readers` names
    functions of your own by suffix, such as `{".xyz": "my_readers:read"}`, from a path to Markdown. Called
    again, only files that changed are read again. Returns a NewProject with the numbers of files and
    passages, and `problems`, a sentence on each file that was not read.

        project = ragc.new("docs")
        print(ragc.ask(project.folder / "recipe.toml", "How do I install it?").prediction)

    Raises UsageError where `path` is no folder, a document has no text, nothing can be read, or the questions
    lack answers.
    """
    from ragc.task import starter

    return starter.new(
        path, documents=documents, questions=questions, out=out, readers=readers, progress=progress
    )
