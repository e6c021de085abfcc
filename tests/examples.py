"""How thorough tests are: in full where `CI` is set, a quick share of it on a developer's machine."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("CI"))


def examples(full: int) -> int:
    """`full` examples of a property, or a fifth of them, at least 2."""
    return full if THOROUGH else max(2, full // 5)
