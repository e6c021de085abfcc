"""Finds secrets in a recipe, which are refused because a recipe is copied into every compiled program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from ragc.core.redact import holds_key, is_secret_name, secrets
from ragc.core.validation import Location, dotted

_VARIABLE = re.compile(r"([A-Za-z_]\w*)?", re.ASCII)
_REMEDY = "put it into an environment variable and name that in api_key_env"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret in a recipe: its keys, the sentence that refuses it, and whether to hide its value.

    `spoils` are keys whose other problems are not reported, because they would repeat the value.
    """

    keys: Location
    text: str
    spoils: Location
    hidden: bool = True


def find_secrets(values: Mapping[str, object]) -> Iterator[Secret]:
    """Yields every secret in the tables of a recipe, detected by key name, key prefix, or in an address."""
    for name, source in _tables(values, "sources"):
        yield from _refused(("sources", name, "options"), source.get("options"), "leave it out")
    for name, target in _tables(values, "targets"):
        yield from _of_target(("targets", name), target)
    study = values.get("study")
    storage = study.get("storage") if isinstance(study, Mapping) else None
    if isinstance(storage, str) and secrets(storage):
        text = "study.storage must not hold a password: recipes are passed on"
        advice = "put the address into the environment, RAGC_STORAGE"
        yield Secret(("study", "storage"), f"{text}; {advice}", ("study", "storage"), hidden=False)


def _tables(values: Mapping[str, object], family: str) -> list[tuple[str, Mapping[str, object]]]:
    tables = values.get(family)
    pairs = tables.items() if isinstance(tables, Mapping) else ()
    return [(str(name), table) for name, table in pairs if isinstance(table, Mapping)]


def _of_target(keys: Location, target: Mapping[str, object]) -> Iterator[Secret]:
    url, options = target.get("base_url"), target.get("options")
    if isinstance(url, str) and "@" in url:
        where = (*keys, "base_url")
        text = f"{dotted(where)} must not hold a name or password: recipes are passed on"
        yield Secret(where, text, where, hidden=False)
    else:
        yield from _refused((*keys, "base_url"), url, _REMEDY)
    yield from _refused((*keys, "model"), target.get("model"), _REMEDY)
    if not isinstance(options, Mapping):
        yield from _refused((*keys, "options"), options, _REMEDY)
        return
    others = {name: value for name, value in options.items() if name != "api_key_env"}
    yield from _refused((*keys, "options"), others, _REMEDY)
    variable = options.get("api_key_env", "")
    if holds_key(variable) or (isinstance(variable, str) and not _VARIABLE.fullmatch(variable)):
        where = (*keys, "options", "api_key_env")
        expected = "an environment variable, such as OPENAI_API_KEY, not hold the key itself"
        yield Secret(where, f"{dotted(where)} must name {expected}", where)


def _refused(keys: Location, value: object, remedy: str) -> Iterator[Secret]:
    for path, secret in _secrets(value, ()):
        where = (*keys, *path)
        text = f"{dotted(where)} holds {secret}, and recipes are passed on; {remedy}"
        yield Secret(where, text, keys)


def _secrets(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields the paths of secrets in `value`, and their kind; never the secrets themselves."""
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
    """Returns whether `value` contains a non-empty text."""
    if isinstance(value, Mapping):
        return any(map(_has_text, value.values()))
    return (
        any(map(_has_text, value))
        if isinstance(value, list | tuple)
        else isinstance(value, str) and bool(value)
    )


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
