"""Finds secrets in a recipe, which are refused because a recipe is copied into every compiled program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ragc.core.redact import holds_key, is_secret_name, mask_addresses
from ragc.core.tables import Keys, Problem, dotted


def find_secrets(value: object, keys: Keys = ()) -> Iterator[Problem]:
    """Yields every secret in the `value` at `keys` of a recipe: the text of a key with the name of one, a key
    of a provider, or one in an address.
    """
    inside = value.items() if isinstance(value, Mapping) else ()
    for key, inner in enumerate(value) if isinstance(value, list | tuple) else inside:
        yield from find_secrets(inner, (*keys, key))
    if isinstance(value, str) and value and (message := _found(value, keys)):
        yield Problem(keys, message)


def _found(text: str, keys: Keys) -> str:
    """Returns what is wrong with the `text` at `keys`; "" for no secret."""
    family, options = keys[0], [str(key) for key in keys[3:]]
    if keys == ("study", "storage"):
        server = text.rpartition("@")[2]
        has_password = re.search(r":(?!//).*@", text) or mask_addresses(server) != server
        return (
            "must not hold a password: recipes are passed on; put the address into RAGC_STORAGE"
            if has_password
            else ""
        )
    if family not in ("sources", "targets") or options[:1] in (["headers"], ["query"]):  # checked as options
        return ""
    if "api_key_env" in options:
        named = text.isidentifier() and not holds_key(text)
        return "" if named else "must name an environment variable, such as OPENAI_API_KEY, not hold the key"
    secret = any(map(is_secret_name, options))
    login = "://" in text and mask_addresses(text) != text
    if not (secret or login or holds_key(text) or (keys[-1] == "base_url" and "@" in text)):
        return ""
    return f"{dotted(keys)} holds a secret, and recipes are passed on; use an environment variable and " + (
        "name that in api_key_env" if family == "targets" else "leave it out"
    )
