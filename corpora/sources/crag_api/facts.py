"""Facts of the API: the call, the fact it becomes, its short passage of markdown, and open-domain entities.

The domains share the call, the fact and the reading of replies. The open domain looks up an entity of an
encyclopedia by name.
A passage is one title, then lines `- name: value` or a table. A missing value is "Unknown". Long text is
clipped, and lists and tables end with how many more entries there were.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ragc.corpora.sources.crag_api import names
from ragc.corpora.sources.crag_api.question import Asked
from ragc.records import Hit, Passage

T = TypeVar("T")

ASKED = 100.0
"""What a fact that the question's words ask for scores beside the match of its name."""


class Ask(Protocol):
    """A call of the API: what stands under `result` in the reply; None where the API knows nothing."""

    def __call__(self, path: str, /, **body: object) -> Coroutine[Any, Any, Any]:
        """Send `body` to `path`; raises SourceError."""
        ...


@dataclass(frozen=True, slots=True)
class Fact:
    """What one or several calls said of one name; `key` is unique among different texts.

    `score` is that of the name's match, with ASKED on top when the question's words ask for this.
    """

    key: str
    title: str
    text: str
    score: float

    def hit(self) -> Hit:
        """The fact as a hit."""
        return Hit(Passage(f"api/{self.key.replace('#', '')}", self.title, self.text), self.score)


async def gathered(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all of `work`, run side by side, in order; the first error ends the rest."""
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(one) for one in work]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def rows(found: object) -> list[dict[str, Any]]:
    """The rows of a reply that holds columns, `{column: {row: value}}`; none when it is not of that form.

    A row key such as "('ENG', '2324', 'Everton', 'game')" becomes the field `index`.
    """
    if not isinstance(found, Mapping) or not all(isinstance(column, Mapping) for column in found.values()):
        return []
    keys = dict.fromkeys(key for column in found.values() for key in column)
    return [{"index": key} | {name: column.get(key) for name, column in found.items()} for key in keys]


def texts(found: object) -> list[str]:
    """The strings of a list that are not blank; none when `found` is no list."""
    if not isinstance(found, list):
        return []
    return [item for item in found if isinstance(item, str) and item.strip()]


def objects(found: object) -> list[dict[str, Any]]:
    """The objects of a list; none when `found` is no list."""
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def slug(name: str) -> str:
    """`name` for a key: its words in lower case with hyphens."""
    return "-".join(re.findall(r"\w+", name.casefold()))


UNKNOWN = "Unknown"

LONGEST_VALUE = 600
"""Characters of one value."""

MOST_ROWS = 20
"""Rows of a table."""

MOST_ITEMS = 30
"""Items of a list inside a line."""


def value(found: object) -> str:
    """A JSON value on one line: numbers with separators and at most 4 decimals, lists with commas."""
    if found is None or found == "" or found == [] or found == {}:
        return UNKNOWN
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, int):
        return f"{found:,}"
    if isinstance(found, float):
        return f"{found:,.4f}".rstrip("0").rstrip(".") if found == found else UNKNOWN
    if isinstance(found, Mapping):
        return clipped("; ".join(f"{name}: {value(inner)}" for name, inner in found.items()))
    if isinstance(found, list | tuple):
        shown = ", ".join(value(item) for item in found[:MOST_ITEMS])
        more = len(found) - MOST_ITEMS
        return clipped(f"{shown} and {more} more" if more > 0 else shown)
    return clipped(" ".join(str(found).split()))


def clipped(text: str, most: int = LONGEST_VALUE) -> str:
    """`text`, or its first `most - 1` characters and an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def listed(values: Mapping[str, object]) -> str:
    """One line `- name: value` for each."""
    return "\n".join(f"- {name}: {value(found)}" for name, found in values.items())


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A markdown table of the first MOST_ROWS rows, and how many more there were."""
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [f"| {' | '.join(value(cell).replace('|', '/') for cell in row)} |" for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines.append(f"\n{len(rows) - MOST_ROWS} more rows are left out.")
    return "\n".join(lines)


def awards(found: Iterable[object]) -> list[str]:
    """Oscar entries as "1999 Best Director: NAME, FILM, won", those that are no objects left out."""

    def year(entry: Mapping[str, Any]) -> object:
        return entry.get("year_ceremony") or UNKNOWN

    return [
        f"{year(entry)} {value(entry.get('category'))}: {value(entry.get('name'))}, "
        f"{value(entry.get('film'))}, {'won' if entry.get('winner') is True else 'nominated'}"
        for entry in found
        if isinstance(entry, Mapping)
    ]


LONGEST_SUMMARY = 2000
"""Characters of an entity's summary."""

MOST_FIELDS = 30
"""Fields of an entity's box of facts, the first that it lists."""


async def look(ask: Ask, name: str, asked: Asked) -> list[Fact]:
    """The summary and the box of facts of the entity `name`; raises SourceError."""
    known = texts(await ask("/open/search_entity_by_name", query=name))
    fit = names.match(name, known, "entity")
    found = await ask("/open/get_entity", query=fit.name) if fit else None
    if fit is None or not isinstance(found, Mapping):
        return []
    summary, box = found.get("summary_text"), found.get("summary_structured")
    parts = [clipped(summary.strip(), LONGEST_SUMMARY)] if isinstance(summary, str) else []
    if isinstance(box, Mapping):
        parts.append(listed(dict(list(box.items())[:MOST_FIELDS])))
    text = "\n\n".join(part for part in parts if part)
    return [Fact(f"open/{slug(fit.name)}", fit.name, text, fit.score)] if text else []
