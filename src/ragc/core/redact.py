"""Secrets in texts: what looks like one, and masks over those in addresses and messages.

An address may have any shape: `postgresql://user:password@host/db`, `redis://:password@host/0`, the same
without its scheme, and with secrets in the query (`?password=…`). Nothing here raises.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, unquote_plus

from ragc.core.terminal import visible

MASK = "[redacted]"

_PART = 3
"""Characters of a part of a password that is masked by itself."""

_VARIABLES = ("KEY", "TOKEN", "SECRET", "PASSWORD")
"""How names of variables of the environment end whose values are masked."""

_SHORTEST = 6
_READ, _LOOKED_AT = 2**20, 4000

_ALWAYS = frozenset({
    "apikey", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "jwt",
    "passphrase", "passwd", "password", "pwd", "secret", "secrets",
})  # fmt: skip
_LAST = frozenset({"auth", "key", "keys", "sig", "signature", "token"})
_SPECIAL = frozenset({"bos", "eos", "pad", "stop", "unk", "mask", "cls", "sep", "cache"})
"""Tokens and keys that are no secrets: `eos_token`, `prompt_cache_key`."""

_JOINED = re.compile(
    r"(password|passwd|passphrase|apikey|(auth|access|api|bearer|refresh|session)tokens?|(access|private|secret)key)"
)
"""Names that run together or have words behind them: `sslpassword`, `access_token_value`."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")

_SCHEME = re.compile(r"[A-Za-z][\w+.-]*://")
_LOGIN = re.compile(r"(?<=://)[^/\s]+@")
_PARAMETER = re.compile(r"(?<=[?&;#])([\w.-]+)=([^&;#\s'\"]+)")
_LOOSE_NAME = re.compile(
    r"(?i)[\w.-]*(?:pass|pwd|secret|token|signature|credential)[\w.-]*|(?:[\w.-]*[_.-])?(?:api)?key"
)
"""Names of parameters that are masked, those of `is_secret_name` beside: a mask too many costs little."""

_ISSUERS = r"gsk|xai|hf|ghp|gho|ghs|github_pat|r8|pplx|nvapi|glpat|xox[abp]"
"""How keys of providers begin that go on with a dash or an underscore."""

_KEY = re.compile(
    rf"\b(sk-(?=[\w-]*\d)[\w-]{{16,}}|({_ISSUERS})[-_][A-Za-z0-9]{{20,}}"
    r"|AIza[\w-]{30,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)",
    re.ASCII,
)
"""Whole keys as providers issue them, hardly anything else: a recipe is refused for one."""

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
"""What is masked in a message: whatever begins like a key, shortened ones too."""

_remembered: set[str] = set()


def is_secret_name(name: str) -> bool:
    """Whether what is called `name` is a secret by its name: `api_key`, `accessToken`, `x-auth`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or _ALWAYS.intersection(words):
        return bool(words)
    if words[-1] != "env" and _JOINED.search("".join(words)):  # `api_key_env` names a variable
        return True
    return words[-1] in _LAST and not _SPECIAL.intersection(words[:-1])


def holds_key(value: object) -> bool:
    """Whether a text in `value` is a key as providers issue them."""
    if isinstance(value, list | tuple):
        return any(map(holds_key, value))
    return isinstance(value, str) and bool(_KEY.search(value))


def remember(secret: str) -> str:
    """`secret` itself, which `redact` masks from now on under whatever name it was found."""
    if len(secret) >= _SHORTEST:
        _remembered.add(secret)
    return secret


def redact(text: str) -> str:
    """`text` with a mask over whatever looks like a key.

    Also masked: each value (of 6 characters or more) of an environment variable whose name ends in
    KEY, TOKEN, SECRET or PASSWORD, and whatever was given to `remember`.
    """
    held = {v for k, v in os.environ.items() if k.upper().endswith(_VARIABLES) and len(v) >= _SHORTEST}
    held |= _remembered
    for value in sorted(held, key=len, reverse=True):
        text = text.replace(value, MASK)
    text = mask_addresses(text)
    for pattern, mask in _MASKED:
        text = pattern.sub(mask, text)
    return text


def shorten(text: str, limit: int = 300) -> str:
    """`text` redacted, on one line, at most `limit` characters, without a final full stop.

    Characters that act on a terminal are written as escapes.
    """
    line = " ".join(text[:_READ].split())
    if len(line) > _LOOKED_AT:  # patterns take long on long texts; a cut word could be half a key
        line = line[:_LOOKED_AT].rpartition(" ")[0]
    line = visible(" ".join(redact(line).split()))
    if len(line) > limit:
        line = line[: limit - 1].rstrip() + "…"
    return line.rstrip(".")


def bare_address(address: str) -> str:
    """`address` without user, password, query and fragment: scheme, host and path."""
    scheme, rest = _split_scheme(address)
    # A password may hold any character, also one that should have been written as %XX: the last @ ends it.
    return scheme + re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]


def secrets(address: str) -> tuple[str, ...]:
    """What of `address` must not be repeated, the longest first: as it is written and as it is meant."""
    _, rest = _split_scheme(address)
    login = rest.rpartition("@")[0]
    written = {value for name, value in _PARAMETER.findall(rest) if _is_masked(name)}
    if ":" in login:
        written |= {login.partition(":")[2]}
    # A parser that takes a / or @ in a password for the end of it tells the rest as host or port.
    written |= {part for secret in written for part in re.split(r"[/?#@:]", secret) if len(part) >= _PART}
    decoded = {decode(secret) for secret in written for decode in (unquote, unquote_plus)}
    return tuple(sorted((written | decoded) - {""}, key=lambda secret: (-len(secret), secret)))


def mask(text: str, address: str) -> str:
    """`text` on one line, with a mask over what is secret in `address`, wherever it stands."""
    line = " ".join(text.split())
    hidden = [*([address] if secrets(address) else []), *secrets(address)]
    return re.sub("|".join(map(re.escape, hidden)), MASK, line) if hidden else line


def mask_addresses(text: str) -> str:
    """`text` with a mask over user and password of any address with a scheme, and secrets of its query."""
    return _PARAMETER.sub(_masked_parameter, _LOGIN.sub(f"{MASK}@", text))


def _masked_parameter(parameter: re.Match[str]) -> str:
    return f"{parameter[1]}={MASK}" if _is_masked(parameter[1]) else parameter[0]


def _is_masked(name: str) -> bool:
    return bool(_LOOSE_NAME.fullmatch(name)) or is_secret_name(name)


def _split_scheme(address: str) -> tuple[str, str]:
    """The scheme with its `://`, "" for none, and what follows."""
    scheme = _SCHEME.match(address)
    return (scheme[0], address[scheme.end() :]) if scheme else ("", address)
