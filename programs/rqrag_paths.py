"""The paths of RQ-RAG's tree: searches one after another, and the answer at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ragc.corpora.neutral import neutral
from ragc.programs.base import shown
from ragc.records import Passage


@dataclass(frozen=True, slots=True)
class Step:
    """One search on a path. `logprobs` are those of the query's tokens, empty unless asked for."""

    kind: str
    query: str
    passages: tuple[Passage, ...]
    logprobs: tuple[float, ...] = ()

    def __str__(self) -> str:
        """The step as it stands in a prompt."""
        return "\n".join([f"{self.kind}: {neutral(self.query)}", *map(shown, self.passages)])


Path = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """A path with its answer; `score` is higher-is-better and of the kind that the knob `select` names.

    `passages` are those that the answer was given from, which may be fewer than the path found.
    """

    path: Path
    passages: tuple[Passage, ...]
    answer: str
    score: float


def passages_of(path: Path) -> tuple[Passage, ...]:
    """The passages of `path`, each once."""
    return tuple({passage.id: passage for step in path for passage in step.passages}.values())


def shorter(path: Path) -> Path:
    """`path` without the last passage of the oldest step that has one, or else without its oldest step."""
    for at, step in enumerate(path):
        if step.passages:
            return (*path[:at], replace(step, passages=step.passages[:-1]), *path[at + 1 :])
    return path[1:]


def texts(path: Path) -> list[str]:
    """`path` as it stands in a prompt, one text a step."""
    return [str(step) for step in path]
