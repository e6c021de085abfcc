"""Questions without an answer: how many, and why. Shown beside every score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ragc.core.display import quantity

REASONS = 5
"""Maximum number of reasons listed; rarer ones are only counted."""

MAX_REASON_CHARS = 160
"""Maximum length of a reason in characters."""

UNSCORED = "unscored"

KINDS = ("filtered", "too long", "failed", "unreadable")
"""The kinds of failure: a content filter stopped the question, it exceeds the context, its request failed in
another way, its reply could not be read. Beside these, the user's metric gave it no score: `UNSCORED`."""

IDS = 5
"""Maximum number of ids listed."""

CUT, DECLINED = "A reply ran out of its ", "A reply refuses "
FILTERED, CALLS_TOOLS = "A reply was stopped by a content filter", "A reply calls tools "
"""How a reason begins that is of a kind of its own, in that order: the token limit cut the reply, the model
refuses, the server's filter stopped it, it calls tools in place of an answer."""


@dataclass(frozen=True, slots=True)
class Failures:
    """`n` of `of` questions failed: they have no answer.

    `reasons` are pairs of a text and a count, most frequent first, at most `REASONS`. Failures with the same
    first sentence count as one reason, shown in its first form, cut to `MAX_REASON_CHARS`. `kinds` are pairs
    of one of `KINDS` and a count, `ids` those of the first `IDS` questions; both are empty if not known.
    """

    n: int = 0
    of: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    kinds: tuple[tuple[str, int], ...] = ()
    ids: tuple[str, ...] = ()

    @classmethod
    def among(cls, reasons: Iterable[str], marks: Iterable[tuple[str, str]] = ()) -> Failures:
        """Summarizes one reason per question, in the order of the questions; "" for an answered one.

        `marks` are the kind of failure and the id of each question, "" for a kind that is no failure.
        """
        counts, shown = Counter[str](), dict[str, str]()
        every = list(reasons)
        for reason in filter(None, every):
            sentence = reason.partition(". ")[0].rstrip(".")
            counts[sentence] += 1
            shown.setdefault(sentence, _one_line(reason))
        failed = [(kind, name) for kind, name in marks if kind]
        return cls(
            counts.total(),
            len(every),
            tuple((shown[sentence], n) for sentence, n in counts.most_common(REASONS)),
            _by_kind(Counter(kind for kind, _ in failed)),
            tuple(name for _, name in failed)[:IDS],
        )

    def __add__(self, other: Failures) -> Failures:
        """Returns the failures among the questions of both."""
        return Failures(
            self.n + other.n,
            self.of + other.of,
            tuple((Counter(dict(self.reasons)) + Counter(dict(other.reasons))).most_common(REASONS)),
            _by_kind(Counter(dict(self.kinds)) + Counter(dict(other.kinds))),
            (*self.ids, *other.ids)[:IDS],
        )

    @property
    def share(self) -> float:
        """The share of questions that failed, 0..1; 0 for no questions."""
        return self.n / self.of if self.of else 0.0

    @property
    def all(self) -> bool:
        """Whether there were questions and all failed."""
        return 0 < self.of == self.n

    @property
    def passing(self) -> bool:
        """Whether a request failed by a cause that may have passed, so that it is not stored."""
        return any(kind == "failed" for kind, _ in self.kinds)

    @property
    def reason(self) -> str:
        """The most frequent reason; "" when nothing failed."""
        return self.reasons[0][0] if self.reasons else ""

    @property
    def text(self) -> str:
        """What failed and how, for users; "" when nothing failed.

        4 of 4 questions failed: REASON
        2 of 28 questions failed: 1 filtered, 1 too long (ids q7, q12); REASON (and 1 for other reasons)
        """
        if not self.n:
            return ""
        others = self.n - self.reasons[0][1]
        more = f" (and {others} for other reasons)" if others else ""
        how = ""
        if self.kinds and self.kinds[0][0] != "unreadable":  # what is unreadable, the reason says
            left = f" and {self.n - len(self.ids)} more" if self.n > len(self.ids) else ""
            ids = f"{'id' if self.n == 1 else 'ids'} {', '.join(self.ids)}{left}"
            how = f"{', '.join(f'{n} {kind}' for kind, n in self.kinds)} ({ids}); "
        return f"{self.n} of {quantity(self.of, 'question')} failed: {how}{self.reason}{more}"

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only; `from_json` is the inverse."""
        marks = {"kinds": dict(self.kinds), "ids": list(self.ids)} if self.kinds else {}
        return {"n": self.n, "of": self.of, "reasons": self.reasons_json(), **marks}

    def table_json(self) -> dict[str, Any]:
        """Returns the number of failures of each of `KINDS`, and the reasons, as reports have them.

        A failure of no known kind, such as in a file of rows, is an unreadable reply.
        """
        kinds = dict.fromkeys(KINDS, 0) | dict(self.kinds)
        kinds["unreadable"] += self.n - sum(kinds.values())
        return {"failures": kinds, "failure_reasons": self.reasons_json()}

    def reasons_json(self) -> list[dict[str, Any]]:
        """Returns the reasons alone, as JSON values."""
        return [{"reason": text, "n": n} for text, n in self.reasons]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Failures:
        """Returns the inverse of `to_json`. Raises KeyError, TypeError and ValueError for any other value."""
        reasons = tuple((str(entry["reason"]), int(entry["n"])) for entry in value["reasons"])
        kinds = _by_kind({name: int(n) for name, n in value.get("kinds", {}).items()})
        return cls(int(value["n"]), int(value["of"]), reasons, kinds, tuple(map(str, value.get("ids", ()))))


def _by_kind(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((kind, counts[kind]) for kind in (*KINDS, UNSCORED) if counts.get(kind))


def _one_line(text: str) -> str:
    """Returns `text` on one line, without unprintable characters, cut to `MAX_REASON_CHARS`."""
    line = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for char in " ".join(text.split()).rstrip(".")
    )
    return line if len(line) <= MAX_REASON_CHARS else line[: MAX_REASON_CHARS - 1] + "…"
