"""States of prompt prefixes on disk: intact ones are loaded, all others are computed anew."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragc.targets.embedded import prefix_states
from ragc.targets.embedded.prefix_states import PrefixStates, state_key

KEY = state_key("weights", ["engine", 1], [1, 2, 3])
OTHER = state_key("weights", ["engine", 1], [1, 2, 4])


@pytest.fixture
def states(tmp_path: Path) -> PrefixStates:
    return PrefixStates(tmp_path / "cache" / "prefixes")


def state_file(tmp_path: Path, content: bytes = b"state") -> Path:
    path = tmp_path / "mine.state"
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    return path


def only_file(states: PrefixStates) -> Path:
    (path,) = states.folder.iterdir()
    return path


def test_a_state_that_was_saved_is_loaded(states: PrefixStates, tmp_path: Path) -> None:
    states.save(KEY, state_file(tmp_path))
    assert PrefixStates(states.folder).load(KEY, tmp_path / "loaded")
    assert (tmp_path / "loaded").read_bytes() == b"state"
    assert not states.load(OTHER, tmp_path / "loaded")
    assert not (tmp_path / "loaded").exists()


def test_the_key_names_weights_engine_and_tokens() -> None:
    keys = {
        state_key(weights, engine, tokens)
        for weights in ("a", "b")
        for engine in (["1.0", 2], ["1.0", 4], ["1.1", 2])
        for tokens in ([1, 2], [12], [2, 1], [1, 2, 3])
    }
    assert len(keys) == 2 * 3 * 4


@pytest.mark.parametrize("change", ["flip", "cut", "longer", "empty", "other"])
def test_damaged_and_foreign_files_are_ignored_and_removed(
    states: PrefixStates, tmp_path: Path, change: str
) -> None:
    content = bytes(range(256)) * 40
    states.save(KEY, state_file(tmp_path, content))
    path = only_file(states)
    changed = {
        "flip": content[:5000] + bytes([content[5000] ^ 1]) + content[5001:],
        "cut": content[:-1],
        "longer": content + b"\0",
        "empty": b"",
        "other": b"another program's file",
    }[change]
    path.write_bytes(changed)
    assert not states.load(KEY, tmp_path / "loaded")
    assert not (tmp_path / "loaded").exists()
    assert not path.exists()
    states.save(KEY, state_file(tmp_path, content))
    assert states.load(KEY, tmp_path / "loaded")


def test_a_state_under_the_name_of_another_prefix_is_not_loaded(states: PrefixStates, tmp_path: Path) -> None:
    states.save(KEY, state_file(tmp_path))
    path = only_file(states)
    path.rename(path.with_name(path.name.replace(KEY, OTHER)))
    assert not states.load(OTHER, tmp_path / "loaded")


def test_a_folder_under_the_name_of_a_state_is_ignored(states: PrefixStates, tmp_path: Path) -> None:
    (states.folder / f"{KEY}-{'0' * 32}.state").mkdir(parents=True)
    assert not states.load(KEY, tmp_path / "loaded")
    states.save(KEY, state_file(tmp_path))
    assert states.load(KEY, tmp_path / "loaded")


def test_the_states_used_least_recently_go_first(tmp_path: Path) -> None:
    states = PrefixStates(tmp_path / "prefixes", most_bytes=10)
    keys = [state_key("weights", [], [number]) for number in range(3)]
    for age, key in enumerate(keys[:2]):
        states.save(key, state_file(tmp_path))
        os.utime(max(states.paths(key)), (1000 + age, 1000 + age))
    assert states.load(keys[0], tmp_path / "loaded")  # the older one, used now
    states.save(keys[2], state_file(tmp_path))
    assert [states.load(key, tmp_path / "loaded") for key in keys] == [True, False, True]
    states.save(KEY, state_file(tmp_path, b"more than all"))
    assert not states.load(KEY, tmp_path / "loaded")
    assert states.load(keys[0], tmp_path / "loaded")


def test_a_loaded_state_outlives_its_deletion(states: PrefixStates, tmp_path: Path) -> None:
    states.save(KEY, state_file(tmp_path))
    assert states.load(KEY, tmp_path / "loaded")
    only_file(states).unlink()
    assert (tmp_path / "loaded").read_bytes() == b"state"


def test_without_links_between_file_systems_files_are_copied(
    states: PrefixStates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    states.save(KEY, state_file(tmp_path))
    assert states.load(KEY, tmp_path / "loaded")
    assert (tmp_path / "loaded").stat().st_nlink == 1


def test_a_cache_that_cannot_be_written_loses_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    states = PrefixStates(tmp_path / "file" / "prefixes")
    states.save(KEY, state_file(tmp_path))
    states.save(KEY, tmp_path / "missing")
    assert not states.load(KEY, tmp_path / "loaded")


def test_the_folder_is_for_this_user_only(states: PrefixStates, tmp_path: Path) -> None:
    states.save(KEY, state_file(tmp_path))
    assert stat.S_IMODE(states.folder.stat().st_mode) == 0o700


def test_what_killed_processes_left_is_removed(
    states: PrefixStates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states.folder.mkdir(parents=True)
    old, new = states.folder / "old.part", states.folder / "new.part"
    for part in (old, new):
        part.write_bytes(b"half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    states.save(KEY, state_file(tmp_path))
    assert not old.exists()
    assert new.exists()


WRITER = """
import sys
from pathlib import Path
from ragc.targets.embedded.prefix_states import PrefixStates, state_key
states, own = PrefixStates(Path(sys.argv[1]), most_bytes=3 << 20), Path(sys.argv[2])
for turn in range(40):
    key = state_key("weights", [], [turn % 5])
    content = bytes([turn % 5]) * (1 << 20)
    own.unlink(missing_ok=True)
    own.write_bytes(content)
    states.save(key, own)
    loaded = own.with_suffix(".loaded")
    if states.load(key, loaded):
        assert loaded.read_bytes() == content, "another state"
"""


def test_processes_do_not_disturb_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "prefixes"
    command = [sys.executable, "-c", WRITER, str(folder)]
    writers = [
        subprocess.Popen([*command, str(tmp_path / f"{n}.own")], stderr=subprocess.PIPE) for n in "abc"
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors.decode()
    states = PrefixStates(folder)
    assert 1 <= len(states.paths()) <= 3
    assert not list(folder.glob("*.part"))


def test_states_are_in_the_cache_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path))
    assert prefix_states.prefixes_home() == tmp_path / "prefixes" == PrefixStates().folder
