"""Prints the trace of a run: decisions, searches, passages and replies, in order.

Each event starts with its position; concurrent branches are one level deeper, so that `3.2` is the second
event of branch 3. Outputs of a call are shown in full up to a few lines, inputs in a few words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragc.programs.trace import Call, Event, Search, ThresholdCheck

WIDTH = 100
"""Default line width in characters."""

_MAX_LINES = 4  # maximum lines of a text


def lines(events: Sequence[Event], width: int = WIDTH) -> Iterator[str]:
    """Yields the lines of `events`, in call-graph order; texts are wrapped to lines of `width` characters."""
    from ragc.programs.trace import Call, Search, ThresholdCheck

    for event in events:
        indent = "  " * len(event.at[:3])
        position = f"{indent}{'.'.join(map(str, event.at))} ".lstrip() if event.at else ""
        head, *rest = (
            _search(event, width)
            if isinstance(event, Search)
            else _call(event, min(WIDTH, width - len(indent) - 8))
            if isinstance(event, Call)
            else [_gate(event)]
            if isinstance(event, ThresholdCheck)
            else [f"{event.about}: {event.outcome}"]
        )
        yield f"{indent}{position}{head}"
        yield from (f"{indent}    {line}" for line in rest)


def _search(event: Search, width: int) -> list[str]:
    hits = [
        f"{number}. {' '.join(hit.passage.title.split()) or hit.passage.text[:60]} "
        f"({hit.passage.id}, {hit.score:.2f})"
        for number, hit in enumerate(event.hits, 1)
    ]
    return [f"search {event.source}: {_line(event.query, width)}", *(hits or ["nothing found"])]


def _gate(event: ThresholdCheck) -> str:
    return f"{event.score:g} {'passes' if event.passed else 'does not pass'} the threshold {event.knob}"


def _call(event: Call, width: int) -> list[str]:
    marks = [f"{event.prompt_tokens} + {event.completion_tokens} tokens"]
    again = (
        f"asked again with room for {event.raised_limit:,} tokens" if event.raised_limit else "asked twice"
    )
    marks += ["cut by the token limit"] * event.truncated + [again] * event.repaired
    thoughts = sum(map(len, event.sent.thoughts)) if event.sent is not None else 0
    marks += [f"{thoughts:,} characters of thoughts"] if thoughts else []
    role = "" if event.role == "main" else f" on {event.role}"
    output_lines = [
        line for name, value in event.outputs.items() for line in _format_output(name, value, width)
    ]
    return [f"call {event.name}{role} ({', '.join(marks)})", f"read {_read(event.inputs)}", *output_lines]


def _read(inputs: Mapping[str, Any]) -> str:
    """Returns the inputs of a call: short values in full, long ones by their size."""
    parts = []
    for name, value in inputs.items():
        if isinstance(value, list):
            parts.append(f"{name} ({len(value)})")
        elif isinstance(value, str) and len(value) > 60:
            parts.append(f"{name} ({len(value)} characters)")
        else:
            parts.append(f"{name} {value!r}")
    return ", ".join(parts)


def _format_output(name: str, value: Any, width: int) -> list[str]:
    """Returns an output: on one line when it is short, else wrapped, and cut after a few lines."""
    if isinstance(value, Mapping):
        return [line for key, part in value.items() for line in _format_output(f"{name}.{key}", part, width)]
    if isinstance(value, list):
        items = [line for item in value for line in _format_output("-", item, width - 2)]
        return [f"{name}: {'none' if not value else ''}".rstrip(), *(f"  {item}" for item in items)]
    text = " ".join(str(value).split())
    first, *more = textwrap.wrap(f"{name}: {text}", width, break_on_hyphens=False) or [f"{name}:"]
    cut = more[: _MAX_LINES - 1]
    return [first, *(f"  {line}" for line in cut), *(["  …"] if len(more) > len(cut) else [])]


def _line(text: str, width: int) -> str:
    return textwrap.shorten(text, 2 * width, placeholder="…")
