"""Compiling the recipe of `colours`, as in the tests of `optimizers/`, and a program on a recorded server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.optimizers.conftest import folder, run, unbroken
from tests.security.foreign import Recorded, compiled_directory, recording, target_table

__all__ = ["folder", "run", "unbroken"]


@pytest.fixture
def server() -> Iterator[Recorded]:
    with recording() as server:
        yield server


@pytest.fixture
def compiled(tmp_path: Path, server: Recorded, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of this machine whose data are in `origin`."""
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "machine"))
    table = target_table(kind="vllm", model="echo", base_url=server.url)
    return compiled_directory(tmp_path / "origin", tmp_path / "compiled" / "mine", table)
