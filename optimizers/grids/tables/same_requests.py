"""Rows of a table that sent the same requests: their figures cannot differ, whatever the paper's do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.core.digest import digest
from ragc.core.display import quantity
from ragc.optimizers.grids.tables.plan import Planned
from ragc.recipe.write import spec_values

REQUESTS = "requests"
"""The key of a row's requests: a digest of all that were sent for its question; "" where there was none."""


def digest_of(sent: Sequence[str]) -> str:
    """Returns a digest of the requests `sent`, whatever their order; "" for none."""
    return digest(sorted(sent))[:16] if sent else ""


@dataclass(frozen=True, slots=True)
class SameRequests:
    """Two or more `rows` that send the same requests for all `questions` questions of `data`.

    `answers` says whether their answers are the same too. They may differ if the rows choose among equal
    replies, or compare them with another threshold.
    """

    data: str
    rows: tuple[str, ...]
    questions: int
    answers: bool = True

    def sentence(self) -> str:
        """Returns a sentence that says what the rows have in common."""
        questions, first = quantity(self.questions, "question"), " and ".join(self.rows)
        if self.answers:
            return f"{first} on {self.data}: the same requests and answers for all of {questions}."
        return (
            f"{first} on {self.data}: the same requests for all of {questions}; their answers differ by what "
            "they make of equal replies."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        listed = {"data": self.data, "rows": list(self.rows), "questions": self.questions}
        return listed | {"same_answers": self.answers}


@dataclass(frozen=True, slots=True)
class RowRequests:
    """What a row did for each question, by its id: a digest of its requests, and its answer."""

    requests: Mapping[str, str]
    answers: Mapping[str, str | None]


def same_requests(rows: Mapping[tuple[str, str], RowRequests]) -> tuple[SameRequests, ...]:
    """Returns the rows that sent the same requests, by data set and row, except rows that sent none."""
    groups: dict[tuple[str, str], list[tuple[str, RowRequests]]] = {}
    for (data, row), sent in rows.items():
        if any(sent.requests.values()):
            groups.setdefault((data, digest(dict(sent.requests))), []).append((row, sent))
    results = []
    for (data, _), alike in groups.items():
        if len(alike) > 1:
            answers = alike[0][1].answers
            same = all(sent.answers == answers for _, sent in alike)
            results.append(SameRequests(data, tuple(row for row, _ in alike), len(answers), same))
    return tuple(results)


def would_be_same(
    planned: Sequence[Planned], questions: Mapping[tuple[str, str], int]
) -> tuple[SameRequests, ...]:
    """Returns the cells of `planned` with equal program, knobs, sources and demonstrations, before the run.

    `questions` has the number of questions by data set and row.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in planned:
        recipe = cell.recipe
        knobs = recipe.method.knobs.of(recipe.fixed(recipe.method)).to_json()
        names = sorted({*recipe.method.sources, *recipe.method.optional_sources} & recipe.sources.keys())
        sources = {name: spec_values(recipe.sources[name]) for name in names}
        facts = [recipe.method.id, knobs, sources, cell.row.demos, cell.row.train]
        groups.setdefault((cell.use.id, digest(facts)), []).append(cell.row.id)
    return tuple(
        SameRequests(data, tuple(rows), questions.get((data, rows[0]), 0))
        for (data, _), rows in groups.items()
        if len(rows) > 1
    )
