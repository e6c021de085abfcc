"""The size of Python code: lines, statements, long functions and files, names of two classes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("src", "corpora", "optimizers", "programs", "signatures")
LONGEST_FUNCTION = 60
LONGEST_FILE = 400


@dataclass(frozen=True)
class Size:
    """The size of some folders.

    `statements` are those of the syntax trees. `long_functions` and `long_files` have more lines than
    LONGEST_FUNCTION and LONGEST_FILE. `shared_names` are names of more than one class, with their number.
    """

    files: int
    lines: int
    statements: int
    long_functions: Mapping[str, int]
    long_files: Mapping[str, int]
    shared_names: Mapping[str, int]


def python_files(folders: Iterable[str]) -> Iterator[Path]:
    """Every Python file of `folders`, where it really stands."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


def size_of(folders: Iterable[str]) -> Size:
    """The size of the Python files of `folders`."""
    files = lines = statements = 0
    long_functions: dict[str, int] = {}
    long_files: dict[str, int] = {}
    classes: Counter[str] = Counter()
    for path in python_files(folders):
        text, name = path.read_text("utf-8"), path.relative_to(ROOT).as_posix()
        length = len(text.splitlines())
        files, lines = files + 1, lines + length
        if length > LONGEST_FILE:
            long_files[name] = length
        for node in ast.walk(ast.parse(text)):
            statements += isinstance(node, ast.stmt)
            if isinstance(node, ast.ClassDef):
                classes[node.name] += 1
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    long_functions[f"{name}:{node.name}"] = length
    shared = {name: number for name, number in sorted(classes.items()) if number > 1}
    return Size(files, lines, statements, long_functions, long_files, shared)
