"""Fixtures of the tests of users' own modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dspy
import pytest

from tests.programs.own.common import drop_package, write_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    with dspy.context(lm=None):
        yield
    drop_package()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "recipes")
