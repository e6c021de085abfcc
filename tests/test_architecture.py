"""Imports point one way and in no circle, and some things are never done."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import ragc
from tests.examples import cases
from tests.optimizers.colours import begun, written
from tests.paths import ROOT
from tests.processes import environment_of

BENCHMARKS = ROOT / "experiments/benchmarks"
LINKED = ("corpora", "experiments", "optimizers", "programs", "signatures")
"""Folders at the top that are packages of ragc, by way of links in src/ragc."""

ORDER = (
    ("errors",),
    ("core",),
    ("records",),
    ("store",),
    ("downloads",),
    ("signatures",),
    ("targets",),
    ("testing",),
    ("corpora",),
    ("metrics",),
    ("programs",),
    ("prompts",),
    ("recipe",),
    ("task",),
    ("compiled",),
    ("optimizers",),
    ("exports",),
    ("reports",),
    ("doctor", "training"),
    ("serving",),
    ("api",),
    ("",),
    ("cli",),
    ("__main__", "experiments"),
)
"""From the ground up: a part may import those before it, and its own; "" is `ragc` itself."""

OPTIMIZERS = (
    ("harness", "ray"),
    ("candidates",),
    ("search",),
    ("external",),
    ("plan",),
    ("grids",),
    ("compile",),
    ("integrations",),
    ("status",),
    ("",),
)
"""The same inside `optimizers/`."""

LEVEL = {part: level for level, parts in enumerate(ORDER) for part in parts}
STOREY = {part: level for level, parts in enumerate(OPTIMIZERS) for part in parts}
APART = {("targets", "corpora"), ("signatures", "store"), ("signatures", "downloads")}
"""Pairs that do not import each other, whatever their order."""


def module_of(path: Path) -> str:
    """The dotted name of the file `path`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else ("ragc", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def library() -> Iterator[Path]:
    """Every Python file of the package, where it really stands; benchmarks are no part of it."""
    for folder in (ROOT / "src/ragc", *(ROOT / name for name in LINKED)):
        for path in sorted(folder.rglob("*.py")):
            if not any(parent.is_symlink() or parent == BENCHMARKS for parent in path.parents):
                yield path


FILES: Mapping[str, Path] = {module_of(path): path for path in library()}


@cache
def tree(path: Path) -> ast.Module:
    # Python 3.11 miscounts its depth, and raises SystemError, when finalizers run while it builds a tree.
    gc.disable()
    try:
        return ast.parse(path.read_text("utf-8"))
    finally:
        gc.enable()


def part_of(module: str, package: str = "ragc") -> str:
    """The package or single module of `package` that `module` belongs to; "" for `package` itself."""
    return module.removeprefix(package).removeprefix(".").partition(".")[0]


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def walked(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node`, those left out that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if is_for_types(child):
            yield from (inner for other in child.orelse for inner in (other, *walked(other)))  # type: ignore[attr-defined]
            continue
        yield child
        yield from walked(child)


@cache
def imported(path: Path) -> frozenset[str]:
    """The modules of ragc that `path` imports, late imports counted."""
    names: set[str] = set()
    for node in walked(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {
                full if (full := f"{node.module}.{alias.name}") in FILES else node.module
                for alias in node.names
            }
    return frozenset(names & FILES.keys())


def is_allowed(importer: str, name: str) -> bool:
    """Whether the module `importer` may import the module `name`."""
    mine, other = part_of(importer), part_of(name)
    if mine == other == "optimizers":
        mine, other = part_of(importer, "ragc.optimizers"), part_of(name, "ragc.optimizers")
        return mine == other or STOREY[other] < STOREY[mine]
    return mine == other or ((mine, other) not in APART and LEVEL[other] < LEVEL[mine])


def called(path: Path) -> Iterator[tuple[int, str]]:
    """The line and name of every call of a plain name."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id


def test_every_part_has_its_place_in_the_order() -> None:
    assert {part_of(module) for module in FILES} == LEVEL.keys()


def test_imports_point_one_way() -> None:
    wrong = {
        (module, name)
        for module, path in FILES.items()
        for name in imported(path)
        if not is_allowed(module, name)
    }
    assert sorted(wrong) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter({module: imported(path) for module, path in FILES.items()}).prepare()


USES = {
    "ask": "assert not main(['ask', program, 'What colour is q0?', *access])",
    "eval": "assert not main(['eval', program, *access])",
    "load": "ragc.load(program, access=Access('.', targets=True))('What colour is q0?')",
}
"""What is done with a compiled program, where nothing is searched."""


@pytest.mark.parametrize("use", cases(USES, 1))
def test_what_runs_a_compiled_program_imports_no_search(use: str, home: Path, tmp_path: Path) -> None:
    begun(written(home))("whole", sets=("search.trials=1",))
    script = f"""
import sys
import ragc
from ragc.cli.main import main
from ragc.compiled.access import Access
from ragc.task import base
from ragc.testing import ScriptedTarget
base.build_target = lambda spec: ScriptedTarget(lambda request: '{{"answer": "red"}}')
program, access = "whole", ["--base", ".", "--trust-targets"]
{USES[use]}
print([name for name in sys.modules if name.startswith("ragc.optimizers")])
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=home,
        env=environment_of(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "[]"


def test_a_file_says_what_it_is() -> None:
    assert [module for module, path in FILES.items() if not ast.get_docstring(tree(path))] == []


def test_imports_are_absolute() -> None:
    relative = [
        (module, node.lineno)
        for module, path in FILES.items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_only_the_command_line_prints() -> None:
    prints = [
        (module, line)
        for module, path in FILES.items()
        for line, name in called(path)
        if name == "print" and part_of(module) not in ("cli", "experiments")
    ]
    assert prints == []


_WRITES = re.compile(r"""\.write_(?:text|bytes)\(|open\([^)]*["'][wax]b?\+?["']""")
OWN_WRITERS = {
    "ragc.cli.failures",
    "ragc.cli.rows_file",
    "ragc.compiled.pack",
    "ragc.core.files",
    "ragc.exports.destination",
    "ragc.optimizers.grids.tables.cell_rows",
    "ragc.optimizers.search.log",
    "ragc.targets.vllm_server",
    "ragc.training.finetune.base_models",
}
"""Modules that write beside `core.files`: to the home, to streams, and line by line."""


def test_what_a_user_gets_is_written_by_one_module() -> None:
    apart = ("corpora", "downloads", "experiments")  # indexes and weights are built beside their place
    writing = {
        module
        for module, path in FILES.items()
        if part_of(module) not in apart and _WRITES.search(path.read_text("utf-8"))
    }
    assert not writing - OWN_WRITERS


def test_nothing_that_is_read_can_run_code() -> None:
    unsafe = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
    for module, path in FILES.items():
        for node in ast.walk(tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & unsafe, path
        runs = [(line, name) for line, name in called(path) if name in ("eval", "exec")]
        assert runs == [] or module == "ragc.programs.own", path  # a user's program, once it is trusted


def test_all_names_of_the_package_are_listed_and_real() -> None:
    public = {name for name, value in vars(ragc).items() if not name.startswith("_") and is_own(value)}
    public |= {
        name for name in ragc.__all__ if is_own(getattr(ragc, name))
    }  # some are imported when asked for
    assert set(ragc.__all__) - {"__version__"} == public


def is_own(value: object) -> bool:
    return not isinstance(value, ModuleType) and getattr(value, "__module__", "").startswith("ragc")


def test_every_package_is_listed_and_every_folder_linked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = {module for module, path in FILES.items() if path.name == "__init__.py"}
    assert set(project["tool"]["setuptools"]["packages"]) == packages
    assert {path.parent for path in FILES.values()} == {FILES[name].parent for name in packages}
    for name in LINKED:
        assert (ROOT / "src/ragc" / name).resolve() == ROOT / name
    assert project["project"]["version"] == ragc.__version__
