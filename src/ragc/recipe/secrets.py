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
_VARIABLES = "put it into an environment variable and"


def find_secrets(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yields every secret in the tables of a recipe, detected by key name, key prefix, or in an address."""
    for family in ("sources", "targets"):
        for keys, secret in _secrets(values.get(family), (family,)):
            if keys[-1] == "api_key_env":
                expected = "an environment variable, such as OPENAI_API_KEY, not hold the key itself"
                yield Problem(keys, f"must name {expected}")
                continue
            remedy = f"{_VARIABLES} name that in api_key_env" if family == "targets" else "leave it out"
            way = f'{_VARIABLES} write "$NAME"' if _may_name_variables(keys) else remedy
            yield Problem(keys, f"{dotted(keys)} holds {secret}, and recipes are passed on; {way}")
    study = values.get("study")
    storage = study.get("storage") if isinstance(study, Mapping) else None
    if isinstance(storage, str) and secrets(storage):
        advice = "recipes are passed on; put the address into the environment, RAGC_STORAGE"
        yield Problem(("study", "storage"), f"must not hold a password: {advice}")


def _may_name_variables(keys: Keys) -> bool:
    return len(keys) == 5 and keys[3] in ("headers", "query")


def _secrets(value: object, keys: Keys) -> Iterator[tuple[Keys, str]]:
    """Yields the keys of secrets in `value`, and their kind; never the secrets themselves."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _named(inner, (*keys, str(name)))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _secrets(inner, (*keys, index))
    elif holds_key(value):
        yield keys, "a key"
    elif isinstance(value, str) and (secret := _in_address(value)):
        yield keys, secret


def _named(value: object, keys: Keys) -> Iterator[tuple[Keys, str]]:
    """Yields the secrets in the `value` of a key, whose name may say, inside `options`, that it is one."""
    name = str(keys[-1])
    if keys[0] == "targets" and keys[2:] == ("options", "api_key_env"):
        if holds_key(value) or (isinstance(value, str) and not _VARIABLE.fullmatch(value)):
            yield keys, "a key"
    elif keys[2:] == ("base_url",) and isinstance(value, str) and "@" in value:
        yield keys, "a name or password"
    elif len(keys) > 3 and is_secret_name(name) and _has_text(value):
        if not (_may_name_variables(keys) and variables({name: str(value)})):
            yield keys, "a secret"
    else:
        yield from _secrets(value, keys)


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
