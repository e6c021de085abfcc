"""Paths: the cache of recomputable data, the state that cannot be recomputed, messages on missing files.

The cache holds store, studies, indexes and weights; the state is the ledger of uses.
"""

from __future__ import annotations

import os
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from ragc.errors import UsageError


def cache_home() -> Path:
    """Returns `$RAGC_HOME`, else `$XDG_CACHE_HOME/ragc`, else `~/.cache/ragc`. Not created here.

    A relative `$XDG_CACHE_HOME` is ignored, as its specification requires. Raises UsageError for a relative
    `$RAGC_HOME`, and where no variable is set and this user has no home folder.
    """
    return _home("XDG_CACHE_HOME", ".cache", "cache")


def state_home() -> Path:
    """Returns `$RAGC_HOME`, else `$XDG_STATE_HOME/ragc`, else `~/.local/state/ragc`. Not created here.

    Its files are no cache: they cannot be recomputed. Raises UsageError as `cache_home` does.
    """
    return _home("XDG_STATE_HOME", ".local/state", "ledger of uses")


def _home(variable: str, default: str, what: str) -> Path:
    """Returns `$RAGC_HOME`, else `ragc` in the folder that `variable` names, else in `default` in the user's
    home.
    """
    if own := os.environ.get("RAGC_HOME"):
        if not Path(own).is_absolute():  # the folder of somebody else could contain a record of trust
            raise UsageError(
                f"RAGC_HOME must be an absolute path, since another folder would have another cache; found "
                f"{own!r}, so set it to {str(Path.cwd() / own)!r}."
            )
        return Path(own)
    base = os.environ.get(variable, "")
    try:
        return (Path(base) if Path(base).is_absolute() else Path.home() / default) / "ragc"
    except RuntimeError:
        raise UsageError(
            f"This user has no home folder to keep the {what} in; set RAGC_HOME to one."
        ) from None


def exists(path: Path) -> bool:
    """Returns whether `path` exists; False for a name that the system does not allow."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises for a name that is too long


def missing_file(what: str, value: str, base: Path, noun: str = "file") -> str:
    """Returns the message that `value` (relative to `base`), a `noun`, is missing, with the nearest name
    there.
    """
    folder, shown = (base / value).parent, Path(value).parent
    if not os.path.isdir(folder):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
        lost = folder if str(shown) == "." else shown
        return f"{what}: there is no such {noun}, and no folder {str(lost)!r}"
    names: list[str] = []
    with suppress(OSError):
        names = sorted(entry.name for entry in folder.iterdir())
    near = get_close_matches(Path(value).name, names, n=1)
    return f"{what}: there is no such {noun}" + (f". Did you mean {str(shown / near[0])!r}?" if near else "")
