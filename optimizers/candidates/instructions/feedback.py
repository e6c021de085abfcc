"""Feedback on one answered question for a reflecting model: the score, the expected answer, the fault.

A score alone does not say what to change. The passages separate two causes: the answer was in the shown
passages and was not extracted, or the search did not find it. All quoted text is data, with markers escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from ragc.core.text import escape_markers
from ragc.metrics.short_answer import normalise
from ragc.programs.trace import Call, Event, Search
from ragc.records import Passage, Question

MAX_QUOTED_CHARS = 200
"""The most characters of a quoted text."""


def feedback(
    question: Question,
    prediction: str | None,
    passages: Sequence[Passage],
    *,
    score: float,
    best: float = 1.0,
    metric: str,
    events: Sequence[Event] = (),
    call: str = "",
    failure: str = "",
) -> str:
    """Returns the feedback on `question`, for the typed call named `call` ("" for the whole program).

    `score` is that of `metric`, `best` the greatest possible one, infinite if it is not known. `passages` are
    those shown to the last call, in their order; `events` is the trace of the program. `prediction` is None
    if the reply could not be read, and `failure` is then the reason.
    """
    of = f" of {best:g}" if isfinite(best) else ""
    lines = [f"Score: {score:g}{of} by {metric}."]
    if prediction is None:
        lines.append(f"The reply could not be read: {_quote(failure)} Say plainly what to reply with.")
    else:
        lines.append(_answer_feedback(question, prediction, right=score >= best))
    lines += _passage_feedback(question, passages, right=score >= best)
    lines += _search_feedback(events)
    if call and (last := _last_call(events)) is not None and last.name != call:
        lines.append(
            f"The call {call!r} is what to improve; {last.name!r} built on its reply and gave the answer."
        )
    return "\n".join(lines)


def _quote(text: str) -> str:
    plain = " ".join(escape_markers(text).split())
    return f'"{plain[:MAX_QUOTED_CHARS]}…"' if len(plain) > MAX_QUOTED_CHARS else f'"{plain}"'


def _answer_feedback(question: Question, prediction: str, *, right: bool) -> str:
    expected = " or ".join(_quote(answer) for answer in question.answers[:3])
    summary = f"Expected: {expected}. Answered: {_quote(prediction)}."
    if right:
        return f"{summary} That is right; keep what led to it."
    predicted, gold = normalise(prediction), [normalise(answer) for answer in question.answers]
    if not predicted:
        return f"{summary} Nothing was answered."
    if any(answer and f" {answer} " in f" {predicted} " for answer in gold):
        return f"{summary} The expected answer is in it, with words around it that should not be there."
    if any(f" {predicted} " in f" {answer} " for answer in gold):
        return f"{summary} That is only a part of what was expected."
    return f"{summary} That is something else."


def _passage_feedback(question: Question, passages: Sequence[Passage], *, right: bool) -> list[str]:
    """Returns whether the shown passages held the supporting passages and the answer, and which of them
    did.
    """
    if not passages:
        return ["No passages were shown."]
    lines = []
    gold = set(question.gold_ids)
    if gold:
        supporting = [f"[{n}]" for n, p in enumerate(passages, 1) if p.parent in gold or p.id in gold]
        missing = len(gold - {name for p in passages for name in (p.id, p.parent)})
        shown = f"Supporting passages shown: {', '.join(supporting) or 'none'} of {len(passages)}."
        lines.append(f"{shown} {missing} of {len(gold)} supporting passages were not found.")
    holds = [n for n, passage in enumerate(passages, 1) if _contains_answer(passage, question.answers)]
    if holds:
        where = ", ".join(f"[{n}] {_quote(passages[n - 1].title)}" for n in holds[:3])
        rest = "" if right else " It had to be read from there."
        lines.append(f"The expected answer stands in {where}.{rest}")
    elif not right:
        lines.append("The expected answer stands in none of the passages shown.")
    return lines


def _contains_answer(passage: Passage, answers: Iterable[str]) -> bool:
    text = f" {normalise(f'{passage.title} {passage.text}')} "
    return any(f" {answer_text} " in text for answer in answers if (answer_text := normalise(answer)))


def _search_feedback(events: Sequence[Event]) -> list[str]:
    searches = [event for event in events if isinstance(event, Search)]
    if not searches:
        return []
    summaries = [
        f"{_quote(search.query)} in {search.source} found "
        + (", ".join(_quote(hit.passage.title or hit.passage.id) for hit in search.hits[:3]) or "nothing")
        for search in searches[:4]
    ]
    return ["Searches: " + "; ".join(summaries) + "."]


def _last_call(events: Sequence[Event]) -> Call | None:
    return next((event for event in reversed(events) if isinstance(event, Call)), None)
