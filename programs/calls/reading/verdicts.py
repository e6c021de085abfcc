"""Verdicts in sentences: the option, truth value or number that a reply chooses in its own words.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.programs.calls.reading.meaning import FLAGS, NO_MEANING, choose, fold, number_in

_WORDS: Mapping[str, tuple[str, str]] = {
    "sufficient": (
        (
            r"sufficient|enough|suffices?|adequate|(?:hold|contain|have|provide|cover|include|"
            r"give)s? (?:everything|all)\b|complete"
        ),
        (
            r"insufficient|inadequate|incomplete|(?:is|are) (?:still )?missing|lacks?\b|lacking|no mention|"
            r"more (?:is|are) needed"
        ),
    ),
    "relevant": (
        (
            r"relevant\b(?! (?:passages?|parts?|documents?|facts?|ones?)\b)|helps?\b|helpful|useful|"
            r"pertinent|of (?:use|help)|on[ -]topic"
        ),
        r"irrelevant|unrelated|useless|unhelpful|off[ -]topic|beside the point",
    ),
    "correct": (
        r"correct\b(?! \w+ is| answers?\b)|right\b(?! \w+ is)|accurate|match(?:es)?\b",
        r"incorrect|wrong|inaccurate|mismatch",
    ),
    "entailed": (
        r"entail(?:s|ed|ment)?\b|follows\b|supported\b|implied\b",
        (
            r"contradict\w*|neutral|non-?entail\w*|unsupported|"
            r"cannot be (?:sure|certain|concluded|inferred|deduced|derived|known)"
        ),
    ),
    "need": (
        r"needs?\b|needed|requires?\b|required|necessary|must be looked up",
        (
            r"unnecessary|unneeded|without (?:a |any )?(?:additional|more|further|search\w*|looking)|"
            r"can (?:be )?answer(?:ed)?\b"
        ),
    ),
    "known": (
        (
            r"(?:it|this|that|answer|claim|fact|query|question) (?:is|seems) (?:well |already |"
            r"widely )?known\b|\Aknown\b|no (?:further )?search|search is (?:not|un)\s?(?:needed|necessary|"
            r"required)|without (?:a )?search(?:ing)?|(?:likely|probably|surely|certainly|"
            r"most likely) (?:right|"
            r"correct|true|known)"
        ),
        (
            r"unknown|(?:is|was) not known|\Anot known|search is (?:needed|required|necessary)|(?:needs?|"
            r"requires?) (?:a |to be )?search(?:ed)?|should be searched|(?:likely|probably|surely|certainly) "
            r"(?:wrong|false|incorrect|unknown)"
        ),
    ),
    "status": (
        (
            r"(?:adds?|brings?|gives?|provides?|contains?) (?:\w+ ){0,3}(?:new|relevant)|new (?:fact|"
            r"information)s? (?:is|are) (?:added|given)"
        ),
        (
            r"(?:adds?|brings?) nothing|repeats? what|nothing new|off the point|no new (?:fact|information|"
            r"point)s?"
        ),
    ),
}
_STATES = re.compile(
    r"\W{0,4}(?:(?:the|this|that|his|her|its) )?(?:\w+ )?(?:prediction|answer|statement|response|claim|"
    r"hypothesis|sentence|it|"
    r"passages?|documents?|information|they|this|that) (?:(?:is|are|was|does|do|"
    r"seems?) )?(?:[\w']+ ){0,10}?[\w-]+(?=\s*[:;.,\u2014])",
    re.IGNORECASE,
)
"""The clause that a judgement begins with: "The prediction is wrong:"."""
_NOT = re.compile(
    r"(?:\b(?:not|no|never|cannot|neither|nor|hardly|without|nothing)\b|n't)[^.,;:\n]{0,40}\Z", re.IGNORECASE
)
_HEDGE = re.compile(
    r"\?\s*\Z|\bbut (?:not|only)\b|\b(?:one|a) part\b|\b(?:part|half) only\b|\bmay be\b|\b(?:whether|if|"
    r"unless|not clear|may or may not|depend(?:s|ing)|hard to (?:tell|say)|unclear|"
    r"difficult to (?:tell|say)|can(?:not|'t| not) (?:tell|say|decide|be determined)|"
    r"not sure|unsure|either way|mostly|largely|nearly|almost|not (?:entirely|quite|fully|completely)|"
    r"might|possibly|perhaps|maybe|partly|partially|in part|somewhat|"
    r"to some extent)\b",
    re.IGNORECASE,
)
_CHOOSES = re.compile(
    r"\b(?:lean(?:ing)? (?:towards?|to)|verdict(?: is)?|conclu(?:sion|de)(?: is| that)?|judge?ment(?: is)?|"
    r"i(?:'d| would)? (?:say|go with|"
    r"choose|pick|select|grade|rate|classify|label|judge|answer)|(?:graded?|rated?|labell?ed|classified|"
    r"marked?|judged) (?:[\w ]{0,30}\bas\b)?|"
    r"the (?:answer|grade|action|verdict|choice|option|label|domain|category|best \w+|next \w+|"
    r"right \w+) (?:is|would be|should be)|"
    r"i(?:'d| would| will|'ll)|is about|belongs to|falls under|concerns|so|therefore|thus|hence|should be|"
    r"best (?:action|choice|option) is|final \w+:)[\s,:]*",
    re.IGNORECASE,
)


def verdict(name: str, options: Sequence[Any], text: str) -> Any:
    """The one of `options`, words or truth values, that `text` chooses for the output `name`.

    `NO_MEANING` where it chooses none, hedges, or says both.
    """
    flags = {
        option: option if isinstance(option, bool) else FLAGS.get(str(option).casefold())
        for option in options
    }
    if len(options) == 2 and set(flags.values()) == {True, False}:
        flag = _holds(name, text)
        return next((option for option in options if flags[option] is flag), NO_MEANING)
    return _chosen([option for option in options if isinstance(option, str)], text)


def _holds(name: str, text: str) -> bool | None:
    """Whether `text` says that `name` holds; None where it does not say."""
    plain = text.replace("\u2019", "'")
    ended = re.search(rf"\b{name}\W{{1,4}}(?:is\s+)?(true|false|yes|no)\W*\Z", plain, re.IGNORECASE)
    if ended:
        return FLAGS[ended[1].casefold()]
    if re.search(r"\b(?:yes|true)\W{0,3}(?:/|\||or)\W{0,3}(?:no|false)\b", plain, re.IGNORECASE):
        return None
    denied = re.match(
        r"\W*I (?:would|will|can)(?: not|n't) (?:say|answer) [\"']?(yes|no)\b", plain, re.IGNORECASE
    )
    if denied:
        return not FLAGS[denied[1].casefold()]
    if "##" in plain or "<" in plain or plain.count("\n") > 4:
        return None
    for cue in reversed(list(_CHOOSES.finditer(plain))[-20:]):
        word = re.match(
            r"\W*(?:an?\s+)?(\w+)(?=[*_`\"')]*(?:[.,;:!\n]|\s+[-\u2013\u2014]|\s*\Z|\s+(?:because|since|as|here)\b))",
            plain[cue.end() :],
        )
        if word and word[1].casefold() in ("yes", "no", "true", "false"):
            return FLAGS[word[1].casefold()]
    stem = name if name in _WORDS else next((w for w in _WORDS if fold(name).endswith(w)), "")
    if not stem or len(plain) > 600:
        return None
    first = _STATES.match(plain)
    if first and (stated := _mentions(stem, first[0])) and len(stated) == 1 and not _HEDGE.search(first[0]):
        return stated.pop()
    mentioned = _mentions(stem, plain)
    if len(mentioned) != 1 or _HEDGE.search(plain):
        return None
    return mentioned.pop()


def _mentions(stem: str, plain: str) -> set[bool]:
    """What `plain` says of the output whose words are those of `stem`: true, false, or both."""
    positive, negative = _WORDS[stem]
    mentioned = set()
    for match in re.finditer(rf"\b(?:({negative})|({positive}))", plain, re.IGNORECASE):
        negated = _NOT.search(plain[: match.start()]) is not None
        if stem == "entailed" and match[1] and negated:  # what is not contradicted need not follow
            return {True, False}
        mentioned.add((match[1] is None) is not negated)
    return mentioned


def _chosen(words: Sequence[str], text: str) -> Any:
    """The one of `words` that stands where `text` says what it chooses."""
    for cue in reversed(list(_CHOOSES.finditer(text))[-20:]):
        clause = _DENIED.sub("", re.split(r"[.;\n]", text[cue.end() :])[0])
        mentioned = _named(words, clause)
        if (
            len(mentioned) == 1
            and not _HEDGE.search(clause.lower().replace(mentioned[0].lower(), ""))
            and not _NOT.search(clause[: clause.lower().find(mentioned[0].lower()[:4])])
        ):
            return mentioned[0]
        if mentioned:
            return NO_MEANING
    alone = _alone(words, text)
    if alone:
        return alone
    marked = {
        choose(one, words)
        for one in re.findall(r"(?:\*\*|[`\"'\u201c])([\w -]{2,30})(?:\*\*|[`\"'\u201d])", text)
    }
    marked.discard(NO_MEANING)
    return marked.pop() if len(marked) == 1 else NO_MEANING


_DENIED = re.compile(
    r",? (?:and |but )?(?:not|rather than|instead of|never|nor) [^,.;]{0,60}\Z", re.IGNORECASE
)
"""What a clause denies at its end: "real-time, not merely fast-changing"."""
_COMMON = frozenset(("answer", "finish", "search", "local", "open", "none", "web", "api"))


def _alone(words: Sequence[str], text: str) -> str:
    """The only one of `words` that stands in one sentence, and is no common verb; "" where there is none."""
    if len(text.split()) > 20 or re.search(r"[.!?;]\s+\S", text):
        return ""
    mentioned = _named(words, text)
    if (
        not mentioned
        and "none" in words
        and re.search(r"\bnot (?:be )?support|unsupported|no support|contradict", text, re.IGNORECASE)
    ):
        return "none"
    if len(mentioned) != 1 or mentioned[0].casefold() in _COMMON or len(mentioned[0]) < 5:
        return ""
    plain = text.casefold().replace(mentioned[0].casefold(), "")
    return (
        ""
        if _HEDGE.search(plain) or re.search(r"\b(?:not|no|never|nor|cannot)\b|n't", plain)
        else mentioned[0]
    )


def _named(words: Sequence[str], clause: str) -> list[str]:
    """Those of `words` that stand in `clause`, without those that are a part of another one there."""
    mentioned = []
    for word in sorted(words, key=len, reverse=True):
        pattern = r"[\W_]+".join(map(re.escape, re.split(r"[\W_]+", word)))
        matched = (
            re.search(rf"(?<![\w-]){pattern}(?![\w-])", clause, re.IGNORECASE) if len(word) > 1 else None
        )
        if matched:
            mentioned.append(word)
            clause = clause[: matched.start()] + " " * len(matched[0]) + clause[matched.end() :]
    return mentioned


_SCALE = re.compile(
    r"(?:(?:on|in) )?(?:a |the )?scale (?:from|of|:)?\s*-?\d+\s*(?:to|-|\u2013)\s*-?\d+|(?:from|"
    r"between) -?\d+ (?:to|and|-) -?\d+|"
    r"\bout of \d+|(?<=\d)\s*/\s*\d+",
    re.IGNORECASE,
)
_RATES = re.compile(
    r"\b(?:rat(?:e|ed|ing)|scor(?:e|ed)|grade[ds]?|give|gave|assign(?:ed)?|confidence|confident|sure|"
    r"certain|utility|points|percent|"
    r"likelihood|probability|chance|need)\b[^.\n\d]{0,60}?(-?\d+(?:\.\d+)?)(?![\d.]*\d|\s+\d|\s*(?:of the|"
    r"passages?|documents?))",
    re.IGNORECASE,
)
_PERCENT = re.compile(r"(?<!\d)(-?\d{1,9}(?:\.\d{1,9})?)\s{0,4}(?:%|percent\b|points?\b)")


_FIRST = re.compile(
    r"[\s*_`\"'(\[]*([-+]?\d{1,3}(?:\.\d+)?)(?:\s*(?:%|points?|/\s*(?:5|10|100)\b|out of (?:5|10|"
    r"100)\b))?[*_`\"')\]]*"
    r"(?:\s+[-\u2013\u2014]\s|\s*[:,;(]\s*(?=\D)|\.?\s*\n)"
)
_NUMBERED_ONE = re.compile(
    r"\b(?:number|no\.?|candidate|statement|option|passage|document|closest is|"
    r"answer is)\s*(?:is\s*)?[\[#(]*(\d{1,4})\b",
    re.IGNORECASE,
)


def rating(text: str, *, numbered: bool = True) -> str:
    """The number that sentences give as a rating; "" where they give none, or several."""
    word = re.match(
        r"\W{0,4}(zero|one|two|three|four|five|six|seven|eight|nine|ten)[*_]{0,2}[.,:;\u2014]\s",
        text,
        re.IGNORECASE,
    )
    if word:
        return str(number_in(word[1]))
    first = _FIRST.match(text)
    if first and not re.match(r"[\s*_`\"'(\[]*-?\d+\.\s", text):
        return first[1].lstrip("+")
    plain = _SCALE.sub("", text.replace("\u2212", "-"))
    for pattern in (_RATES, _PERCENT, *([_NUMBERED_ONE] if numbered else [])):
        mentioned = {match[1] for match in pattern.finditer(plain)}
        if pattern is _NUMBERED_ONE and re.search(r"\b(?:not|neither|nor)\b|n't\b", plain):
            return ""
        if len(mentioned) == 1:
            return mentioned.pop()
        if mentioned:
            return ""
    return ""
