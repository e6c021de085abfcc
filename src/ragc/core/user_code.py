"""The user's own code, named in a recipe as `package.module:name`; modules beside it come first."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
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
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ragc.errors import UsageError, nearest

REFERENCE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
"""What a reference looks like; no id of ours has a colon."""


_MODULES = (".py", ".pyw", ".so", ".pyd", ".dylib", ".dll")
"""How files end that Python can run, or that those load, on any system."""

_MAX_FILES = 10_000


def is_reference(text: str) -> bool:
    """Returns whether `text` names an object in a module."""
    return re.fullmatch(REFERENCE, text, re.ASCII) is not None


def load_object(reference: str, base: Path) -> Any:
    """Imports what `reference` names, from `base` or else from Python's path.

    A module of the same name from another folder is imported again. Raises UsageError in one sentence, with
    what the module itself raised.
    """
    name = reference.partition(":")[0]

    def imported() -> ModuleType:
        with _beside(base.resolve(), name.partition(".")[0]):
            return importlib.import_module(name)

    return _loaded(reference, base, imported)


def load_from(reference: str, file: Path) -> Any:
    """Imports what `reference` names from the module `file`; nothing beside the file can be imported.

    Raises UsageError as `load_object` does.
    """
    name = reference.partition(":")[0]

    def imported() -> ModuleType:
        loader = _SourceLoader(name, str(file))  # a compiled file beside it is nobody's word
        spec = importlib.util.spec_from_file_location(name, file, loader=loader)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(name=name)
        module = importlib.util.module_from_spec(spec)
        before = sys.modules.get(name)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before
            raise
        return module

    return _loaded(reference, file.parent, imported)


def _loaded(reference: str, base: Path, imported: Callable[[], ModuleType]) -> Any:
    name, _, attribute = reference.partition(":")
    try:
        module = imported()
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            if name.endswith(".py"):
                raise UsageError(
                    f"{reference!r} names a file; name the module, {name.removesuffix('.py')}:{attribute}."
                ) from None
            raise UsageError(
                f"{reference!r} names the module {name!r}, which is neither beside the recipe (in "
                f"{str(base)!r}) nor installed; put {name.replace('.', '/')}.py there."
            ) from None
        raise UsageError(
            f"{reference!r} cannot be imported: {name} imports {error.name!r}, which is not installed; "
            "install it."
        ) from error
    except UsageError as error:
        raise UsageError(f"{reference!r} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{reference!r} cannot be imported: {type(error).__name__}: {error}; mend the module {name!r}."
        ) from error
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
    if (base / f"{top}.py").is_file() or (base / top).is_dir():
        known = sys.modules.get(top)
        places = [getattr(known, "__file__", None) or "", *map(str, getattr(known, "__path__", ()))]
        if known is not None and not any(Path(at).is_relative_to(base) for at in places if at):
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
    own = str(base.resolve())
    if own in _sources_only:
        return
    _sources_only.add(own)
    for path in [path for path in sys.path_importer_cache if _is_under_sources_only(path)]:
        del sys.path_importer_cache[path]
    if _find_sources not in sys.path_hooks:
        sys.path_hooks.insert(0, _find_sources)


class _SourceLoader(SourceFileLoader):
    """Compiles a module again each time."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


_sources_only: set[str] = set()
_FINDER = FileFinder.path_hook((ExtensionFileLoader, EXTENSION_SUFFIXES), (_SourceLoader, SOURCE_SUFFIXES))


def _find_sources(path: str) -> Any:
    """Returns a hook of `sys.path_hooks` for the folders of `ignore_bytecode`."""
    if not _is_under_sources_only(path):
        raise ImportError(path)
    return _FINDER(path)


def _is_under_sources_only(path: str) -> bool:
    at = Path(path or ".").resolve()
    return any(str(folder) in _sources_only for folder in (at, *at.parents))


def code_files(folder: Path) -> dict[str, Path]:
    """Returns the files in `folder` that an import could run or read, by relative path with `/`, sorted.

    Those are modules, and all files of folders that hold modules, except bytecode; links are followed. Files
    of other folders, and data right in `folder`, are not included. Raises UsageError beyond 10,000.
    """
    files: dict[str, Path] = {}
    seen: set[str] = set()
    waiting = [(folder, "", False)]
    while waiting:
        here, name, in_package = waiting.pop()
        if (real := os.path.realpath(here)) in seen:
            continue
        seen.add(real)
        entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        holds = any(_is_module(entry) for entry in entries)
        covered = in_package or (holds and bool(name))
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__" and (name or not entry.name.startswith(".")):
                    waiting.append((Path(entry.path), f"{name}{entry.name}/", covered))
            elif _is_module(entry) or (covered and not entry.name.endswith(".pyc")):
                files[f"{name}{entry.name}"] = Path(entry.path)
        if len(files) > _MAX_FILES:
            raise UsageError(
                f"{folder} holds more than {_MAX_FILES:,} files of modules; keep only the modules that its "
                "recipe names there."
            )
    return dict(sorted(files.items()))


def _is_module(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(_MODULES) and not entry.is_dir()


def code_digest(value: Any) -> str:
    """Returns a short digest of the file that defines `value`; of its name if there is no such file."""
    try:
        return file_digest(Path(inspect.getfile(value)))
    except (OSError, TypeError):
        content = repr(getattr(value, "__qualname__", value)).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def function_digest(function: Callable[..., Any]) -> str:
    """Returns a short digest of what `function` itself does, not what it calls; of its name without code.

    Equal in all processes of one version of Python.
    """
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    content = _spelled(code) if isinstance(code, CodeType) else getattr(function, "__qualname__", "")
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _spelled(code: CodeType) -> str:
    """Returns the instructions, names and constants of `code`, without where it is written."""
    constants = [_spelled(one) if isinstance(one, CodeType) else _constant(one) for one in code.co_consts]
    return repr([code.co_code.hex(), code.co_names, code.co_varnames, constants])


def _constant(value: Any) -> str:
    """Returns `value` as text; the members of a set, whose order differs by process, are sorted."""
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


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
