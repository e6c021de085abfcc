"""The real command line in a process of its own, over a small data set and a loopback server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import processes
from tests.support.loopback import MODEL, Loopback
from tests.support.loopback_world import write_data
from tests.support.recipes import recipe_toml, vllm

RECIPE = recipe_toml(
    seed=5,
    search={"knobs": ["top_k"], "trials": 2, "batch": 2, "objectives": ["em"]},
    targets={"main": vllm("%s", MODEL)},
    metrics=["em", "f1"],
)
NOISE = (
    "Traceback",
    "Unclosed",
    "Task was destroyed",
    "never retrieved",
    "never awaited",
    "Exception ignored",
    "Fatal Python",
)
"""What a user never sees on stderr."""


@dataclass(frozen=True)
class Ended:
    """How a command ended; `errors` are the sentences on stderr, progress left out."""

    status: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("ragc: ")]


def environment(folder: Path, **more: str) -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "RAGC_DEBUG")
    }
    return inherited | {"RAGC_HOME": str(folder / "home"), "PYTHONPATH": processes.PATH} | more


def command(*arguments: str | bytes) -> list[str | bytes]:
    """The argument list of `ragc ARGUMENTS` in an interpreter of its own."""
    return [sys.executable, "-m", "ragc", *arguments]


def ragc(
    folder: Path,
    *arguments: str | bytes,
    unprivileged: bool = False,
    home: Path | None = None,
    timeout: float = 120,
) -> Ended:
    """Run a command in `folder`, its cache in `home`, or `home` in it, and see that it ends properly."""
    variables = environment(folder, **({"RAGC_HOME": str(home)} if home else {}))
    done = processes.run(
        ["-m", "ragc", *arguments],
        cwd=folder,
        environment=variables,
        timeout=timeout,
        unprivileged=unprivileged,
    )
    ended = Ended(done.returncode, done.stdout, done.stderr)
    assert not [word for word in NOISE if word in ended.err], ended.err
    assert len(ended.errors) == (1 if ended.status else 0), ended.err
    return ended


def prepared(folder: Path, server: Loopback) -> Path:
    """`folder` with data and a recipe of 20 questions."""
    write_data(folder, 0, 12, 8)
    (folder / "recipe.toml").write_text(RECIPE % server.url, "utf-8")
    return folder


def contents(folder: Path) -> dict[str, bytes | str]:
    """Every file by relative path, links and other things by what they are."""
    entries: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            entries[name] = f"link to {path.readlink()}"
        elif path.is_file():
            entries[name] = path.read_bytes()
        elif not path.is_dir():
            entries[name] = f"mode {path.stat().st_mode:o}"
    return entries


def needs_privileges_dropped() -> pytest.MarkDecorator:
    """Skips where root's power over permissions cannot be taken away."""
    able = os.getuid() != 0
    if not able and shutil.which("setpriv"):
        able = subprocess.run([*processes.DROPPING, "true"], check=False).returncode == 0
    return pytest.mark.skipif(not able, reason="root here cannot drop its power over permissions (setpriv)")
