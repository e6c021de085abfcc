"""Facts of the API: the call, the fact it becomes, its short passage of markdown, and open-domain entities.

The domains share the call, the fact and the reading of replies. The open domain looks up an entity of an
encyclopedia by name.
A passage is one title, then lines `- name: value` or a table. A missing value is "Unknown". Long text is
clipped, and lists and tables end with how many more entries there were.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ragc.corpora.sources.crag_api import names
from ragc.corpora.sources.crag_api.question import ParsedQuestion
from ragc.records import Hit, Passage

ASKED = 100.0
"""What a fact that the question's words ask for scores beside the match of its name."""


class Ask(Protocol):
    """A call of the API: returns the `result` of the reply; None if the API knows nothing."""

    def __call__(self, path: str, /, **body: object) -> Coroutine[Any, Any, Any]:
        """Sends `body` to `path`; raises SourceError."""
        ...


@dataclass(frozen=True, slots=True)
class Fact:
    """The result of one or several calls on one name; `key` is unique among different texts.

    `score` is that of the name's match, plus ASKED if the question's words ask for this.
    """

    key: str
    title: str
    text: str
    score: float

    def hit(self) -> Hit:
        """Returns the fact as a hit."""
        return Hit(Passage(f"api/{self.key.replace('#', '')}", self.title, self.text), self.score)


def rows(reply: object) -> list[dict[str, Any]]:
    """Returns the rows of a reply that holds columns, `{column: {row: value}}`; none when it is not of that
    form.

    A row key such as "('ENG', '2324', 'Everton', 'game')" becomes the field `index`.
    """
    if not isinstance(reply, Mapping) or not all(isinstance(column, Mapping) for column in reply.values()):
        return []
    keys = dict.fromkeys(key for column in reply.values() for key in column)
    return [{"index": key} | {name: column.get(key) for name, column in reply.items()} for key in keys]


def texts(items: object) -> list[str]:
    """Returns the strings of a list that are not blank; none when `items` is no list."""
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, str) and item.strip()]


def objects(items: object) -> list[dict[str, Any]]:
    """Returns the objects of a list; none when `items` is no list."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def slug(name: str) -> str:
    """Returns `name` for a key: its words in lower case with hyphens."""
    return "-".join(re.findall(r"\w+", name.casefold()))


UNKNOWN = "Unknown"

MAX_VALUE_CHARS = 600
"""Characters of one value."""

MAX_TABLE_ROWS = 20
"""Rows of a table."""

MAX_LIST_ITEMS = 30
"""Items of a list inside a line."""


def format_value(json_value: object) -> str:
    """Returns a JSON value on one line: numbers with separators and at most 4 decimals, lists with commas."""
    if json_value is None or json_value == "" or json_value == [] or json_value == {}:
        return UNKNOWN
    if isinstance(json_value, bool):
        return "yes" if json_value else "no"
    if isinstance(json_value, int):
        return f"{json_value:,}"
    if isinstance(json_value, float):
        return f"{json_value:,.4f}".rstrip("0").rstrip(".") if json_value == json_value else UNKNOWN
    if isinstance(json_value, Mapping):
        return clip("; ".join(f"{name}: {format_value(inner)}" for name, inner in json_value.items()))
    if isinstance(json_value, list | tuple):
        shown = ", ".join(format_value(item) for item in json_value[:MAX_LIST_ITEMS])
        more = len(json_value) - MAX_LIST_ITEMS
        return clip(f"{shown} and {more} more" if more > 0 else shown)
    return clip(" ".join(str(json_value).split()))


def clip(text: str, most: int = MAX_VALUE_CHARS) -> str:
    """Returns `text`, or its first `most - 1` characters and an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def format_list(values: Mapping[str, object]) -> str:
    """Returns one line `- name: value` for each."""
    return "\n".join(f"- {name}: {format_value(item)}" for name, item in values.items())


def table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Returns a markdown table of the first MAX_TABLE_ROWS rows, and how many more there were."""
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines += [
        f"| {' | '.join(format_value(cell).replace('|', '/') for cell in row)} |"
        for row in rows[:MAX_TABLE_ROWS]
    ]
    if len(rows) > MAX_TABLE_ROWS:
        lines.append(f"\n{len(rows) - MAX_TABLE_ROWS} more rows are left out.")
    return "\n".join(lines)


def awards(entries: Iterable[object]) -> list[str]:
    """Returns Oscar entries as "1999 Best Director: NAME, FILM, won"; skips entries that are no objects."""

    def year(entry: Mapping[str, Any]) -> object:
        return entry.get("year_ceremony") or UNKNOWN

    return [
        f"{year(entry)} {format_value(entry.get('category'))}: {format_value(entry.get('name'))}, "
        f"{format_value(entry.get('film'))}, {'won' if entry.get('winner') is True else 'nominated'}"
        for entry in entries
        if isinstance(entry, Mapping)
    ]


MAX_SUMMARY_CHARS = 2000
"""Characters of an entity's summary."""

MAX_FIELDS = 30
"""Fields of an entity's box of facts, the first that it lists."""


async def find_facts(ask: Ask, name: str, question: ParsedQuestion) -> list[Fact]:
    """Returns the summary and the box of facts of the entity `name`; raises SourceError."""
    known = texts(await ask("/open/search_entity_by_name", query=name))
    fit = names.match(name, known, "entity")
    entity = await ask("/open/get_entity", query=fit.name) if fit else None
    if fit is None or not isinstance(entity, Mapping):
        return []
    summary, box = entity.get("summary_text"), entity.get("summary_structured")
    parts = [clip(summary.strip(), MAX_SUMMARY_CHARS)] if isinstance(summary, str) else []
    if isinstance(box, Mapping):
        parts.append(format_list(dict(list(box.items())[:MAX_FIELDS])))
    text = "\n\n".join(part for part in parts if part)
    return [Fact(f"open/{slug(fit.name)}", fit.name, text, fit.score)] if text else []
