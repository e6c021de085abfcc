"""Registry of export formats: `FORMATS`, the ids of all, `Format`, the record of one, and what they share.

A format is one module of this package with its record, `KIND`. It is imported on first use.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from ragc.core.plugins import Registry
from ragc.errors import UnknownName
from ragc.prompts.model import ALL_CAN, INPUTS, CompiledPrompt, ExportedProgram, NotExpressible, reading

ALL = "all"
"""In place of a format's id: every format that can express the program."""

HINT = "Add --questions N to send N dev questions along as cases."
"""The hint for a format with cases when an export has none."""


@dataclass(frozen=True, slots=True)
class ExportedPrompt:
    """An exported `prompt` of `program`: `path` is its file, `folder` that of the export."""

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
        return f"inputs = {self.prompt.placeholders()!r}"


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write compiled prompts for another system.

    `suffix` ends the name of each prompt's file, including the dot. `consumer` names the system that loads
    it, with the version used in tests. `write` returns the files of a program by relative path with `/`. It
    is deterministic: no time, machine path or secret. It raises NotExpressible for what the format cannot
    express. `load` returns the lines that load a prompt: Python, or `$ ` and a command. `folder` is set for a
    format that needs more than one file per prompt, or whose consumer expects a folder; `alone` if a single
    call may still be one file when the output has the name of a file; `cases` if the format includes cases;
    `imported` if a file without its suffix cannot be loaded; `escapes` if what it writes defuses markers in
    inputs as the program does. `consumer_folders` are the names of folders that the consumer makes in the
    export. `named` returns the file name of a prompt in a folder, if that differs from the prompt's name and
    `suffix`.
    """

    id: str
    about: str
    suffix: str
    consumer: str
    write: Callable[[ExportedProgram], Mapping[str, bytes]]
    load: Callable[[ExportedPrompt], Sequence[str]]
    folder: bool = False
    alone: bool = False
    cases: bool = False
    imported: bool = False
    escapes: bool = False
    consumer_folders: tuple[str, ...] = ()
    named: Callable[[ExportedProgram, CompiledPrompt], str] | None = None

    def files(self, program: ExportedProgram) -> Mapping[str, bytes]:
        """Returns the files of `program` by relative path; raises NotExpressible."""
        return self.write(program)

    def loading(self, program: ExportedProgram, out: Path, *, folder: bool) -> tuple[str, ...]:
        """Returns the lines that load the first prompt of the export at `out`, a file or a `folder`."""
        prompt = program.prompts[0]
        name = self.named(program, prompt) if self.named else f"{prompt.name}{self.suffix}"
        path, above = (out / name, out) if folder else (out, out.parent)
        return tuple(self.load(ExportedPrompt(program, prompt, path, above)))

    def hints(self, program: ExportedProgram) -> tuple[str, ...]:
        """Returns hints on what else an export in this format could include."""
        return (HINT,) if self.cases and not program.cases else ()

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object for `ragc list exports --json`."""
        return {name: getattr(self, name) for name in ("id", "about", "suffix", "consumer")}


FORMATS = Registry(
    "ragc.exports",
    "export format",
    Format,
    {
        name: (f"ragc.exports.formats.{name.replace('-', '_')}", "")
        for name in (
            *("baml", "dotprompt", "haystack", "jinja2", "langchain", "llamaindex", "mlflow"),
            *("openai-batch", "openai-json", "promptfoo", "prompty", "python"),
        )
    },
)
"""The formats, by id."""


def format_of(id: str) -> Format:
    """Returns the format called `id`, one of another package loaded; raises UnknownName."""
    if not FORMATS.is_known(id):
        raise UnknownName("export format", id, (*FORMATS.about(), ALL))
    return FORMATS.get(id)


def per_prompt(
    suffix: str, file: Callable[[ExportedProgram, CompiledPrompt], str]
) -> Callable[[ExportedProgram], dict[str, bytes]]:
    """Returns the `write` of a format that has one file per prompt, whose text `file` makes."""
    return lambda program: {f"{prompt.name}{suffix}": file(program, prompt).encode() for prompt in program}


def json_text(value: Any) -> str:
    """Returns `value` as indented JSON with a final newline."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def metadata(program: ExportedProgram, prompt: CompiledPrompt, how: str) -> dict[str, Any]:
    """Returns JSON metadata for the messages of `prompt`; `how` is a sentence on loading them."""
    return {
        "about": f"The prompt {prompt.name} of {program.method}. {how} {INPUTS}",
        "program": program.fingerprint,
        **({"note": program.note} if program.note else {}),
        "model": prompt.model,
        "parameters": dict(prompt.parameters),
        "input_schema": prompt.input_schema,
        "output_schema": dict(prompt.output_schema),
        "reply": reading(prompt),
    }


def refuse_inputs(prompt: CompiledPrompt, taken: Collection[str], consumer: str) -> None:
    """Raises NotExpressible when an input of `prompt` has a name that `consumer` reserves (`taken`)."""
    for input in prompt.inputs:
        if input.name in taken:
            why = f"{consumer} has a use of its own for {input.name!r}, the name of an input"
            raise NotExpressible(f"The prompt {prompt.name!r}", why, ALL_CAN)


def distinct(name: str, taken: Collection[str]) -> str:
    """Returns `name`, with a number appended if it is taken; case is ignored."""
    lowered, candidate, number = {used.lower() for used in taken}, name, 2
    while candidate.lower() in lowered:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def free(name: str, prompt: CompiledPrompt) -> str:
    """Returns `name`, with `_` appended until no input is called so."""
    while name in {input.name for input in prompt.inputs}:
        name += "_"
    return name


def line(text: str) -> str:
    """Returns `text` as one line of printable characters, for a comment."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def yaml_text(value: Any, *, blocks: bool = False) -> str:
    """Returns `value` as YAML that versions 1.1 and 1.2 read alike: quoted texts, one line each.

    With `blocks`, texts of several lines are blocks, if all of `value` is then read back the same.
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        block = blocks and "\n" in data and data.replace("\n", "").isprintable()
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if block else '"')

    Dumper.add_representer(str, represent)
    text = str(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=10**9))
    return yaml_text(value) if blocks and yaml.safe_load(text) != value else text


def frontmatter(head: Mapping[str, Any], body: str) -> str:
    """Returns a file with `head` as its YAML frontmatter, followed by `body`.

    No text of the head contains `---` or `+++`, which some readers take for its end anywhere.
    """
    text = yaml_text(dict(head)).replace("---", r"\x2d\x2d\x2d").replace("+++", r"\x2b\x2b\x2b")
    return f"---\n{text}---\n{body}"


@cache
def page(name: str) -> Any:
    """Returns the Jinja2 template `name` of this package."""
    from ragc.prompts.render import environment

    source = resources("ragc.exports").joinpath("templates", name).read_text("utf-8")
    return environment().overlay(trim_blocks=True, lstrip_blocks=True).from_string(source)
