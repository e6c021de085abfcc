"""Short descriptions of objects for `repr`: on one line, of bounded length, with secrets masked."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from ragc.core.redact import shorten

VALUE, WHOLE = 120, 500
"""Maximum length in characters of one value, and of a whole description."""


def describe(name: str, /, *parts: object, **settings: object) -> str:
    """Returns `name(part, ..., setting=value, ...)`; a part or setting that is None or "" is left out.

    Texts are shortened and masked by `redact.shorten`, and written without quotes.

        >>> describe("Bm25Source", "3 passages", k1=0.9, chunk_size=None)
        'Bm25Source(3 passages, k1=0.9)'
    """
    named = [("", part) for part in parts] + [(f"{key}=", value) for key, value in settings.items()]
    shown = [
        f"{key}{value:.4g}" if isinstance(value, float) else f"{key}{shorten(str(value), VALUE)}"
        for key, value in named
        if value is not None and value != ""
    ]
    text = f"{name}({', '.join(shown)})"
    return text if len(text) <= WHOLE else f"{text[: WHOLE - 2]}…)"


def quantity(n: int, noun: str) -> str:
    """Returns `n` and the `noun`, in the plural unless `n` is one: `1 passage`, `1,200 passages`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def spent(cost: Mapping[str, float]) -> str:
    """Returns what a run took: requests sent and replayed, tokens, dollars, seconds."""
    sent = f"{quantity(round(cost['sent']), 'request')} sent, {cost['replayed']:,.0f} replayed"
    return f"{sent}, {cost['tokens']:,.0f} tokens, {dollars(cost['usd'])}, {cost['seconds']:.1f} s"


def dollars(amount: float) -> str:
    """Returns a sum of money: cents from a dollar on, three significant digits below; never 0 for more than
    0.

    >>> [dollars(amount) for amount in (1234.5, 0.5, 0.0123, 0.00000123, 0)]
    ['$1,234.50', '$0.50', '$0.0123', '$0.00000123', '$0.00']
    """
    digits = Decimal(f"{abs(amount):.3g}" if abs(amount) < 1 else f"{abs(amount):.2f}")
    places = max(2, -int(digits.normalize().as_tuple().exponent))
    return f"{'-' if amount < 0 else ''}${digits:,.{places}f}"


def decimals(value: float) -> str:
    """Returns a number in three decimals, or in three significant digits where those would be zeros."""
    return f"{value:.3f}" if not value or abs(value) >= 0.0005 else f"{value:.3g}"


def figure(metric: str, value: float) -> str:
    """Returns the mean of a metric: three decimals; dollars in significant digits, as in `dollars`."""
    return dollars(value) if metric == "usd" else f"{value:.3f}"


def signed(metric: str, value: float) -> str:
    """Returns a difference of two means, with its sign."""
    return f"{'-' if value < 0 else '+'}{figure(metric, abs(value))}"


def interval(metric: str, mean: float, low: float, high: float) -> str:
    """Returns a mean with its interval: `0.250 [0.100, 0.400]`."""
    return f"{figure(metric, mean)} [{figure(metric, low)}, {figure(metric, high)}]"
