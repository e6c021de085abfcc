"""The card of a training: base, data, settings, losses and machine, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragc.core.text import visible

_TENTH = 10


def ends(losses: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Returns the mean loss of the first and of the last tenth of `losses`, pairs of step and loss."""
    count = max(1, len(losses) // _TENTH)
    values = [loss for _, loss in losses]
    return sum(values[:count]) / count, sum(values[-count:]) / count


def summary_lines(card: Mapping[str, Any]) -> Iterator[str]:
    """Yields what was trained and how the losses changed."""
    settings, losses = card["settings"], card["losses"]
    how = f"LoRA of rank {settings['lora_rank']}" if settings["lora_rank"] else "all weights"
    yield (
        f"{settings['method']} of {card['base']['name']}, {how}: {card['steps']} steps on {card['rows']} "
        f"rows, {card['seconds']:,.0f} s on {card['device']}"
    )
    if card["too_long"]:
        yield f"{card['too_long']} rows were longer than max_length and left out"
    if losses:
        first, last = ends(losses)
        yield f"loss {first:.4f} in the first tenth of the steps, {last:.4f} in the last"
    for name, after in card["after"].items():
        known = f"{card['before'][name]:.4f} before, " if name in card["before"] else ""
        yield f"held-out {name.replace('_', ' ')}: {known}{after:.4f} after"


def markdown(card: Mapping[str, Any]) -> str:
    """Returns the card as Markdown; file names are shown as code, without terminal control characters."""
    base, data, machine = card["base"], card["data"], card["machine"]
    resumed = f", went on from step {card['resumed']}" if card["resumed"] else ""
    rows = [
        ("base", f"{_code(base['name'])} {_code(base['digest'])}"),
        ("data", f"{_code(data['name'])}, {data['rows']} rows, SHA-256 {_code(data['sha256'])}"),
        ("trained on", f"{card['rows']} rows, {card['tokens']:,} tokens in a pass"),
        ("held out", f"{card['held_out']} rows"),
        ("left out, too long", f"{card['too_long']} rows"),
        ("weights trained", f"{card['trained_weights']:,} of {card['all_weights']:,}"),
        ("time", f"{card['seconds']:,.0f} s, {card['steps']} steps{resumed}"),
        ("device", f"{_code(card['device'])}, {card['dtype']}"),
        ("machine", ", ".join(f"{name} {_code(value)}" for name, value in machine.items())),
        ("tuned weights", f"SHA-256 {_code(card['weights'])}"),
    ]
    settings = [(f"`{name}`", _code(value)) for name, value in card["settings"].items()]
    scores = [
        (f"held-out {name.replace('_', ' ')}", f"{card['before'].get(name, '?')} before, {after} after")
        for name, after in card["after"].items()
    ]
    losses = [(str(step), f"{loss:.4f}") for step, loss in card["losses"]]
    parts = [
        "# A fine-tuned model",
        "\n".join(summary_lines(card)),
        _table(("", ""), [*rows, *scores]),
        "## Settings",
        _table(("key", "value"), settings),
        "## Losses",
        "Each is the mean since the one above it.",
        _table(("step", "loss"), losses),
    ]
    return visible("\n\n".join(parts)) + "\n"


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows)])


def _code(value: object) -> str:
    """Returns `value` as inline code that no mark in it can end."""
    text = str(value).replace("`", "'").replace("|", "/").replace("\n", " ")
    return f"`{text}`" if text else "unknown"
