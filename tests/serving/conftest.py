"""One compiled program for all tests of the server, and homes of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.optimizers.colours import begun, written


def pytest_pycollect_makemodule() -> None:
    """Skips the folder where the extra is missing; a skip while a conftest is loaded would end pytest."""
    for library in ("fastapi", "uvicorn", "httptools"):
        pytest.importorskip(library, reason=f"the extra `serve` is not installed: {library}")


@pytest.fixture(scope="session")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled program that says what colour things are."""
    folder = tmp_path_factory.mktemp("serving")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(folder / "home"))
        begun(written(folder))("colours")
    return folder / "colours"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RAGC_SERVE_KEYS", raising=False)
    return tmp_path


@pytest.fixture
def stranger(colours: Path, tmp_path: Path) -> Path:
    """A compiled program from elsewhere, whose target is a server that nobody trusted."""
    folder = shutil.copytree(colours, tmp_path / "stranger")
    recipe = folder / "recipe.toml"
    server = 'kind = "vllm"\nmodel = "m"\nbase_url = "http://192.0.2.1/v1"'
    recipe.write_text(recipe.read_text("utf-8").replace('kind = "embedded"', server), "utf-8")
    return folder
