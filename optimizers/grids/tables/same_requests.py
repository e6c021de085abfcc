"""Rows of a table that sent the same requests: their figures cannot differ, whatever the paper's do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any

from ragc.core.digest import digest
from ragc.core.display import quantity
from ragc.optimizers.budget import FileLedger
from ragc.optimizers.grids.tables.plan import Planned

REQUESTS = "requests"
"""The key of a row's requests: a digest of all that were sent for its question; "" where there was none."""

_sent: ContextVar[list[str] | None] = ContextVar("ragc_table_requests", default=None)


class NotingLedger(FileLedger):
    """A ledger that also notes, within `noting`, which requests were charged, sent or replayed."""

    def replay(self, key: str, tokens: int, usd: float) -> None:
        """Charges as `FileLedger` does."""
        if (sent := _sent.get()) is not None:
            sent.append(key)
        super().replay(key, tokens, usd)


@contextmanager
def noting() -> Iterator[list[str]]:
    """The keys of all requests that are made inside, those of tasks that are started inside among them."""
    sent: list[str] = []
    token = _sent.set(sent)
    try:
        yield sent
    finally:
        _sent.reset(token)


def digest_of(sent: Sequence[str]) -> str:
    """A digest of the requests `sent`, equal in whatever order they were made; "" for none."""
    return digest(sorted(sent))[:16] if sent else ""


@dataclass(frozen=True, slots=True)
class SameRequests:
    """Two or more `rows` that send the same requests for all `questions` questions of `data`.

    `settled` says that program, settings and sources are equal, so that this holds for every question.
    """

    data: str
    rows: tuple[str, ...]
    questions: int
    settled: bool = False

    def sentence(self) -> str:
        """What that means, in words."""
        where = f"{' and '.join(self.rows)} on {self.data}"
        if self.settled:
            return f"{where}: equal program, settings and sources, so their figures cannot differ."
        asked = quantity(self.questions, "question")
        return f"{where}: the same requests for all of {asked}, so these figures cannot differ."

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        return {"data": self.data, "rows": list(self.rows), "questions": self.questions}


def same_requests(sent: Mapping[tuple[str, str], Mapping[str, str]]) -> tuple[SameRequests, ...]:
    """The rows that sent the same; `sent` has the digest of each question by data set and row.

    A row of which some digest is not known is compared with none, and so is one that sent nothing at all.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    sizes: dict[tuple[str, str], int] = {}
    for (data, row), digests in sent.items():
        if any(digests.values()):
            key = data, digest(dict(digests))
            groups.setdefault(key, []).append(row)
            sizes[key] = len(digests)
    return tuple(
        SameRequests(key[0], tuple(rows), sizes[key]) for key, rows in groups.items() if len(rows) > 1
    )


def would_be_same(
    planned: Sequence[Planned], questions: Mapping[tuple[str, str], int]
) -> tuple[SameRequests, ...]:
    """The cells of `planned` with equal program, knobs, sources and demonstrations, before anything is sent.

    `questions` has the number of questions by data set and row.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in planned:
        recipe = cell.recipe
        knobs = recipe.method.knobs.of(recipe.fixed(recipe.method)).to_json()
        names = sorted({*recipe.method.sources, *recipe.method.optional_sources} & recipe.sources.keys())
        sources = {name: asdict(recipe.sources[name]) for name in names}
        facts = [recipe.method.id, knobs, sources, cell.row.demos, cell.row.train]
        groups.setdefault((cell.use.id, digest(facts)), []).append(cell.row.id)
    return tuple(
        SameRequests(data, tuple(rows), questions.get((data, rows[0]), 0), settled=True)
        for (data, _), rows in groups.items()
        if len(rows) > 1
    )
