"""Masks secrets in texts: passwords in addresses, keys and tokens in messages.

Any form of address is handled: `postgresql://user:password@host/db`, `http://:password@host/0`, the same
without a scheme, and secrets in the query (`?password=…`). Nothing here raises.
"""

from __future__ import annotations

import html
import json
import os
import re
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from ragc.core.text import visible

MASK = "[redacted]"

_PART = 3
"""Minimum length of a part of a password that is masked by itself."""

_VARIABLES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
"""Suffixes of environment variables whose values are masked."""

_PROVIDER_KEYS = (
    "_API_KEY", "_API_TOKEN", "_ACCESS_TOKEN", "_SECRET_ACCESS_KEY", "_SESSION_TOKEN", "_CLIENT_SECRET",
    "HF_TOKEN",
)  # fmt: skip
"""Suffixes of the variables from which libraries read keys of providers."""

_MIN_CHARS, _MIN_CHARS_IN_REPLIES = 6, 8
_READ, _LOOKED_AT = 2**20, 4000

_ALWAYS = frozenset({
    "apikey", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "jwt",
    "passphrase", "passwd", "password", "pwd", "secret", "secrets",
})  # fmt: skip
_LAST = frozenset({"auth", "key", "keys", "sig", "signature", "token"})
_SPECIAL = frozenset({"bos", "eos", "pad", "stop", "unk", "mask", "cls", "sep", "cache"})
"""Words that make a name ending in `token` or `key` harmless: `eos_token`, `prompt_cache_key`."""

_JOINED = re.compile(
    r"(password|passwd|passphrase|apikey|(auth|access|api|bearer|refresh|session)tokens?|(access|private|secret)key)"
)
"""Names without separators, or with further words: `sslpassword`, `access_token_value`."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")

_SCHEME = re.compile(r"[A-Za-z][\w+.-]*://")
_LOGIN = re.compile(r"(?<=://)[^/\s]+@")
_PARAMETER = re.compile(r"(?<=[?&;#])([\w.-]+)=([^&;#\s'\"]+)")
_LOOSE_NAME = re.compile(
    r"(?i)[\w.-]*(?:pass|pwd|secret|token|signature|credential)[\w.-]*|(?:[\w.-]*[_.-])?(?:api)?key"
)
"""Parameter names that are masked in addition to `is_secret_name`; an unnecessary mask does little harm."""

_ISSUERS = r"gsk|xai|hf|ghp|gho|ghs|github_pat|r8|pplx|nvapi|glpat|xox[abp]"
"""Prefixes of providers' keys that are followed by a dash or an underscore."""

_KEY = re.compile(
    rf"\b(sk-(?=[\w-]*\d)[\w-]{{16,}}|({_ISSUERS})[-_][A-Za-z0-9]{{20,}}"
    r"|AIza[\w-]{30,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)",
    re.ASCII,
)
"""Complete provider keys, with few false matches: a recipe that contains one is refused."""

_MASKED = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=*-]{6,}"), rf"\1 {MASK}"),
    (re.compile(rf"\b(?:sk|pk|rk|fw|{_ISSUERS})[-_][\w*-]{{6,}}"), MASK),
    (re.compile(r"\bAIza[\w-]{20,}|\bAKIA[0-9A-Z]{12,}|\beyJ[\w-]{10,}\.[\w.-]+"), MASK),
    (
        re.compile(
            r"(?i)\b((?:api|access|secret)[-_ ]?key|token|secret|password)"
            r"(['\"]?\s*[:=]\s*['\"]?)[^\s'\"&,)]{6,}"
        ),
        rf"\1\2{MASK}",
    ),
)
"""Patterns masked in messages: anything that begins like a key, including shortened ones."""

_remembered: dict[str, tuple[str, ...]] = {}
"""The forms in which each registered secret may occur."""


def is_secret_name(name: str) -> bool:
    """Returns whether `name` suggests a secret: `api_key`, `accessToken`, `x-auth`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or _ALWAYS.intersection(words):
        return bool(words)
    if words[-1] != "env" and _JOINED.search("".join(words)):  # `api_key_env` names a variable
        return True
    return words[-1] in _LAST and not _SPECIAL.intersection(words[:-1])


def holds_key(value: object) -> bool:
    """Returns whether a text in `value` is a provider key."""
    if isinstance(value, list | tuple):
        return any(map(holds_key, value))
    return isinstance(value, str) and bool(_KEY.search(value))


def remember(secret: str) -> str:
    """Registers `secret`, so that `redact` and `mask_keys` mask it from now on. Returns it."""
    if len(secret) >= _MIN_CHARS:
        _remembered[secret] = _forms(secret)
    return secret


def remember_environment(prefix: str = "") -> None:
    """Registers every provider key in the environment: a library for several providers may send any of them.

    Those are the variables whose names end in `_API_KEY` and the like, or that begin with `prefix` and end in
    KEY, TOKEN or SECRET.
    """
    for name, value in os.environ.items():
        upper = name.upper()
        own = bool(prefix) and upper.startswith(prefix.upper()) and upper.endswith(_VARIABLES)
        if own or upper.endswith(_PROVIDER_KEYS):
            remember(value.strip())


def mask_keys(text: str) -> str:
    """Masks registered keys in `text`, as they are and in usual encodings; nothing else.

    For replies, where a mask must not hit by chance: keys of fewer than 8 characters are not masked.
    """
    long = (forms for secret, forms in _remembered.items() if len(secret) >= _MIN_CHARS_IN_REPLIES)
    for form in sorted({form for forms in long for form in forms}, key=len, reverse=True):
        text = text.replace(form, MASK)  # the longest first: one key may begin with another
    return text


def _forms(secret: str) -> tuple[str, ...]:
    """Returns `secret` as it is, percent-encoded, in JSON, in HTML and in base64, longest first."""
    encoded = secret.encode("utf-8", "surrogateescape")
    forms = {
        secret, quote(encoded, safe=""), quote_plus(encoded), json.dumps(secret)[1:-1], html.escape(secret),
        b64encode(encoded).decode().rstrip("="), urlsafe_b64encode(encoded).decode().rstrip("="),
    }  # fmt: skip
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def redact(text: str) -> str:
    """Returns `text` with everything that looks like a key masked.

    Also masked: every value (of 6 characters or more) of an environment variable whose name ends in KEY,
    TOKEN, SECRET or PASSWORD, and every secret passed to `remember`.
    """
    held = {v for k, v in os.environ.items() if k.upper().endswith(_VARIABLES) and len(v) >= _MIN_CHARS}
    held.update(form for forms in _remembered.values() for form in forms)
    for value in sorted(held, key=len, reverse=True):
        text = text.replace(value, MASK)
    text = mask_addresses(text)
    for pattern, mask in _MASKED:
        text = pattern.sub(mask, text)
    return text


def shorten(text: str, limit: int = 300) -> str:
    """Returns `text` redacted, on one line, at most `limit` characters, without a final full stop.

    Terminal control characters are escaped.
    """
    line = " ".join(text[:_READ].split())
    # the patterns are slow on long texts, and a word cut in half could be half a key
    if len(line) > _LOOKED_AT:
        line = line[:_LOOKED_AT].rpartition(" ")[0]
    line = visible(" ".join(redact(line).split()))
    if len(line) > limit:
        line = line[: limit - 1].rstrip() + "…"
    return line.rstrip(".")


def bare_address(address: str) -> str:
    """Returns `address` without user, password, query and fragment: scheme, host and path."""
    scheme, rest = _split_scheme(address)
    # A password may contain any character, even unescaped ones, so the last @ ends it.
    return scheme + re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]


def secrets(address: str) -> tuple[str, ...]:
    """Returns the secret parts of `address`, longest first, both as written and percent-decoded."""
    _, rest = _split_scheme(address)
    login = rest.rpartition("@")[0]
    written = {value for name, value in _PARAMETER.findall(rest) if _is_masked(name)}
    if ":" in login:
        written |= {login.partition(":")[2]}
    # A parser that ends the password at a / or @ reports the rest as host or port.
    written |= {part for secret in written for part in re.split(r"[/?#@:]", secret) if len(part) >= _PART}
    decoded = {decode(secret) for secret in written for decode in (unquote, unquote_plus)}
    return tuple(sorted((written | decoded) - {""}, key=lambda secret: (-len(secret), secret)))


def mask(text: str, address: str) -> str:
    """Returns `text` on one line, with the secrets of `address` masked wherever they occur."""
    line = " ".join(text.split())
    hidden = [*([address] if secrets(address) else []), *secrets(address)]
    return re.sub("|".join(map(re.escape, hidden)), MASK, line) if hidden else line


def mask_addresses(text: str) -> str:
    """Returns `text` with user, password and query secrets masked in every address that has a scheme."""
    return _PARAMETER.sub(_masked_parameter, _LOGIN.sub(f"{MASK}@", text))


def _masked_parameter(parameter: re.Match[str]) -> str:
    return f"{parameter[1]}={MASK}" if _is_masked(parameter[1]) else parameter[0]


def _is_masked(name: str) -> bool:
    return bool(_LOOSE_NAME.fullmatch(name)) or is_secret_name(name)


def _split_scheme(address: str) -> tuple[str, str]:
    """Returns the scheme with its `://`, "" for none, and the rest."""
    scheme = _SCHEME.match(address)
    return (scheme[0], address[scheme.end() :]) if scheme else ("", address)
