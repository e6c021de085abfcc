"""Imports point one way, files stay small, and some things are never done."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import ragc

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "targets": ROOT / "src/ragc/targets",
    "metrics": ROOT / "src/ragc/metrics",
    "exports": ROOT / "src/ragc/exports",
    "signatures": ROOT / "signatures",
    "corpora.datasets": ROOT / "corpora/datasets",
    "corpora": ROOT / "corpora",
    "programs": ROOT / "programs",
    "optimizers": ROOT / "optimizers",
    "experiments": ROOT / "experiments",
}

# Single modules of src/ragc: the ground that every room stands on, and what reads recipes. All others
# (command line, public API, test engine) stand above the rooms, and no room imports them.
GROUND = (
    "activity",
    "counters",
    "errors",
    "extras",
    "fingerprint",
    "heap",
    "inputs",
    "loop",
    "masking",
    "outputs",
    "paths",
    "progress",
    "records",
    "store",
    "store_redis",
    "store_disk",
    "terminal",
    "toml_text",
    "version",
    "wheels",
    "wheels_index",
)
RECIPE = (
    "recipe",
    "recipe_budget",
    "recipe_lines",
    "recipe_read",
    "recipe_search",
    "recipe_secrets",
    "recipe_spec",
    "recipe_study",
    "recipe_table",
    "recipe_targets",
)

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "ground": (),
    "targets": (),
    "signatures": (),
    "corpora": (),
    "corpora.datasets": ("corpora",),
    "metrics": ("targets", "signatures"),
    "programs": ("signatures", "corpora", "targets", "metrics"),
    "recipe": ("programs", "signatures", "corpora", "targets", "metrics"),
    "optimizers": ("recipe", "programs", "signatures", "corpora", "targets", "metrics", "exports.imported"),
    "exports": ("optimizers", "programs", "signatures", "corpora", "targets", "metrics"),
}
LONGEST = 400


def room_of(path: Path) -> str:
    """The room that the file `path` belongs to."""
    for room, folder in FOLDERS.items():
        if folder in path.parents:
            return room
    return "ground" if path.stem in GROUND else "recipe" if path.stem in RECIPE else "surface"


def library() -> Iterator[Path]:
    """Every Python file of the package, experiments left out, each where it really stands."""
    yield from sorted((ROOT / "src/ragc").glob("*.py"))
    for room, folder in FOLDERS.items():
        if room != "experiments":
            yield from sorted(folder.glob("*.py"))


FILES = tuple(library())


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """The line and dotted name of everything that `path` imports."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def called(path: Path) -> Iterator[tuple[int, str]]:
    """The line and name of every call of a plain name."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.lineno, node.func.id


def place(path: Path, *found: object) -> str:
    """`path` in the repository, and what was found there."""
    return " ".join([str(path.relative_to(ROOT)), *map(str, found)])


def is_allowed(room: str, name: str) -> bool:
    """Whether a file in `room` may import the dotted `name`."""
    top, _, rest = name.removeprefix("ragc.").partition(".")
    target = "ground" if top in GROUND else "recipe" if top in RECIPE else top
    if target in ("ground", room) or target in MAY_IMPORT[room]:
        return True
    return any(f"{target}.{rest}.".startswith(f"{allowed}.") for allowed in MAY_IMPORT[room])


def test_imports_point_one_way() -> None:
    bad = []
    for path in FILES:
        room = room_of(path)
        for line, name in imported(path):
            if not name.startswith("ragc."):
                continue
            if name.startswith("ragc.experiments") if room == "surface" else not is_allowed(room, name):
                bad.append(place(path, line, f"{name}, in room {room}"))
    assert bad == [], f"rooms may import the ground and {MAY_IMPORT}"


def test_the_rule_of_imports_itself() -> None:
    assert is_allowed("exports", "ragc.optimizers.compiled.CompiledProgram")
    assert is_allowed("optimizers", "ragc.exports.imported.imported")
    assert not is_allowed("optimizers", "ragc.exports.base.export")
    assert is_allowed("targets", "ragc.errors.RagcError")
    assert not is_allowed("targets", "ragc.programs")
    assert not is_allowed("corpora", "ragc.recipe.load")
    assert not is_allowed("programs", "ragc.cli.main")


def test_every_file_is_short() -> None:
    sizes = {path: len(path.read_text("utf-8").splitlines()) for path in FILES}
    assert [place(path, lines) for path, lines in sizes.items() if lines > LONGEST] == []


def test_every_file_says_what_it_is() -> None:
    assert [place(path) for path in FILES if not ast.get_docstring(tree(path))] == []


def test_imports_are_absolute() -> None:
    relative = [
        place(path, node.lineno)
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_only_the_command_line_prints() -> None:
    silent = [path for path in FILES if path.name not in ("cli.py", "console.py")]
    assert [place(path, line) for path in silent for line, name in called(path) if name == "print"] == []


def test_nothing_that_is_read_can_run_code() -> None:
    unsafe = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
    bad = [(path, *at) for path in FILES for at in imported(path) if at[1].partition(".")[0] in unsafe]
    bad += [(path, *at) for path in FILES for at in called(path) if at[1] in ("eval", "exec")]
    assert [place(*at) for at in bad] == []


def test_all_names_of_the_package_are_listed_and_real() -> None:
    public = {name for name, value in vars(ragc).items() if not name.startswith("_") and is_own(value)}
    public |= {
        name for name in ragc.__all__ if is_own(getattr(ragc, name))
    }  # some are imported when asked for
    assert list(ragc.__all__) == sorted(ragc.__all__)
    assert set(ragc.__all__) - {"__version__"} == public


def is_own(value: object) -> bool:
    return not isinstance(value, ModuleType) and getattr(value, "__module__", "").startswith("ragc")


def test_every_room_is_packaged_and_linked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert set(project["tool"]["setuptools"]["packages"]) == {"ragc", *(f"ragc.{room}" for room in FOLDERS)}
    for room, folder in FOLDERS.items():
        assert (ROOT / "src/ragc" / room.replace(".", "/")).resolve() == folder
    assert project["project"]["version"] == ragc.__version__


@pytest.mark.parametrize("room", FOLDERS)
def test_a_room_is_flat_and_a_package(room: str) -> None:
    assert (FOLDERS[room] / "__init__.py").is_file()
    rooms = set(FOLDERS.values())
    assert [path for path in FOLDERS[room].rglob("*.py") if path.parent not in rooms] == []
