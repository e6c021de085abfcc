"""What ragc keeps for itself only its owner can read; what the user named as output is left as it is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragc.corpora.storage.index_cache import open_or_build
from ragc.store.calls import CallStore
from tests.security.command_line import prepared, ragc
from tests.support.loopback import Loopback

OWNERS_ALONE = 0o077


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def readable_by_others(folder: Path) -> list[str]:
    """What others reach of the files under `folder`: no folder on the way down to them is closed."""
    if mode(folder) & OWNERS_ALONE == 0:
        return []
    inner = [path for path in folder.iterdir() if not path.is_symlink() and mode(path) & OWNERS_ALONE]
    return [name for path in inner for name in (readable_by_others(path) if path.is_dir() else [str(path)])]


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_after_every_command_that_keeps_something_nobody_else_can_read_it(
    server: Loopback, tmp_path: Path
) -> None:
    prepared(tmp_path, server)
    home = tmp_path / "home"
    for words in (
        ("compile", "recipe.toml", "--out", "out"),
        ("eval", "out", "--split", "test", "--out", "rows.jsonl"),
        ("export", "out", "--to", "jinja2", "--out", "exported"),
    ):
        ended = ragc(tmp_path, *words)
        assert ended.status == 0, ended.err
    assert {path.name for path in home.iterdir()} >= {"store", "studies", "trusted", "uses"}
    assert readable_by_others(home) == []
    assert mode(tmp_path / "out") == 0o755
    assert mode(tmp_path / "out" / "program.json") == 0o644
    assert mode(tmp_path / "rows.jsonl") == 0o644


def test_folders_of_a_store_study_and_record_are_narrowed_when_they_are_opened(
    server: Loopback, tmp_path: Path
) -> None:
    prepared(tmp_path, server)
    home = tmp_path / "home"
    assert ragc(tmp_path, "compile", "recipe.toml", "--out", "out").status == 0
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert ragc(tmp_path, "compile", "recipe.toml", "--out", "out").status == 0
    for name in ("store", "studies", "trusted", "uses"):
        assert [path for path in readable_by_others(home / name) if not path.endswith(".lock")] == []


def test_an_index_is_private(tmp_path: Path) -> None:
    def build(folder: Path, step: object) -> None:
        (folder / "postings").write_text("abc")

    home = tmp_path / "indexes"
    assert open_or_build("toy", "c", {}, build, home=home).built
    assert readable_by_others(home / "toy") == []


def test_a_store_is_private_and_its_folder_above_is_not_touched(tmp_path: Path) -> None:
    above = tmp_path / "shared"
    above.mkdir(mode=0o755)
    store = CallStore(above / "store")
    store.close()
    assert readable_by_others(above / "store") == []
    assert mode(above) == 0o755
