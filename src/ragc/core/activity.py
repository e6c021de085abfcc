"""What was being done when something failed: the innermost name goes along with the exception."""

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
    """Let an exception that leaves the block say what was being done, unless something inside said it."""
    try:
        yield
    except Exception as error:
        if activity_of(error) is None:
            with suppress(AttributeError):  # an exception without a dictionary
                setattr(error, _ATTRIBUTE, Activity(name, remedy))
        raise


def activity_of(error: BaseException | None) -> Activity | None:
    """What was being done when `error`, or what it comes from, was raised; None where nobody said."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        activity = getattr(error, _ATTRIBUTE, None)
        if isinstance(activity, Activity):
            return activity
        error = error.__cause__ or error.__context__
    return None
