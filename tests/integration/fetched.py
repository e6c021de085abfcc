"""Models that integration tests need, fetched by another process: a test may not leave the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.paths import SRC


def _run(program: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command, environ = [sys.executable, "-c", program], {**environ, "PYTHONPATH": str(SRC)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def default_weights() -> Path:
    """The file of the default weights in the user's own cache."""
    program = "from ragc.downloads import default_weights; print(default_weights())"
    process = _run(program, {name: value for name, value in os.environ.items() if name != "RAGC_HOME"})
    process.check_returncode()
    return Path(process.stdout.strip())


def fetch_default_weights() -> None:
    """Fetches the default weights into the cache of the test."""
    _run("from ragc.downloads import default_weights; default_weights()", os.environ).check_returncode()


def fetch_minilm() -> None:
    """Fetches the default embedder into the cache of the test; skips the test where it cannot be had."""
    process = _run("from ragc.corpora.models import minilm; minilm().embed(['warm'])", os.environ)
    if process.returncode:
        pytest.skip(f"the default embedder cannot be had here: {process.stderr[-300:]}")
