"""Where ragc keeps what it can make again: the call store, studies, indexes and weights."""

from __future__ import annotations

import os
from pathlib import Path

from ragc.errors import UsageError


def cache_home() -> Path:
    """`$RAGC_HOME`, else `$XDG_CACHE_HOME/ragc`, else `~/.cache/ragc`. Not created here.

    A relative `$XDG_CACHE_HOME` counts as none, as its specification wants. Raises UsageError for a relative
    `$RAGC_HOME`, and where no variable is set and this user has no home folder.
    """
    if own := os.environ.get("RAGC_HOME"):
        if not Path(own).is_absolute():  # a folder of somebody else's could bring a record of trust along
            raise UsageError(
                f"RAGC_HOME must be an absolute path, since another folder would have another cache; found "
                f"{own!r}, so set it to {str(Path.cwd() / own)!r}."
            )
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "ragc"
    except RuntimeError:
        raise UsageError("This user has no home folder to keep the cache in; set RAGC_HOME to one.") from None
