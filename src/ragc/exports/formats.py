"""FORMATS: the ids of all export formats, and the record of one.

A format is one module `ragc.exports.as_ID` (hyphens as underscores) with a `FORMAT`. Those are light; what
writes a format is imported when it is asked for.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ragc.exports
from ragc.errors import UnknownName
from ragc.exports.loading import Load
from ragc.exports.prompt import CompiledPrompt, ExportedProgram

_PREFIX = "as_"

FORMATS: tuple[str, ...] = tuple(
    sorted(
        found.name.removeprefix(_PREFIX).replace("_", "-")
        for found in pkgutil.iter_modules(ragc.exports.__path__)
        if found.name.startswith(_PREFIX)
    )
)
"""The ids of all formats."""

ALL = "all"
"""In the place of a format's id: every format that can say the program."""


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write compiled prompts for another system.

    `suffix` ends the name of each prompt's file, dot included. `consumer` names what loads it, with the
    version that tests use. `write` gives the files of a program by relative path with `/`: the same bytes
    for the same program, no time, path of a machine or secret in them. It raises NotExpressible for what
    the format cannot say. `load` gives the lines that load a prompt. A format for which one file a prompt
    is not enough, or whose consumer wants a folder, sets `folder`; `alone` where one call may yet be one file
    if its name is that of a file. One with a place for cases sets `cases`.
    `named` names the file of a prompt in a folder where that is not the prompt's name and `suffix`.
    """

    id: str
    about: str
    suffix: str
    consumer: str
    write: Callable[[ExportedProgram], Mapping[str, bytes]]
    load: Load
    folder: bool = False
    alone: bool = False
    cases: bool = False
    named: Callable[[ExportedProgram, CompiledPrompt], str] | None = None

    def files(self, program: ExportedProgram) -> Mapping[str, bytes]:
        """The files of `program` by relative path; raises NotExpressible."""
        return self.write(program)

    def name_of(self, program: ExportedProgram, prompt: CompiledPrompt) -> str:
        """The file of `prompt` by its path in the folder of an export."""
        return self.named(program, prompt) if self.named else f"{prompt.name}{self.suffix}"

    def to_json(self) -> dict[str, Any]:
        """A JSON object for `ragc list exports --json`."""
        return {name: getattr(self, name) for name in ("id", "about", "suffix", "consumer")}


def format_of(id: str) -> Format:
    """The format called `id`; raises UnknownName."""
    if id not in FORMATS:
        raise UnknownName("export format", id, (*FORMATS, ALL))
    found: Format = importlib.import_module(f"ragc.exports.{_PREFIX}{id.replace('-', '_')}").FORMAT
    return found
