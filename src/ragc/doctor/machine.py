"""Checks that this machine has what recipes may need."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ragc.core.extras import EXTRAS, is_installed, remedy
from ragc.core.home import cache_home
from ragc.core.progress import SILENT, Progress
from ragc.doctor.check import Check
from ragc.doctor.storage import examine_kept

NEEDED = ("dspy", "litellm", "optuna", "diskcache", "pydantic", "jinja2", "bm25s")
OPTIONAL = {module: extra for extra, modules in EXTRAS.items() for module in modules}


def examine(*, quick: bool = False, progress: Progress = SILENT) -> list[Check]:
    """Returns every check, the required ones first; nothing is downloaded, sent or changed.

    Stored files are read completely unless `quick`: about a second per GB, for replies ten.
    """
    checks = [
        Check("python", (3, 11) <= sys.version_info[:2] < (3, 14), sys.version.split()[0]),
        Check(
            "cpus",
            True,
            f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()}",
        ),
        *(_library(name, f"pip install {name}", needed=True) for name in NEEDED),
        _check_cache(),
        *examine_kept(whole=not quick, progress=progress),
        *(_library(name, remedy(extra), needed=False) for name, extra in OPTIONAL.items()),
    ]
    return sorted(checks, key=lambda check: not check.needed)


def _library(name: str, remedy: str, *, needed: bool) -> Check:
    if not is_installed(name):
        return Check(name, False, f"not installed; {remedy}", needed)
    try:
        return Check(name, True, version(name), needed)
    except PackageNotFoundError:
        return Check(name, True, "installed, version unknown", needed)


def _check_cache() -> Check:
    """Returns the cache folder, and the size of each of its parts."""
    home = cache_home()
    parts = sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
    sizes = ", ".join(f"{part.name} {_mebibytes(part):.1f} MiB" for part in parts) or "empty"
    return Check("kept", True, f"{home}: {sizes}")


def _mebibytes(folder: Path) -> float:
    """Returns the size of all files in `folder`; files deleted meanwhile are ignored."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total / 2**20
