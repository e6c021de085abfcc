"""Only regular files are read, whole, of a bounded size, and inside a folder where that is asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragc.core.files import open_regular, read_bytes


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
    with pytest.raises(OSError, match="symbolic link"), open_regular(folder / "inner", follow=False):
        pass


def test_only_regular_files_of_the_size_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(bytes(11))
    for within in (None, tmp_path):
        with pytest.raises(OSError, match="it is a FIFO"):
            read_bytes(tmp_path / "fifo", within=within)
        with pytest.raises(IsADirectoryError):
            read_bytes(tmp_path, within=within)
        with pytest.raises(OSError, match="larger than"):
            read_bytes(tmp_path / "large", 10, within=within)
        assert read_bytes(tmp_path / "large", 11, within=within) == bytes(11)
