"""Secrets that stand in a recipe: refused, because a recipe is copied into every compiled program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from ragc.recipe_table import Table

_ALWAYS = frozenset({
    "apikey", "authorization", "bearer", "credential", "credentials", "passphrase", "passwd", "password",
    "pwd", "secret", "secrets",
})  # fmt: skip
_LAST = frozenset({"auth", "key", "sig", "signature", "token"})
_SPECIAL = frozenset({"bos", "eos", "pad", "stop", "unk", "mask", "cls", "sep", "cache"})
"""Tokens and keys that are no secrets: `eos_token`, `prompt_cache_key`."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


def is_secret_name(name: str) -> bool:
    """Whether what is called `name` is a secret by its name: `api_key`, `accessToken`, `x-auth`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or _ALWAYS.intersection(words):
        return bool(words)
    return words[-1] in _LAST and not _SPECIAL.intersection(words[:-1])


def note_secrets(table: Table, key: str, value: object, *, remedy: str) -> None:
    """Note every secret in `value`, which stands at `key` of `table`: by name, and inside an address."""
    for path, secret in _secrets(value, ()):
        where = ".".join((table.name(key), *path))
        text = f"{where} holds {secret}, and recipes are passed on; {remedy}"
        table.notes.add((*table.keys, key, *path), text, hidden=True)


def _secrets(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Where in `value` a secret stands, and what it is; never the secret itself."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            text = str(name)
            texts = inner if isinstance(inner, list | tuple) else [inner]
            if is_secret_name(text) and any(isinstance(one, str) and one for one in texts):
                yield (*path, text), "a secret"
            else:
                yield from _secrets(inner, (*path, text))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets(inner, path)
    elif isinstance(value, str) and (secret := _in_address(value)):
        yield path, secret


def _in_address(text: str) -> str:
    """What secret an address holds; "" for none, and for what is no address."""
    if "://" not in text:
        return ""
    try:
        parts = urlsplit(text)
        named = [name for name, value in parse_qsl(parts.query) if value and is_secret_name(name)]
        if parts.password is not None or (parts.username and not named):
            return "a name or password"
    except ValueError:
        return ""
    return f"a secret in {named[0]}=" if named else ""
