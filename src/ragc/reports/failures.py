"""Assigns an answered question to the group that says where it failed.

The first group that applies, in this order:

    cut            the tokens of a reply ran out before anything could be read, with more room too
    declined       the model refused to reply
    filtered       a content filter of the server stopped the reply
    called_tools   the model called tools in place of an answer
    unreadable     no reply could be read for another reason, after the repair too
    failed         no prediction for another reason: an error, a timeout, a user's module that raised
    right          full marks by the deciding metric
    refused        blank, "I don't know", `unknown`, or words to that effect
    wording        right in content, wrong by the letters of the deciding metric
    not_retrieved  the evidence had neither the gold passages nor a gold answer
    not_used       the evidence had it, and the answer is another
    unclear        the row does not record the evidence

The deciding metric is the one that is named, else the first of the row that scores answers: not retrieval,
citations or cost. A metric with grades, such as ROUGE, seldom gives full marks, so few rows are right by it.

Content is right if a judge or `crag_acc` says so, or if the answer has a gold answer as whole words outside a
repetition of the question. It is also right if it is a third or more of a gold answer and adds something to
the question, unless that offers a choice. `yes` and `no` count as the first word only.

The evidence of an answer are the passages of the row, by their ids, and the inputs of the call whose output
is the answer, by their text. All gold passages there, or none, decide; a chunk counts as its passage, as in
metrics. If some of several are there, the text decides, because the missing one may have the answer. Without
gold passages the text alone decides. A gold answer such as `no` or `3` occurs in any text, so it decides
nothing; then some of the gold passages are enough. A row without ids and texts is decided by a recall of 0 or
1, and by a search that was not made.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.metrics import METRICS, citations, crag, failures, retrieval
from ragc.metrics.short_answer import normalise


@dataclass(frozen=True, slots=True)
class Group:
    """A kind of outcome: its `id` in JSON, its `title` for people, and a sentence `about` its questions."""

    id: str
    title: str
    about: str


GROUPS = {
    id: Group(id, title, about)
    for id, title, about in (
        ("right", "right", "full marks"),
        ("not_retrieved", "not retrieved", "the answer did not see the gold passages"),
        ("not_used", "retrieved and not used", "the answer saw what it needed, and is another"),
        ("wording", "wrong wording", "right in content, wrong by the metric's letters"),
        ("refused", "refused", "says that it does not know, or nothing"),
        ("cut", "cut short", "the tokens of a reply ran out, with more room too"),
        ("declined", "declined", "the model refused to reply"),
        ("filtered", "filtered", "a content filter of the server stopped the reply"),
        ("called_tools", "called tools", "the model called tools in place of an answer"),
        ("too_long", "too long", "a prompt exceeds the context of the model"),
        ("unreadable", "unreadable", "no reply could be read"),
        ("failed", "failed", "an error or a timeout ended it"),
        ("unclear", "wrong, cause unclear", "the row does not say what the answer saw"),
    )
}
"""All groups by id, in the order in which reports list them."""

_FULL = 1.0 - 1e-9
_APART = frozenset(m.id for m in (*retrieval.METRICS, *citations.METRICS))
_SCALED = frozenset(m.id for m in METRICS if m.unit in ("share", "balance") and m.higher_is_better)
_KNOWN = frozenset(m.id for m in METRICS)
_EVERYWHERE = frozenset({"yes", "no", "none", "true", "false", "noanswer", "unknown", crag.INVALID})
_SMALL = frozenset({"of", "in", "on", "at", "by", "to", "for", "from", "and", "with"})
_QUESTIONS = frozenset({"question", "query", "original_question", "question_again", "query_time"})

_NO_ANSWER = re.compile(
    r"^(unknown|none|n ?a|no answer|unanswerable|not sure|nothing)$"
    r"|^(sorry )?i (am|m) (not sure|sorry|unable)"
    r"|^(sorry )?i (do not|dont|did not|didnt|can not|cannot|cant|could not|couldnt) "
    r"(know|find|answer|determine|tell|say|provide)"
    r"|^no (relevant |specific |such |further )?(information|details?|mention|data|evidence|answer) ?"
    r"(provided|given|available|found|is|was|in|about|on|$)"
    r"|^not (mentioned|stated|specified|provided|given|available|known|found|enough information)"
    r"|(question|it|answer|this) (can not|cannot) be (answered|determined)"
    r"|\b(passages?|context|text|information|documents?) "
    r"(do|does|did)(nt| not) (contain|mention|hold|provide|say|state|specify|give|answer)"
)
"""What an answer says that gives none, after normalisation; apostrophes are dropped there."""


def group_of(row: Mapping[str, Any], metric: str = "") -> Group:
    """Returns the group of `row`, an object of `ragc eval --out`.

    `metric` is the id of the deciding metric, by default the first of the row that scores answers. Rows from
    elsewhere may lack keys or hold other values; those are ignored.
    """
    return GROUPS[_group(row, metric)]


def deciding_metric(rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns the first metric of `rows` that scores answers, as an unknown one does; "" if there is none."""
    names = (name for row in rows for name in _scores(row) if name and "@" not in name and name not in _APART)
    return next((name for name in names if name in _SCALED or name not in _KNOWN), "")


def _group(row: Mapping[str, Any], metric: str) -> str:
    prediction, failure, scores = row.get("prediction"), row.get("failure"), _scores(row)
    if not isinstance(prediction, str) or (isinstance(failure, str) and failure):
        return _unread(row)

    def full(*names: str) -> bool:
        return any(isinstance(scores.get(name), int | float) and scores[name] >= _FULL for name in names)

    if full(metric or deciding_metric([row])):
        return "right"
    if refuses(prediction) or full("crag_miss"):
        return "refused"
    golds = [gold for gold in texts(row.get("answers")) if gold.strip()]
    if full("judge_acc", "crag_acc") or same_content(prediction, golds, str(row.get("question") or "")):
        return "wording"
    seen = _saw_answer(row, golds)
    return "unclear" if seen is None else "not_used" if seen else "not_retrieved"


def refuses(prediction: str) -> bool:
    """Returns whether `prediction` is no answer: it is blank, or says that it has none.

    The rule is that of CRAG's metrics for missing answers, and `unknown`, and words to that effect; "invalid
    question" is an answer: the question has a false premise.
    """
    plain = normalise(prediction.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    return not prediction.strip() or crag.is_unsure(prediction) or bool(_NO_ANSWER.search(plain))


def same_content(prediction: str, golds: Sequence[str], question: str = "") -> bool:
    """Returns whether `prediction` equals one of `golds` in content, by words; see the module's text."""
    mine, before = _words(prediction), _words(question)
    rest = _padded(mine).replace(_padded(before), " ") if before else _padded(mine)
    repeats = _padded(mine) in _padded(before) and " or " not in before
    for gold in golds:
        right = _words(gold)
        if right in ("yes", "no"):
            if mine.split()[:1] == [right]:
                return True
        elif right and (_padded(right) in rest or sorted(right.split()) == sorted(mine.split())):
            return True
        if _letters(gold) == _letters(prediction) != "" or (_is_part(mine, right) and not repeats):
            return True
    return False


def _is_part(mine: str, right: str) -> bool:
    """Returns whether `mine` occurs in `right` and has a third or more of its words, without small ones."""
    words = [word for word in right.split() if word not in _SMALL]
    part = [word for word in mine.split() if word not in _SMALL]
    return bool(part) and _padded(mine) in _padded(right) and 3 * len(part) >= len(words)


def _words(text: str) -> str:
    """Returns `text` as metrics compare it, with the parts of hyphenated words apart."""
    return normalise(re.sub(r"(?<=\w)[-\u2010-\u2014/](?=\w)", " ", text))


def _saw_answer(row: Mapping[str, Any], golds: Sequence[str]) -> bool | None:
    """Returns whether the evidence had what the answer needed; None if the row does not record it."""
    gold_ids, listed = set(texts(row.get("gold_ids"))), row.get("passages")
    if isinstance(listed, list | tuple) and not listed:
        return False
    in_text = _text_has(_seen_texts(row), golds)
    if gold_ids and isinstance(listed, list | tuple):
        seen = gold_ids.intersection(name for id in texts(listed) for name in (id, re.sub(r"#\d+$", "", id)))
        return bool(seen) if not seen or seen == gold_ids or in_text is None else in_text
    if in_text is not None:
        return in_text
    recalls = [score for name, score in _scores(row).items() if re.fullmatch(r"recall@\d+|sp_recall", name)]
    recall = max((score for score in recalls if isinstance(score, int | float)), default=0.5)
    if recall == 0 or recall >= _FULL:
        return recall > 0
    counters = row.get("counters")
    return False if isinstance(counters, Mapping) and counters.get("searches") == 0 else None


def _text_has(seen: Sequence[str], golds: Sequence[str]) -> bool | None:
    """Returns whether a gold answer occurs in `seen`; None without texts, or if it is in any text."""
    telling = [gold for gold in map(normalise, golds) if len(gold) > 2 and gold not in _EVERYWHERE]
    if not seen or not telling:
        return None
    body = _padded(" ".join(map(normalise, seen)))
    return any(_padded(gold) in body for gold in telling)


def _seen_texts(row: Mapping[str, Any]) -> list[str]:
    """Returns the passages and other inputs of the calls whose output is the row's prediction."""
    events = objects(row.get("trace"))
    calls = [event for event in events if "call" in event and isinstance(event.get("inputs"), Mapping)]
    answering = [call for call in calls if row.get("prediction") in list(_strings(call.get("outputs")))]
    return [
        text
        for call in answering or calls[-1:]
        for name, value in call["inputs"].items()
        if name not in _QUESTIONS
        for text in _strings(value)
    ]


_REASONS = {
    failures.CUT: "cut",
    failures.DECLINED: "declined",
    failures.FILTERED: "filtered",
    failures.CALLS_TOOLS: "called_tools",
}
"""How the reason of a failure begins, and its group."""

_KINDS = {"filtered": "filtered", "too long": "too_long", "failed": "failed"}


def _unread(row: Mapping[str, Any]) -> str:
    """Returns the group of a row without a prediction: by its failure, else by the last unreadable reply."""
    if group := _KINDS.get(str(row.get("failure_kind"))):
        return group
    failure = str(row.get("failure") or "")
    notes = [str(event.get("outcome")) for event in objects(row.get("trace")) if "note" in event]
    unread = [note for note in notes if note.startswith("unreadable")]
    for reason in (failure, *unread[-1:]):
        for beginning, group in _REASONS.items():
            if reason.removeprefix("unreadable: ").startswith(beginning):
                return group
    is_reply = re.match(r"(a|the|no) (reply|trajectory|\w+ layout)\b", failure, re.IGNORECASE)
    return "unreadable" if unread or is_reply else "failed"


def _scores(row: Mapping[str, Any]) -> Mapping[str, Any]:
    scores = row.get("scores")
    return scores if isinstance(scores, Mapping) else {}


def _strings(value: Any) -> Iterator[str]:
    """Yields every text inside the JSON value `value`."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, Mapping | list | tuple):
            waiting += reversed(list(inner.values() if isinstance(inner, Mapping) else inner))


def _padded(text: str) -> str:
    """Returns `text` between blanks, so that `in` finds whole words."""
    return f" {text} "


def _letters(text: str) -> str:
    """Returns the letters and digits of `text`, without case and accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text).casefold() if c.isalnum())


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Returns the objects in the list `value`; none if it is no list."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def texts(value: Any) -> list[str]:
    """Returns the texts in the list `value`; none if it is no list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []
