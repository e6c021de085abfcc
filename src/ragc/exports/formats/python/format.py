"""python: one file that needs only Python's standard library: prompts, reply parsing, the program."""

from __future__ import annotations

import re

from ragc.exports.loading import ExportedPrompt
from ragc.exports.write import Format
from ragc.prompts.model import CompiledPrompt, ExportedProgram

SUFFIX = ".py"


READING = (
    "meaning", "parsed", "json_objects", "prose", "refusals", "thoughts", "verdicts", "other_names",
    "step_calls", "mending", "field_values", "labels", "markers", "tags", "listings", "steps", "sole_texts",
    "sentences", "cleaning", "parsers",
)  # fmt: skip
"""Modules that read replies, and that exported files have too; each needs those before it."""


def write(program: ExportedProgram) -> dict[str, bytes]:
    """Returns one file for all prompts, named after the method; raises NotExpressible."""
    return {_file_name(program): _file(program).encode()}


def _file_name(program: ExportedProgram) -> str:
    return re.sub(r"\W", "_", program.method, flags=re.ASCII) + SUFFIX


def _file(program: ExportedProgram) -> str:
    from ragc.exports.formats.python.prompts import (
        READERS,
        answer,
        answers,
        check,
        function,
        functions,
        helpers,
        table,
    )
    from ragc.exports.formats.python.source import Pieces, bracket, docstring, literal, string_literal
    from ragc.prompts.model import style

    for prompt in program:
        check(prompt)
    names, pieces = functions(program), Pieces()
    styles = {style(prompt) for prompt in program}
    unused_readers = [READERS[way] for way in ("markers", "tags") if way not in styles]
    pieces.need("collections.abc", "Mapping", *(["Sequence"] if _lists(program) else []))
    pieces.need("typing", "Any")
    package = "ragc.exports.formats.python.runtime"
    calls = pieces.extract(package, "calls.py", but=("PROMPTS",))
    whole = answer(program, pieces)
    code = [
        *([whole] if whole else []),
        calls,
        pieces.extract("ragc.prompts", "model.py", ("AGAIN",)),
        *(function(prompt, names[prompt.name]) for prompt in program),
        pieces.extract(package, "rendering.py", helpers(program)),
        *(pieces.extract("ragc.programs.calls.reading", f"{name}.py") for name in READING),
        pieces.extract(package, "json_replies.py", but=unused_readers),
        table(program, names),
    ]
    functions_ = ["answer"] * answers(program) + ["ask", "messages", "parse", "repair", "request"]
    public = ["NOTE", "PROGRAM", "PROMPTS", "Cut", "Prompt", "ReplyError", *functions_]
    head = [
        docstring(_about(program, whole=answers(program))),
        "from __future__ import annotations",
        pieces.imports,
        f"__all__ = {bracket('[', [string_literal(name) for name in public], ']', 0, 10)}",
        f"PROGRAM = {string_literal(program.fingerprint)}\nNOTE = {literal(program.note, 0, 7)}",
    ]
    return "\n\n".join(head) + "\n\n\n" + "\n\n\n".join(code) + "\n"


def _lists(program: ExportedProgram) -> bool:
    return any(one.many for prompt in program for one in prompt.inputs)


def _about(program: ExportedProgram, *, whole: bool) -> str:
    """Returns the docstring of the exported file."""
    first = program.prompts[0]
    inputs = ", ".join(f"{one.name}=..." for one in first.inputs)
    lines = [
        f"{program.method}: {program.about}.",
        "",
        "The prompts of a compiled program, as it sends them, and the reading of their replies. Nothing is",
        "needed but Python 3.11 or later: you send the requests.",
        "",
        f'    body = request("{first.name}"{", " if inputs else ""}{inputs})  # for OpenAI\'s chat API',
        f'    outputs = parse("{first.name}", text)  # where it raises ReplyError, send repair(...) once',
        "",
        "`ask` does both with a function of yours that sends a body and gives the text of the reply.",
        *(["`answer` is the whole program, but for the search."] if whole else []),
        *([] if program.single else [program.flow_note]),
        "",
        "Prompts:",
        *(f"    {prompt.name}: {_fields(prompt)}" for prompt in program),
        "",
        "Inputs that do not fit the model's context are sent whole here; the program cuts them.",
        f"Program {program.fingerprint}.",
        *([program.note] if program.note else []),
    ]
    return "\n".join(lines)


def _fields(prompt: CompiledPrompt) -> str:
    """Returns the inputs and outputs of a prompt."""
    inputs = ", ".join(one.name for one in prompt.inputs) or "nothing"
    return f"{', '.join(one.name for one in prompt.outputs)} from {inputs}"


def load(at: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        at.inputs,
        "import importlib, sys",
        f"sys.path.insert(0, {str(at.path.parent)!r})",
        f"made = importlib.import_module({at.path.name.removesuffix(SUFFIX)!r})",
        f"body = made.request({at.prompt.name!r}, **inputs)",
    )


KIND = Format(
    id="python",
    about="one file of Python without dependencies, which renders the prompts and reads the replies",
    suffix=SUFFIX,
    consumer="Python 3.11 or later, the standard library alone",
    write=write,
    load=load,
    imported=True,
    named=lambda program, prompt: _file_name(program),
)
