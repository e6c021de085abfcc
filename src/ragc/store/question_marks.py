"""Marks of questions: digests by which a question is recognised in another file, with another spelling.

A mark is 64 bits of a digest of the normalised text. Texts have one mark if they differ only in

- invisible characters (zero-width, soft hyphen, direction, control),
- Unicode compatibility forms (NFKC) and case,
- white space, articles, and punctuation, that between or before digits apart (`17-5` is not `175`),
- English labels in front, such as `Q:`, `Question 3 of 10:`, `Example 4:`, `3)`, `#3:`, headings and bullets,
- an `Answer:` behind.

A number with a dot in front is a label only before a question word: "2. Bundesliga: who won?" keeps it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

DIGITS = 16
"""The hexadecimal digits of a mark."""

_ARTICLES = frozenset({"a", "an", "the"})

_NUMBER = r"(?:no\.?|nr\.?|number|\#)?\s*\d+(?:\.\d+)*(?:\s*(?:of|/)\s*\d+)?"
_LABEL = re.compile(
    rf"""[\s*•>"'“`_]*(?:\#{{1,6}}\s+|[-–—]\s+)?[\s*_]*
    (?:
      (?:(?:question|query|prompt|problem|exercise|item|task|input|user|human|quest|q)\s*[.-]?\s*(?:{_NUMBER})?
      |(?:example|ex|sample)\s*[.-]?\s*{_NUMBER})
      [*_]*(?:\s*[:)\]|>]+|\s*[.–—-]+\s|[ ]*\n)
    | (?:[(\[]?\d+(?:\.\d+)*[)\]]|\#?\d+[:|](?!\d)|[(\[]?[a-h][)\]]\s)
    | (?:q\.\s*|\#)?\d+(?:\.\d+)*(?:\.|\s+[-–—])?[*_]*\s*
      (?=(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|name|in|q|question|example)\b)
    )[*_\s]*""",
    re.VERBOSE,
)
_BULLET = re.compile(r"""[\s*•>"'“`_]*(?:\#{1,6}\s+|[-–—]\s+)?""")
_ANSWER = re.compile(
    r"(?:\n\s*|(?<=[?!])\s+)[*_]*(?:\#+\s+(?:answer|a)\s*:?|(?:(?:your|final|short)\s+)?(?:answer|a)\s*:)[*_\s]*\Z"
)
"""The place for the answer behind a question."""

_SIGN = re.compile(r"(?P<number>(?<=\d)\s*[^\w\s]\s*(?=\d)|(?<!\w)[-−](?=\d)|(?<=\w)[#%])|[^\w\s]|_")
"""Punctuation and symbols; those in the group belong to a number or a name, such as `17-5` and `C#`."""

_WORD = re.compile(r"[^\W\d_]{2}")
_MAX_LABELS = 6
"""The most labels in front of each other that are taken off."""


@lru_cache(maxsize=16_384)  # a compile asks for the same questions when it begins and when it ends
def mark(text: str) -> str:
    """Returns the mark of the question with this `text`."""
    content = f"ragc.question\n{_normalised(text)}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def _normalised(text: str) -> str:
    """Returns the letters, digits and signs of `text` without labels, white space and articles."""
    visible = "".join(map(_visible, unicodedata.normalize("NFKC", text).casefold()))
    plain = _without_answer(unicodedata.normalize("NFKC", visible))
    for _ in range(_MAX_LABELS):
        label = _LABEL.match(plain)
        if label is None or not _WORD.search(plain, label.end()):
            break
        plain = plain[label.end() :]
    plain = _BULLET.sub("", plain, count=1)
    signs = _SIGN.sub(_kept_sign, re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", plain))
    words = " ".join(word for word in signs.split() if word not in _ARTICLES)
    return re.sub(r"(?<!\d) | (?!\d)", "", words) or " ".join(visible.split())


def _visible(char: str) -> str:
    """Returns a line break or a space for white space, "" for a character that shows nothing."""
    if char.isspace():
        return "\n" if char in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029" else " "
    hidden = unicodedata.category(char) in ("Cf", "Cc", "Cn") or "\ufe00" <= char <= "\ufe0f"
    return "" if hidden else char


def _without_answer(text: str) -> str:
    answer = _ANSWER.search(text)
    return text[: answer.start()] if answer and _WORD.search(text, 0, answer.start()) else text


def _kept_sign(match: re.Match[str]) -> str:
    sign = match[0].strip()
    return sign if match["number"] or not unicodedata.category(sign).startswith("P") else ""
