"""Watchers of progress."""

from __future__ import annotations

from ragc.core.progress import Silent


class Notes(Silent):
    """Keeps what it is told in words."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Adds `text`."""
        self.notes.append(text)
