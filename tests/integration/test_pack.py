"""A packed program answers on the embedded model in another user's home, with no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ragc
from ragc.core.files import cache_home
from tests.integration.fetched import default_weights
from tests.security.foreign import QUESTION, compiled_directory

pytest.importorskip("xllamacpp")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def without_network() -> list[str]:
    """The words that run a command without a network; skips where the system does not allow it."""
    words = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], check=False).returncode:
        pytest.skip("this system allows no namespace without a network")
    return words


def test_it_answers_in_an_empty_folder_of_another_home_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offline, weights = without_network(), default_weights()
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "machine"))
    (cache_home() / "weights").mkdir(parents=True)
    shutil.copy(weights, cache_home() / "weights" / weights.name)
    compiled = compiled_directory(tmp_path / "origin", tmp_path / "compiled" / "mine")
    home = tmp_path / "other"
    (home / "empty").mkdir(parents=True)
    pack = ragc.pack(compiled, out=home / "mine.ragc", weights=True).path
    for folder in ("machine", "origin", "compiled"):
        shutil.rmtree(tmp_path / folder)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAGC_", "XDG_"))}
    answered = subprocess.run(
        [*offline, sys.executable, "-m", "ragc", "ask", str(pack), QUESTION, "--json"],
        cwd=home / "empty",
        env={**inherited, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answered.returncode == 0, answered.stderr
    row = json.loads(answered.stdout)
    assert row["prediction"]
    assert list((home / "empty").iterdir()) == []
