"""Secrets that stand in a recipe: refused, because a recipe is copied into every compiled program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from ragc.recipe.table import Table

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

_KEY = re.compile(
    r"\b(sk-(?=[\w-]*\d)[\w-]{16,}|(gsk|xai|hf|ghp|gho|ghs|github_pat|r8|pplx|nvapi|glpat|xox[abp])[-_][A-Za-z0-9]{20,}"
    r"|AIza[\w-]{30,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)",
    re.ASCII,
)
"""What providers issue, by how it begins."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


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


def note_secrets(table: Table, key: str, value: object, *, remedy: str) -> bool:
    """Note every secret in `value`, which stands at `key` of `table`; whether there is any.

    Secrets are told by their names, by how keys begin, and inside an address.
    """
    noted = False
    for path, secret in _secrets(value, ()):
        noted = True
        where = ".".join((table.name(key), *path))
        text = f"{where} holds {secret}, and recipes are passed on; {remedy}"
        table.notes.add((*table.keys, key, *path), text, hidden=True)
    return noted


def _secrets(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Where in `value` a secret stands, and what it is; never the secret itself."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            text = str(name)
            if is_secret_name(text) and _has_text(inner):
                yield (*path, text), "a secret"
            else:
                yield from _secrets(inner, (*path, text))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets(inner, path)
    elif holds_key(value):
        yield path, "a key"
    elif isinstance(value, str) and (secret := _in_address(value)):
        yield path, secret


def _has_text(value: object) -> bool:
    """Whether a text that is not empty stands anywhere in `value`."""
    if isinstance(value, Mapping):
        return any(map(_has_text, value.values()))
    return (
        any(map(_has_text, value))
        if isinstance(value, list | tuple)
        else isinstance(value, str) and bool(value)
    )


def _in_address(text: str) -> str:
    """What secret an address holds; "" for none, and for what is no address."""
    if "://" not in text:
        return ""
    try:
        parts = urlsplit(text)
        pairs = (*parse_qsl(parts.query), *parse_qsl(parts.fragment))
        named = [name for name, value in pairs if value and is_secret_name(name)]
        if parts.password is not None or (parts.username and not named):
            return "a name or password"
    except ValueError:
        return ""
    return f"a secret in {named[0]}=" if named else ""
