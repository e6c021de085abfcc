"""Code of the user's own, named in a recipe as `package.module:name`; modules beside it come first."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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
    name, _, attribute = reference.partition(":")
    try:
        with _beside(base.resolve(), name.partition(".")[0]):
            module = importlib.import_module(name)
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
        content = Path(inspect.getfile(value)).read_bytes()
    except (OSError, TypeError):
        content = repr(getattr(value, "__qualname__", value)).encode()
    return hashlib.sha256(content).hexdigest()[:16]
