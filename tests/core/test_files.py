"""Only regular files are read, whole and of a bounded size; a file is written whole, and through no link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ragc.core.files import (
    missing_file,
    open_regular,
    put_file,
    read_bytes,
    replacing_file,
)


def test_links_are_followed_inside_the_folder_only(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.write_bytes(b"secret")
    (folder / "file").write_bytes(b"own")
    (folder / "inner").symlink_to("file")
    (folder / "outer").symlink_to(outside)
    for name in ("file", "inner"):
        assert read_bytes(folder / name, within=folder) == b"own"
    assert read_bytes(folder / "outer") == b"secret"
    with pytest.raises(OSError, match="a link that leads out of"):
        read_bytes(folder / "outer", within=folder)
    with pytest.raises(OSError, match="leads out of"):
        read_bytes(folder / ".." / "outside", within=folder)
    with pytest.raises(OSError, match="no regular file"), open_regular(folder / "inner", follow=False):
        pass


def test_only_regular_files_of_the_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(bytes(11))
    for within in (None, tmp_path):
        with pytest.raises(OSError, match="it is no regular file"):
            read_bytes(tmp_path / "fifo", within=within)
        with pytest.raises(IsADirectoryError):
            read_bytes(tmp_path, within=within)
        with pytest.raises(OSError, match="larger than"):
            read_bytes(tmp_path / "large", 10, within=within)
        assert read_bytes(tmp_path / "large", 11, within=within) == bytes(11)


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    (tmp_path / "out").symlink_to(mine)
    put_file(tmp_path / "out", b"new")
    assert mine.read_bytes() == b"mine"
    assert not (tmp_path / "out").is_symlink()
    assert (tmp_path / "out").read_bytes() == b"new"


def test_a_private_file_is_private_from_the_beginning(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"old")
    out.chmod(0o644)
    put_file(out, b"new", private=True)
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_an_error_while_a_file_is_written_leaves_the_old_one_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"old")
    with pytest.raises(TypeError), replacing_file(out) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert out.read_bytes() == b"old"


def test_a_missing_file_is_named_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").touch()
    assert missing_file("data", "question.jsonl", tmp_path) == (
        "data: there is no such file. Did you mean 'questions.jsonl'?"
    )
    assert missing_file("data", "rows/x", tmp_path) == "data: there is no such file"
    assert missing_file("data", "x" * 300, tmp_path) == "data: there is no such file"
