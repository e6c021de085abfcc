"""Reads the trace of a row: missing parts of events are filled in, and other values become text.

Files from elsewhere may hold anything.
"""

from __future__ import annotations

from typing import Any

from ragc.reports.values import amount, entries, mapping, number, plain, text

DEEPEST = 6
"""Levels of branches that a position is shown with."""

_AMOUNTS = ("prompt_tokens", "completion_tokens", "mended", "calls", "raised_limit")


def read_events(trace: Any) -> list[dict[str, Any]]:
    """Returns the events of `trace` in order, each with `kind`: call, search, gate, note or other."""
    return [_event(value) for value in entries(trace)]


def _event(value: Any) -> dict[str, Any]:
    fields = mapping(value)
    at = [part for part in entries(fields.get("at")) if isinstance(part, int)][:DEEPEST]
    if "call" in fields:
        return {"kind": "call", "at": at, "name": text(fields["call"]), **_call(fields)}
    if "search" in fields:
        return {"kind": "search", "at": at, "name": text(fields["search"]), **_search(fields)}
    if "gate" in fields:
        passed = fields.get("passed") is True
        scores = {name: number(fields.get(name)) for name in ("score", "threshold")}
        return {"kind": "gate", "at": at, "name": text(fields["gate"]), "passed": passed, **scores}
    if "note" in fields:
        about = {"name": text(fields["note"]), "outcome": text(fields.get("outcome"))}
        return {"kind": "note", "at": at, **about, **_spent(fields), **_sent(fields)}
    return {"kind": "other", "at": at, "name": "", "value": plain(value)}


def _call(fields: Any) -> dict[str, Any]:
    sent = _sent(fields)
    inputs = {} if sent else {"inputs": plain(mapping(fields.get("inputs")))}
    marks = {name: True for name in ("truncated", "repaired") if fields.get(name) is True}
    outputs = {"outputs": plain(mapping(fields.get("outputs")))}
    return {
        "role": text(fields.get("role")) or "main",
        **_spent(fields),
        **marks,
        **inputs,
        **outputs,
        **sent,
    }


def _spent(fields: Any) -> dict[str, float]:
    return {name: amount(fields[name]) for name in _AMOUNTS if amount(fields.get(name))}


def _sent(fields: Any) -> dict[str, Any]:
    sent = mapping(fields.get("sent"))
    messages = [mapping(message) for message in entries(sent.get("messages"))]
    if not messages:
        return {}
    shown = [{"role": text(m.get("role")), "content": text(m.get("content"))} for m in messages]
    thoughts = [text(thought) for thought in entries(sent.get("thoughts"))]
    return {
        "messages": shown,
        "replies": [text(reply) for reply in entries(sent.get("replies"))],
        **({"thoughts": thoughts} if any(thoughts) else {}),
    }


def _search(fields: Any) -> dict[str, Any]:
    listed = [mapping(hit) for hit in entries(fields.get("hits"))]
    shown = [
        {
            "id": text(hit.get("id")),
            "score": number(hit.get("score")),
            **{name: text(hit[name]) for name in ("title", "text") if hit.get(name)},
        }
        for hit in listed
    ]
    query, k = text(fields.get("query")), number(fields.get("k"))
    return {"query": query, "k": k, "n": len(shown), "hits": shown}
