"""The README of an export, for a person who implements the program again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ragc.exports.loading import hints, loading
from ragc.programs.knobs import ADAPTER
from ragc.prompts.model import CompiledPrompt, ExportedProgram

if TYPE_CHECKING:
    from ragc.exports.write import Format

_PASSAGES = frozenset({"passage", "passages"})
"""The names of inputs that hold retrieved texts."""


def readme(chosen: Format, program: ExportedProgram) -> str:
    """Returns the text of `README.md`, with LF and a final newline."""
    return "\n".join(_lines(chosen, program)) + "\n"


def overview(program: ExportedProgram, names: Mapping[str, str], refused: Mapping[str, str]) -> str:
    """Returns the text of the `README.md` above exports in several formats: `names` by id, and the `refused`
    ones.
    """
    from ragc.exports.formats.base import format_of

    lines = [f"# {program.method}: {program.about}", "", f"Program {program.fingerprint} in several formats."]
    for id, name in names.items():
        chosen = format_of(id)
        lines += [f"\n## {id}\n", f"{chosen.about}, in `{name}`. Tested with {chosen.consumer}.\n"]
        folder = not name.endswith(chosen.suffix)
        lines += [f"    {line}" for line in loading(chosen, program, Path(name), folder=folder)]
        lines += [f"\n{hint}" for hint in hints(chosen, program)]
    lines += ["\n## Left out\n", *(f"- {id}: {why}" for id, why in refused.items())] if refused else []
    return "\n".join(lines) + "\n"


def _lines(chosen: Format, program: ExportedProgram) -> Iterator[str]:
    yield f"# {program.method}: {program.about}"
    yield ""
    yield f"Compiled prompts in the format {chosen.id}: {chosen.about}. Tested with {chosen.consumer}."
    yield f"Program {program.fingerprint}."
    if program.note:
        yield f"\n{program.note}"
    yield "\n## Prompts\n"
    for prompt in program:
        yield _prompt(program, prompt)
    yield "\n## Loading\n"
    yield f"The first prompt, from this folder{'; the others alike' if len(program.prompts) > 1 else ''}:\n"
    yield from (f"    {line}" for line in loading(chosen, program, Path(), folder=True))
    yield from (f"\n{hint}" for hint in hints(chosen, program))
    yield "\n## Control flow\n"
    yield f"{program.flow_note} The values of its knobs are under `knobs` in `graph.json`."
    if program.learned.keys() == {ADAPTER}:
        yield "\nThe DSPy adapter that these prompts are of is under `learned` in `graph.json`."
    elif program.learned:
        yield "\nWhat the program learned from train questions is under `learned` in `graph.json`."
    if program.example is not None:
        yield "\n`example.json` is one question from start to end: every search, call, prompt and reply."
    yield "\n## Replies\n"
    yield "How each reply is read is under `reply` in `graph.json`. A reply that cannot be read is sent"
    yield "back once with the text of `repair`; a target that takes a JSON schema gets that of the outputs."
    yield "\n## What no file here says\n"
    yield "Inputs that do not fit the model's context are cut by the compiled program: passages from the end,"
    yield "oldest steps first, the longest text last. Other systems send them whole."
    if not program.is_own and any(_PASSAGES & {one.name for one in prompt.inputs} for prompt in program):
        yield "\nA passage is its title, a line break and its text, or its text alone. In it the compiled"
        yield "program defuses what a chat template would read as a command, such as `<|im_start|>`; other"
        yield "systems do not."


def _prompt(program: ExportedProgram, prompt: CompiledPrompt) -> str:
    inputs = ", ".join(f"{one.name}{' (list)' if one.many else ''}" for one in prompt.inputs) or "none"
    outputs = ", ".join(one.name for one in prompt.outputs)
    asks = f"role {prompt.role}, model {program.model(prompt)}"
    return f"- {prompt.name} ({asks}): inputs {inputs}; outputs {outputs}; {prompt.demos} demonstrations."
