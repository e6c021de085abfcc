"""Answers in prose: the phrase that "the answer is" names, what announces an answer and what follows it.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re

LEAD = re.compile(
    r"(?:sure|certainly|of course|okay|ok|absolutely|alright|great|understood|here(?:'s| is| are)|"
    r"below (?:is|are)|the following|"
    r"based on|according to|you (?:could|can|may) (?:try|use)|i (?:would|'d|suggest|propose|recommend)|"
    r"let me|let's)\b",
    re.IGNORECASE,
)


def is_answer(name: str) -> bool:
    """Whether the output `name` is an answer, a query or a question: one value, nothing beside it."""
    return name.rpartition("_")[2] in ("answer", "query", "question", "input", "text")


_CUE = re.compile(
    r"(?:\s*####\s+)|"
    r"(?:\b(?:so|therefore|thus|hence|consequently|finally|in conclusion|overall|and|then)\b[\s,:]*)?"
    r"(?:\b(?:the|my|our|a|this|that)\s+)?(?:\b(?:final|correct|best|right|short|short final|most likely|"
    r"likely|probable|actual|"
    r"right final|direct|exact)\s+)*"
    r"\b(?:answer|option|choice|best guess|guess)\b"
    r"(?:\s+(?:to|for|of)\s+(?:the|this|that|your)\s+question|\s+here|\s+therefore|\s+then|\s+would)?"
    r"(?:[*_]{1,3}\s*)?\s*(?:(?:is|was|are|be|must be|should be|would be|has to be|=)\b\s*(?:then\s+|"
    r"thus\s+|therefore\s+|likely\s+|"
    r"probably\s+|most likely\s+|simply\s+|that\s+)?:?|[:\uff1a])\s*",
    re.IGNORECASE,
)
_NO_PHRASE = re.compile(
    r"(?:not|no longer|unclear|unknown|undetermined|in the|in passage|found|given|provided|stated|"
    r"contained|somewhere|there|as "
    r"follows|below|above|based|either|one of|the following|that it|it depends|wrong|complete|incorrect|"
    r"correct|right)\b(?!\s+\w+ial)",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\b(?:wait|sorry|mistake|correction|corrected|actually|i was wrong|on second thoughts?|scratch that|"
    r"let me (?:re|correct)|"
    r"rather|instead|no,|wrong|hmm|i meant|strike that|revised|oops)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(
    r"(?<!\bSt)(?<!\bMt)(?<!\bMr)(?<!\bDr)(?<!\bJr)(?<!\bSr)(?<!\bNo)(?<!\bFt)(?<!\bvs)(?<!\bMrs)(?<!\bProf)(?<=[^\s.][a-z0-9)\]\"'*%])[.!](?=\s+[A-Z\"(\[*]|\s*\Z)|\n"
)
_GOES_ON = re.compile(
    r"^[^\w\n]{0,8}(?:next |new |another )?(?:question|observation|human|user|input|example|"
    r"intermediate answer)\b[^\n:]{0,12}:",
    re.IGNORECASE | re.MULTILINE,
)


def starts_new_turn(text: str) -> bool:
    """Whether `text`, which follows an answer, is another question or what a step brought."""
    return _GOES_ON.search(text) is not None


def is_retraction(text: str) -> bool:
    """Whether `text` says that what was said before it is wrong."""
    return _TAKEN_BACK.search(text) is not None


def named_answer(text: str) -> tuple[str, int]:
    """The answer that the last "the answer is" of `text` names, and where that begins."""
    if len(text) > 8000:
        named, at = named_answer(text[-8000:])
        return named, at + len(text) - 8000
    for cue in reversed(list(_CUE.finditer(text))[-20:]):
        rest = text[cue.end() :].lstrip()
        if not rest or (cue[0].rstrip()[-1:] not in (":", "\uff1a") and rest[:1] in "?,;"):
            continue
        end = _SENTENCE_END.search(rest)
        named = rest[: end.start()] if end else rest
        named = re.split(
            r"\s*(?:;|\s[\u2014\u2013-]\s|,?\s+(?:because|since|as (?:stated|mentioned|given|passage|it|"
            r"the))\b)",
            named,
        )[0]
        named = named.strip().strip("*_`").strip().rstrip(".!,").strip()
        if named and len(named) <= 200 and not _NO_PHRASE.match(named) and re.search(r"\w", named):
            return named, cue.start()
    said_first = list(_NAMED_FIRST.finditer(text))
    return (said_first[-1][1].strip("*_` "), said_first[-1].start(1)) if said_first else ("", 0)


_NAMED_FIRST = re.compile(
    r"(?:\A|[.\n][ \t]{0,8})(?:(?:so|therefore|thus|hence),?\s+)?([*_]{0,2}[A-Z0-9][^.,\n]{0,80}?) (?:is|"
    r"must be|would be) "
    r"(?:therefore |thus )?the (?:final |correct |right )?(?:answer|option)\b"
)


def without_lead(text: str) -> str:
    """`text` without a first paragraph that announces it: "Here is the query:"."""
    first, _, rest = text.strip().partition("\n")
    if rest.strip() and first.rstrip().rstrip("*").endswith(":") and LEAD.match(first.strip("*# ")):
        return rest.strip()
    return text


_CHATTER = re.compile(
    r"\n[ \t]{0,8}(?:let me know|i hope|hope this|feel free|if you (?:have|need|would|want)|please let me|"
    r"is there anything|would you like|"
    r"do you want)\b[^\n]*\Z",
    re.IGNORECASE,
)


def without_chatter(text: str) -> str:
    """`text` without a last line that speaks to whoever asked."""
    text = text.rstrip()
    return text[:-500] + _CHATTER.sub("", text[-500:]).rstrip()


def is_name(text: str) -> bool:
    """Whether `text` is a name or number alone, as an answer is where prose was not meant."""
    words = text.strip().rstrip(".").split()
    return (
        0 < len(words) <= 5
        and all(
            w[:1].isupper() or w[:1].isdigit() or w in ("of", "the", "de", "and", "von", "van") for w in words
        )
        and (
            words[0].casefold()
            not in (
                "the",
                "i",
                "let",
                "passage",
                "to",
                "in",
                "first",
                "we",
                "it",
                "this",
                "based",
                "so",
                "since",
            )
        )
    )


def final_answer(text: str) -> str:
    """The answer in `text`: without the sentences that follow it, and the last where it is taken back."""
    text = without_chatter(text)
    named, at = named_answer(text)
    if named and is_retraction(text[:at]):
        return named
    first, _, rest = text.partition("\n\n")
    short = len(first.split()) <= 8 and "\n" not in first and first.rstrip("*_` ")[-1:] not in ".:;,!?\uff1a"
    return first.strip() if short and re.search(r"[.!?](?:\s|\Z)", rest) else text
