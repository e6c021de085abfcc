"""Code of the user's own, named in a recipe as `package.module:name`; modules beside it come first."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ragc.errors import UsageError, nearest

REFERENCE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
"""What a reference looks like; no id of ours has a colon."""


def is_reference(text: str) -> bool:
    """Whether `text` names something in a module."""
    return re.fullmatch(REFERENCE, text, re.ASCII) is not None


def load_object(reference: str, base: Path) -> Any:
    """What `reference` names, its module imported from `base` or else as Python finds it.

    A module of the same name that came from another folder is imported anew. Raises UsageError in one
    sentence, with what the module itself raised.
    """
    name = reference.partition(":")[0]

    def imported() -> ModuleType:
        with _beside(base.resolve(), name.partition(".")[0]):
            return importlib.import_module(name)

    return _loaded(reference, base, imported)


def load_from(reference: str, file: Path) -> Any:
    """What `reference` names, of which `file` is the module; nothing beside the file can be imported.

    Raises UsageError as `load_object` does.
    """
    name = reference.partition(":")[0]

    def imported() -> ModuleType:
        found = importlib.util.spec_from_file_location(name, file)
        if found is None or found.loader is None:
            raise ModuleNotFoundError(name=name)
        module = importlib.util.module_from_spec(found)
        before = sys.modules.get(name)
        sys.modules[name] = module
        try:
            found.loader.exec_module(module)
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
    except Exception as error:
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
    """Let imports look into `base` first, and forget the package `top` where it came from elsewhere."""
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


def code_digest(value: Any) -> str:
    """A short digest of the file that defines `value`; of its name where there is no such file."""
    try:
        return file_digest(Path(inspect.getfile(value)))
    except (OSError, TypeError):
        content = repr(getattr(value, "__qualname__", value)).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def file_digest(file: Path) -> str:
    """A short digest of `file`. Raises OSError."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
