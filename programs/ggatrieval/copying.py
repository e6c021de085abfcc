"""Copies: whether a part stands in a question, and whether a segment was copied from a passage.

A model that copies drops articles, brackets and inner commas, writes 1,500 as 1500, 30,000,000 as 30 million,
No. 1 as number 1, 1952-2022 as 1952 to 2022 and 18 May as May 18, and changes case, accents, hyphens, quotes,
British spelling and marks of markup. None of that changes what is said. Texts are compared by `words_of`, in
which none of it is left; only words, numbers and their order count.

- A part stands in a question when its words stand there in order. Language splits what belongs together: an
  auxiliary and its verb ("When did the Titanic sink?"), a verb and its particle, what `and` joins. A gap may
  not skip a negation or the `than` of a comparison, whose sides change places without it; one that skips a
  name or number may not join two names into a third.
- A segment is copied when a window of the passage has its words in order, and `OVERLAP` of the words of both
  are shared. A word that carries a fact (any but articles, auxiliaries and the like) must be in the window; a
  number, a name, a negation or a qualifier (`former`, `nearly`) of the window may not be left out inside it.
  What turns the words behind it into something else (`almost all`, `former mayor`, `not elected`) may not be
  cut off in front of it, and no number be cut in two.

GGatrieval, sections 3.1 and 3.2, asks the model for both and checks neither; the checks are ours.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

OVERLAP = 0.85
"""The least share of words, of segment and window together, that both have."""


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_FREE = _set_of("a an the s")
_LIGHT = _set_of("""
    of in on at to for with as and or that which who whom whose is am are was were be been being has have had
    do does did it its his her their this these those there also then
""")
_NEGATION = _set_of("""
    not no never nor neither none nobody nothing without cannot hardly barely unless except non
    nicht kein keine keinen ohne nie pas jamais sans aucun nunca sin nessuno mai senza не нет без 不 没 無
""")
_CHANGING = _set_of("""
    almost nearly virtually practically former formerly alleged allegedly reportedly possibly probably failed
    vice deputy assistant ex fictional next half
""")
_QUALIFIER = _NEGATION | _CHANGING | _set_of("only acting last hundred thousand million billion double")
_TURNING = _CHANGING | (_NEGATION - _set_of("nie pas sin mai"))  # which are words of other languages too
"""Words that make something else of what stands directly behind them."""

_COMPARING = _set_of("than")
_MAGNITUDES = {
    "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
_BETWEEN = _set_of("to until till through")  # words that are a dash between two numbers
_BRITISH_ENDING = re.compile(r"([bt])re(s?)$")
_DECIMAL = re.compile(r"-?\d+(?:\.\d+)?")
_APART = re.compile(r"[.!?;:,()\[\]\n\u2026]")
_AUXILIARY = _set_of("""
    is am are was were be been being has have had do does did can could will would shall should may might must
""")
_CARDINALS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip
_NUMBERS = {word: str(number) for words in (_CARDINALS, _ORDINALS) for number, word in enumerate(words, 1)}
_JOINING = _set_of("and or")
_NEAREST = 4  # beginnings of a part that are tried before a word; those before them skip more
_MONTHS = _set_of("january february march april may june july august september october november december")
_TYPED = str.maketrans("‘’‛´`“”„«»‐‑‒–—−", "'''''\"\"\"\"\"------") | {ord("№"): "No."}
_PLAIN = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i"}
)
_ACCENTS = re.compile("[\u0300-\u036f]")
_COMMA = re.compile(r"[,،、，](?!\d)")
_AROUND = " \t\r\n.,;:!?…\"'*_"

_MARKS = "".join(chr(c) for c in range(0x300, 0x1100) if unicodedata.category(chr(c))[0] == "M")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_LETTER = rf"(?:(?![{_UNSPACED}])[^\W\d_]|[{_MARKS}])"
_WORD = re.compile(
    rf"(?<!\w)(?P<initials>[^\W\d_]\.(?:\x20?[^\W\d_]\.)+)"
    r"|(?P<ordinal>(?<!\w)nos?\.(?=\x20?\d)|\#(?=\d))"
    r"|(?P<number>(?:(?<![\w)\]])(?<!\d\x20)-)?"
    r"(?:\d{1,3}(?:[,'\x20\xa0\u202f]\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)*|(?<![\w.])\.\d+))"
    r"(?:(?:st|nd|rd|th)\b)?"
    rf"|(?P<bare>{_LETTER}+?(?=n't\b))|(?P<negated>n't\b)"
    rf"|(?P<word>{_LETTER}+(?:\+\+|\#)?)|(?P<sign>[{_UNSPACED}])|(?P<ampersand>&)"
    r"|(?P<open>[(\[])|(?P<close>[)\]])",
    re.IGNORECASE,
)


class Word(NamedTuple):
    """One word or number of a text.

    `key` is what is compared, `stem` the same without an ending. `is_capital` says that it begins with a
    capital letter, `is_name` that it does although no rule requires it, `is_aside` that it is in brackets,
    `is_apart` that a mark separates it from the word before. `start` and `end` are its position in
    `typed(text)`.
    """

    key: str
    stem: str
    is_capital: bool
    is_name: bool
    is_aside: bool
    is_apart: bool
    start: int
    end: int

    @property
    def is_fixed(self) -> bool:
        """Whether a copy without it has another meaning."""
        return self.key in _QUALIFIER or self.is_number

    @property
    def is_number(self) -> bool:
        """Whether it is a number, in digits or as a word."""
        return self.stem[-1:].isdigit()

    @property
    def amount(self) -> Decimal | None:
        """The number that a magnitude may follow, such as 30 or `two`; None for others."""
        number = self.stem if self.key in _CARDINALS else self.key
        return Decimal(number) if _DECIMAL.fullmatch(number) else None


def typed(text: str) -> str:
    """Returns `text` in one form of Unicode, with quotes and dashes of a keyboard."""
    return unicodedata.normalize("NFKC", text.translate(_TYPED)).translate(_TYPED)


@lru_cache(maxsize=64)
def words_of(text: str) -> tuple[Word, ...]:
    """Returns the words and numbers of `text` in order; articles and the s of a genitive are left out."""
    words: list[Word] = []
    depth = 0
    raw = typed(text)
    for match in _WORD.finditer(raw):
        kind = match.lastgroup
        if kind in ("open", "close"):
            depth = max(0, depth + (1 if kind == "open" else -1))
            continue
        key = _key(match[0], kind or "", match["number"])
        if key not in _FREE:
            capital, (start, end) = match[0][0].isupper(), match.span()
            is_name = capital and not _begins_sentence(raw, start)
            is_apart = bool(words and _APART.search(raw, words[-1].end, start))
            words.append(Word(key, _stem(key), capital, is_name, depth > 0, is_apart, start, end))
    return tuple(_with_whole_numbers(words))


def _with_whole_numbers(words: Sequence[Word]) -> list[Word]:
    """Returns `words` with 30 million as one number, and without the `to` of 1952 to 2022."""
    whole: list[Word] = []
    for i, word in enumerate(words):
        last = whole[-1] if whole and not word.is_apart else None
        if last is not None and word.key in _MAGNITUDES and last.amount is not None:
            key = f"{(last.amount * _MAGNITUDES[word.key]).normalize():f}"
            whole[-1] = last._replace(key=key, stem=key, end=word.end)
        elif not (word.key in _BETWEEN and last and last.is_number and _goes_on_with_number(words, i)):
            whole.append(word)
    return whole


def _goes_on_with_number(words: Sequence[Word], at: int) -> bool:
    return at + 1 < len(words) and words[at + 1].is_number and not words[at + 1].is_apart


def _key(text: str, kind: str, number: str | None) -> str:
    if number is not None:
        return re.sub(r"^(-?)\.", r"\g<1>0.", re.sub(r"[^\d.\-]", "", number))
    if kind == "negated":
        return "not"
    if kind == "ordinal":
        return "number"
    if kind == "ampersand":
        return "and"
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold().translate(_PLAIN)))
    if kind == "initials":
        return re.sub(r"[.\s]", "", plain)
    return unicodedata.normalize("NFC", plain)


def _stem(key: str) -> str:
    """Returns `key` without a common English ending, in American spelling; a number word as the number."""
    if key in _NUMBERS:
        return _NUMBERS[key]
    if len(key) < 5 or not key.isascii():
        return key
    key = _BRITISH_ENDING.sub(r"\1er\2", key)
    key = key.replace("isa", "iza").replace("ise", "ize").replace("isi", "izi").replace("our", "or")
    for ending in ("ing", "ies", "es", "ed", "s", "y", "e"):
        if key.endswith(ending) and len(key) - len(ending) >= 3:
            return key[: -len(ending)]
    return key


def _begins_sentence(text: str, at: int) -> bool:
    before = text[max(0, at - 8) : at].rstrip(" \t\"'([*_")
    return not before or before[-1] in ".!?\n"


def is_same(one: Word, other: Word) -> bool:
    """Returns whether two words are the same up to their endings."""
    return one.key == other.key or one.stem == other.stem


def key_of(text: str) -> tuple[str, ...]:
    """Returns a key that is equal for texts with the same words."""
    return tuple(word.key for word in words_of(text))


def parts_in(part: str, question: str) -> tuple[tuple[str, ...], int]:
    """Returns the parts that `part` names in `question`, and the number of those that do not occur there.

    A part with commas that does not occur in one piece is split at them.
    """
    pieces = [piece.strip() for piece in _COMMA.split(part) if key_of(piece)]
    if len(pieces) > 1 and find_run(part, question) is None:
        standing = tuple(piece for piece in pieces if is_part(piece, question))
        return standing, len(pieces) - len(standing)
    return ((part,), 0) if is_part(part, question) else ((), 1)


def is_part(part: str, question: str) -> bool:
    """Returns whether the words of `part` occur in `question` in order, without a gap that matters."""
    part_words, words = _spelled_out(part), _spelled_out(question)
    if not part_words:
        return False
    if find_run(part, question) is not None:
        return True
    ends: list[set[int]] = [set() for _ in range(len(part_words) + 2)]
    for i in range(len(part_words)):  # ends[i] are where the first i words of the part may end
        before = sorted(ends[i])
        for at in range(len(words)):
            steps = _steps(part_words, i, words, at)
            nearest = before[max(0, bisect_left(before, at) - _NEAREST) : bisect_left(before, at)]
            if steps and (i == 0 or any(_may_skip(words, end, at) for end in reversed(nearest))):
                for taken, used in steps:
                    ends[i + taken].add(at + used - 1)
    return bool(ends[len(part_words)])


def _spelled_out(text: str) -> tuple[Word, ...]:
    """Returns the words of `text`, with contracted verbs such as `what's` written out."""
    raw = re.sub(r"(?i)\b(who|what|where|when|how|that|there|it|he|she)'s\b", r"\1 is", typed(text))
    return words_of(raw)


def _steps(part_words: Sequence[Word], i: int, words: Sequence[Word], at: int) -> list[tuple[int, int]]:
    """Returns how many `part_words` from `i` and `words` from `at` match; one may split a compound."""
    steps = [(1, 1)] if is_same(part_words[i], words[at]) else []
    if i + 1 < len(part_words) and part_words[i].key + part_words[i + 1].key == words[at].key:
        steps.append((2, 1))
    if at + 1 < len(words) and part_words[i].key == words[at].key + words[at + 1].key:
        steps.append((1, 2))
    return steps


def _may_skip(words: Sequence[Word], left: int, right: int) -> bool:
    """Returns whether a part may continue at `right` after `left`."""
    skipped = [word for word in words[left + 1 : right] if not word.is_aside]
    ends = (words[left], words[right])
    if not skipped:
        return True
    for before, word in pairwise(words[left:right]):
        in_title = before.is_name and before.end == word.start  # the n't of Now You Don't
        if word.key in _NEGATION and not in_title:
            return False
    if any(word.key in _COMPARING for word in skipped) or _is_about_other_name(ends[0], skipped):
        return False
    if skipped[0].key in _JOINING:
        return True
    if any(word.is_number for word in skipped) and any(word.is_number for word in ends):
        return False
    naming = any(word.is_name or word.is_number for word in skipped)
    return not (naming and all(word.is_name and word.key not in _AUXILIARY for word in ends))


def _is_about_other_name(left: Word, skipped: Sequence[Word]) -> bool:
    """Returns whether what follows `skipped` is about a name in it instead of the name `left`.

    So it is if `skipped` ends the statement about `left`, and starts a new one after `and`: "Canada smaller
    and Australia".
    """
    joining = [i for i, word in enumerate(skipped) if word.key in _JOINING]
    if not joining or not left.is_name:
        return False
    before, anew = skipped[: joining[0]], skipped[joining[-1] + 1 :]
    return any(word.is_name for word in anew) and any(
        not (word.is_name or word.is_number or word.key in _LIGHT) for word in before
    )


def find_run(part: str, text: str) -> tuple[int, int] | None:
    """Returns start and end of `part` in `typed(text)` in one piece, or None."""
    if (literal := _literal(part)) and (match := re.search(literal, typed(text), re.IGNORECASE)):
        return match.span()
    part_words, words = words_of(part), words_of(text)
    if not part_words:
        return None
    for start in range(len(words)):
        i, at = 0, start
        while i < len(part_words) and at < len(words) and (steps := _steps(part_words, i, words, at)):
            i, at = i + steps[0][0], at + steps[0][1]
        if i == len(part_words):
            return words[start].start, words[at - 1].end
    return None


def _literal(part: str) -> str:
    """Returns a pattern of `part` with any white space, whose ends cut no Latin word or number."""
    words = typed(part).strip(_AROUND).split()
    if not words or not key_of(part):
        return ""
    before = "(?<![a-z0-9])" if words[0][0].isascii() and words[0][0].isalnum() else ""
    after = "(?![a-z0-9])" if words[-1][-1].isascii() and words[-1][-1].isalnum() else ""
    return before + r"\s+".join(map(re.escape, words)) + after


def is_copied(segment: str, text: str) -> bool:
    """Returns whether `segment` is a piece of `text`, except for changes by copying."""
    piece, words = words_of(segment), words_of(text)
    if (literal := _literal(segment)) and any(
        _is_whole(words, match.span()) for match in re.finditer(literal, typed(text), re.IGNORECASE)
    ):
        return True
    return _aligns(piece, words) or _aligns(_months_first(piece), _months_first(words))


def _is_whole(words: Sequence[Word], span: tuple[int, int]) -> bool:
    """Returns whether a copy of `span` splits no number and cuts off no word that changes its meaning."""
    start, end = span
    if any(word.is_number and word.start < edge < word.end for word in words for edge in span):
        return False
    first = bisect_left(words, start, key=lambda word: word.start)
    return first == len(words) or words[first].start >= end or not _is_turned(words, first)


def _is_turned(words: Sequence[Word], at: int) -> bool:
    """Returns whether the word directly before `at` changes its meaning."""
    return 0 < at < len(words) and words[at - 1].key in _TURNING and not words[at].is_apart


def _months_first(words: Sequence[Word]) -> tuple[Word, ...]:
    """Returns `words` with 18 May as May 18."""
    turned = list(words)
    for i in range(1, len(turned)):
        if turned[i].key in _MONTHS and re.fullmatch(r"\d{1,2}", turned[i - 1].key):
            turned[i - 1], turned[i] = turned[i], turned[i - 1]
    return tuple(turned)


_Cost = tuple[int, int]
"""Words that only one side has, and minus the words that both have; the least is the best."""


def _aligns(piece: Sequence[Word], words: Sequence[Word]) -> bool:
    """Returns whether a window of `words` has `piece` in order and little else."""
    if not piece or not _has_all_facts(piece, words):
        return False
    skips = [_skip_cost(words, j) for j in range(len(words))]
    above: list[_Cost | None] = [None if _is_turned(words, j) else (0, 0) for j in range(len(words) + 1)]
    before: list[_Cost | None] = [None] * (len(words) + 1)
    for i, word in enumerate(piece):
        row: list[_Cost | None] = [above[0] if word.key in _LIGHT else None]
        for j, other in enumerate(words):
            ways = [_added(above[j + 1], word), _add_cost(row[j], skips[j])]
            if is_same(word, other):
                ways.append(_add_cost(above[j], 0, 1))
            if i and piece[i - 1].key + word.key == other.key:
                ways.append(_add_cost(before[j], 0, 1))
            if j and words[j - 1].key + other.key == word.key:
                ways.append(_add_cost(above[j - 1], 0, 1))
            row.append(min((way for way in ways if way is not None), default=None))
        before, above = above, row
    best = min((cost for cost in above if cost is not None), default=None)
    return best is not None and -best[1] >= OVERLAP * (best[0] - best[1]) > 0


def _has_all_facts(piece: Sequence[Word], words: Sequence[Word]) -> bool:
    """Returns whether every word of `piece` that carries a fact occurs in `words`; a quick first check."""
    known = {word.stem for word in words} | {word.key for word in words}
    joined = {one.key + other.key for one, other in pairwise(words)}
    for i, word in enumerate(piece):
        beside = {word.key + other.key for other in piece[i + 1 : i + 2]}
        beside |= {other.key + word.key for other in piece[max(0, i - 1) : i]}
        if not (word.key in _LIGHT or word.stem in known or word.key in joined or beside & known):
            return False
    return True


def _skip_cost(words: Sequence[Word], at: int) -> int | None:
    """Returns the cost of omitting a word inside a copy; None if that changes the meaning."""
    word = words[at]
    if word.is_aside:
        return 0
    if word.is_fixed:
        return None
    if word.is_name:
        inside = 0 < at < len(words) - 1 and words[at - 1].is_capital and words[at + 1].is_capital
        return 1 if inside else None
    return 1


def _added(cost: _Cost | None, word: Word) -> _Cost | None:
    """Returns the cost of adding `word` to a copy; it is free before the copy begins."""
    return _add_cost(cost, 1 if cost and cost[1] else 0) if word.key in _LIGHT else None


def _add_cost(cost: _Cost | None, edits: int | None, shared: int = 0) -> _Cost | None:
    return None if cost is None or edits is None else (cost[0] + edits, cost[1] - shared)
