"""The state of one question: the steps left, and the trajectory as text in a prompt.

The trajectory is the accumulated context of PrefRAG, section 3.2: what was thought, searched, found, answered
and graded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ragc.core.text import escape_numbers
from ragc.programs.base import format_passage
from ragc.records import Passage


@dataclass(frozen=True, slots=True)
class Turn:
    """One step: what the model wrote, as (label, text) pairs, and the passages found for it.

    `cut` says that passages were left out because they did not fit.
    """

    wrote: tuple[tuple[str, str], ...]
    passages: tuple[Passage, ...] = ()
    cut: bool = False


Trajectory = tuple[Turn, ...]


@dataclass(slots=True)
class RunState:
    """Steps left, the turns so far, what the last call was shown, and how often each source was searched.

    `again` counts the steps since the trajectory last grew, `searches` are the searches made: source and
    query, in lower case.
    """

    question: str
    left: int
    turns: Trajectory = ()
    shown: Trajectory = ()
    again: int = 0
    searches: set[tuple[str, str]] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, wrote: tuple[tuple[str, str], ...], passages: tuple[Passage, ...]) -> None:
        """Appends a turn."""
        self.turns, self.again = (*self.turns, Turn(wrote, passages)), 0


def collect_passages(turns: Trajectory) -> tuple[Passage, ...]:
    """Returns the passages of all turns, in order, each once."""
    return tuple(dict.fromkeys(passage for turn in turns for passage in turn.passages))


def number_passages(passages: Iterable[Passage]) -> dict[Passage, int]:
    """Numbers `passages` from 1; repeated ones have one number."""
    return {passage: number for number, passage in enumerate(dict.fromkeys(passages), 1)}


def render_passages(passages: Sequence[Passage], numbers: Mapping[Passage, int]) -> str:
    """Returns `passages` as text, each with its number; `none` for no passage."""
    return (
        "\n".join(f"[{numbers[passage]}] {escape_numbers(format_passage(passage))}" for passage in passages)
        or "none"
    )


def render_trajectory(turns: Trajectory) -> list[str]:
    """Returns `turns` as a prompt shows them, one text each, passages numbered through all of them.

    A turn that found a passage again names it, and its text is not repeated.
    """
    texts: list[str] = []
    numbers: dict[Passage, int] = {}
    for turn in turns:
        lines = [f"{label}: {text}" for label, text in turn.wrote if text]
        known = ", ".join(str(numbers[passage]) for passage in turn.passages if passage in numbers)
        missing = "" if turn.passages else " left out" if turn.cut else " none"
        lines.append(f"Results:{f' passages {known}, shown above' if known else missing}")
        for passage in turn.passages:
            if passage not in numbers:
                numbers[passage] = len(numbers) + 1
                lines.append(f"Passage {numbers[passage]}: {format_passage(passage)}")
        texts.append("\n".join(lines))
    return texts


def shrink_trajectory(turns: Trajectory) -> Trajectory:
    """Shortens `turns`: by the last passage of the oldest turn that has any, else by the oldest turn."""
    for at, turn in enumerate(turns):
        if turn.passages:
            less = replace(turn, passages=turn.passages[:-1], cut=True)
            return (*turns[:at], less, *turns[at + 1 :])
    return turns[1:]
