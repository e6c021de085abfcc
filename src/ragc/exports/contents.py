"""The contents of an export: the files of its format, and in a folder also graph, README and example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ragc.core.files import with_manifest
from ragc.errors import UsageError
from ragc.exports.destination import GRAPH, VERSION
from ragc.exports.formats.base import Format, json_bytes
from ragc.prompts.model import ExportedProgram

README, EXAMPLE = "README.md", "example.json"
"""Files of a folder besides `graph.json` and the files of its format."""

Tree = bytes | Mapping[str, bytes]
"""One file, or the files of a folder by relative path."""


def program_of(compiled: Any) -> ExportedProgram:
    """Returns the ExportedProgram of a compiled program or a RagProgram; an ExportedProgram is returned
    unchanged.
    """
    if isinstance(compiled, ExportedProgram):
        return compiled
    from ragc.exports.derive import derive_export

    return derive_export(compiled)


def export_tree(chosen: Format, program: ExportedProgram, *, file: bool = False) -> Tree:
    """Returns the bytes of one file, or those of all files of a folder by relative path, sorted by name.

    `file` requests a single file from a format that normally writes a folder, if it allows that.
    """
    from ragc.exports.readme import readme

    files = dict(chosen.files(program))
    if program.single and len(files) == 1 and (not chosen.folder or (chosen.alone and file)):
        return next(iter(files.values()))
    files[README] = readme(chosen, program).encode()
    if program.example is not None:
        files[EXAMPLE] = json_bytes(program.example)
    return _add_manifest(graph_json(chosen, program), files)


@dataclass(frozen=True, slots=True)
class ExportBundle:
    """Exports in several formats: the path of each by id, why others were refused, and all files by path."""

    names: Mapping[str, str]
    refused: Mapping[str, str]
    files: Mapping[str, bytes]


def export_bundle(formats: Iterable[Format], program: ExportedProgram) -> ExportBundle:
    """Exports in all `formats` that can express `program`, with a common `graph.json` and README."""
    from ragc.exports.readme import overview

    names: dict[str, str] = {}
    refused: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for one in formats:
        try:
            tree = export_tree(one, program)
        except UsageError as error:
            refused[one.id] = str(error)
            continue
        names[one.id] = f"{one.id}{one.suffix}" if isinstance(tree, bytes) else one.id
        single = {"": tree} if isinstance(tree, bytes) else {f"/{name}": tree[name] for name in tree}
        files |= {f"{names[one.id]}{rest}": data for rest, data in single.items()}
    listing = {"ragc": VERSION, "exports": names, "refused": refused}
    files[README] = overview(program, names, refused).encode()
    return ExportBundle(names, refused, _add_manifest(listing, files))


def _add_manifest(about: dict[str, Any], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns `files` with a `graph.json` of `about` and their digests, sorted by name."""
    return dict(sorted(with_manifest(GRAPH, about, files, json_bytes).items()))


def graph_json(chosen: Format, program: ExportedProgram) -> dict[str, Any]:
    """Returns the machine-readable graph: the method, its knobs, each prompt's role, sampling and schemas."""
    from ragc.prompts.model import reading

    return {
        "ragc": VERSION,
        "format": chosen.id,
        "program": program.fingerprint,
        "note": program.note,
        "method": program.method,
        "knobs": dict(program.knobs),
        "learned": dict(program.learned),
        "prompts": {
            prompt.name: {
                "role": prompt.role,
                "model": program.model(prompt),
                "layout": prompt.layout,
                "parameters": prompt.parameters(),
                **({"thinking_tokens": prompt.thinking} if prompt.thinking else {}),
                "input_schema": prompt.input_schema,
                "output_schema": dict(prompt.output_schema),
                "reply": reading(prompt),
                "demonstrations": prompt.demos,
                "fingerprint": prompt.fingerprint,
            }
            for prompt in program
        },
    }
