"""python: one file that needs only Python's standard library: the prompts, their requests, their replies."""

from __future__ import annotations

import inspect
import json
import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ragc.exports.formats.base import ExportedPrompt, Format, page
from ragc.prompts.model import AGAIN, ALL_CAN, CompiledPrompt, ExportedProgram, NotExpressible, Slot, style

SUFFIX = ".py"
_WHOLE = frozenset(
    {"no_retrieval", "cot", "vanilla", "vanilla_sources", "iter_retgen", "chain_of_note", "ragx"}
)
"""Methods whose single call a question is all that they do after the search."""

_CHECKED = frozenset(
    {
        *("$defs", "$ref", "anyOf", "const", "enum", "type", "items", "properties", "required"),
        *("additionalProperties", "exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"),
        *("maxItems", "minItems", "maxLength", "minLength"),
    }
)
"""Keywords of a JSON schema by which the file checks a reply."""


def write(program: ExportedProgram) -> dict[str, bytes]:
    """Returns one file for all prompts, named after the method; raises NotExpressible."""
    from ragc.core.text import MARKERS, NUMBERS
    from ragc.signatures import answer

    for prompt in program:
        what = f"The prompt {prompt.name!r}"
        for name in (input.name for input in prompt.inputs):
            if not name.isidentifier() or keyword.iskeyword(name) or name == "model":
                raise NotExpressible(
                    what, f"the input {name!r} cannot be an argument of its function", ALL_CAN
                )
        if odd := sorted(set(_keywords(prompt.output_schema)) - _CHECKED):
            raise NotExpressible(what, f"no code here checks the {odd[0]} of its outputs", ALL_CAN)
    text = page("python.py.j2").render(
        program=program,
        whole=program.single and program.method in _WHOLE,
        inputs=[input.name for input in program.prompts[0].inputs],
        styles={style(prompt) for prompt in program},
        markers=MARKERS.pattern,
        numbers=NUMBERS.pattern,
        answer=answer,
        source=inspect.getsource,
        docstring=_docstring,
        data=_data(program),
    )
    return {_file_name(program): str(text).encode()}


def _file_name(program: ExportedProgram) -> str:
    return re.sub(r"\W", "_", program.method, flags=re.ASCII) + SUFFIX


def _keywords(schema: Any, *, names: bool = False) -> Iterator[str]:
    """Yields the keywords of a JSON schema; `names` says that the keys of `schema` are names of fields."""
    for key, value in schema.items():
        if not names:
            yield key
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, Mapping) and key not in ("const", "enum"):
                yield from _keywords(node, names=not names and key in ("properties", "$defs"))


def _docstring(text: str) -> str:
    """Returns `text` as it stands in a docstring, with invisible characters escaped."""
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _data(program: ExportedProgram) -> str:
    """Returns the prompts as JSON: a text of a message is cut into its lines, and a slot is an object."""
    data = {
        "program": program.fingerprint,
        "note": program.note,
        "again": AGAIN,
        "prompts": {prompt.name: _prompt(program, prompt) for prompt in program},
    }
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _prompt(program: ExportedProgram, prompt: CompiledPrompt) -> dict[str, Any]:
    return {
        "model": prompt.openai_model,
        "parameters": prompt.sampling,
        "enforced": prompt.enforced,
        "style": style(prompt),
        "inputs": {input.name: {"kind": input.kind, "many": input.many} for input in prompt.inputs},
        "schema": prompt.output_schema,
        "messages": [
            {"role": message.role, "parts": [piece for part in message.parts for piece in _pieces(part)]}
            for message in prompt.messages
        ],
    }


def _pieces(part: str | Slot) -> list[Any]:
    return [part._asdict()] if isinstance(part, Slot) else part.splitlines(keepends=True)


def load(place: ExportedPrompt) -> tuple[str, ...]:
    """Returns the lines that load a prompt of an export."""
    return (
        place.inputs,
        "import importlib, sys",
        f"sys.path.insert(0, {str(place.path.parent)!r})",
        f"module = importlib.import_module({place.path.name.removesuffix(SUFFIX)!r})",
        f"body = module.request({place.prompt.name!r}, **inputs)",
    )


KIND = Format(
    id="python",
    about="one file of Python without dependencies, which renders the prompts and sends them",
    suffix=SUFFIX,
    consumer="Python 3.11 or later, the standard library alone",
    write=write,
    load=load,
    imported=True,
    escapes=True,
    consumer_folders=("__pycache__",),
    named=lambda program, prompt: _file_name(program),
)
