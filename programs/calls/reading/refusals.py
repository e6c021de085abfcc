"""Texts that stand where an answer should and are none: refusals, questions back, blanks, errors, loops.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from typing import Any

from ragc.programs.calls.reading.meaning import fold
from ragc.programs.calls.reading.prose import LEAD, is_answer

_UNSAID = re.compile(
    r"(?:nothing|no \w+) is (?:missing|needed)\b[^\n]*|todo|n/a|null|(?:the |your )?(?:\w+ )?goes here\.?|"
    r"\.\.\.|\u2026|[<\[{(]?\s*(?:your|insert|the|put|write)\s(?:\w+ ){0,4}(?:answer|query|text|question|"
    r"value|here)\s*(?: here)?[>\]})]"
    r"|(?:your|insert|put|write) (?:\w+ ){1,3}here\.?|answer (?:in|with|using|the question)\b[^\n]{0,80}|"
    r"your (?:\w+ ){0,3}(?:answer|query|text|question|"
    r"value)\.?"
    r"|<[a-z0-9][a-z0-9 ,'_-]{1,80}>|\[[a-z][a-z _-]{0,80} here\]"
    r"|[<\[{(]{1,2}\s*(?:your|insert|put|write|fill|enter|add|type)\b[^\n<>\[\]{}]{0,120}[>\]})]{1,2}\.?",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"(?:(?:(?:i'?m|i am)\s+(?:really |very |truly |so )?(?:sorry|afraid)|sorry|apologies|i apologi[sz]e|"
    r"unfortunately)\b"
    r"[^.\n]{0,60}?(?:but|,|that|\.|:|;|-|\u2014|as)?\s*)?"
    r"(?:as an? (?:ai|artificial|large language|language)[^,.\n]{0,40},?\s*)?"
    r"i(?:'m| am)?\s*(?:just |only |unfortunately )?"
    r"(?:(?:can(?:\s?not|'?t)|could not|couldn'?t|will not|won'?t|must not|may not|"
    r"do not feel)\s+(?:\w+ ){0,2}"
    r"(?:help|assist|answer|respond|provide|comply|fulfil+|complete|do (?:that|this)|give|rank|discuss|"
    r"comment|process|"
    r"access|browse|engage|improve|continue|offer|support|comfortable|see|share|open|read|search|determine|find|locate|tell|"
    r"generate|create)\b"
    r"|(?:not able|unable|not allowed|not permitted|not in a position|programmed)\s+to\b|(?:just |"
    r"only )?an? (?:ai|language model)\b"
    r"|(?:would |will |'d |still )*(?:need|require|want|have to have) (?:some |a bit |much |"
    r"a little )?(?:more|additional|"
    r"further) (?:information|context|details?|data|facts|evidence|passages?|background)\b"
    r"|(?:don'?t|do not) have (?:access|the ability|any passages|the passages|(?:enough|sufficient|any) \w+|"
    r"(?:real|up)-)\b)",
    re.IGNORECASE,
)
_SORRY = re.compile(
    r"(?:(?:i'?m|i am)\s+(?:really |very |so )?sorry|sorry)\b.{0,80}\b(?:can(?:not|'t)|unable|not able|"
    r"assist|help)\b"
    r"|as an ai\b|my (?:guidelines|programming|policy)|(?:this|that|your|the) (?:request|content|question|"
    r"prompt) "
    r"(?:goes against|violates|is against|cannot be (?:answered|processed|completed)|was (?:blocked|"
    r"flagged))",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(?:please|kindly|you (?:need|have) to|you must|(?:could|can|would|will) you(?: please| kindly)?|"
    r"i(?:'d| would)? (?:need|like|"
    r"want) you to)\s+"
    r"(?:provide|share|send|give|supply|paste|specify|clarify|include|upload|enter|tell me|let me know|"
    r"rephrase|repeat)\b"
    r"|(?:what|which|where) (?:is|are) (?:the|your) (?:question|passages?|documents?|text)\b.{0,40}\?"
    r"|(?:did|do) you mean\b|are you (?:asking|referring|looking|thinking)\b|which (?:one|of (?:these|"
    r"those|them|the \w+)) "
    r"(?:do you|did you|are you)\b"
    r"|(?:how (?:can|may) i (?:help|assist)|what would you like)\b"
    r"|\b(?:you (?:have not|haven't|did not|didn't) (?:provided?|given?|included?|shared?|asked?))\b"
    r"|\bno (?:passages?|documents?|question|text|context) (?:was|were|has been|have been|is|"
    r"are) (?:provided|given|included|attached)\b",
    re.IGNORECASE,
)
_BROKEN = re.compile(
    r"\s*(?:<!doctype|<html|\{?\"?error\"?\s*[:{]|(?:http )?(?:error )?[45]\d\d:? (?:bad|internal|service|"
    r"gateway|too many|"
    r"forbidden|unauthori[sz]ed|not found)|(?:\w*error|exception)\s*:|traceback \(most|"
    r"internal server error|rate limit exceeded"
    r"|(?:the )?(?:request|connection|model) (?:has )?timed out|service unavailable|upstream (?:connect|"
    r"request) error)",
    re.IGNORECASE,
)
_PREAMBLE = re.compile(
    r"let me\b|let's\b|(?:okay|ok|alright|hmm)[,.]?(?: so)?,? (?:i|let|we|the user)\b|first,? (?:i|we|"
    r"let)\b|i (?:need|have|will|should|am going) "
    r"(?:to|start|begin)\b|we (?:need|have|must|should)\b|to (?:answer|find|determine|"
    r"solve)\b[^\n]{0,80}\b(?:need|must|should|have to)\b|"
    r"(?:so |thus |therefore,? )?the (?:final |correct )?(?:answer|option|"
    r"query)(?: to [^.\n]{0,60})? (?:is|are|would be)\W*\Z",
    re.IGNORECASE,
)
_LACKS = re.compile(
    r"(?:(?:there is|there's|we have|i have) )?(?:not enough|insufficient|too little) (?:information|"
    r"context|data|"
    r"evidence|detail)|(?:some )?(?:more|additional|further) (?:information|context|details?|"
    r"data) (?:is|are|would be) "
    r"(?:needed|required|necessary)|(?:the|this|that) (?:draft|question|query|prompt) (?:does not|"
    r"doesn't|cannot|is not|lacks)|"
    r"the answer (?:is|was) (?:definitely |certainly |clearly |probably )?not\b|"
    r"(?:it|that|this) (?:is|was) (?:definitely |certainly |clearly |probably )?not(?: [^\s.]+){1,3}\W*\Z|"
    r"(?:possibly|perhaps|maybe|either)\s+\w",
    re.IGNORECASE,
)
"""A sentence that says what the answer is not, or what it lacks."""
_INTENDS = re.compile(
    r"(?:(?:got it|okay|ok|sure|hmm|alright|understood)[!,.]?\s+)?(?:first|next|now)?,?\s?(?:i(?:'ll|"
    r" will| am going to|'m going to"
    r"| need to| should| must| have to)|we (?:need|have|should|must)(?: to)?) (?:now |first |"
    r"also )?(?:search|look|find|write|answer|"
    r"check|read|provide|try|rewrite|verify|think|start|begin)\b|searching\b|the user (?:asks|is asking|"
    r"wants|asked)\b|"
    r"(?:next|first), (?:look|search|find|check|read)\b|(?:re)?write (?:the|this|your) (?:query|"
    r"question|passage)\b|"
    r"(?:tbd|tba|to be determined|okay|ok|sure|got it|understood|no idea|not sure|i'?m not sure|unsure)\W*\Z",
    re.IGNORECASE,
)
"""A sentence that says what will be done, and does not do it."""
_UNDECIDED = re.compile(
    r"\b(?:not sure|unsure|uncertain|cannot (?:say|tell|decide)) (?:which|whether|if)\b|"
    r"could be [^\n]{2,80}\bcould (?:also )?be\b|\b(?:but|or|and) (?:it |this |that )?(?:maybe|perhaps|"
    r"possibly|"
    r"(?:could|might|may) (?:also )?be)\b|\bwhich (?:one )?(?:is|of)\b[^.\n]{0,40} unclear\b|"
    r"\b(?:could|might|may) be (?:either )?[^\n]{2,60} or (?:perhaps |maybe |possibly )?|"
    r"^either\b[^\n]{2,80}\bor\b[^\n]{2,80}\bsure\b",
    re.IGNORECASE,
)
_NAME = r"[A-Z][\w'.-]{1,20}(?: [A-Z][\w'.-]{0,20}){0,2}"
_UNSETTLED = re.compile(
    rf"(?:[Ee]ither )?{_NAME},? or (?:perhaps |maybe |possibly )?{_NAME}\.?\Z|[Ee]ither\b[^\n]{{2,80}}\bor\b"
)
_TURNS_BACK = re.compile(
    r"\b(?:wait|hmm)[,.\u2014]|\bscratch that\b|\bon second thoughts?\b|\bi meant\b|\boops\b", re.IGNORECASE
)
_POINTS = re.compile(
    r"\W*(?:see |refer to |(?:the )?answer (?:is|can be found) (?:given |stated )?in )?(?:the )?"
    r"(?:passages?|documents?) ?\[?\d[\d, and\[\]]*\W*|\W*(?:it )?cannot be determined\W*",
    re.IGNORECASE,
)
_CUT = re.compile(
    r"(?: \S+){3} (?:of|the|an|and|or|to|by|with|for|which|was|from|because|that|whose|its|their)\Z"
)
_NO_CHANGE = re.compile(
    r"\bno changes? (?:is |are )?(?:needed|required|necessary)|"
    r"^(?:the|this|your) (?:\w+ )?(?:query|question) "
    r"(?:is (?:already|fine|good|clear|too|not|vague|ambiguous|unclear)|lacks|should|must|needs|could|"
    r"can be|does not need)\b",
    re.IGNORECASE,
)
_SOLE = frozenset(("answer", "query", "question", "passage", "summary"))
ASIDES = frozenset(("reasoning", "reason", "thought", "analysis", "explanation", "improvement", "rationale"))
"""Outputs that are said beside the value of a call, where any sentence may stand."""


def is_no_answer(text: str, name: str = "") -> bool:
    """Whether `text` stands where an answer should and is none: a refusal, a question back, a blank.

    A blank may have the `name` of the output, as in "{answer}". A text of
    more than 400 characters is taken for an answer.
    """
    text = text.strip().replace("\u2019", "'")
    if name in ASIDES:
        return False
    if (is_answer(name) and is_off_topic(text)) or (len(text) < 1000 and is_analysis(text)):
        return True
    if len(text) > 400:
        return False
    if not text or (name and text[0] in "{<[$" and fold(text) == fold(name)):
        return bool(text)
    if _UNSAID.fullmatch(text) or _BROKEN.match(text) or _REFUSES.match(text) or _SORRY.match(text):
        return True
    if _ASKS.match(text) or (
        _ASKS.search(text) and re.search(r"\b(?:i|me|your?|provided|empty|missing)\b", text, re.IGNORECASE)
    ):
        return True
    if name.rpartition("_")[2] in ("query", "question") and _NO_CHANGE.search(text):
        return True
    if is_answer(name) and (_PREAMBLE.match(text) or _UNDECIDED.search(text)):
        return True
    if name.rpartition("_")[2] in _SOLE and "\n" not in text and _INTENDS.match(text):
        return True
    if name.rpartition("_")[2] == "answer" and _LACKS.match(text) and "\n" not in text:
        return True
    lead = LEAD.match(text)
    return bool(lead and text.endswith(":") and "\n" not in text)


_CODE_LINE = re.compile(
    r"^(?:import \w+|from [\w.]+ import |"
    r"def \w+\(|class \w+[(:]|print\(|console\.log\(|#include\b|function \w+\(|"
    r"(?:const|let|var) \w+ = )",
    re.MULTILINE,
)
_LISTED_PASSAGES = re.compile(r"\s*\[1\] \S[^\n]*\n+\[2\] \S")


def is_off_topic(text: str) -> bool:
    """Whether `text` is a program, or the numbered passages of a prompt once more."""
    return _CODE_LINE.search(text) is not None or _LISTED_PASSAGES.match(text) is not None


def holds_no_answer(value: Any, name: str) -> bool:
    """Whether `value` is, or has as the only item of a list, a text that is no answer."""
    while isinstance(value, (list, dict)) and value:
        if isinstance(value, list) and len(value) > 1:
            return False
        value = value[0] if isinstance(value, list) else next(iter(value.values()))
    return isinstance(value, str) and is_no_answer(value, name)


_WORD_CLASS = re.compile(r"\S+/[A-Z.$]{1,5}\Z")


def is_analysis(text: str) -> bool:
    """Whether `text` has a word class after each of its words, as in "eels/NNS breed/VB"."""
    words = text.split()
    return len(words) > 1 and all(map(_WORD_CLASS.match, words))


def is_unsettled(text: str) -> bool:
    """Whether an answer of one line names two, takes one back, asks, or ends in the midst of a sentence."""
    line = text.strip()
    if "\n" in line or len(line) > 400:
        return False
    if not re.search(r"\w", line.replace("_", "")) or _POINTS.fullmatch(line):
        return True
    asks = line.endswith("?") and line.count("?") == 1 and len(line.split()) > 3
    return bool(asks or _UNSETTLED.match(line) or _TURNS_BACK.search(line) or _CUT.search(line))


def is_repetition(text: str) -> bool:
    """Whether `text` is a model in a loop: a few words over and over."""
    words = text.casefold().split()
    return len(words) >= 8 and all(map(str.isalpha, words)) and len(set(words)) <= max(2, len(words) // 20)
