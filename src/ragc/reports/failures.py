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
from typing import TYPE_CHECKING, Any

from ragc.metrics import METRICS, citations, crag, failures, retrieval
from ragc.metrics.short_answer import normalise
from ragc.reports.values import entries, mapping

if TYPE_CHECKING:
    from ragc.task.answering import Row


@dataclass(frozen=True, slots=True)
class Group:
    """A kind of outcome: its `id` in JSON, its `title` for people, and a sentence `about` its questions."""

    id: str
    title: str
    about: str


RIGHT = Group("right", "right", "full marks")
NOT_RETRIEVED = Group("not_retrieved", "not retrieved", "the answer did not see the gold passages")
NOT_USED = Group("not_used", "retrieved and not used", "the answer saw what it needed, and is another")
WORDING = Group("wording", "wrong wording", "right in content, wrong by the metric's letters")
REFUSED = Group("refused", "refused", "says that it does not know, or nothing")
CUT = Group("cut", "cut short", "the tokens of a reply ran out, with more room too")
DECLINED = Group("declined", "declined", "the model refused to reply")
FILTERED = Group("filtered", "filtered", "a content filter of the server stopped the reply")
CALLED_TOOLS = Group("called_tools", "called tools", "the model called tools in place of an answer")
TOO_LONG = Group("too_long", "too long", "a prompt exceeds the context of the model")
UNREADABLE = Group("unreadable", "unreadable", "no reply could be read")
FAILED = Group("failed", "failed", "an error or a timeout ended it")
UNCLEAR = Group("unclear", "wrong, cause unclear", "the row does not say what the answer saw")

GROUPS = (
    RIGHT,
    NOT_RETRIEVED,
    NOT_USED,
    WORDING,
    REFUSED,
    CUT,
    DECLINED,
    FILTERED,
    CALLED_TOOLS,
    TOO_LONG,
    UNREADABLE,
    FAILED,
    UNCLEAR,
)
"""All groups, in the order in which reports list them."""

_FULL = 1.0 - 1e-9
_JUDGES = ("judge_acc", "crag_acc")
_APART = frozenset(m.id for m in (*retrieval.METRICS, *citations.METRICS))
_SCALED = frozenset(m.id for m in METRICS if m.unit in ("share", "balance") and m.higher_is_better)
_KNOWN = frozenset(m.id for m in METRICS)
_CHUNK = re.compile(r"#\d+$")
_RECALL = re.compile(r"recall@\d+|sp_recall")
_VERDICTS = frozenset({"yes", "no"})
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


def group_of(row: Mapping[str, Any] | Row, metric: str = "") -> Group:
    """Returns the group of `row`: an object of `ragc eval --out`, or a Row.

    `metric` is the id of the deciding metric, by default the first of the row that scores answers. Rows from
    elsewhere may lack keys or hold other values; those are ignored.
    """
    if not isinstance(row, Mapping):
        return _group({**row.to_json(), "texts": [f"{p.title}\n{p.text}" for p in row.passages]}, metric)
    return _group(row, metric)


def deciding_metric(rows: Iterable[Mapping[str, Any] | Row]) -> str:
    """Returns the first metric of `rows` that scores answers; "" when there is none."""
    names = dict.fromkeys(
        name
        for row in rows
        for name in mapping((row if isinstance(row, Mapping) else row.to_json()).get("scores"))
    )
    return next(filter(_scores_answers, names), "")


def _group(row: Mapping[str, Any], metric: str) -> Group:
    prediction, failure = row.get("prediction"), row.get("failure")
    if not isinstance(prediction, str) or (isinstance(failure, str) and failure):
        return _unread(row)
    scores = mapping(row.get("scores"))
    by = metric or next(filter(_scores_answers, scores), "")
    if _number(scores, by) >= _FULL:
        return RIGHT
    if refuses(prediction) or _number(scores, "crag_miss") >= _FULL:
        return REFUSED
    golds = [gold for gold in _texts(row.get("answers")) if gold.strip()]
    judged = any(_number(scores, name) >= _FULL for name in _JUDGES)
    if judged or same_content(prediction, golds, str(row.get("question") or "")):
        return WORDING
    seen = _saw_answer(row, golds)
    return UNCLEAR if seen is None else NOT_USED if seen else NOT_RETRIEVED


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
        if right in _VERDICTS:
            if mine.split()[:1] == [right]:
                return True
        elif right and (_padded(right) in rest or sorted(right.split()) == sorted(mine.split())):
            return True
        if _letters(gold) == _letters(prediction) != "" or (_is_part(mine, right) and not repeats):
            return True
    return False


def _is_part(mine: str, right: str) -> bool:
    """Returns whether `mine` occurs in `right` and has a third or more of its words, without small ones."""
    whole = [word for word in right.split() if word not in _SMALL]
    part = [word for word in mine.split() if word not in _SMALL]
    return bool(part) and _padded(mine) in _padded(right) and 3 * len(part) >= len(whole)


def _words(text: str) -> str:
    """Returns `text` as metrics compare it, with the parts of hyphenated words apart."""
    return normalise(re.sub(r"(?<=\w)[-\u2010-\u2014/](?=\w)", " ", text))


def _saw_answer(row: Mapping[str, Any], golds: Sequence[str]) -> bool | None:
    """Returns whether the evidence had what the answer needed; None if the row does not record it."""
    gold_ids = set(_texts(row.get("gold_ids")))
    listed = row.get("passages")
    if isinstance(listed, list | tuple) and not listed:
        return False
    in_text = _text_has(_seen_texts(row), golds)
    if gold_ids and isinstance(listed, list | tuple):
        return _saw_passages(gold_ids, _texts(listed), in_text)
    if in_text is not None:
        return in_text
    scores = mapping(row.get("scores"))
    recall = max((_number(scores, name) for name in scores if _RECALL.fullmatch(name)), default=None)
    if recall is not None and (recall == 0 or recall >= _FULL):
        return recall > 0
    return False if mapping(row.get("counters")).get("searches") == 0 else None


def _saw_passages(gold_ids: set[str], listed: Sequence[str], in_text: bool | None) -> bool:
    """Returns whether the gold passages are among those `listed`; for a part of them the text decides."""
    seen = gold_ids.intersection(listed) | gold_ids.intersection(_CHUNK.sub("", id) for id in listed)
    if not seen or seen == gold_ids or in_text is None:
        return bool(seen)
    return in_text


def _text_has(texts: Sequence[str], golds: Sequence[str]) -> bool | None:
    """Returns whether a gold answer occurs in `texts`; None without texts, or if it is in any text."""
    plain = [normalise(gold) for gold in golds]
    telling = [gold for gold in plain if len(gold) > 2 and gold not in _EVERYWHERE]
    if not texts or not telling:
        return None
    body = _padded(" ".join(normalise(text) for text in texts))
    return any(_padded(gold) in body for gold in telling)


def _seen_texts(row: Mapping[str, Any]) -> list[str]:
    """Returns the passages and other inputs of the calls whose output is the row's prediction."""
    if texts := _texts(row.get("texts")):
        return texts
    calls = [
        event
        for event in _objects(row.get("trace"))
        if "call" in event and isinstance(event.get("inputs"), Mapping)
    ]
    prediction = row.get("prediction")
    answering = [call for call in calls if any(text == prediction for text in _strings(call.get("outputs")))]
    return [
        text
        for call in answering or calls[-1:]
        for name, value in call["inputs"].items()
        if name not in _QUESTIONS
        for text in _strings(value)
    ]


_KINDS = {
    failures.CUT: CUT,
    failures.DECLINED: DECLINED,
    failures.FILTERED: FILTERED,
    failures.CALLS_TOOLS: CALLED_TOOLS,
}


_BY_KIND = {"filtered": FILTERED, "too long": TOO_LONG, "failed": FAILED}


def _unread(row: Mapping[str, Any]) -> Group:
    """Returns the group of a row without a prediction: by its failure, else by the last unreadable reply."""
    if group := _BY_KIND.get(str(row.get("failure_kind"))):
        return group
    failure = row.get("failure")
    notes = [str(event.get("outcome", "")) for event in _objects(row.get("trace")) if "note" in event]
    unread = [note for note in notes if note.startswith("unreadable")]
    reasons = [failure if isinstance(failure, str) else "", *(unread[-1:])]
    for reason in reasons:
        for beginning, group in _KINDS.items():
            if reason.removeprefix("unreadable: ").startswith(beginning):
                return group
    is_reply = re.match(r"(a|the|no) (reply|trajectory|\w+ layout)\b", reasons[0], re.IGNORECASE)
    return UNREADABLE if unread or is_reply else FAILED


def _scores_answers(metric: str) -> bool:
    """Returns whether the metric of that id scores answers; an unknown one does."""
    counts = metric in _SCALED or metric not in _KNOWN
    return bool(metric) and "@" not in metric and metric not in _APART and counts


def _strings(value: Any) -> Iterator[str]:
    """Yields every text inside the JSON value `value`."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting += reversed(list(one.values()))
        elif isinstance(one, list | tuple):
            waiting += reversed(one)


def _padded(text: str) -> str:
    """Returns `text` between blanks, so that `in` finds whole words."""
    return f" {text} "


def _letters(text: str) -> str:
    """Returns the letters and digits of `text`, without case and accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text).casefold() if c.isalnum())


def _number(scores: Mapping[str, Any], name: str) -> float:
    value = scores.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in entries(value) if isinstance(one, Mapping)]


def _texts(value: Any) -> list[str]:
    return [one for one in entries(value) if isinstance(one, str)]
