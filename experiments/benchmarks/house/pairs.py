"""Parts of `optimizers/` that import each other when they run; a part is a folder or a file in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations

from experiments.benchmarks.house.size import ROOT, python_files

FOLDER, PACKAGE = "optimizers", "ragc.optimizers."


def two_way_pairs() -> tuple[tuple[str, str], ...]:
    """The pairs of parts each of which imports the other; imports for type checkers do not count."""
    edges = {
        (importer, part)
        for path in python_files([FOLDER])
        if (importer := path.relative_to(ROOT / FOLDER).with_suffix("").parts[0]) != "__init__"
        for part in _parts(ast.parse(path.read_text("utf-8")))
        if part != importer
    }
    parts = sorted({part for edge in edges for part in edge})
    return tuple(pair for pair in combinations(parts, 2) if {pair, pair[::-1]} <= edges)


def _parts(tree: ast.Module) -> set[str]:
    """The parts of `optimizers/` that a module imports."""
    names: set[str] = set()
    for node in _at_run_time(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix(PACKAGE).partition(".")[0] for name in names if name.startswith(PACKAGE)}


def _at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node` but those that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _at_run_time(child)
