"""Secrets that stand in a recipe: refused, because a recipe is copied into every compiled program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, urlsplit

from ragc.core.redact import holds_key, is_secret_name
from ragc.recipe.table import Table


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
