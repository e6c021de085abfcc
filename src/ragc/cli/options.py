"""Options that several commands take, as `add_argument` takes them."""

from __future__ import annotations

from typing import Any

SETS: dict[str, Any] = {
    "metavar": "KEY=VALUE",
    "dest": "sets",
    "action": "append",
    "default": [],
    "help": "override a recipe's key",
}
INCLUDE_SEEN: dict[str, Any] = {
    "action": "store_true",
    "help": "score test questions that were used as train or dev before too, and say so",
}
ALLOW_LOSS: dict[str, Any] = {
    "action": "store_true",
    "help": "go on where texts of an imported prompt would not be sent, and say which",
}
BASE: dict[str, Any] = {"metavar": "DIR", "help": "where relative paths of its recipe lead"}
TRUST_TARGETS: dict[str, Any] = {
    "action": "store_true",
    "help": "of a program from elsewhere: allow its addresses and variables",
}
TRUST_CODE: dict[str, Any] = {
    "action": "store_true",
    "help": "of a program from elsewhere: allow the programs and servers it starts",
}
