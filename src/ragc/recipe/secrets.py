"""Finds secrets in a recipe, which are refused because a recipe is copied into every compiled program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ragc.core.redact import holds_key, is_secret_name, secrets
from ragc.core.tables import Keys, Problem, dotted
from ragc.targets.options import variables

_VARIABLE = re.compile(r"([A-Za-z_]\w*)?", re.ASCII)
_REMEDY = "put it into an environment variable and name that in api_key_env"
_BY_VARIABLE = ("headers", "query")
"""Options of targets whose values name variables of the environment: "$NAME"."""


def find_secrets(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields every secret in the tables of a recipe, detected by key name, key prefix, or in an address."""
    for name, source in _tables(values, "sources"):
        yield from _refused(("sources", name, "options"), source.get("options"), "leave it out")
    for name, target in _tables(values, "targets"):
        keys = ("targets", name)
        url, options = target.get("base_url"), target.get("options")
        if isinstance(url, str) and "@" in url:
            where = (*keys, "base_url")
            yield Problem(where, "must not hold a name or password: recipes are passed on")
        else:
            yield from _refused((*keys, "base_url"), url, _REMEDY)
        yield from _refused((*keys, "model"), target.get("model"), _REMEDY)
        variable = options.get("api_key_env", "") if isinstance(options, Mapping) else ""
        if holds_key(variable) or (isinstance(variable, str) and not _VARIABLE.fullmatch(variable)):
            expected = "an environment variable, such as OPENAI_API_KEY, not hold the key itself"
            yield Problem((*keys, "options", "api_key_env"), f"must name {expected}")
            options = {name: value for name, value in dict(options or {}).items() if name != "api_key_env"}
        yield from _refused((*keys, "options"), options, _REMEDY)
    study = values.get("study")
    storage = study.get("storage") if isinstance(study, Mapping) else None
    if isinstance(storage, str) and secrets(storage):
        advice = "recipes are passed on; put the address into the environment, RAGC_STORAGE"
        yield Problem(("study", "storage"), f"must not hold a password: {advice}")


def _tables(values: Mapping[str, Any], family: str) -> list[tuple[str, Mapping[str, Any]]]:
    tables = values.get(family)
    pairs = tables.items() if isinstance(tables, Mapping) else ()
    return [(str(name), table) for name, table in pairs if isinstance(table, Mapping)]


def _refused(keys: Keys, value: object, remedy: str) -> Iterator[Problem]:
    for path, secret in _secrets(value, ()):
        where = (*keys, *path)
        way = f'{_REMEDY[:38]}write "$NAME"' if path[:1] in [(one,) for one in _BY_VARIABLE] else remedy
        yield Problem(where, f"{dotted(where)} holds {secret}, and recipes are passed on; {way}")


def _secrets(value: object, path: Keys) -> Iterator[tuple[Keys, str]]:
    """Yields the paths of secrets in `value`, and their kind; never the secrets themselves."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            text = str(name)
            if not (is_secret_name(text) and _has_text(inner)):
                yield from _secrets(inner, (*path, text))
            elif path[:1] not in [(one,) for one in _BY_VARIABLE] or not variables({"": str(inner)}):
                yield (*path, text), "a secret"
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _secrets(inner, (*path, index))
    elif holds_key(value):
        yield path, "a key"
    elif isinstance(value, str) and (secret := _in_address(value)):
        yield path, secret


def _has_text(value: object) -> bool:
    """Returns whether `value` contains a non-empty text."""
    if isinstance(value, Mapping):
        return any(map(_has_text, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_text, value))
    return isinstance(value, str) and bool(value)


def _in_address(text: str) -> str:
    """Returns the kind of secret in an address; "" for none, and for a text that is not an address."""
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
