"""The records used in every package: passages, hits, questions.

They are frozen, hold tuples instead of lists, and compare by value. They can be cache keys and passed between
threads. UTF-8 can hold their texts: a lone surrogate becomes U+FFFD.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragc.core.text import repair_value
from ragc.errors import UsageError

Turn = tuple[str, str]
"""One turn of a conversation: who said it (`user` or `assistant`), and the text."""

HISTORY = "history"
"""The field of a question with the earlier turns of its conversation, oldest first."""


def read_turns(value: object) -> tuple[Turn, ...]:
    """Returns the turns in `value`, a list of objects with `role` and `content`; () for None.

    Raises UsageError for anything else.
    """
    turns = []
    for held in value if isinstance(value, list | tuple) else () if value is None else (value,):
        role, content = (held.get("role"), held.get("content")) if isinstance(held, Mapping) else (None, None)
        if role not in ("user", "assistant") or not isinstance(content, str):
            raise UsageError(
                f"`{HISTORY}` is a list of turns, each an object with role (user or assistant) and content, "
                f"a text; found {held!r:.60}"
            )
        turns.append((role, content))
    return tuple(turns)


def _repair(record: object, names: tuple[str, ...]) -> None:
    """Replaces lone surrogates in the fields `names` of a frozen `record`."""
    for name in names:
        value = getattr(record, name)
        if (repaired := repair_value(value)) is not value:
            object.__setattr__(record, name, repaired)


@dataclass(frozen=True, slots=True)
class Passage:
    """A titled piece of text that can be retrieved.

    `id` is unique in its corpus. A chunk of a longer passage has the id `parent#n`, n counted
    from 0, and `start` is its character offset in the parent's text.
    """

    id: str
    title: str
    text: str
    start: int = 0

    def __post_init__(self) -> None:
        _repair(self, ("id", "title", "text"))

    @property
    def parent(self) -> str:
        """The id of the passage that this one was cut from; its own id when it was not cut.

        A chunk is recognized by `#0` at the end of its id, or by `#n` and an offset. So an uncut passage may
        have any id that does not end in `#0`; `read_corpus` refuses such an id.
        """
        whole, _, n = self.id.rpartition("#")
        cut = n == "0" or (self.start > 0 and n.isascii() and n.isdecimal())
        return whole if whole and cut else self.id


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result. `score` is higher-is-better and comparable within one search."""

    passage: Passage
    score: float
    source: str = ""

    def from_source(self, name: str) -> Hit:
        """Returns the same hit, labelled with the role of the source that found it."""
        return Hit(self.passage, self.score, name)


@dataclass(frozen=True, slots=True)
class Question:
    """One item of a data set.

    `answers` are interchangeable gold answers; a set for retrieval alone may have none. `gold_ids` are the
    passages that support the answer, `context_ids` the passages supplied with the question; both may be
    empty. `extra` holds the other fields of the file (JSON values only), `history` among them. Questions with
    the same `group`, as those about one document, are not independent; "" is a group of its own.

    A question that was an `example` of DSPy has all of its `inputs`, any values of Python, which the program
    is called with; `question` stands for them in listings. Both are in memory only.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    split: str = ""
    gold_ids: tuple[str, ...] = ()
    context_ids: tuple[str, ...] = ()
    query_time: str = ""
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)
    group: str = ""
    inputs: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    example: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _repair(self, tuple(name for name in self.__slots__ if name not in ("inputs", "example")))

    @property
    def whole_text(self) -> str:
        """The question with what says what it means: the turns of its conversation, or all its inputs."""
        if self.inputs is not None and self.inputs.keys() != {"question"}:
            return "\n".join(f"{name}: {value}" for name, value in self.inputs.items())
        turns = read_turns(self.extra.get(HISTORY))
        return "\n".join([*(f"{role}: {text}" for role, text in turns), self.question])

    def context(self) -> dict[str, Any]:
        """Returns the inputs of a program beside the question, never its answers; empty ones are left out.

        `sub_questions` are those of the row, or of its `qa_pairs` (ALCE's ASQA).
        """
        pairs = self.extra.get("qa_pairs")
        sub_questions = (
            [p.get("question") for p in pairs if isinstance(p, dict)] if isinstance(pairs, list) else []
        )
        context = {
            "id": self.id,
            "context_ids": list(self.context_ids),
            "query_time": self.query_time,
            "domain": _text(self.extra.get("domain")),
            HISTORY: list(self.extra.get(HISTORY) or ()),  # type: ignore[call-overload]
            "sub_questions": _texts(self.extra.get("sub_questions")) or _texts(sub_questions),
        }
        return {name: value for name, value in context.items() if value}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str) and value] if isinstance(values, list) else []
