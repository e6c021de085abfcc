"""Free texts that say one value: without what stands beside it, and only where it is the only one.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re

from ragc.programs.calls.reading.prose import is_name

_BESIDE_LINE = re.compile(
    r"\n[ \t]{0,8}(?:[*_]{0,2}(?:answer|explanation|note|notes|reason|reasoning|rationale|source|"
    r"context|passages?|"
    r"evidence|comment|why|expected answer|gold answer)[*_]{0,2}(?: \([^()\n]{1,30}\))?[*_]{0,2}:"
    r"|[(*_]{0,2}(?:this|the (?:new|rewritten|revised|better|improved|above)|my) (?:\w+ )?(?:query|"
    r"question|rewrite|"
    r"version|wording|search)\b"
    r"|[(*_]{0,2}(?:i|it|we) (?:have |also )?(?:use[ds]?|add(?:s|ed)?|chose|rephrased|rewrote|changed|"
    r"kept|made|removed|"
    r"replaced)\b)",
    re.IGNORECASE,
)
_ANSWER_LINE = re.compile(
    r"^[ \t]{0,8}[*_]{0,2}(?:the |final |short |"
    r"so the )*answer(?: is)?[*_]{0,2}\s?[:\uff1a][*_]{0,2}[ \t]*(\S[^\n]*)$",
    re.IGNORECASE | re.MULTILINE,
)
_EVIDENCE = re.compile(
    r"\s{0,3}[(\[](?:see |from |in |source: ?|per )?(?:the )?(?:passages?|documents?|docs?|sources?|"
    r"results?|evidence)\b"
    r"[^()\n]{0,400}[)\]]\.?\s*\Z",
    re.IGNORECASE,
)
_COUNT = re.compile(
    r"\n[ \t]{0,8}[(\[*_]{0,3}(?:(?:word|character|token)s? ?(?:count)?\s?:\s?\d+|\d+ (?:words|"
    r"characters))[)\]*_.]{0,3}\s*\Z",
    re.IGNORECASE,
)
_OWN_LABEL = re.compile(
    r"\A[(\[]answer[)\]]:?\s+|\A[*_]{0,2}(?:answer|response|output|result|summary|passage|"
    r"text)[*_]{0,2}(?: \([^()\n]{1,60}\))?\s?:[*_]{0,2}\s+",
    re.IGNORECASE,
)
_RULES = re.compile(
    r"\A(?:[^\n]{0,200}:\W{0,3}\n)?\s*(?:-{3,}|\*{3,}|={3,})\s*\n(.+?)\n\s*(?:-{3,}|\*{3,}|={3,})\s*(?:\n([^\n]{0,300}))?\Z",
    re.DOTALL,
)
_ANY_TAG = re.compile(r"</?(?!(?:b|i|u|em|strong|sub|sup|br|p|code|s)\b)[A-Za-z][\w-]{1,30}\s?/?>")
_STRANGE_LABEL = re.compile(r"^\W{0,4}[A-Z][\w]*(?: [\w]+){0,2}[*_]{0,2}:[*_]{0,2}\s+\S", re.MULTILINE)
_PROPOSAL = re.compile(
    r"\W*(?:you (?:might|may|could|can|should)|try (?:searching|to)|consider|i (?:would|'d) (?:search|"
    r"look|try)|either\b.{2,80}\bor\b)",
    re.IGNORECASE,
)
_NOT_ALONE = re.compile(
    r"\s(?:->|=>|\u2192)\s|\A[A-Z][\w' -]{0,30} / [A-Z][\w' -]{0,30}\Z|\A[a-z_]{2,30}[(\[].*[)\]]\W?\Z"
)
"""An arrow from one text to another, two names, or a call."""
_POINTERS = re.compile(
    r"(?:\W{0,3}(?:(?:passage|document|doc|source) ?\d{1,3}|\[\d{1,3}\])){1,20}\W{0,3}", re.IGNORECASE
)
"""Nothing but passages by number."""
_LETTERED_LINE = re.compile(r"\(?[A-Za-z][.)]\s")


def without_beside(last: str, text: str) -> str:
    """`text` without what stands below the value: `last` is the last word of the name of the output."""
    if last in ("query", "question"):
        beside = _BESIDE_LINE.search(text)
        return text[: beside.start()].rstrip() if beside and text[: beside.start()].strip() else text
    if last == "answer" and "\n" in text:
        named = {one.strip().strip("*_ ") for one in _ANSWER_LINE.findall(text)}
        return named.pop() if len(named) == 1 else text
    return text


def alone(name: str, text: str) -> str:
    """A text that was not in the frame of its layout, without its label, its evidence and stray tags."""
    text = re.sub(rf"\s{{0,3}}</?{re.escape(name)}\s*/?>\s*\Z", "", text.strip())
    text = re.sub(r"\A[|>][-+]?[ \t]*\n\s*", "", text)  # the mark of a block in YAML
    ruled = _RULES.match(text) if len(text) < 5_000 else None
    text = ruled[1].strip() if ruled else text
    text = _OWN_LABEL.sub("", _COUNT.sub("", text))
    if name.rpartition("_")[2] != "answer":
        return text
    shorter = _EVIDENCE.sub("", text)
    return shorter if shorter.strip() and "\n" not in text else text


def is_unmarked(name: str, text: str) -> bool:
    """Whether a bare `text` holds a value that nothing marks off: several names, labels or tags of others."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if _ANY_TAG.search(text):
        return True
    last = name.rpartition("_")[2]
    if last in ("query", "question") and (len(lines) > 1 or _PROPOSAL.match(text)):
        return True
    if last in ("query", "question", "answer") and len(lines) == 1 and _NOT_ALONE.search(text):
        return True
    if last == "answer" and _POINTERS.fullmatch(text):
        return True
    if last == "answer" and len(lines) > 1 and all(map(_LETTERED_LINE.match, lines)):
        return True
    names = len(lines) > 1 and all(is_name(line.strip("*_ ")) for line in lines)
    return last == "answer" and (names or len(_STRANGE_LABEL.findall(text)) > 1)
