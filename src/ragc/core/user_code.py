"""The user's own code, named in a recipe as `package.module:name`; modules beside it come first."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ragc.errors import UsageError, nearest

REFERENCE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
"""What a reference looks like; no id of ours has a colon."""

_MODULES = (".py", ".pyw", ".pyc", ".so", ".pyd", ".dylib", ".dll")
"""How files end that Python can run, or that those load, on any system."""

_MAX_FILES = 10_000

_sources_only: set[str] = set()


def is_reference(text: str) -> bool:
    """Returns whether `text` names an object in a module."""
    return re.fullmatch(REFERENCE, text, re.ASCII) is not None


def load_object(reference: str, base: Path) -> Any:
    """Imports what `reference` names, from `base` or else from Python's path.

    A module of the same name from another folder is imported again. Raises UsageError in one sentence, with
    what the module itself raised.
    """
    name = reference.partition(":")[0]
    with _beside(base.resolve(), name.partition(".")[0]):
        return _loaded(reference, base, lambda: importlib.import_module(name))


def load_from(reference: str, file: Path) -> Any:
    """Imports what `reference` names from the module `file`; nothing beside the file can be imported.

    Raises UsageError as `load_object` does.
    """
    name = reference.partition(":")[0]
    loader = _SourceLoader(name, str(file))
    spec: Any = spec_from_file_location(name, file, loader=loader)
    module = sys.modules[name] = module_from_spec(spec)

    def run() -> ModuleType:
        loader.exec_module(module)
        return module

    try:
        return _loaded(reference, file.parent, run)
    except BaseException:
        del sys.modules[name]
        raise


def _loaded(reference: str, base: Path, imported: Callable[[], ModuleType]) -> Any:
    name, _, attribute = reference.partition(":")
    try:
        module = imported()
    except (Exception, SystemExit) as error:
        reason = f"cannot be imported: {type(error).__name__}: {error}; mend the module {name!r}."
        if isinstance(error, ModuleNotFoundError) and error.name:
            reason = f"cannot be imported: {name} imports {error.name!r}, which is not installed; install it."
            if name.endswith(".py"):
                reason = f"names a file; name the module, {name.removesuffix('.py')}:{attribute}."
            elif f"{name}.".startswith(f"{error.name}."):
                reason = (
                    f"names the module {name!r}, which is neither beside the recipe (in {str(base)!r}) nor "
                    f"installed; put {name.replace('.', '/')}.py there."
                )
        raise UsageError(f"{reference!r} {reason}") from error
    value = getattr(module, attribute, None)
    if value is None:
        public = [known for known in vars(module) if not known.startswith("_")]
        raise UsageError(
            f"{reference!r} names {attribute!r}, which is not in {name!r}.{nearest(attribute, public)} "
            f"Define it there."
        )
    return value


@contextmanager
def _beside(base: Path, top: str) -> Iterator[None]:
    """Lets imports look into `base` first, until exit; forgets a package `top` from elsewhere."""
    known = sys.modules.get(top)
    places = [getattr(known, "__file__", None) or "", *map(str, getattr(known, "__path__", ()))]
    is_here = (base / f"{top}.py").is_file() or (base / top).is_dir()
    if is_here and not any(Path(at).is_relative_to(base) for at in places if at):
        for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
            del sys.modules[name]
    sys.path.insert(0, str(base))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(base))


def ignore_bytecode(base: Path) -> None:
    """Makes Python import modules in the folder `base` from sources and libraries alone, from now on.

    Compiled files (`__pycache__`, `.pyc`), which somebody may have put there, are not read, and none is
    written.
    """
    root = os.path.join(base.resolve(), "")  # noqa: PTH118 - with a slash at its end
    if root not in _sources_only:
        _sources_only.add(root)
        sys.path_importer_cache.clear()
    if _find_sources not in sys.path_hooks:
        sys.path_hooks.insert(0, _find_sources)


def _find_sources(path: str) -> Any:
    """Returns the finder of modules in `path`; a hook of `sys.path_hooks` for `ignore_bytecode`."""
    if not os.path.join(os.path.abspath(path), "").startswith(tuple(_sources_only)):  # noqa: PTH100, PTH118
        raise ImportError(path)
    return FileFinder(path, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_SourceLoader, SOURCE_SUFFIXES))


class _SourceLoader(SourceFileLoader):
    """Compiles a module again each time."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def code_files(folder: Path) -> dict[str, Path]:
    """Returns the files in `folder` that an import could run or read, by relative path with `/`, sorted.

    Those are modules, and all files of folders that hold modules; links are followed. Files of other folders,
    data right in `folder`, and what Python itself compiled into `__pycache__` are not included. Raises
    UsageError beyond 10,000.
    """
    files: dict[str, Path] = {}
    packages, seen = set[str](), {os.path.realpath(folder)}
    for here, folders, names in os.walk(folder, followlinks=True):
        within = Path(here).relative_to(folder).as_posix()
        holds = any(name.endswith(_MODULES) for name in names)
        if within != "." and (holds or str(Path(here).parent) in packages):
            packages.add(here)
        for name in names:
            if name.endswith(_MODULES) or here in packages:
                files[f"{within}/{name}".removeprefix("./")] = Path(here, name)
        places = {name: os.path.realpath(Path(here, name)) for name in sorted(folders)}
        folders[:] = [
            name
            for name, place in places.items()
            if name != "__pycache__" and not (within == "." and name.startswith(".")) and place not in seen
        ]
        seen.update(places.values())
        if len(files) > _MAX_FILES:
            raise UsageError(
                f"{folder} holds more than {_MAX_FILES:,} files of modules; keep only the modules that its "
                "recipe names there."
            )
    return dict(sorted(files.items()))


def code_digest(value: Any) -> str:
    """Returns a short digest of the file that defines `value`; of its name if there is no such file."""
    try:
        return file_digest(Path(inspect.getfile(value)))
    except (OSError, TypeError):
        return _short_digest(repr(getattr(value, "__qualname__", value)))


def function_digest(function: Callable[..., Any]) -> str:
    """Returns a short digest of the source of `function`, not of what it calls; without, of its name."""
    try:
        return _short_digest(inspect.getsource(function if inspect.isroutine(function) else type(function)))
    except (OSError, TypeError):
        return _short_digest(getattr(function, "__qualname__", ""))


@contextmanager
def no_exit(what: str) -> Iterator[None]:
    """Raises UsageError in the place of SystemExit inside: it would end the event loop, and nobody's wait.

    `what` is the user's code that is called, the beginning of a sentence.
    """
    try:
        yield
    except SystemExit as error:
        raise UsageError(
            f"{what} ended the process (SystemExit: {error.code}); return a value, or raise an Exception."
        ) from error


def file_digest(file: Path) -> str:
    """Returns a short digest of `file`. Raises OSError."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def _short_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
