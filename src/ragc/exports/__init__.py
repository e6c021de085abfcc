"""Exports: compiled prompts in the formats of other systems, written from a directory and verified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ragc.core.progress import SILENT

if TYPE_CHECKING:
    from ragc.compiled.resolve import Opening
    from ragc.core.progress import Progress
    from ragc.exports.write import Exported


def export_directory(
    path: str | Path,
    format: str,
    out: str | Path,
    *,
    how: Opening,
    force: bool = False,
    questions: int = 0,
    progress: Progress | None = None,
) -> Exported:
    """Writes the prompts of the compiled directory `path` to `out`, with `questions` dev questions as cases.

    Every error that is known beforehand is raised before any question is answered. Raises RagcError.
    """
    from ragc.exports import examples, write

    write.refuse(format, out, force=force)
    program = examples.open_for_export(path, how=how)
    write.refuse_for(program, format, out, questions=questions)
    if questions:
        program = examples.open_for_export(path, questions=questions, progress=progress or SILENT, how=how)
    return write.export(program, format, out, force=force)


def check_directory(path: str | Path, exported: str | Path, *, how: Opening, questions: int = 0) -> str:
    """Renders the compiled directory `path` again and compares it with the export; returns the formats' ids.

    Raises ArtefactError with the first difference.
    """
    from ragc.exports import examples, write

    return write.check(examples.open_for_export(path, questions=questions, how=how), exported)
