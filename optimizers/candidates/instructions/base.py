"""Instruction candidates as a study stores them: those proposed at the start, and rounds of evolving ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragc.optimizers.candidates.space import Candidate


@dataclass(frozen=True, slots=True)
class Proposals:
    """The instruction candidates of each predictor and the cost of finding them.

    The first text of a predictor is its present instructions.
    """

    texts: Mapping[str, tuple[str, ...]]
    counters: Mapping[str, float] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """The number of instruction candidates by predictor."""
        return {name: len(texts) for name, texts in self.texts.items()}

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        return {"texts": {name: list(t) for name, t in self.texts.items()}, "counters": dict(self.counters)}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Proposals:
        """Returns the inverse of `to_json`."""
        texts = {name: tuple(candidates) for name, candidates in value["texts"].items()}
        return cls(texts, dict(value["counters"]))


@dataclass(frozen=True, slots=True)
class Round:
    """A round of evolving instructions.

    `at` is the number of trials before it, the baseline included. `texts` are the new instructions by program
    and predictor, whose numbers follow those of earlier rounds. `children` are the candidates to try next.
    """

    at: int
    texts: Mapping[str, Mapping[str, Sequence[str]]]
    children: tuple[Candidate, ...]
    counters: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON values only; `of` is the inverse."""
        texts = {
            program: {name: list(written) for name, written in by_name.items()}
            for program, by_name in self.texts.items()
        }
        children = [child.to_json() for child in self.children]
        return {"at": self.at, "texts": texts, "children": children, "counters": dict(self.counters)}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Round:
        """Returns the inverse of `to_json`."""
        children = tuple(map(Candidate.of, value["children"]))
        return cls(int(value["at"]), value["texts"], children, dict(value["counters"]))


def round_name(number: int) -> str:
    """Returns the name of the attribute that stores round `number`, from 1."""
    return f"round:{number:04d}"
