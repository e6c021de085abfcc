"""Coloured things: questions about them, and passages that answer those."""

from __future__ import annotations

from typing import Any

COLOURS = ("red", "green", "blue", "black", "white")


def colour_questions(n: int, train: int, dev: int) -> list[dict[str, Any]]:
    """Returns a question about each of `n` things, the rest of them in the split test."""
    return [
        {
            "id": f"q{i}",
            "question": f"What colour is thing number{i}?",
            "answers": [COLOURS[i % 5]],
            "gold_ids": [f"d{i}"],
            "split": "train" if i < train else "dev" if i < train + dev else "test",
        }
        for i in range(n)
    ]


def colour_passages(n: int, text: str) -> list[dict[str, Any]]:
    """Returns a passage about each of `n` things; `{i}` in `text` is its number, `{colour}` its colour."""
    return [
        {"id": f"d{i}", "title": f"Thing {i}", "text": text.format(i=i, colour=COLOURS[i % 5])}
        for i in range(n)
    ]
