"""Verifies an export: renders it again in memory and compares."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.core.files import read_bytes
from ragc.errors import ArtefactError, UsageError
from ragc.exports.contents import EXAMPLE, export_bundle, export_tree, program_of
from ragc.exports.destination import GRAPH
from ragc.exports.formats.base import FORMATS, Format, format_of
from ragc.prompts.model import ExportedProgram

if TYPE_CHECKING:
    from ragc.compiled.base import CompiledProgram


def check(compiled: CompiledProgram | ExportedProgram | Any, path: str | Path) -> str:
    """Renders `compiled` again and compares it with the export at `path`; returns the id of its format.

    A folder names its format; that of a single file is detected from its suffix, or else its content. In a
    folder of several formats all are checked, and their ids returned with commas. A program exported with
    cases is checked with the same cases. The worked example of an export is accepted if its messages match
    its inputs.

    Raises ArtefactError with the first difference: the file, the line, the actual and the expected text.
    """
    path, program = Path(path), program_of(compiled)
    if listed := _format_ids(path):
        bundle = export_bundle((format_of(id) for id in listed), _with_example(program, path))
        _compare_all(path, bundle.files)
        return ", ".join(bundle.names)
    chosen = _format_at(path, program)
    expected = export_tree(chosen, _with_example(program, path), file=path.is_file())
    if isinstance(expected, bytes) != path.is_file():
        kind = "a file" if path.is_file() else "a folder or not there"
        raise ArtefactError(f"{path} is {kind}, which {chosen.id} does not make of this program.")
    if isinstance(expected, bytes):
        _compare(path, expected)
    else:
        _compare_all(path, expected)
    return chosen.id


def _with_example(program: ExportedProgram, path: Path) -> ExportedProgram:
    """Returns `program` with the worked example of the export at `path`, or of the first export in it."""
    from ragc.exports.examples import example_at

    places = (path / EXAMPLE, *sorted(path.glob(f"*/{EXAMPLE}"))) if path.is_dir() else ()
    example_file = next((file for file in places if file.is_file()), None)
    return (
        program if example_file is None or program.example is not None else example_at(example_file, program)
    )


def _compare_all(folder: Path, expected: Mapping[str, bytes]) -> None:
    file_names = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if not file.is_dir()}
    for name in sorted(file_names | expected.keys()):
        if name not in expected:
            raise ArtefactError(f"{folder / name}: this file is not part of the export.")
        if name not in file_names:
            raise ArtefactError(f"{folder / name}: this file of the export is missing.")
        # a link could make the error show a foreign file
        if (folder / name).resolve() != folder.resolve() / name:
            raise ArtefactError(f"{folder / name}: this is reached by a link, and an export has none.")
        _compare(folder / name, expected[name])


def _format_ids(path: Path) -> tuple[str, ...]:
    """Returns the ids of the formats in a folder of several; none for any other `path`."""
    try:
        graph = json.loads(read_bytes(path / GRAPH))
        return tuple(sorted({*map(str, graph["exports"]), *map(str, graph["refused"])}))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _format_at(path: Path, program: ExportedProgram) -> Format:
    """Returns the format of the export at `path`: from its graph, by the longest matching suffix, or its
    content.
    """
    if path.is_dir():
        try:
            graph = json.loads(read_bytes(path / GRAPH))
            return format_of(str(graph["format"]))
        except (OSError, ValueError, KeyError, TypeError):
            raise ArtefactError(f"{path} is no export: it has no {GRAPH} that names a format.") from None
    if not path.is_file():
        raise ArtefactError(f"There is no export at {path}; name what `ragc export --out` wrote.")
    formats = [format_of(id) for id in FORMATS]
    known = sorted(
        (one for one in formats if path.name.endswith(one.suffix)), key=lambda one: len(one.suffix)
    )
    return known[-1] if known else _format_in(path, formats, program)


def _format_in(path: Path, formats: Sequence[Format], program: ExportedProgram) -> Format:
    """Returns the format of a file without a format's suffix: the one whose lines it contains most of.

    Raises ArtefactError if it contains less than half of the lines of every format.
    """
    content = set(read_bytes(path).splitlines()) - {b""}
    shares: dict[str, float] = {}
    for one in formats:
        try:
            expected = export_tree(one, program, file=True)
        except UsageError:  # a format that this program cannot have, or not in a file
            continue
        if isinstance(expected, bytes):
            lines = set(expected.splitlines()) - {b""}
            shares[one.id] = len(lines & content) / max(1, len(lines | content))
    best = max(shares, key=lambda id: shares[id], default="")
    if not best or shares[best] < 0.5:
        suffixes = ", ".join(sorted({one.suffix for one in formats}))
        raise ArtefactError(
            f"{path} is no export of this program: its name ends in no suffix of a format ({suffixes}), and "
            "its content is that of none."
        )
    return format_of(best)


def _compare(file: Path, expected: bytes) -> None:
    content = read_bytes(file)
    if content == expected:
        return
    old, new = content.splitlines(keepends=True), expected.splitlines(keepends=True)
    at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    has, should = (_quote_line(lines[at] if at < len(lines) else None) for lines in (old, new))
    raise ArtefactError(f"{file}, line {at + 1}: found {has}, and the compiled program gives {should}.")


def _quote_line(line: bytes | None) -> str:
    if line is None:
        return "the end of the file"
    text = line.decode("utf-8", "replace")
    return json.dumps(text if len(text) <= 120 else f"{text[:120]}…", ensure_ascii=False)
