"""Exchange of compiled programs: export to other systems, and trust in programs of other people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragc.compiled.access import Access

if TYPE_CHECKING:
    from ragc.compiled.trust_listing import TrustListing
    from ragc.core.progress import Progress
    from ragc.exports.write import Exported


def export(
    path: str | Path,
    format: str,
    out: str | Path,
    *,
    force: bool = False,
    questions: int = 0,
    progress: Progress | None = None,
    sets: Sequence[str] = (),
    access: Access = Access(),
) -> Exported:
    """Writes the prompts of the compiled program at `path` to `out`, in one format or "all".

    With `questions`, that many dev questions are answered and exported as cases, and the first as a worked
    example, in formats that support them. Without, no model is called and the arguments of `load` are not
    used. `force` replaces an existing export. Returns an Exported with the paths by format.

        ragc.export("compiled/mine", "jinja2", "prompts")

    Raises UnknownName for a format (`ragc list exports`), and UsageError for an `out` that cannot be written
    or a program that the format cannot express.
    """
    from ragc import exports
    from ragc.compiled.resolve import Opening

    how = Opening(tuple(sets), access)
    return exports.export_directory(
        path, format, out, how=how, force=force, questions=questions, progress=progress
    )


def check_export(
    path: str | Path,
    exported: str | Path,
    *,
    questions: int = 0,
    sets: Sequence[str] = (),
    access: Access = Access(),
) -> str:
    """Renders the compiled program at `path` again and compares it with the export at `exported`.

    Returns the ids of the formats. The other arguments are those of `export`. Raises ArtefactError with the
    first difference.
    """
    from ragc import exports
    from ragc.compiled.resolve import Opening

    how = Opening(tuple(sets), access)
    return exports.check_directory(path, exported, how=how, questions=questions)


def trust(path: str | Path, *, base: str | Path | None = None) -> TrustListing:
    """Records on this machine that the compiled directory `path` is trusted in its current state.

    Its relative paths are relative to `base`, by default to itself. Returns the same listing as
    `trust_listing`. Raises ArtefactError, and UsageError when the record cannot be written.
    """
    return trust_listing(path, base=base).record()


def trust_listing(path: str | Path, *, base: str | Path | None = None) -> TrustListing:
    """Lists what the compiled directory `path` would run, read and contact, with its digest; records nothing.

    Raises ArtefactError when `path` is not a compiled program.
    """
    from ragc.compiled.trust_listing import listing

    return listing(path, base)
