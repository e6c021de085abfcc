"""Writes and checks exports: a file for a program of one call, else a folder with graph, README and example.

Here are also the names for authors of formats: `Format`, `FORMATS`, `format_of`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.core.files import read_bytes, with_manifest
from ragc.errors import ArtefactError, UsageError
from ragc.exports.destination import GRAPH, VERSION, refuse_existing, write_atomically
from ragc.exports.formats.base import ALL, FORMATS, Format, format_of, json_text, page
from ragc.prompts.model import INPUTS, ExportedProgram, reading

__all__ = ["FORMATS", "Exported", "Format", "check", "export", "format_of"]

EXAMPLE = "example.json"
"""The worked example in a folder, besides `graph.json`, `README.md` and the files of its format."""

Tree = bytes | Mapping[str, bytes]
"""One file, or the files of a folder by relative path."""

_OTHER_SUFFIXES = frozenset({".txt", ".md", ".yml", ".jinja2", ".j2", ".toml", ".csv", ".zip", ".gz", ".tar"})


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: the path of each format by id, and why others were refused.

    `loading` are the lines that load each export, by id, and `hints` say what else it could include.
    """

    written: Mapping[str, Path]
    refused: Mapping[str, str]
    loading: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        written = {id: str(path) for id, path in self.written.items()}
        loading = {id: list(lines) for id, lines in self.loading.items()}
        return {"written": written, "refused": dict(self.refused), "loading": loading}


def program_of(compiled: Any) -> ExportedProgram:
    """Returns the ExportedProgram of a compiled program or a RagProgram; an ExportedProgram is returned
    unchanged.
    """
    if isinstance(compiled, ExportedProgram):
        return compiled
    from ragc.exports.derive import derive_export

    return derive_export(compiled)


def refuse(format: str, out: str | Path, *, force: bool = False) -> None:
    """Raises the errors of `export` that need no program: UnknownName, or UsageError on `out`."""
    formats = [format_of(id) for id in (FORMATS if format == ALL else (format,))]
    if format == ALL or (formats[0].folder and not formats[0].alone):
        _refuse_suffix(Path(out), f"The export --to {format}")
    refuse_existing(Path(out), force=force, consumer_folders=_consumer_folders())


def refuse_for(program: ExportedProgram, format: str, out: str | Path, *, questions: int = 0) -> None:
    """Raises UsageError if `out` is no name for `program` in `format`, or `questions` do not fit in it.

    A program of several calls needs a folder; a single file has no place for questions unless it is one of
    cases, and one that is imported needs its suffix.
    """
    if format == ALL:
        return
    out, chosen = Path(out), format_of(format)
    if not program.single:
        _refuse_suffix(out, f"{program.method} may make several calls, so its export --to {format}")
    elif questions and not (chosen.folder or chosen.cases):
        with_cases = ", ".join(id for id in FORMATS if format_of(id).cases)
        raise UsageError(
            f"--questions {questions} sends dev questions along, and the export of {program.method} --to "
            f"{format} is one file of prompts, which has no place for them; leave --questions out, or export "
            f"--to {ALL} or one of {with_cases}."
        )
    elif chosen.imported and out.suffix != chosen.suffix:
        raise UsageError(
            f"The export --to {format} is a file to import, and --out {out} does not end in {chosen.suffix}; "
            f"name it {out.with_name(out.name + chosen.suffix)}."
        )


def _consumer_folders() -> set[str]:
    """Returns the names of the folders that consumers make in an export."""
    return {name for id in FORMATS for name in format_of(id).consumer_folders}


def _is_file_name(out: Path) -> bool:
    """Returns whether `out` has the suffix of a file."""
    suffixes = {Path(f"x{format_of(id).suffix}").suffix for id in FORMATS} | _OTHER_SUFFIXES
    return out.suffix.lower() in suffixes


def _refuse_suffix(out: Path, what: str) -> None:
    """Raises UsageError when `out`, a folder, has the suffix of a file; `what` begins the message."""
    if _is_file_name(out):
        raise UsageError(
            f"{what} is a folder, and --out {out} is the name of a file; name a folder, such as "
            f"{out.with_name(out.name.partition('.')[0] or 'export')}."
        )


def export(compiled: Any, format: str, out: str | Path, *, force: bool = False) -> Exported:
    """Writes `compiled` in `format` to `out`, atomically.

    `compiled` is a compiled program, a RagProgram, or an ExportedProgram with cases or an example. A program
    of one call is one file where the format allows it, others are a folder with `graph.json`, `README.md`
    and, if there is one, `example.json`. With `format` "all" `out` is a folder with an export per format,
    named after it, and `graph.json` lists them; formats that cannot express the program, or not without
    questions, are listed in `refused`. Raises UnknownName, NotExpressible, and UsageError when `out` exists
    and `force` is false, or is not an export.
    """
    out = Path(out)
    refuse(format, out, force=force)
    program, refused = program_of(compiled), dict[str, str]()
    refuse_for(program, format, out)
    tree: Tree
    if format == ALL:
        names, refused, tree = bundle(map(format_of, FORMATS), program)
        paths = {id: out / name for id, name in names.items()}
    else:
        tree, paths = export_tree(format_of(format), program, file=_is_file_name(out)), {format: out}
    write_atomically(out, tree, _consumer_folders())
    loading, hints = {}, {}
    for id, path in paths.items():
        chosen = format_of(id)
        loading[id] = chosen.loading(program, path, folder=path.is_dir())
        untold = (program.note,) if chosen.alone and program.note and path.is_file() else ()
        hints[id] = (*chosen.hints(program), *untold)  # no README and no place in the file for the licence
    return Exported(paths, refused, loading, hints)


def export_tree(chosen: Format, program: ExportedProgram, *, file: bool = False) -> Tree:
    """Returns the bytes of one file, or those of all files of a folder by relative path, sorted by name.

    `file` requests a single file from a format that normally writes a folder, if it allows that.
    """
    files = dict(chosen.files(program))
    if program.single and len(files) == 1 and (not chosen.folder or (chosen.alone and file)):
        return next(iter(files.values()))
    shown = {"program": program, "format": chosen, "inputs": "" if chosen.escapes else INPUTS}
    shown |= {"loading": chosen.loading(program, Path(), folder=True), "hints": chosen.hints(program)}
    if program.example is not None:
        files[EXAMPLE] = json_text(program.example).encode()
    return _with_graph(graph_json(chosen, program), files, "README.md.j2", shown)


def bundle(
    formats: Iterable[Format], program: ExportedProgram
) -> tuple[dict[str, str], dict[str, str], dict[str, bytes]]:
    """Exports in all `formats`, with a common `graph.json` and README: the path of each by id, why others
    were refused, and all files by path.
    """
    names: dict[str, str] = {}
    refused: dict[str, str] = {}
    files: dict[str, bytes] = {}
    exports = []
    for chosen in formats:
        try:
            tree = export_tree(chosen, program)
        except UsageError as error:
            refused[chosen.id] = str(error)
            continue
        folder = not isinstance(tree, bytes)
        name = names[chosen.id] = chosen.id if folder else f"{chosen.id}{chosen.suffix}"
        members = (
            {name: tree} if isinstance(tree, bytes) else {f"{name}/{inner}": tree[inner] for inner in tree}
        )
        files |= members
        loading = chosen.loading(program, Path(name), folder=folder)
        exports.append((name, chosen, loading, chosen.hints(program)))
    shown = {"program": program, "exports": exports, "refused": refused, "inputs": INPUTS}
    about = {"ragc": VERSION, "exports": names, "refused": refused}
    return names, refused, _with_graph(about, files, "overview.md.j2", shown)


def _with_graph(
    about: Mapping[str, Any], files: Mapping[str, bytes], readme: str, shown: Mapping[str, Any]
) -> dict[str, bytes]:
    """Returns `files` with a README, the template `readme` filled in by `shown`, and a `graph.json` of
    `about` and all digests, sorted by name.
    """
    text: str = page(readme).render(shown)
    tree = {**files, "README.md": text.encode()}
    return dict(sorted(with_manifest(GRAPH, about, tree, lambda value: json_text(value).encode()).items()))


def graph_json(chosen: Format, program: ExportedProgram) -> dict[str, Any]:
    """Returns the machine-readable graph: the method, its knobs, each prompt's role, sampling and schemas."""
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
                "model": prompt.model,
                "layout": prompt.layout,
                "parameters": dict(prompt.parameters),
                **({"thinking_tokens": prompt.reasoning_tokens} if prompt.reasoning_tokens else {}),
                "input_schema": prompt.input_schema,
                "output_schema": dict(prompt.output_schema),
                "reply": reading(prompt),
                "demonstrations": prompt.demos,
                "fingerprint": prompt.fingerprint,
            }
            for prompt in program
        },
    }


def check(compiled: Any, path: str | Path) -> str:
    """Renders `compiled` again and compares it with the export at `path`; returns the id of its format.

    A folder names its format, or several: all are checked, and their ids returned with commas. Folders that
    a consumer makes in it are left out. The format of a single file is detected from its suffix, or else its
    content. A program exported with cases is checked with the same cases; the worked example is accepted if
    its messages match its inputs.

    Raises ArtefactError with the first difference: the file, the line, the actual and the expected text.
    """
    path, program = Path(path), program_of(compiled)
    if path.is_file():
        id, content = _closest(path, program)
        _compare(path, content)
        return id
    if not path.is_dir():
        raise ArtefactError(f"There is no export at {path}; name what `ragc export --out` wrote.")
    try:
        graph = json.loads(read_bytes(path / GRAPH))
        ids = sorted({*graph["exports"], *graph["refused"]}) if "exports" in graph else [str(graph["format"])]
    except (OSError, ValueError, KeyError, TypeError):
        raise ArtefactError(f"{path} is no export: it has no {GRAPH} that names a format.") from None
    formats, program = [format_of(id) for id in ids], _with_example(program, path)
    tree: Tree
    if "exports" in graph:
        names, _, tree = bundle(formats, program)
        ids = list(names)
    else:
        tree = export_tree(formats[0], program)
    if isinstance(tree, bytes):
        raise ArtefactError(f"{path} is a folder, which {ids[0]} does not make of this program.")
    _compare_all(path, tree)
    return ", ".join(ids)


def _with_example(program: ExportedProgram, path: Path) -> ExportedProgram:
    """Returns `program` with the worked example of the export at `path`, or of the first export in it."""
    from ragc.exports.examples import example_at

    places = (path / EXAMPLE, *sorted(path.glob(f"*/{EXAMPLE}")))
    file = next((place for place in places if place.is_file()), None)
    return program if file is None or program.example else replace(program, example=example_at(file, program))


def _closest(path: Path, program: ExportedProgram) -> tuple[str, bytes]:
    """Returns the format of the file `path`, by the longest suffix or else the most lines in common, and its
    content for `program`. Raises ArtefactError if no format has any of its lines.
    """
    formats = sorted((format_of(id) for id in FORMATS), key=lambda chosen: -len(chosen.suffix))
    named = [chosen for chosen in formats if path.name.endswith(chosen.suffix)][:1]
    lines, best = set(read_bytes(path).splitlines()) - {b"", b"{", b"}"}, (0, "", b"")
    for chosen in named or formats:
        try:
            content = export_tree(chosen, program, file=True)
        except UsageError:  # a format that this program cannot have
            continue
        if isinstance(content, bytes):
            shared = len(lines & set(content.splitlines())) + len(named)
            best = max(best, (shared, chosen.id, content))
    if not best[0]:
        raise ArtefactError(
            f"{path} is no export of this program, by its name or its content; give what `ragc export` wrote."
        )
    return best[1:]


def _compare_all(folder: Path, expected: Mapping[str, bytes]) -> None:
    """Raises ArtefactError unless `folder` has the files `expected`, and no others but in the folders of
    consumers.
    """
    files = {file.relative_to(folder) for file in folder.rglob("*") if not file.is_dir()}
    folders = _consumer_folders()
    names = {file.as_posix() for file in files if not folders & {*file.parts[:-1]}}
    for name in sorted(names | expected.keys()):
        if name not in expected:
            raise ArtefactError(f"{folder / name}: this file is not part of the export.")
        if name not in names:
            raise ArtefactError(f"{folder / name}: this file of the export is missing.")
        # a link could make the error show a foreign file
        if (folder / name).resolve() != folder.resolve() / name:
            raise ArtefactError(f"{folder / name}: this is reached by a link, and an export has none.")
        _compare(folder / name, expected[name])


def _compare(file: Path, expected: bytes) -> None:
    content = read_bytes(file)
    if content == expected:
        return
    old, new = content.splitlines(keepends=True), expected.splitlines(keepends=True)
    pairs = enumerate(zip(old, new, strict=False))
    index = next((i for i, (before, after) in pairs if before != after), min(len(old), len(new)))
    has, should = (_quote_line(lines[index] if index < len(lines) else None) for lines in (old, new))
    raise ArtefactError(f"{file}, line {index + 1}: found {has}, and the compiled program gives {should}.")


def _quote_line(line: bytes | None) -> str:
    if line is None:
        return "the end of the file"
    text = line.decode("utf-8", "replace")
    return json.dumps(text if len(text) <= 120 else f"{text[:120]}…", ensure_ascii=False)
