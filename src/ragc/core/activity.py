"""Names the step that failed: an exception carries the innermost activity that it left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_ATTRIBUTE = "ragc_activity"


@dataclass(frozen=True, slots=True)
class Activity:
    """`name` begins a sentence, such as "Writing the rows to rows.jsonl"; `remedy` ends one, or is empty."""

    name: str
    remedy: str = ""


@contextmanager
def doing(name: str, remedy: str = "") -> Iterator[None]:
    """Attaches this activity to an exception that leaves the block, unless an inner block attached one."""
    try:
        yield
    except Exception as error:
        if activity_of(error) is None:
            with suppress(AttributeError):  # some exceptions have no `__dict__`
                setattr(error, _ATTRIBUTE, Activity(name, remedy))
        raise


def activity_of(error: BaseException | None) -> Activity | None:
    """Returns the activity attached to `error` or to an exception in its cause chain; None without one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        activity = getattr(error, _ATTRIBUTE, None)
        if isinstance(activity, Activity):
            return activity
        error = error.__cause__ or error.__context__
    return None
