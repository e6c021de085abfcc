"""What `ragc doctor` checks: that this machine can do what a recipe may ask of it."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ragc.errors import StoreError
from ragc.extras import EXTRAS, is_installed, remedy
from ragc.paths import cache_home

NEEDED = ("dspy", "litellm", "optuna", "diskcache", "pydantic", "jinja2", "bm25s")
OPTIONAL = {module: extra for extra, modules in EXTRAS.items() for module in modules}


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `needed` is False for what only some recipes use."""

    id: str
    ok: bool
    found: str
    needed: bool = True

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        return asdict(self)


def examine() -> list[Check]:
    """Every check, the needed ones first; nothing is downloaded and nothing is sent."""
    checks = [
        Check("python", (3, 11) <= sys.version_info[:2] < (3, 14), sys.version.split()[0]),
        Check(
            "cpus",
            True,
            f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()}",
        ),
        *(_library(name, f"pip install {name}", needed=True) for name in NEEDED),
        _store(),
        _kept(),
        _weights(),
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


def _store() -> Check:
    from ragc.store import CallStore

    folder = cache_home()
    try:
        CallStore(folder / "store").close()
    except StoreError as error:
        return Check("store", False, str(error))
    free = shutil.disk_usage(folder).free // 2**20
    return Check("store", free > 200, f"{folder / 'store'}, {free} MiB free")


def _kept() -> Check:
    """The folder of all that ragc keeps on this machine, and the size of each part that is there."""
    home = cache_home()
    parts = sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
    sizes = ", ".join(f"{part.name} {_mebibytes(part):.1f} MiB" for part in parts) or "empty"
    return Check("kept", True, f"{home}: {sizes}")


def _mebibytes(folder: Path) -> float:
    """The size of all files in `folder`; one that goes away meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total / 2**20


def _weights() -> Check:
    held = sorted((cache_home() / "weights").rglob("*.gguf")) if (cache_home() / "weights").exists() else []
    found = held[0].name if held else "not downloaded yet; the first embedded run fetches 93 MB"
    return Check("weights", bool(held), found, needed=False)
