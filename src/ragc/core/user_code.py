"""The user's own code, named in a recipe as `package.module:name`; modules beside it come first."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ragc.core.files import sha256
from ragc.errors import UsageError, nearest

REFERENCE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"
"""What a reference looks like; no id of ours has a colon."""


def is_reference(text: str) -> bool:
    """Returns whether `text` names an object in a module."""
    return re.fullmatch(REFERENCE, text, re.ASCII) is not None


def load_object(reference: str, base: Path) -> Any:
    """Imports what `reference` names, from `base` or else from Python's path.

    A module of the same name from another folder is imported again. Raises UsageError in one sentence, with
    what the module itself raised.
    """
    name = reference.partition(":")[0]
    with _beside(base.resolve(), name.partition(".")[0]), explained(reference, base):
        module = importlib.import_module(name)
    return named(reference, module)


@contextmanager
def explained(reference: str, base: Path) -> Iterator[None]:
    """Raises UsageError for what importing `reference` raises."""
    name, _, attribute = reference.partition(":")
    try:
        yield
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


def named(reference: str, module: ModuleType) -> Any:
    """Returns the object of `module` that `reference` names. Raises UsageError, with the nearest name."""
    name, _, attribute = reference.partition(":")
    if (value := getattr(module, attribute, None)) is None:
        near = nearest(attribute, [public for public in vars(module) if not public.startswith("_")])
        raise UsageError(
            f"{reference!r} names {attribute!r}, which is not in {name!r}.{near} Define it there."
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


def code_digest(value: Any, *, whole_file: bool = True) -> str:
    """Returns a short digest of the file that defines `value`, or of its own source alone; without, of its
    name.
    """
    try:
        defined = value if inspect.isroutine(value) or inspect.isclass(value) else type(value)
        file = Path(inspect.getfile(defined))
        text = file.read_bytes() if whole_file else inspect.getsource(defined).encode()
    except (OSError, TypeError):
        text = repr(getattr(value, "__qualname__", value)).encode("utf-8", "surrogatepass")
    return sha256(text)[:16]


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
