"""Registry of export formats: `FORMATS`, the ids of all, and `Format`, the record of one.

A format is one module of this package with its record, `KIND`. It is imported on first use.

Also here: the JSON metadata beside the messages, and the check for reserved input names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ragc.core.plugins import Registry
from ragc.errors import UnknownName
from ragc.exports.loading import Load
from ragc.prompts.model import CompiledPrompt, ExportedProgram, NotExpressible

ALL = "all"
"""In place of a format's id: every format that can express the program."""


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write compiled prompts for another system.

    `suffix` ends the name of each prompt's file, including the dot. `consumer` names the system that loads
    it, with the version used in tests. `write` returns the files of a program by relative path with `/`. It
    is deterministic: no time, machine path or secret. It raises NotExpressible for what the format cannot
    express. `load` returns the lines that load a prompt. `folder` is set for a format that needs more than
    one file per prompt, or whose consumer expects a folder; `alone` if a single call may still be one file
    when the output has the name of a file; `cases` if the format includes cases; `imported` if a file without
    its suffix cannot be loaded. `named` returns the file name of a prompt in a folder, if that differs from
    the prompt's name and `suffix`.
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
    imported: bool = False
    named: Callable[[ExportedProgram, CompiledPrompt], str] | None = None

    def files(self, program: ExportedProgram) -> Mapping[str, bytes]:
        """Returns the files of `program` by relative path; raises NotExpressible."""
        return self.write(program)

    def name_of(self, program: ExportedProgram, prompt: CompiledPrompt) -> str:
        """Returns the path of the file of `prompt` in the folder of an export."""
        return self.named(program, prompt) if self.named else f"{prompt.name}{self.suffix}"

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object for `ragc list exports --json`."""
        return {name: getattr(self, name) for name in ("id", "about", "suffix", "consumer")}


FORMATS = Registry(
    "ragc.exports",
    "export format",
    Format,
    {
        name: (f"ragc.exports.formats.{module}", "")
        for name, module in {
            "baml": "baml.format",
            "dotprompt": "dotprompt",
            "haystack": "haystack",
            "jinja2": "jinja2",
            "langchain": "langchain",
            "llamaindex": "llamaindex",
            "mlflow": "mlflow",
            "openai-batch": "openai_batch",
            "openai-json": "openai_json",
            "promptfoo": "promptfoo.format",
            "prompty": "prompty",
            "python": "python",
        }.items()
    },
)
"""The formats, by id."""


def format_of(id: str) -> Format:
    """Returns the format called `id`, one of another package loaded; raises UnknownName."""
    if not FORMATS.is_known(id):
        raise UnknownName("export format", id, (*FORMATS.about(), ALL))
    return FORMATS.get(id)


CAN = ("jinja2", "openai-json")
"""The formats that can express every prompt."""


def per_prompt(
    suffix: str, file: Callable[[ExportedProgram, CompiledPrompt], bytes]
) -> Callable[[ExportedProgram], dict[str, bytes]]:
    """Returns the `write` of a format that has one file per prompt, made by `file`."""
    return lambda program: {f"{prompt.name}{suffix}": file(program, prompt) for prompt in program}


def json_bytes(value: Any) -> bytes:
    """Returns `value` as indented JSON with a final newline."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def metadata(program: ExportedProgram, prompt: CompiledPrompt, how: str) -> dict[str, Any]:
    """Returns JSON metadata for the messages of `prompt`; `how` is a sentence on loading them."""
    from ragc.prompts.model import reading

    return {
        "about": f"The prompt {prompt.name} of {program.method}. {how}",
        "program": program.fingerprint,
        **({"note": program.note} if program.note else {}),
        "model": program.model(prompt),
        "parameters": prompt.parameters(),
        "input_schema": prompt.input_schema,
        "output_schema": dict(prompt.output_schema),
        "reply": reading(prompt),
    }


def refuse_inputs(prompt: CompiledPrompt, taken: Collection[str], consumer: str) -> None:
    """Raises NotExpressible when an input of `prompt` has a name that `consumer` reserves (`taken`)."""
    for one in prompt.inputs:
        if one.name in taken:
            what = f"The prompt {prompt.name!r}"
            raise NotExpressible(
                what, f"{consumer} has a use of its own for {one.name!r}, the name of an input", CAN
            )
