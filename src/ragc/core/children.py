"""Python processes that ragc starts: they import nothing from the folder that the caller stands in."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def command(*arguments: str) -> list[str]:
    """Returns the command that runs this Python with `arguments`; the caller's folder is not on its path."""
    return [sys.executable, "-P", *arguments]


def surroundings(**variables: str) -> dict[str, Any]:
    """Returns the arguments of `subprocess` with which such a process starts in the folder of this package.

    `variables` are added to its environment. Relative entries of PYTHONPATH mean what they mean here, and
    empty ones, which mean the working directory, are left out. Who needs the caller's folder is told it, and
    changes into it once it runs.
    """
    entries = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    path = os.pathsep.join(str(Path(entry).absolute()) for entry in entries)
    return {"cwd": Path(__file__).parent, "env": {**os.environ, "PYTHONPATH": path, **variables}}
