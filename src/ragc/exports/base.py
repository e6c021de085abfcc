"""Exports: what a format author and a caller need, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.exports.checking import check
from ragc.exports.contents import EXAMPLE, README, graph_json, program_of, several, whole
from ragc.exports.formats import ALL, FORMATS, Format, format_of
from ragc.exports.place import place, refuse_existing
from ragc.exports.prompt import ExportedProgram

if TYPE_CHECKING:
    from ragc.optimizers.compiled import CompiledProgram

__all__ = [
    "ALL",
    "EXAMPLE",
    "FORMATS",
    "README",
    "Exported",
    "Format",
    "check",
    "export",
    "format_of",
    "graph_json",
    "refuse",
    "whole",
]


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote: the path of each format by id, and why others were left out."""

    written: Mapping[str, Path]
    refused: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        written = {id: str(path) for id, path in self.written.items()}
        return {"written": written, "refused": dict(self.refused)}


def refuse(format: str, out: str | Path, *, force: bool = False) -> None:
    """Raise what `export` would raise before it looks at a program: UnknownName, or UsageError on `out`."""
    for id in FORMATS if format == ALL else (format,):
        format_of(id)
    refuse_existing(Path(out), force=force)


def export(
    compiled: CompiledProgram | ExportedProgram | Any, format: str, out: str | Path, *, force: bool = False
) -> Exported:
    """Write `compiled` in `format` to `out`, at once.

    `compiled` is a compiled program, a RagProgram, or what `derive.exported` made of one, with cases or an
    example. A program of one call is one file where the format allows it, others are a folder with
    `graph.json`, `README.md` and, where there is one, `example.json`. With `format` "all" `out` is a folder
    with an export for each format, named after it, and `graph.json` lists them; formats that cannot say the
    program, or not without questions, are told in `refused`. Raises UnknownName, NotExpressible, and
    UsageError when `out` exists and `force` is false, or is something else than an export.
    """
    out = Path(out)
    refuse(format, out, force=force)
    chosen = [format_of(id) for id in (FORMATS if format == ALL else (format,))]
    program = program_of(compiled)
    if format != ALL:
        place(out, whole(chosen[0], program))
        return Exported({format: out}, {})
    made = several(chosen, program)
    place(out, made.files)
    return Exported({id: out / name for id, name in made.names.items()}, made.refused)
