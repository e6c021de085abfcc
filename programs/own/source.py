"""The source of a user's module, which a compiled program stores beside its recipe.

One file is stored: the module that defines the class. Its imports from packages are listed as requirements;
other files of the user's that it imports are listed too, and are not stored.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from ragc.core.user_code import is_reference
from ragc.errors import UsageError


@dataclass(frozen=True, slots=True)
class KeptModule:
    """A module as it is stored: `file` is its path in the compiled directory, "" for one of a package.

    `requirements` are the distributions that it imports from, and `beside` the modules that it imports which
    are neither installed nor stored.
    """

    file: str
    content: bytes
    requirements: tuple[str, ...]
    beside: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the entry for `provenance.json`; the digest is that of the file."""
        file_facts = (
            {"file": self.file, "sha256": hashlib.sha256(self.content).hexdigest()} if self.file else {}
        )
        beside = {"beside": list(self.beside)} if self.beside else {}
        return {**file_facts, "requirements": list(self.requirements), **beside}


def kept_module(name: str, module: Any) -> KeptModule:
    """Returns the module of the program `name`, `module:Class`; `module` is the class or an instance.

    Raises UsageError if it could not be imported elsewhere: in a script, a notebook or a function.
    """
    cls = module if isinstance(module, type) else type(module)
    reference, _, attribute = name.partition(":")
    path = None if reference == "__main__" else _path_of(cls)
    if path is None or not is_reference(name):
        where = "a script or notebook" if reference == "__main__" else "no module that can be imported"
        raise UsageError(
            f"{attribute.rpartition('.')[2]} is defined in {where} ({name!r}), so nothing could open what is "
            "written to a folder; put the class into a module of its own, such as my_program.py, import it "
            "from there, and compile again."
        )
    content = path.read_bytes()
    installed = _installed()
    imported = sorted(set(_imports(content, reference)) - {reference.partition(".")[0]})
    named = {installed[top][0] for top in imported if top in installed}
    beside = [top for top in imported if top not in installed and top not in sys.stdlib_module_names]
    own = installed.get(reference.partition(".")[0])
    if own and _is_installed(path):  # whoever installs the package has the module
        return KeptModule("", content, tuple(sorted({own[0], *named})), tuple(beside))
    file = f"{reference.replace('.', '/')}.py"
    return KeptModule(file, content, tuple(sorted(named)), tuple(beside))


@cache
def _installed() -> Mapping[str, Sequence[str]]:
    """Returns the installed distributions by top-level module; cached, as it takes a second."""
    return {**packages_distributions(), "ragc": ["ragc"]}


def _path_of(cls: type) -> Path | None:
    try:
        path = Path(inspect.getsourcefile(cls) or "")
        return path if path.suffix == ".py" and path.is_file() else None
    except (OSError, TypeError):
        return None


def _is_installed(path: Path) -> bool:
    """Returns whether `path` is in a folder of installed packages."""
    paths = sysconfig.get_paths()
    homes = {Path(paths[name]).resolve() for name in ("purelib", "platlib")}
    return any(path.resolve().is_relative_to(home) for home in homes)


def _imports(content: bytes, reference: str) -> Iterator[str]:
    """Yields the first names of the modules that `content` imports; of relative ones those beside it."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            package = reference.split(".")[: -node.level]
            yield from (".".join([*package, node.module or alias.name]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
