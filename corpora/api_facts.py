"""What looks names up in the API has in common: the call, the fact it makes, and reading of replies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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
