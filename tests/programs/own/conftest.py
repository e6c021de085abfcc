"""Fixtures of the tests of users' own modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import dspy
import pytest

from tests.programs.own.common import write_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    with dspy.context(lm=None):
        yield
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "recipes")
