"""A run as a person can follow it: one line a decision, indented lines for what went in and out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragc.programs.trace import Event


def lines(events: Sequence[Event]) -> Iterator[str]:
    """The lines of `events`, in call-graph order."""
    from ragc.programs.trace import Call, Note, Search

    for event in events:
        match event:
            case Search():
                found = ", ".join(f"{hit.passage.id} ({hit.score:.2f})" for hit in event.hits) or "nothing"
                yield f"  search {event.source}: {_short(event.query)}"
                yield f"      found {found}"
            case Call():
                marks = (" (cut by the token limit)" if event.truncated else "") + (
                    " (asked twice)" if event.repaired else ""
                )
                yield f"  call {event.name} on {event.role}{marks}"
                for name, value in event.inputs.items():
                    yield f"      in  {name}: {_short(value)}"
                for name, value in event.outputs.items():
                    yield f"      out {name}: {_short(value)}"
            case Note():
                yield f"  {event.about}: {event.outcome}"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} items" if len(value) > 3 else " | ".join(_short(item) for item in value)
    text = " ".join(str(value).split())
    return text if len(text) <= 160 else text[:159] + "…"
