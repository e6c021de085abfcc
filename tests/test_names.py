"""Words that say nothing of what they name are no identifiers of the package, experiments and tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import thorough
from tests.paths import ROOT

BANNED = frozenset(
    [
        "asked",
        "found",
        "given",
        "heats",
        "kept",
        "made",
        "moved",
        "people",
        "place",
        "prospect",
        "room",
        "said",
        "standin",
        "told",
        "victor",
        "worked",
    ]
)

FOLDERS = ("corpora", "experiments", "optimizers", "programs", "signatures", "src/ragc", "tests")
OURS = ("experiments", "ragc", "tests")

FILES = {
    "corpora/sources/given/__init__.py": "the source of kind `given`, a word of recipes",
    "corpora/sources/given/source.py": "the same",
}
"""Files that are called by such a word, and why."""

IDENTIFIERS = {("src/ragc/doctor/check.py", "found"): "a key of `ragc doctor --json`"}
"""Identifiers that are such a word, and why."""


def python_files() -> Iterator[Path]:
    """Every Python file, where it really stands."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


def bindings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and name of all that `tree` binds, but for what a library calls its own."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case (
                ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name))
            ):
                yield node.lineno, name
            case ast.Import(names=aliases):
                yield from ((node.lineno, alias.asname) for alias in aliases if alias.asname)
            case ast.ImportFrom(names=aliases, module=module):
                is_ours = (module or "").partition(".")[0] in OURS
                yield from (
                    (node.lineno, alias.asname or alias.name) for alias in aliases if alias.asname or is_ours
                )


def banned(tree: ast.AST) -> list[tuple[int, str]]:
    """The bindings of `tree` whose name is a banned word, underscores around it or none."""
    return [(line, name) for line, name in bindings(tree) if name.strip("_") in BANNED]


@thorough
def test_no_identifier_is_a_word_that_says_nothing() -> None:
    hits = {
        (path.relative_to(ROOT).as_posix(), name): line
        for path in python_files()
        for line, name in banned(ast.parse(path.read_text("utf-8")))
    }
    assert {where: line for where, line in hits.items() if where not in IDENTIFIERS} == {}
    assert IDENTIFIERS.keys() <= hits.keys()  # renamed: take it off the list


def test_no_file_or_folder_is_called_by_such_a_word() -> None:
    paths = {path.relative_to(ROOT) for path in python_files()}
    named = {path.as_posix() for path in paths if {*path.parts[:-1], path.stem} & BANNED}
    assert named == FILES.keys()


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "found: int = 1",
        "for _, made in []: pass",
        "with open('x') as kept: pass",
        "def told(): pass",
        "async def said(): pass",
        "def f(place=1): pass",
        "def f(*room, **people): pass",
        "lambda asked: 0",
        "class victor: pass",
        "class C:\n    moved: int",
        "self.worked = 1",
        "self._heats = 1",
        "[0 for given in []]",
        "(prospect := 1)",
        "import x as standin",
        "from ragc.x import found",
        "from tests.x import y as made",
        "try: pass\nexcept E as said: pass",
        "match x:\n    case [kept]: pass",
        "match x:\n    case {**place}: pass",
        "match x:\n    case [1, *room]: pass",
    ],
)
def test_each_way_to_bind_a_name_is_seen(source: str) -> None:
    assert banned(ast.parse(source))


@pytest.mark.parametrize(
    "source", ["from hypothesis import given", "x.found(made=1)", "'told'", "foundation = 1", "print(found)"]
)
def test_what_binds_no_such_name_is_passed_over(source: str) -> None:
    assert not banned(ast.parse(source))
