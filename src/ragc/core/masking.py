"""Addresses without what is secret in them: the one place that masks passwords of addresses.

An address may have any shape: `postgresql://user:password@host/db`, `redis://:password@host/0`, the same
without its scheme, and with secrets in the query (`?password=…`). Nothing here raises.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

MASK = "[redacted]"

_PART = 3
"""Characters of a part of a password that is masked by itself."""

_SCHEME = re.compile(r"[A-Za-z][\w+.-]*://")
_QUERY = re.compile(
    r"(?i)(?<=[?&;#])([\w.-]*(?:pass|pwd|secret|token|signature|credential)[\w.-]*|(?:[\w.-]*[_.-])?(?:api)?key)"
    r"=([^&;#\s'\"]+)"
)
_LOGIN = re.compile(r"(?<=://)[^/\s@]+@")


def place(address: str) -> str:
    """`address` without user, password, query and fragment: scheme, host and path."""
    scheme, rest = _parted(address)
    # A password may hold any character, also one that should have been written as %XX: the last @ ends it.
    return scheme + re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]


def secrets(address: str) -> tuple[str, ...]:
    """What of `address` must not be repeated, the longest first: as it is written and as it is meant."""
    _, rest = _parted(address)
    login = rest.rpartition("@")[0]
    found = {value for _, value in _QUERY.findall(rest)}
    if ":" in login:
        found |= {login.partition(":")[2]}
    # A parser that takes a / or @ in a password for the end of it tells the rest as host or port.
    found |= {part for secret in found for part in re.split(r"[/?#@:]", secret) if len(part) >= _PART}
    meant = {decoded(secret) for secret in found for decoded in (unquote, unquote_plus)}
    return tuple(sorted((found | meant) - {""}, key=lambda secret: (-len(secret), secret)))


def mask(text: str, address: str) -> str:
    """`text` on one line, with a mask over what is secret in `address`, wherever it stands."""
    line = " ".join(text.split())
    hidden = [*([address] if secrets(address) else []), *secrets(address)]
    return re.sub("|".join(map(re.escape, hidden)), MASK, line) if hidden else line


def mask_addresses(text: str) -> str:
    """`text` with a mask over user and password of any address with a scheme, and secrets of its query."""
    return _QUERY.sub(rf"\1={MASK}", _LOGIN.sub(f"{MASK}@", text))


def _parted(address: str) -> tuple[str, str]:
    """The scheme with its `://`, "" for none, and what follows."""
    found = _SCHEME.match(address)
    return (found[0], address[found.end() :]) if found else ("", address)
