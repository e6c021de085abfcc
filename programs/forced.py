"""Teacher forcing: a known answer stands in for the model's reply, so that a run can be shown as an example.

Inside `forcing`, a typed call whose outputs are all known gives those and sends nothing; every other
call is answered as ever. The trace of such a run is what a run with the right answer would have been.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_known: ContextVar[Mapping[str, Any] | None] = ContextVar("ragc_forced", default=None)


@contextmanager
def forcing(outputs: Mapping[str, Any]) -> Iterator[None]:
    """Give `outputs` (values by field name) in the place of replies, in this context and its tasks."""
    token = _known.set(dict(outputs))
    try:
        yield
    finally:
        _known.reset(token)


def forced(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The known values of all output `fields`; None when one is not known or nothing is forced."""
    known = _known.get()
    if known is None or not fields.keys() <= known.keys():
        return None
    return {name: known[name] for name in fields}
