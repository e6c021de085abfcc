"""Instructions for loading an export: a few lines for its consumer, with the real path and input names."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.prompts.model import CompiledPrompt, ExportedProgram, Input

if TYPE_CHECKING:
    from ragc.exports.formats.base import Format

_EXAMPLES: Mapping[str, Any] = {"text": "...", "integer": 1, "number": 1.0, "flag": True}

HINT = "Add --questions N to send N dev questions along as cases."
"""The hint for a format with cases when an export has none."""


@dataclass(frozen=True, slots=True)
class ExportedPrompt:
    """An exported `prompt` of `program`: `path` is its file, `folder` says whether the export is a folder."""

    program: ExportedProgram
    prompt: CompiledPrompt
    path: Path
    folder: Path

    @property
    def file(self) -> str:
        """The path of the prompt's file as a Python literal."""
        return repr(str(self.path))

    @property
    def shell(self) -> str:
        """The path of the prompt's file as a shell word."""
        return shlex.quote(str(self.path))

    @property
    def inputs(self) -> str:
        """A line of Python that assigns placeholder `inputs`."""
        return inputs_line(example_inputs(self.prompt))


Load = Callable[[ExportedPrompt], Sequence[str]]
"""The lines that load a prompt: Python, or `$ ` and a command."""


def example_inputs(prompt: CompiledPrompt) -> dict[str, Any]:
    """Returns a placeholder value of the right type for each input of `prompt`."""
    return {one.name: _example(one) for one in prompt.inputs}


def _example(one: Input) -> Any:
    return [_EXAMPLES[one.kind]] if one.many else _EXAMPLES[one.kind]


def inputs_line(inputs: Mapping[str, Any]) -> str:
    """Returns the line of Python that assigns `inputs`."""
    return f"inputs = {dict(inputs)!r}"


def loading(chosen: Format, program: ExportedProgram, out: Path, *, folder: bool) -> tuple[str, ...]:
    """Returns the lines that load the first prompt of the export of `program` at `out`, file or `folder`."""
    prompt = program.prompts[0]
    path = out / chosen.name_of(program, prompt) if folder else out
    return tuple(chosen.load(ExportedPrompt(program, prompt, path, out if folder else out.parent)))


def hints(chosen: Format, program: ExportedProgram) -> tuple[str, ...]:
    """Returns hints on what else an export in this format could include."""
    return (HINT,) if chosen.cases and not program.cases else ()


def unmentioned_notes(chosen: Format, program: ExportedProgram, *, folder: bool) -> tuple[str, ...]:
    """Returns the licence note of demonstrations, if neither a README nor the file contains it."""
    return (program.note,) if chosen.alone and program.note and not folder else ()
