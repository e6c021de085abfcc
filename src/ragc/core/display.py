"""Short descriptions of objects for `repr`: on one line, of bounded length, with secrets masked."""

from __future__ import annotations

from ragc.core.redact import shorten

VALUE, WHOLE = 120, 500
"""Maximum length in characters of one value, and of a whole description."""


def describe(name: str, /, *parts: object, **settings: object) -> str:
    """`name(part, ..., setting=value, ...)`; a part or setting that is None or "" is left out.

    Texts are shortened and masked by `redact.shorten`, and written without quotes.

        >>> describe("Bm25Source", "3 passages", k1=0.9, chunk_size=None)
        'Bm25Source(3 passages, k1=0.9)'
    """
    shown = [_value(part) for part in parts if part is not None and part != ""]
    shown += [
        f"{key}={_value(value)}" for key, value in settings.items() if value is not None and value != ""
    ]
    text = f"{name}({', '.join(shown)})"
    return text if len(text) <= WHOLE else f"{text[: WHOLE - 2]}…)"


def quantity(n: int, noun: str) -> str:
    """`n` and the `noun`, in the plural unless `n` is one: `1 passage`, `1,200 passages`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return shorten(str(value), VALUE)
