"""Writes exports: the entry points for format authors and callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.errors import UsageError
from ragc.exports.check import check
from ragc.exports.contents import EXAMPLE, README, export_bundle, export_tree, graph_json, program_of
from ragc.exports.destination import refuse_existing, write_atomically
from ragc.exports.formats.base import ALL, FORMATS, Format, format_of
from ragc.exports.loading import hints, loading, unmentioned_notes
from ragc.prompts.model import ExportedProgram

if TYPE_CHECKING:
    from ragc.compiled.base import CompiledProgram

__all__ = [
    "ALL",
    "EXAMPLE",
    "FORMATS",
    "README",
    "Exported",
    "Format",
    "check",
    "export",
    "export_tree",
    "format_of",
    "graph_json",
    "refuse",
]


_OTHER_SUFFIXES = frozenset({".txt", ".md", ".yml", ".jinja2", ".j2", ".toml", ".csv", ".zip", ".gz", ".tar"})


def _of_file(out: Path) -> bool:
    """Returns whether `out` has the suffix of a file."""
    suffixes = {Path(f"x{format_of(id).suffix}").suffix for id in FORMATS} | _OTHER_SUFFIXES
    return out.suffix.lower() in suffixes


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: the path of each format by id, and why others were refused.

    `loading` are the lines that load each export, by id, and `hints` say what else it could include.
    """

    written: Mapping[str, Path]
    refused: Mapping[str, str]
    loading: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        written = {id: str(path) for id, path in self.written.items()}
        loading = {id: list(lines) for id, lines in self.loading.items()}
        return {"written": written, "refused": dict(self.refused), "loading": loading}


def refuse(format: str, out: str | Path, *, force: bool = False) -> None:
    """Raises the errors of `export` that need no program: UnknownName, or UsageError on `out`."""
    for id in FORMATS if format == ALL else (format,):
        format_of(id)
    if format == ALL or (format_of(format).folder and not format_of(format).alone):
        refuse_suffix(Path(out), f"The export --to {format}")
    refuse_existing(Path(out), force=force)


def refuse_for(program: ExportedProgram, format: str, out: str | Path, *, questions: int = 0) -> None:
    """Raises UsageError if `out` is no name for `program` in `format`, or `questions` do not fit in it.

    A program of several calls needs a folder; a single file has no place for questions unless it is one of
    cases, and one that is imported needs its suffix.
    """
    if format == ALL:
        return
    out, chosen = Path(out), format_of(format)
    if not program.single:
        refuse_suffix(out, f"{program.method} makes several calls, so its export --to {format}")
    elif chosen.folder or chosen.cases:
        return
    elif questions:
        with_cases = ", ".join(id for id in FORMATS if format_of(id).cases)
        raise UsageError(
            f"--questions {questions} sends dev questions along, and the export of {program.method} --to "
            f"{format} is one file of prompts, which has no place for them; leave --questions out, or export "
            f"--to {ALL} or one of {with_cases}."
        )
    elif chosen.imported and out.suffix != chosen.suffix:
        raise UsageError(
            f"The export --to {format} is a file to import, and --out {out} does not end in {chosen.suffix}; "
            f"name it {out.with_name(out.name + chosen.suffix)}."
        )


def refuse_suffix(out: Path, what: str) -> None:
    """Raises UsageError when `out`, a folder, has the suffix of a file; `what` begins the message."""
    if _of_file(out):
        raise UsageError(
            f"{what} is a folder, and --out {out} is the name of a file; name a folder, such as "
            f"{out.with_name(out.name.partition('.')[0] or 'export')}."
        )


def export(
    compiled: CompiledProgram | ExportedProgram | Any, format: str, out: str | Path, *, force: bool = False
) -> Exported:
    """Writes `compiled` in `format` to `out`, atomically.

    `compiled` is a compiled program, a RagProgram, or an ExportedProgram with cases or an example. A program
    of one call is one file where the format allows it, others are a folder with `graph.json`, `README.md`
    and, if there is one, `example.json`. With `format` "all" `out` is a folder with an export per format,
    named after it, and `graph.json` lists them; formats that cannot express the program, or not without
    questions, are listed in `refused`. Raises UnknownName, NotExpressible, and UsageError when `out` exists
    and `force` is false, or is not an export.
    """
    out = Path(out)
    refuse(format, out, force=force)
    chosen = [format_of(id) for id in (FORMATS if format == ALL else (format,))]
    program = program_of(compiled)
    refuse_for(program, format, out)
    if format != ALL:
        tree = export_tree(chosen[0], program, file=_of_file(out))
        write_atomically(out, tree)
        folder = not isinstance(tree, bytes)
        lines = loading(chosen[0], program, out, folder=folder)
        more = (*hints(chosen[0], program), *unmentioned_notes(chosen[0], program, folder=folder))
        return Exported({format: out}, {}, {format: lines}, {format: more})
    bundle = export_bundle(chosen, program)
    write_atomically(out, bundle.files)
    paths = {id: out / name for id, name in bundle.names.items()}
    lines_of = {id: loading(format_of(id), program, at, folder=at.is_dir()) for id, at in paths.items()}
    hints_of = {id: hints(format_of(id), program) for id in paths}
    return Exported(paths, bundle.refused, lines_of, hints_of)
