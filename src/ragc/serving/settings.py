"""The settings of a server, checked before anything is opened."""

from __future__ import annotations

import ipaddress
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, Literal, get_args

from ragc.errors import UnknownName, UsageError

KEYS_ENV = "RAGC_SERVE_KEYS"
"""The environment variable with the keys of clients, separated by commas."""

MIN_KEY = 16
"""Characters of a key, at least."""

History = Literal["compiled", "last", "rewrite", "refuse"]
System = Literal["ignore", "refuse"]
Stream = Literal["real", "late"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of `ragc serve`.

    `history` says how earlier turns are handled, `compiled` as the program's knob of that name says, and
    `system` how system messages are. `stream` says whether
    text is sent while it is written, or once the answer is final. `in_flight` is the number of questions at
    once, `time_out` the seconds that one may take, and `max_body` the bytes of a request. `key_digests` are
    SHA-256 digests of the clients' keys; the keys themselves are not stored. `keep` stores new replies on
    disk.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    allowed_hosts: tuple[str, ...] = ()
    history: History = "compiled"
    system: System = "ignore"
    stream: Stream = "real"
    in_flight: int = 64
    in_flight_per_key: int | None = None
    workers: int = 1
    time_out: float = 120.0
    max_body: int = 1 << 20
    keep: bool = False
    key_digests: tuple[bytes, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for name, choices in (("history", History), ("system", System), ("stream", Stream)):
            if (value := getattr(self, name)) not in get_args(choices):
                raise UsageError(f"{name} must be one of {', '.join(get_args(choices))}, found {value!r}.")
        if not 0 <= self.port <= 65535:
            raise UsageError(f"port must be 0 to 65535, where 0 is any free one, found {self.port}.")
        for name in ("in_flight", "in_flight_per_key", "workers", "time_out", "max_body"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise UsageError(f"{name} must be above 0, found {value}.")
        if not self.key_digests and not is_loopback(self.host):
            raise UsageError(
                f"The host {self.host!r} can be reached from other machines, and no keys are set; set "
                f"{KEYS_ENV} to the keys of your clients, separated by commas, or serve on 127.0.0.1."
            )

    @classmethod
    def of(cls, **values: Any) -> Settings:
        """Returns the settings with `values`, by name. Raises UsageError for an unknown name."""
        known = {one.name for one in fields(cls)}
        for name in values:
            if name not in known:
                raise UnknownName("setting of a server", name, sorted(known - {"key_digests"}))
        values["allowed_hosts"] = tuple(values.get("allowed_hosts", ()))
        return cls(**values)


def is_loopback(host: str) -> bool:
    """Returns whether `host` is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def key_digests(keys: Sequence[str] | None = None) -> tuple[bytes, ...]:
    """Returns the digests of `keys`, by default of those in the environment. Raises UsageError."""
    named = os.environ.get(KEYS_ENV, "").split(",") if keys is None else keys
    stripped = [key.strip() for key in named if key.strip()]
    if any(len(key) < MIN_KEY for key in stripped):
        raise UsageError(f"A key in {KEYS_ENV} has under {MIN_KEY} characters; use longer, random ones.")
    if any(not key.isascii() or not key.isprintable() or " " in key for key in stripped):
        raise UsageError(f"A key in {KEYS_ENV} holds a blank or a character beyond ASCII; use other ones.")
    return tuple(dict.fromkeys(sha256(key.encode()).digest() for key in stripped))
