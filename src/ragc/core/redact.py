"""Masks secrets in texts: configured keys, whatever begins like a provider's key, passwords in addresses.

Configured are the variables of the environment that a recipe names, those in which libraries look for keys,
and those whose names end in KEY, TOKEN, SECRET or PASSWORD. Nothing here raises.
"""

from __future__ import annotations

import os
import re

from ragc.core.text import visible

MASK = "[redacted]"

_VARIABLES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
"""Suffixes of environment variables whose values are masked in messages."""

_PROVIDER_KEYS = (
    "_API_KEY", "_API_TOKEN", "_ACCESS_TOKEN", "_SECRET_ACCESS_KEY", "_SESSION_TOKEN", "_CLIENT_SECRET",
    "HF_TOKEN",
)  # fmt: skip
"""Suffixes of the variables from which libraries read keys of providers."""

_MIN_CHARS, _MIN_CHARS_IN_REPLIES = 6, 8

_SECRET_NAME = re.compile(
    r".*(password|passwd|pwd|passphrase|secret|credential|authorization|bearer|cookie|jwt|apikeys?"
    r"|(auth|access|api|bearer|refresh|session)_?tokens?|(api|access|private|secret)_?keys?)(?!.*_env$).*"
    r"|(?!.*(bos|eos|pad|stop|unk|mask|cls|sep|cache)_)(.*_)?(auth|keys?|sig|signature|token)|pass"
)
"""Names of secrets, in lower case with words joined by `_`."""

_KEY = re.compile(
    r"\b(sk-(?=[\w-]*\d)[\w-]{16,}|(gsk|xai|hf|gh[pos]|github_pat|r8|pplx|nvapi|glpat|xox[abp])[-_][A-Za-z0-9]{20,}"
    r"|AIza[\w-]{30,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)",
    re.ASCII,
)
"""Complete keys of providers, with few false matches: a recipe that contains one is refused."""

_LIKE_A_KEY = re.compile(
    r"(\b(?i:bearer|basic)\s+"
    r"|(?i:\b(?:api|access|secret)[-_ ]?key|token|secret|password)['\"]?\s*[:=]\s*['\"]?)[^\s'\"&,)]{6,}"
    r"|\b(?:sk|pk|rk|fw|gsk|xai|hf|gh[pos]|github_pat|r8|pplx|nvapi|glpat|xox[abp])[-_][\w*-]{6,}"
    r"|\bAIza[\w-]{20,}|\bAKIA[0-9A-Z]{12,}|\beyJ[\w-]{10,}\.[\w.-]+"
)
"""What is masked in messages: anything that begins like a key, shortened ones included."""

_LOGIN = re.compile(r"(?<=://)[^/\s]+@")
_PARAMETER = re.compile(r"(?<=[?&;#])([\w.-]+)=([^&;#\s'\"]+)")

_remembered: set[str] = set()


def is_secret_name(name: str) -> bool:
    """Returns whether `name` suggests a secret: `api_key`, `accessToken`, `x-auth`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+", "_", name)
    return bool(_SECRET_NAME.fullmatch(words.strip("_").lower()))


def holds_key(value: object) -> bool:
    """Returns whether a text in `value` is a provider key."""
    return bool(_KEY.search(str(value)))


def remember(secret: str) -> str:
    """Registers `secret`, so that `redact` and `mask_keys` mask it from now on. Returns it."""
    if len(secret) >= _MIN_CHARS:
        _remembered.add(secret)
    return secret


def remember_environment(prefix: str = "") -> None:
    """Registers every provider key in the environment: a library for several providers may send any of them.

    Those are the variables whose names end in `_API_KEY` and the like, or that begin with `prefix` and end in
    KEY, TOKEN or SECRET.
    """
    for name, value in os.environ.items():
        own = prefix and name.upper().startswith(prefix.upper())
        if name.upper().endswith(_VARIABLES if own else _PROVIDER_KEYS):
            remember(value.strip())


def mask_keys(text: str) -> str:
    """Masks registered keys in `text`, and nothing else.

    For replies, where a mask must not hit by chance: keys of fewer than 8 characters are not masked.
    """
    return _without(text, {secret for secret in _remembered if len(secret) >= _MIN_CHARS_IN_REPLIES})


def redact(text: str) -> str:
    """Returns `text` with configured keys, passwords in addresses, and what looks like a key masked."""
    held = {v for k, v in os.environ.items() if k.upper().endswith(_VARIABLES) and len(v) >= _MIN_CHARS}
    return _LIKE_A_KEY.sub(rf"\1{MASK}", mask_addresses(_without(text, held | _remembered)))


def shorten(text: str, limit: int = 300) -> str:
    """Returns `text` redacted, on one line, at most `limit` characters, without a final full stop.

    Terminal control characters are escaped.
    """
    # the patterns are slow on long texts
    line = visible(" ".join(redact(text[:4000]).split()))
    if len(line) > limit:
        line = line[: limit - 1].rstrip() + "…"
    return line.rstrip(".")


def mask_addresses(text: str) -> str:
    """Returns `text` with user, password and query secrets masked in every address that has a scheme."""
    return _PARAMETER.sub(
        lambda found: f"{found[1]}={MASK}" if is_secret_name(found[1]) else found[0],
        _LOGIN.sub(f"{MASK}@", text),
    )


def _without(text: str, values: set[str]) -> str:
    # the longest first: one key may begin with another
    pattern = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    return re.sub(pattern, MASK, text) if values else text
