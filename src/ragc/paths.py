"""Where ragc keeps what it can make again: the call store, studies, indexes and weights."""

from __future__ import annotations

import os
from pathlib import Path


def cache_home() -> Path:
    """`$RAGC_HOME`, else `$XDG_CACHE_HOME/ragc`, else `~/.cache/ragc`. Not created here."""
    if own := os.environ.get("RAGC_HOME"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ragc"
