"""Arrays on disk: the bytes of numpy, and an error where a full disk takes less than all of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragc.corpora.storage.passages import map_array, save_array

FULL = Path("/dev/full")


@pytest.mark.parametrize(
    "array", [np.arange(7), np.zeros(0, np.int32), np.arange(12, dtype=np.int32).reshape(-1, 4), np.eye(300)]
)
def test_an_array_is_written_as_numpy_writes_it(array: Any, tmp_path: Path) -> None:
    save_array(tmp_path / "ours.npy", array)
    np.save(tmp_path / "theirs.npy", array)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()
    assert np.array_equal(map_array(tmp_path / "ours.npy"), array)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_full_disk_is_noticed(size: int, tmp_path: Path) -> None:
    (tmp_path / "array.npy").symlink_to(FULL)
    with pytest.raises(OSError, match=os.strerror(28)):
        save_array(tmp_path / "array.npy", np.arange(size))
