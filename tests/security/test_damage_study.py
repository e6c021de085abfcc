"""A study whose files were damaged: a sentence or the same result, never a traceback or a budget too low."""

from __future__ import annotations

import random
import re
from pathlib import Path

from ragc.errors import StoreError
from ragc.recipe import Budget
from ragc.task.budget import BudgetFile

SEED = 20_261_122


def flipped(content: bytes, pick: random.Random) -> bytes:
    changed = bytearray(content or b"\0")
    changed[pick.randrange(len(changed))] ^= 1 << pick.randrange(8)
    return bytes(changed)


def charged(path: Path, n: int = 20) -> None:
    budget = BudgetFile(path, Budget())
    for number in range(n):
        budget.charge_cached(f"key{number}", 10, 0.5)
    budget.close()


def test_a_flipped_bit_never_lowers_what_was_spent(tmp_path: Path) -> None:
    path, pick = tmp_path / "charges.sqlite3", random.Random(SEED)
    refusals: list[str] = []
    charged(path)
    whole = path.read_bytes()
    for _ in range(400):
        path.write_bytes(flipped(whole, pick))
        try:
            budget = BudgetFile(path, Budget())
        except StoreError as error:
            refusals.append(str(error))
            continue
        assert (budget.spent.calls, budget.spent.tokens, budget.spent.usd) == (20, 200, 10.0)
    assert all(re.search(r"cannot be kept in .*--resume", text) for text in refusals)
