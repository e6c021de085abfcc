"""Where ragc keeps what it can make again: the call store, studies, indexes and weights."""

from __future__ import annotations

import os
from pathlib import Path

from ragc.errors import UsageError


def cache_home() -> Path:
    """`$RAGC_HOME`, else `$XDG_CACHE_HOME/ragc`, else `~/.cache/ragc`. Not created here.

    Raises UsageError where no variable is set and this user has no home folder.
    """
    if own := os.environ.get("RAGC_HOME"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "ragc"
    except RuntimeError:
        raise UsageError("This user has no home folder to keep the cache in; set RAGC_HOME to one.") from None
