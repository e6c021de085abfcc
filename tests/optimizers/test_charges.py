"""What a power loss may leave at the end of a study's charges: less of the last line, or zeros."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragc.core.digest import add_digest
from ragc.errors import StoreError
from ragc.recipe import Budget
from ragc.task.budget import FileLedger


def lines(*keys: str) -> bytes:
    """The charges of one token for each of `keys`, each followed by the minutes."""
    rows = [row for key in keys for row in ({"key": key, "tokens": 1, "usd": 0.0}, {"minutes": 0.5})]
    return "".join(json.dumps(add_digest(row)) + "\n" for row in rows).encode()


@pytest.mark.parametrize(
    ("left", "calls"),
    [
        (lines("a", "b"), 2),
        (lines("a", "b") + b"\0" * 300, 2),
        (lines("a", "b")[:-30] + b"\0" * 30, 2),
        (lines("a", "b") + lines("c")[:40] + b"\0" * 9, 2),
        (lines("a", "b")[:-1], 2),
        (lines("a") + lines("b").splitlines()[0], 1),  # it is replayed, and then counted again
        (b"\0" * 300, 0),
    ],
)
def test_what_a_power_loss_left_at_the_end_is_no_damage(left: bytes, calls: int, tmp_path: Path) -> None:
    path = tmp_path / "charges.jsonl"
    path.write_bytes(left)
    ledger = FileLedger(path, Budget())
    assert (ledger.calls, ledger.tokens) == (calls, calls)


def test_zeros_between_charges_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "charges.jsonl"
    path.write_bytes(lines("a") + b"\0" * 20 + lines("b"))
    with pytest.raises(StoreError, match="damaged in line 3"):
        FileLedger(path, Budget())
